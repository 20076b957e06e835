//! Prepare and Unprepare.

use super::place::*;
use crate::state::{Consumer, Fetched, HeldState, PrepareError, Ticket};

const CDI: &str = "lanemate.dev-claim_uid-1.json";

#[test]
fn a_claim_is_prepared_and_unprepared_and_nothing_stays() {
    let place = Place::new();
    let mut plugin = place.plugin();
    let pair = pair("uid-1");
    let prepared = place.prepare(&mut plugin, &pair).unwrap();
    assert_eq!(prepared.devices.len(), 2);
    assert_eq!(prepared.devices[1].cdi_device_ids, ["lanemate.dev/claim=uid-1.pair.1"]);
    assert_eq!(place.names("cdi"), [CDI]);
    assert_eq!(place.names("metadata"), ["uid-1/", "uid-1/pair.metadata"]);
    assert_eq!(place.names("state/claims"), ["uid-1.json"]);
    let held = [("uid-1".to_owned(), strings(&[GPU, NIC]), HeldState::Prepared)];
    assert_eq!(plugin.held(), held);
    assert_eq!(plugin.metric(r#"lanemate_plugin_records{state="Prepared"}"#), "1");

    place.unprepare(&mut plugin, &id(&pair)).unwrap();
    for directory in ["cdi", "metadata", "state/claims", "state/quarantine"] {
        assert_eq!(place.names(directory), [""; 0], "{directory}");
    }
    assert_eq!(plugin.held(), []);
    assert_eq!(plugin.metric(r#"lanemate_plugin_records{state="Prepared"}"#), "0");
    place.unprepare(&mut plugin, &id(&pair)).unwrap();
}

#[test]
fn a_second_prepare_gives_the_same_answer_and_restores_files() {
    let place = Place::new();
    let mut plugin = place.plugin();
    let pair = pair("uid-1");
    let first = place.prepare(&mut plugin, &pair).unwrap();
    let files = contents(place.directory.path());
    std::fs::remove_file(place.path("cdi").join(CDI)).unwrap();
    std::fs::write(place.path("metadata/uid-1/pair.metadata"), "other").unwrap();
    assert_eq!(place.prepare(&mut plugin, &pair).unwrap(), first);
    assert_eq!(contents(place.directory.path()), files);
    std::fs::remove_file(place.path("cdi").join(CDI)).unwrap();
    let reading = plugin.node.read(place.now);
    assert_eq!(plugin.node.prepared(&id(&pair), &reading).unwrap().devices, first.devices);
    assert_eq!(contents(place.directory.path()), files);
}

#[test]
fn a_device_is_held_by_one_claim_until_it_is_unprepared() {
    let place = Place::new();
    let mut plugin = place.plugin();
    place.prepare(&mut plugin, &pair("uid-1")).unwrap();
    let other = claim("other", "uid-2", &[("gpu", GPU)]);
    let refused = place.prepare(&mut plugin, &other).unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!(
            "prepare claim ml/other (uid-2): device {GPU} is held by claim ml/pair (uid-1) \
             (Prepared), until that is unprepared on this node"
        )
    );
    assert!(matches!(refused, PrepareError::Refused(_)));
    place.prepare(&mut plugin, &claim("third", "uid-3", &[("gpu", GPU_2)])).unwrap();
    place.unprepare(&mut plugin, &id(&pair("uid-1"))).unwrap();
    place.prepare(&mut plugin, &other).unwrap();
}

#[test]
fn a_late_prepare_does_not_bring_a_claim_back() {
    let place = Place::new();
    let mut plugin = place.plugin();
    let pair = pair("uid-1");
    let early = Fetched {
        claim: pair.clone(),
        ticket: plugin.node.ticket(&id(&pair).uid, place.now),
        consumer: Consumer::NotAsked,
    };
    place.prepare_fetched(&mut plugin, &early).unwrap();
    place.unprepare(&mut plugin, &id(&pair)).unwrap();
    let late = place.prepare_fetched(&mut plugin, &early).unwrap_err();
    assert!(matches!(late, PrepareError::Stale(_)), "{late}");
    let ticket = plugin.node.ticket(&id(&pair).uid, place.now);
    assert_ne!(ticket, Ticket::default());
    let gone = Consumer::Gone("pod p is ending".to_owned());
    let dead = Fetched { ticket: ticket.clone(), consumer: gone, ..early.clone() };
    let refused = place.prepare_fetched(&mut plugin, &dead).unwrap_err();
    assert!(refused.to_string().ends_with("reserved: pod p is ending"), "{refused}");
    let alive = Fetched { ticket, consumer: Consumer::Alive, ..early };
    place.prepare_fetched(&mut plugin, &alive).unwrap();
}
