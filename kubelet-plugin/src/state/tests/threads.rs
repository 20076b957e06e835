//! The thread, and two plugins on one directory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use lanemate_driver::resource_slice::Mode;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use super::place::*;
use crate::kubernetes::events::Events;
use crate::state::{Consumer, Fetched, HeldState, PrepareError, Ticket, UnprepareError, start};
use crate::telemetry::metrics::Metrics;

fn fetched(claim: k8s_openapi::api::resource::v1::ResourceClaim) -> Fetched {
    Fetched { claim, ticket: Ticket::default(), consumer: Consumer::NotAsked }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

#[tokio::test]
async fn claims_that_wait_share_one_reading_of_the_machine() {
    let place = Place::new();
    let reading = Arc::clone(&place.reading);
    let readings = Arc::new(AtomicUsize::new(0));
    let (counted, (begun, has_begun)) = (Arc::clone(&readings), mpsc::channel());
    let (go, may_go) = mpsc::channel();
    let source = Box::new(move || {
        if counted.fetch_add(1, Ordering::SeqCst) == 1 {
            begun.send(()).unwrap();
            may_go.recv().unwrap();
        }
        reading.lock().unwrap().clone()
    });
    let metrics = Metrics::new(&mut Registry::default());
    let (events, _told) = Events::channel();
    let (state, handle) = start(place.settings("a"), source, metrics, events).unwrap();
    assert_eq!(*state.mode().borrow(), Mode::Controller);
    assert_eq!(state.machine().borrow().inventory.node, NODE);
    let mut held = state.held();

    // The first holds the thread while the others are asked.
    let ask = |claim| {
        let state = state.clone();
        tokio::spawn(async move { state.prepare(fetched(claim), soon()).await })
    };
    let mut asked = vec![ask(claim("c0", "uid-0", &[("gpu", GPU)]))];
    tokio::task::spawn_blocking(move || has_begun.recv().unwrap()).await.unwrap();
    let others = [NIC, GPU_2, "gpu-0000-52-00-0"];
    asked.extend((1..).zip(others).map(|(index, device)| {
        ask(claim(&format!("c{index}"), &format!("uid-{index}"), &[("a", device)]))
    }));
    let late = state.prepare(fetched(pair("uid-late")), Instant::now());
    let (late, ()) = tokio::join!(late, async {
        // Each has sent its question once it waits for the answer.
        while state.waiting() < 4 {
            tokio::task::yield_now().await;
        }
        go.send(()).unwrap();
    });
    assert!(matches!(late, Err(PrepareError::Late(_))));
    for asked in asked {
        asked.await.unwrap().unwrap();
    }
    // One at the start, one for the first, one for the three others.
    assert_eq!(readings.load(Ordering::SeqCst), 3);
    assert_eq!(held.borrow_and_update().len(), 4);

    let gone = id(&claim("c0", "uid-0", &[]));
    let too_late = state.unprepare(gone.clone(), Instant::now()).await;
    assert!(matches!(too_late, Err(UnprepareError::Late(_))));
    state.unprepare(gone.clone(), soon()).await.unwrap();
    assert!(held.has_changed().unwrap());
    assert_eq!(state.claims().await.unwrap().len(), 3);
    assert!(state.ticket(gone.uid).await.unwrap().tombstone.is_some());
    assert!(!state.machine().has_changed().unwrap());
    assert!(state.is_responsive(Duration::from_secs(60)).await);
    drop(state);
    tokio::task::spawn_blocking(move || handle.join().unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_rescan_tells_what_has_changed_and_only_that() {
    let place = Place::new();
    let reading = Arc::clone(&place.reading);
    let source = Box::new(move || reading.lock().unwrap().clone());
    let metrics = Metrics::new(&mut Registry::default());
    let (events, _told) = Events::channel();
    let (state, _handle) = start(place.settings("a"), source, metrics, events).unwrap();
    let machine = state.machine();
    place.change(|_| {});
    state.rescan().await.unwrap();
    assert!(!machine.has_changed().unwrap());
    place.change(|facts| {
        facts.functions.remove(&"0000:1b:00.0".parse().unwrap());
    });
    state.rescan().await.unwrap();
    assert!(machine.has_changed().unwrap());
}

#[test]
fn two_plugins_on_one_directory_see_what_the_other_does() {
    let place = Place::new();
    let (mut old, mut new) = (place.plugin(), place.plugin());
    place.prepare(&mut old, &pair("uid-1")).unwrap();
    place.prepare(&mut new, &claim("other", "uid-2", &[("gpu", GPU)])).unwrap_err();
    assert_eq!(new.held()[0].2, HeldState::Prepared);
    let ticket = old.node.ticket(&id(&pair("uid-1")).uid, place.now);
    place.unprepare(&mut new, &id(&pair("uid-1"))).unwrap();
    assert_eq!(old.held().len(), 1);
    assert_eq!(old.node.claims(), []);
    let early = Fetched { claim: pair("uid-1"), ticket, consumer: Consumer::NotAsked };
    let stale = place.prepare_fetched(&mut old, &early).unwrap_err();
    assert!(matches!(stale, PrepareError::Stale(_)), "{stale}");
}

#[test]
fn a_plugin_that_hangs_with_the_lock_is_told_of() {
    let place = Place::new();
    let mut plugin = place.plugin();
    let file = std::fs::File::open(place.path("state/lock")).unwrap();
    file.lock().unwrap();
    assert_eq!(place.plugin().held(), []);
    let failed = place.prepare(&mut plugin, &pair("uid-1")).unwrap_err();
    assert!(matches!(failed, PrepareError::Failed(_)), "{failed}");
    assert!(failed.to_string().contains("does another plugin of this node hang?"), "{failed}");
    assert_eq!(plugin.node.claims(), []);
    file.unlock().unwrap();
    place.prepare(&mut plugin, &pair("uid-1")).unwrap();
    // One that starts meanwhile publishes what is held all the same.
    file.lock().unwrap();
    assert_eq!(place.plugin().held().len(), 1);
    std::fs::write(place.path("state/claims/uid-1.json"), "bad").unwrap();
    assert_eq!(place.plugin().held()[0].2, HeldState::Quarantined);
    assert_eq!(place.names("state/claims"), ["uid-1.json"]);
}
