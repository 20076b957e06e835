//! The plugin is killed at every point between two effects, started again, and nothing is lost,
//! granted twice or left behind.
//!
//! Each point has a scenario that passes it. After the kill there are two ways on: the claim lives and
//! kubelet asks again, or the claim is gone by the time the plugin is back.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod rig;

use std::collections::BTreeSet;
use std::fs;
use std::future::ready;

use futures::stream::{self, StreamExt};
use lanemate_kubelet_plugin::fault::Point;
use lanemate_kubelet_sim::Claim;
use lanemate_test_api::RESOURCE_SLICES;
use rig::{DRIVER, NODE, PAIRS, Rig};
use serde_json::json;
use tokio::task::{LocalSet, spawn_local};

/// Nodes at once: most of the time each waits for another process.
const AT_ONCE: usize = 3;

/// What brings the plugin to a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scenario {
    /// Nothing but its start on a node that it was never on.
    Start,
    /// A Prepare.
    Prepare,
    /// A Prepare whose second file cannot be written.
    FailedPrepare,
    /// An Unprepare.
    Unprepare,
    /// A start with a record in which a bit has flipped.
    BadRecord,
    /// A start after the CDI directory was emptied.
    NoCdiFile,
    /// A start after the claim has gone.
    ClaimGone,
    /// The machine has lost a device.
    LostDevice,
    /// A start beside a slice that no longer belongs there.
    OldSlice,
}

/// Every point has a row: a new one does not compile without.
fn scenario(point: Point) -> Scenario {
    match point {
        Point::ModeStored
        | Point::PublishBeforeCreate
        | Point::PublishAfterCreate
        | Point::NodeStateBeforeWrite
        | Point::NodeStateAfterWrite => Scenario::Start,
        Point::PrepareBegin
        | Point::PrepareReserved
        | Point::PrepareFile
        | Point::PrepareRecorded => Scenario::Prepare,
        Point::UndoFile | Point::UndoRecord => Scenario::FailedPrepare,
        Point::UnprepareBegin
        | Point::UnprepareTombstone
        | Point::UnprepareFile
        | Point::UnprepareRecord => Scenario::Unprepare,
        Point::QuarantineMoved | Point::RebuildRecorded | Point::RebuildResolved => {
            Scenario::BadRecord
        }
        Point::RepairFile => Scenario::NoCdiFile,
        Point::ReconcileTombstone | Point::ReconcileFile | Point::ReconcileRecord => {
            Scenario::ClaimGone
        }
        Point::PublishBeforeUpdate | Point::PublishAfterUpdate => Scenario::LostDevice,
        Point::PublishBeforeDelete | Point::PublishAfterDelete => Scenario::OldSlice,
    }
}

/// A node on which the plugin has been killed at a point.
async fn killed(point: Point, passage: u32) -> (Rig, Claim) {
    let scenario = scenario(point);
    let kill = format!("{}:{passage}=kill", point.name());
    let mut rig = Rig::new().await;
    rig.name = format!("{} passage {passage}", point.name());
    // What is to be done again is done again soon.
    rig.flags(&["--claim-gone-grace", "300ms", "--rescan-interval", "300ms"]);
    rig.flags(&["--reconcile-interval", "300ms"]);
    let claim = rig.claim("training", &[PAIRS[0].0, PAIRS[0].1]);
    match scenario {
        Scenario::Start => rig.spawn(&kill),
        Scenario::Prepare => {
            start_with(&mut rig, &kill).await;
            let answer = rig.prepare(&claim).await;
            assert!(answer.is_err(), "{point:?}: answered {answer:?}");
        }
        Scenario::FailedPrepare => {
            start_with(&mut rig, &format!("prepare-file:2=ENOSPC,{kill}")).await;
            let answer = rig.prepare(&claim).await;
            assert!(answer.is_err(), "{point:?}: answered {answer:?}");
        }
        Scenario::Unprepare => {
            start_with(&mut rig, &kill).await;
            rig.prepared(&claim).await;
            let answer = rig.unprepare(&claim).await;
            assert!(answer.is_err(), "{point:?}: answered {answer:?}");
        }
        Scenario::BadRecord | Scenario::NoCdiFile | Scenario::ClaimGone => {
            prepared_and_stopped(&mut rig, &claim).await;
            match scenario {
                Scenario::BadRecord => rig::flip_bit(&rig.record(&claim), 40),
                Scenario::NoCdiFile => fs::remove_dir_all(rig.cdi()).unwrap(),
                _ => rig.delete_claim(&claim),
            }
            rig.spawn(&kill);
        }
        Scenario::LostDevice => {
            start_with(&mut rig, &kill).await;
            rig.until("the devices", |rig| rig.published_devices().len() > 10).await;
            rig.write_machine(&without_a_nic(&rig.captured()));
        }
        Scenario::OldSlice => {
            put_old_slice(&rig);
            rig.spawn(&kill);
        }
    }
    let status = rig.ended().await;
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    assert_eq!(signal, Some(9), "{point:?}: {status}");
    (rig, claim)
}

async fn start_with(rig: &mut Rig, faults: &str) {
    rig.spawn(faults);
    rig.registered().await;
}

async fn prepared_and_stopped(rig: &mut Rig, claim: &Claim) {
    rig.start().await;
    rig.prepared(claim).await;
    rig.stop().await;
}

/// The RDMA device of one NIC vanishes; its function stays, without a driver.
fn without_a_nic(capture: &str) -> String {
    let kept = capture.lines().filter(|line| !line.contains("/0000:ce:00.0/"));
    kept.map(|line| format!("{line}\n")).collect()
}

fn put_old_slice(rig: &Rig) {
    rig.api
        .put(json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
            "metadata": {"name": format!("00009-{DRIVER}-{NODE}")},
            "spec": {
                "driver": DRIVER, "nodeName": NODE,
                "pool": {"name": NODE, "generation": 1, "resourceSliceCount": 10},
                "devices": [{"name": "gpu-of-old"}],
            },
        }))
        .unwrap();
}

/// Records, CDI files and what the cluster knows are one; nothing incomplete lies about.
async fn agree(rig: &Rig, held: &BTreeSet<String>) {
    let all = |rig: &Rig| {
        rig.recorded() == *held
            && rig.in_cdi() == *held
            && rig.published_held().as_ref() == Some(held)
            && rig.metadata().is_empty() == held.is_empty()
    };
    rig.until(&format!("records, CDI files and NodeState to be {held:?}"), all).await;
    rig.until("the slices", |rig| {
        let slices = rig.api.list(RESOURCE_SLICES);
        let whole = slices
            .iter()
            .all(|slice| slice["spec"]["pool"]["resourceSliceCount"] == json!(slices.len()));
        let devices = rig.published_devices();
        whole && devices.len() > 10 && !devices.contains(&"gpu-of-old".to_owned())
    })
    .await;
}

/// The claim lives: kubelet asks again, and all is as if nothing had happened.
async fn goes_on(point: Point, passage: u32) {
    let (mut rig, claim) = killed(point, passage).await;
    rig.claim("training", &[PAIRS[0].0, PAIRS[0].1]);
    rig.start().await;
    let devices = rig.prepared(&claim).await;
    assert_eq!(devices.len(), 2);
    agree(&rig, &BTreeSet::from([claim.uid.clone()])).await;
    let thief = rig.claim("thief", &[PAIRS[0].0]);
    let refusal = rig.prepare(&thief).await.unwrap_err();
    assert!(refusal.contains("default/training"), "{refusal}");
    rig.unprepared(&claim).await;
    rig.prepared(&thief).await;
    agree(&rig, &BTreeSet::from([thief.uid.clone()])).await;
}

/// The claim is gone: whatever was held for it becomes free without kubelet.
async fn is_given_back(point: Point, passage: u32) {
    let (mut rig, claim) = killed(point, passage).await;
    rig.api.remove(&rig.path(&claim));
    rig.start().await;
    agree(&rig, &BTreeSet::new()).await;
    let next = rig.claim("next", &[PAIRS[0].0, PAIRS[0].1]);
    rig.prepared(&next).await;
    agree(&rig, &BTreeSet::from([next.uid.clone()])).await;
    rig.unprepared(&next).await;
    agree(&rig, &BTreeSet::new()).await;
}

/// How often a scenario passes a point: files are several.
fn passages(point: Point) -> u32 {
    match point {
        Point::PrepareFile | Point::UnprepareFile | Point::ReconcileFile => 3,
        _ => 1,
    }
}

/// All points, some at once. Those that fail are told together, each with the plugin's log above.
async fn at_each_point(check: impl AsyncFn(Point, u32) + Copy + 'static) {
    let points = Point::ALL.iter().flat_map(|point| (1..=passages(*point)).map(|n| (*point, n)));
    let check = |(point, passage): (Point, u32)| async move {
        // A task of its own, so that others go on where one panics.
        let checked = spawn_local(async move { check(point, passage).await }).await;
        checked.err().map(|_| format!("{} passage {passage}", point.name()))
    };
    let failed = stream::iter(points).map(check).buffer_unordered(AT_ONCE);
    let failed: Vec<String> = LocalSet::new().run_until(failed.filter_map(ready).collect()).await;
    assert!(failed.is_empty(), "failed: {failed:?}");
}

#[tokio::test]
async fn a_claim_that_lives_is_prepared_after_a_kill_at_any_point() {
    at_each_point(goes_on).await;
}

#[tokio::test]
async fn a_claim_that_is_gone_is_given_back_after_a_kill_at_any_point() {
    at_each_point(is_given_back).await;
}
