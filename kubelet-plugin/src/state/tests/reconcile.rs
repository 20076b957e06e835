//! Start and reconciliation.

use std::fs;

use super::place::*;
use crate::kubernetes::events::About;
use crate::state::{Fate, HeldState, Node, PrepareError, Reconciled};

const RECORD: &str = "state/claims/uid-1.json";
const CDI: &str = "cdi/lanemate.dev-claim_uid-1.json";

fn reconcile(place: &Place, node: &mut Node, fates: Vec<Fate>) -> Reconciled {
    let reading = node.read(place.now);
    let claims = node.claims();
    assert_eq!(claims.len(), fates.len(), "{claims:?}");
    node.reconcile(claims.into_iter().zip(fates).collect(), &reading, place.now)
}

/// Flips a bit of the record that no other part hangs on.
fn spoil(place: &Place) {
    let text = fs::read_to_string(place.path(RECORD)).unwrap();
    fs::write(place.path(RECORD), text.replace("boot-1", "boot-0")).unwrap();
}

/// A place with one prepared claim, and no plugin at work.
fn prepared() -> Place {
    let place = Place::new();
    place.prepare(&mut place.plugin(), &pair("uid-1")).unwrap();
    place
}

#[test]
fn a_restart_changes_nothing_and_restores_what_is_missing() {
    let place = prepared();
    let before = contents(place.directory.path());
    let plugin = place.plugin();
    assert_eq!(contents(place.directory.path()), before);
    assert_eq!(plugin.held()[0].2, HeldState::Prepared);
    fs::remove_dir_all(place.path("cdi")).unwrap();
    fs::remove_dir_all(place.path("metadata")).unwrap();
    place.plugin();
    assert_eq!(contents(place.directory.path()), before);
}

#[test]
fn a_wiped_cdi_directory_is_restored_by_reconciliation() {
    let place = prepared();
    let mut plugin = place.plugin();
    let before = contents(place.directory.path());
    fs::remove_dir_all(place.path("cdi")).unwrap();
    let done = reconcile(&place, &mut plugin.node, vec![Fate::Unknown("no answer".to_owned())]);
    assert_eq!(done, Reconciled { repaired: vec![id(&pair("uid-1"))], ..Reconciled::default() });
    assert_eq!(contents(place.directory.path()), before);
    assert_eq!(plugin.metric(r#"lanemate_plugin_reconciled_claims_total{result="repaired"}"#), "1");
}

#[test]
fn after_a_reboot_nothing_is_held_and_nothing_is_left() {
    let place = prepared();
    place.set_boot(None);
    assert_eq!(place.plugin().held().len(), 1);
    place.set_boot(Some("boot-2"));
    let mut plugin = place.plugin();
    assert_eq!(plugin.held(), []);
    assert_eq!(place.names("cdi"), [""; 0]);
    assert_eq!(place.names("metadata"), [""; 0]);
    assert_eq!(plugin.node.ticket(&id(&pair("uid-1")).uid, place.now).tombstone, None);
    place.prepare(&mut plugin, &pair("uid-1")).unwrap();
}

#[test]
fn a_card_that_was_changed_is_not_given_to_a_claim_for_the_one_before() {
    let swap = |place: &Place| {
        place.change(|facts| {
            let gpus = &mut facts.nvml.as_mut().unwrap().gpus;
            gpus.get_mut(&"0000:1b:00.0".parse().unwrap()).unwrap().uuid = Some("GPU-x".to_owned());
        });
    };
    let check = |refused: PrepareError| {
        let text = refused.to_string();
        assert!(matches!(refused, PrepareError::Refused(_)), "{text}");
        assert!(
            text.contains("another card") && text.contains("now there is UUID GPU-x"),
            "{text}"
        );
    };
    let place = prepared();
    let mut plugin = place.plugin();
    swap(&place);
    check(place.prepare(&mut plugin, &pair("uid-1")).unwrap_err());
    check(place.prepare(&mut plugin, &claim("other", "uid-2", &[("gpu", GPU)])).unwrap_err());

    let place = prepared();
    swap(&place);
    place.set_boot(Some("boot-2"));
    let mut plugin = place.plugin();
    check(place.prepare(&mut plugin, &pair("uid-1")).unwrap_err());
    place.prepare(&mut plugin, &claim("other", "uid-2", &[("gpu", GPU)])).unwrap();
}

#[test]
fn a_claim_that_is_gone_is_released_after_a_while_and_when_kubelet_has_forgotten_it() {
    let mut place = prepared();
    let mut plugin = place.plugin();
    let claim = id(&pair("uid-1"));
    place.kubelet_remembers("uid-1");
    for _ in 0..3 {
        let done = reconcile(&place, &mut plugin.node, vec![Fate::Gone]);
        assert_eq!(done.waiting, std::slice::from_ref(&claim));
        place.pass(40);
    }
    place.kubelet_remembers("uid-2");
    let done = reconcile(&place, &mut plugin.node, vec![Fate::Gone]);
    assert_eq!(done.released, std::slice::from_ref(&claim));
    assert_eq!((plugin.held(), place.names("cdi")), (vec![], vec![]));
    assert!(plugin.node.ticket(&claim.uid, place.now).tombstone.is_some());
}

#[test]
fn a_claim_with_another_uid_under_the_name_is_another_claim() {
    let mut place = prepared();
    let mut plugin = place.plugin();
    let other = || vec![Fate::Exists(Box::new(pair("uid-2")))];
    assert_eq!(reconcile(&place, &mut plugin.node, other()).waiting.len(), 1);
    place.pass(59);
    assert_eq!(reconcile(&place, &mut plugin.node, other()).waiting.len(), 1);
    place.pass(1);
    assert_eq!(reconcile(&place, &mut plugin.node, other()).released.len(), 1);
}

#[test]
fn a_claim_that_comes_back_is_not_released() {
    let mut place = prepared();
    let mut plugin = place.plugin();
    for fate in [Fate::Gone, Fate::Exists(Box::new(pair("uid-1"))), Fate::Gone] {
        let done = reconcile(&place, &mut plugin.node, vec![fate]);
        assert_eq!((done.released, done.failed), (vec![], vec![]));
        place.pass(100);
    }
}

#[test]
fn a_claim_that_lost_its_allocation_is_released_only_when_kubelet_has_forgotten_it() {
    let mut place = prepared();
    let mut plugin = place.plugin();
    let mut freed = pair("uid-1");
    freed.status = None;
    let fate = || vec![Fate::Exists(Box::new(freed.clone()))];
    for _ in 0..3 {
        assert_eq!(reconcile(&place, &mut plugin.node, fate()).waiting.len(), 1);
        place.pass(100);
    }
    place.kubelet_remembers("");
    assert_eq!(reconcile(&place, &mut plugin.node, fate()).released.len(), 1);
}

#[test]
fn a_claim_allocated_anew_before_it_was_unprepared_is_told_of_and_stays() {
    let place = prepared();
    let mut plugin = place.plugin();
    let moved = claim("pair", "uid-1", &[("pair", GPU_2)]);
    let done = reconcile(&place, &mut plugin.node, vec![Fate::Exists(Box::new(moved.clone()))]);
    assert!(done.failed[0].1.contains("other devices than those that it holds"), "{done:?}");
    let refused = place.prepare(&mut plugin, &moved).unwrap_err().to_string();
    assert!(refused.contains("kubelet has to unprepare it first"), "{refused}");
    assert_eq!(plugin.held()[0].1, [GPU, NIC]);
}

#[test]
fn a_bad_record_is_set_aside_and_its_devices_stay_held_until_it_is_rebuilt() {
    let place = prepared();
    let before = contents(&place.path("state/claims"));
    spoil(&place);
    let mut plugin = place.plugin();
    let held = [("uid-1".to_owned(), strings(&[GPU, NIC]), HeldState::Quarantined)];
    assert_eq!(plugin.held(), held);
    assert_eq!(place.names("state/quarantine"), ["uid-1.0.json"]);
    let told = plugin.told();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].about, About::Claim(id(&pair("uid-1"))));
    assert!(told[0].note.contains("checksum"), "{}", told[0].note);
    assert_eq!(plugin.metric("lanemate_plugin_quarantined_records_total"), "1");
    let refused =
        place.prepare(&mut plugin, &claim("other", "uid-2", &[("gpu", GPU)])).unwrap_err();
    assert!(refused.to_string().contains("(Quarantined: its record"), "{refused}");

    let fate = Fate::Exists(Box::new(pair("uid-1")));
    let done = reconcile(&place, &mut plugin.node, vec![fate]);
    assert_eq!(done.rebuilt, [id(&pair("uid-1"))]);
    assert_eq!(contents(&place.path("state/claims")), before);
    assert_eq!(place.names("state/quarantine"), ["uid-1.0.resolved"]);
    assert_eq!(plugin.held()[0].2, HeldState::Prepared);
    assert_eq!(place.plugin().told(), []);
}

#[test]
fn a_claim_with_a_bad_record_can_be_prepared_and_unprepared() {
    for unprepare in [false, true] {
        let place = prepared();
        spoil(&place);
        let mut plugin = place.plugin();
        let pair = pair("uid-1");
        if unprepare {
            place.unprepare(&mut plugin, &id(&pair)).unwrap();
            assert_eq!((place.names("cdi"), place.names("metadata")), (vec![], vec![]));
            assert_eq!(plugin.held(), []);
        } else {
            place.prepare(&mut plugin, &pair).unwrap();
            assert_eq!(plugin.held()[0].2, HeldState::Prepared);
        }
        assert_eq!(place.names("state/quarantine"), ["uid-1.0.resolved"]);
    }
}

#[test]
fn a_bad_record_of_a_claim_that_is_gone_is_released() {
    let mut place = prepared();
    spoil(&place);
    let mut plugin = place.plugin();
    assert_eq!(reconcile(&place, &mut plugin.node, vec![Fate::Gone]).waiting.len(), 1);
    place.pass(60);
    assert_eq!(reconcile(&place, &mut plugin.node, vec![Fate::Gone]).released.len(), 1);
    assert_eq!((place.names("cdi"), place.names("metadata")), (vec![], vec![]));
    assert_eq!(plugin.held(), []);
}

#[test]
fn without_a_cdi_file_the_name_in_a_bad_record_proves_nothing() {
    let mut place = prepared();
    spoil(&place);
    fs::remove_file(place.path(CDI)).unwrap();
    let mut plugin = place.plugin();
    assert_eq!(plugin.held()[0].2, HeldState::Quarantined);
    for _ in 0..3 {
        assert_eq!(reconcile(&place, &mut plugin.node, vec![Fate::Gone]).waiting.len(), 1);
        place.pass(100);
    }
    place.kubelet_remembers("");
    assert_eq!(reconcile(&place, &mut plugin.node, vec![Fate::Gone]).released.len(), 1);
}

#[test]
fn a_claim_of_which_nothing_can_be_read_goes_when_kubelet_has_forgotten_it() {
    let mut place = prepared();
    fs::write(place.path(RECORD), "").unwrap();
    fs::write(place.path(CDI), "{").unwrap();
    let mut plugin = place.plugin();
    assert_eq!(plugin.held(), []);
    assert_eq!(plugin.told()[0].about, About::Node);
    for memory in ["uid-1", "uid-1", ""] {
        place.kubelet_remembers(memory);
        assert_eq!(place.names("cdi").len(), 1);
        reconcile(&place, &mut plugin.node, vec![]);
        place.pass(60);
    }
    assert_eq!((place.names("cdi"), place.names("metadata")), (vec![], vec![]));
    assert_eq!(place.names("state/quarantine"), ["uid-1.0.resolved"]);
}

#[test]
fn a_lost_state_directory_is_rebuilt_from_cdi_files_and_the_api() {
    let place = prepared();
    let before = contents(place.directory.path());
    fs::remove_dir_all(place.path("state")).unwrap();
    let mut plugin = place.plugin();
    assert_eq!(plugin.held()[0].2, HeldState::Quarantined);
    let done = reconcile(&place, &mut plugin.node, vec![Fate::Exists(Box::new(pair("uid-1")))]);
    assert_eq!(done.rebuilt.len(), 1);
    assert_eq!(contents(place.directory.path()), before);
}

#[test]
fn any_state_of_the_directories_starts() {
    let place = prepared();
    fs::create_dir(place.path("state/claims/uid-2.json")).unwrap();
    for path in ["state/claims/what.txt", "state/claims/.x.lanemate-tmp", "state/claims/a b.json"] {
        fs::write(place.path(path), "x").unwrap();
    }
    fs::write(place.path("state/claims/uid-3.json"), vec![b' '; 3 << 20]).unwrap();
    std::os::unix::fs::symlink("/dev/zero", place.path("state/claims/uid-4.json")).unwrap();
    fs::copy(place.path(RECORD), place.path("state/claims/uid-5.json")).unwrap();
    fs::write(place.path("cdi/.y.lanemate-tmp"), "x").unwrap();
    fs::create_dir_all(place.path("metadata/nobody")).unwrap();
    fs::write(place.path("metadata/nobody/gpu.metadata"), "x").unwrap();
    fs::create_dir_all(place.path("metadata/other")).unwrap();
    fs::write(place.path("metadata/other/precious"), "x").unwrap();
    let plugin = place.plugin();
    assert_eq!(plugin.held()[0].2, HeldState::Prepared);
    let quarantine = ["uid-2.0.json/", "uid-3.0.json", "uid-4.0.json", "uid-5.0.json"];
    assert_eq!(place.names("state/quarantine"), quarantine);
    assert_eq!(place.names("state/claims"), ["a b.json", "uid-1.json", "what.txt"]);
    let metadata = ["other/", "other/precious", "uid-1/", "uid-1/pair.metadata"];
    assert_eq!(place.names("metadata"), metadata);
    assert_eq!(place.names("cdi").len(), 1);
}

#[test]
fn a_cdi_directory_that_cannot_be_listed_frees_no_device() {
    let place = prepared();
    spoil(&place);
    let mut plugin = place.plugin();
    fs::rename(place.path("cdi"), place.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink("cdi", place.path("cdi")).unwrap();
    let other = claim("other", "uid-2", &[("gpu", GPU)]);
    let failed = place.prepare(&mut plugin, &other).unwrap_err();
    assert!(matches!(failed, PrepareError::Failed(_)), "{failed}");
    assert!(failed.to_string().contains("list /"), "{failed}");
    assert_eq!(plugin.held()[0].2, HeldState::Quarantined);
    fs::remove_file(place.path("cdi")).unwrap();
    fs::rename(place.path("elsewhere"), place.path("cdi")).unwrap();
    assert!(place.prepare(&mut plugin, &other).unwrap_err().to_string().contains("is held by"));
}

#[test]
fn a_state_directory_that_cannot_be_used_is_an_error_of_each_operation() {
    let place = Place::new();
    fs::write(place.path("state"), "no directory").unwrap();
    let mut plugin = place.plugin();
    let failed = place.prepare(&mut plugin, &pair("uid-1")).unwrap_err();
    assert!(matches!(failed, PrepareError::Failed(_)), "{failed}");
    assert!(failed.to_string().starts_with("prepare claim ml/pair (uid-1): create directory"));
    place.unprepare(&mut plugin, &id(&pair("uid-1"))).unwrap_err();
    fs::remove_file(place.path("state")).unwrap();
    place.prepare(&mut plugin, &pair("uid-1")).unwrap();
}
