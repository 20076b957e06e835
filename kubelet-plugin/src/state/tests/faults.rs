//! The process ends, or a step fails, after each effect.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::place::*;
use crate::fault::{Point, Unwound, inject};
use crate::state::{Fate, HeldState};

/// Ends the plugin at a point of an operation, and gives the place back. `None` when it is not passed.
fn ended(point: Point, passage: u32, act: impl FnOnce(&Place, &mut Plugin)) -> Option<Place> {
    let place = Place::new();
    let mut plugin = place.plugin();
    let faults = inject(&format!("{}:{passage}=unwind", point.name())).unwrap();
    let end = catch_unwind(AssertUnwindSafe(|| act(&place, &mut plugin)));
    drop(faults);
    let unwound = end.err()?;
    assert_eq!(unwound.downcast_ref(), Some(&Unwound(point)));
    Some(place)
}

/// Nothing is held without claim, and the claim can be prepared and unprepared.
fn check(place: &Place, held: bool) {
    let mut plugin = place.plugin();
    let expect = if held { vec![HeldState::Prepared] } else { vec![] };
    let states: Vec<HeldState> = plugin.held().into_iter().map(|(_, _, state)| state).collect();
    assert_eq!(states, expect);
    assert_eq!(place.names("cdi").len(), expect.len());
    assert_eq!(place.names("metadata").is_empty(), expect.is_empty());
    place.prepare(&mut plugin, &pair("uid-1")).unwrap();
    assert_eq!(place.names("cdi").len(), 1);
    place.unprepare(&mut plugin, &id(&pair("uid-1"))).unwrap();
    assert_eq!(
        (plugin.held(), place.names("cdi"), place.names("metadata")),
        (vec![], vec![], vec![])
    );
}

#[test]
fn a_prepare_that_ends_anywhere_leaves_all_or_nothing() {
    for (point, passage, held) in [
        (Point::PrepareBegin, 1, false),
        (Point::PrepareReserved, 1, false),
        (Point::PrepareFile, 1, false),
        (Point::PrepareFile, 2, false),
        (Point::PrepareRecorded, 1, true),
    ] {
        let place = ended(point, passage, |place, plugin| {
            drop(place.prepare(plugin, &pair("uid-1")));
        });
        check(&place.unwrap(), held);
    }
}

#[test]
fn an_unprepare_that_ends_anywhere_can_be_done_again() {
    for (point, passage, held) in [
        (Point::UnprepareBegin, 1, true),
        (Point::UnprepareTombstone, 1, true),
        (Point::UnprepareFile, 1, true),
        (Point::UnprepareFile, 2, true),
        (Point::UnprepareRecord, 1, false),
    ] {
        let place = ended(point, passage, |place, plugin| {
            place.prepare(plugin, &pair("uid-1")).unwrap();
            place.unprepare(plugin, &id(&pair("uid-1"))).unwrap();
        });
        check(&place.unwrap(), held);
    }
}

#[test]
fn a_step_that_fails_is_undone_and_told_with_its_reason() {
    for (fault, reason) in [
        ("prepare-begin=ENOSPC", "No space left on device (os error 28); what was done is undone"),
        ("prepare-reserved=EROFS", "Read-only file system (os error 30); what was done is undone"),
        ("prepare-file:1=EIO", "Input/output error (os error 5); what was done is undone"),
        ("prepare-file:2=EIO", "Input/output error (os error 5); what was done is undone"),
        ("prepare-recorded=EIO", "Input/output error (os error 5); what was done is undone"),
    ] {
        let place = Place::new();
        let mut plugin = place.plugin();
        let faults = inject(fault).unwrap();
        let failed = place.prepare(&mut plugin, &pair("uid-1")).unwrap_err();
        drop(faults);
        assert_eq!(failed.to_string(), format!("prepare claim ml/pair (uid-1): {reason}"));
        assert_eq!(plugin.held(), [], "{fault}");
        for directory in ["cdi", "metadata", "state/claims"] {
            assert_eq!(place.names(directory), [""; 0], "{fault}");
        }
        place.prepare(&mut plugin, &pair("uid-1")).unwrap();
    }
}

#[test]
fn devices_stay_held_while_undoing_fails() {
    for again in 0..3 {
        let place = Place::new();
        let mut plugin = place.plugin();
        let faults = inject("prepare-file:2=ENOSPC,undo-file=EIO").unwrap();
        let failed = place.prepare(&mut plugin, &pair("uid-1")).unwrap_err().to_string();
        drop(faults);
        assert!(failed.contains("No space left"), "{failed}");
        assert!(failed.contains("undoing it failed as well: Input/output error"), "{failed}");
        assert_eq!(plugin.held()[0].2, HeldState::Releasing);
        let refused =
            place.prepare(&mut plugin, &claim("b", "uid-2", &[("gpu", GPU)])).unwrap_err();
        assert!(refused.to_string().contains("(Releasing)"), "{refused}");
        match again {
            0 => drop(place.prepare(&mut plugin, &pair("uid-1")).unwrap()),
            1 => plugin = place.plugin(),
            _ => {
                let reading = plugin.node.read(place.now);
                let fates = vec![(id(&pair("uid-1")), Fate::Unknown(String::new()))];
                plugin.node.reconcile(fates, &reading, place.now);
            }
        }
        assert_eq!(plugin.held().len(), usize::from(again == 0));
        assert_eq!(place.names("cdi").len(), usize::from(again == 0));
    }
}

#[test]
fn a_prepare_that_fails_frees_no_device_of_a_claim_whose_record_is_lost() {
    for is_bad in [false, true] {
        for fault in ["rebuild-recorded=EIO", "rebuild-resolved=EIO", "repair-file=ENOSPC"] {
            let place = Place::new();
            let mut plugin = place.plugin();
            place.prepare(&mut plugin, &pair("uid-1")).unwrap();
            let record = place.path("state/claims/uid-1.json");
            if is_bad {
                std::fs::write(record, "bad").unwrap();
            } else {
                std::fs::remove_file(record).unwrap();
            }
            // Something to write.
            std::fs::remove_dir_all(place.path("metadata")).unwrap();
            let faults = inject(fault).unwrap();
            let failed = place.prepare(&mut plugin, &pair("uid-1")).unwrap_err();
            drop(faults);
            assert!(failed.to_string().contains("(os error "), "{failed}");
            assert_eq!(place.names("cdi").len(), 1, "{fault}");
            assert_eq!(plugin.held()[0].1, strings(&[GPU, NIC]), "{fault}");
            place.prepare(&mut plugin, &pair("uid-1")).unwrap();
            place.unprepare(&mut plugin, &id(&pair("uid-1"))).unwrap();
            assert_eq!(plugin.held(), []);
        }
    }
}

#[test]
fn an_unprepare_that_fails_is_not_undone_by_a_restart() {
    for fault in ["unprepare-file:1=EROFS", "unprepare-file:2=EROFS", "unprepare-record=EIO"] {
        let place = Place::new();
        let mut plugin = place.plugin();
        place.prepare(&mut plugin, &pair("uid-1")).unwrap();
        let faults = inject(fault).unwrap();
        let failed = place.unprepare(&mut plugin, &id(&pair("uid-1"))).unwrap_err();
        drop(faults);
        assert!(failed.to_string().starts_with("unprepare claim ml/pair (uid-1): "), "{failed}");
        assert_eq!(plugin.held()[0].2, HeldState::Releasing);
        check(&place, false);
    }
}

#[test]
fn a_reconciliation_that_ends_anywhere_is_finished_by_the_next() {
    for (point, passage) in [
        (Point::ReconcileTombstone, 1),
        (Point::ReconcileFile, 1),
        (Point::ReconcileFile, 2),
        (Point::ReconcileRecord, 1),
    ] {
        let place = ended(point, passage, |place, plugin| {
            place.prepare(plugin, &pair("uid-1")).unwrap();
            let reading = plugin.node.read(place.now);
            for seconds in [0, 60] {
                let now = place.now + jiff::SignedDuration::from_secs(seconds);
                plugin.node.reconcile(vec![(id(&pair("uid-1")), Fate::Gone)], &reading, now);
            }
        });
        check(&place.unwrap(), point != Point::ReconcileRecord);
    }
}

#[test]
fn a_start_that_ends_anywhere_is_finished_by_the_next() {
    for (point, passage) in [
        (Point::RepairFile, 1),
        (Point::RepairFile, 2),
        (Point::QuarantineMoved, 1),
        (Point::RebuildRecorded, 1),
        (Point::RebuildResolved, 1),
    ] {
        let place = ended(point, passage, |place, plugin| {
            place.prepare(plugin, &pair("uid-1")).unwrap();
            if point == Point::RepairFile {
                std::fs::remove_dir_all(place.path("cdi")).unwrap();
                std::fs::remove_dir_all(place.path("metadata")).unwrap();
            } else {
                std::fs::write(place.path("state/claims/uid-1.json"), "bad").unwrap();
            }
            let mut next = place.plugin();
            let reading = next.node.read(place.now);
            let fate = Fate::Exists(Box::new(pair("uid-1")));
            next.node.reconcile(vec![(id(&pair("uid-1")), fate)], &reading, place.now);
        });
        let place = place.unwrap();
        let mut next = place.plugin();
        let reading = next.node.read(place.now);
        let fate = Fate::Exists(Box::new(pair("uid-1")));
        next.node.reconcile(vec![(id(&pair("uid-1")), fate)], &reading, place.now);
        check(&place, true);
    }
    let leftover = |point, passage| {
        let place = ended(Point::PrepareFile, 2, |place, plugin| {
            drop(place.prepare(plugin, &pair("uid-1")));
        });
        let place = place.unwrap();
        let faults = inject(&format!("{point}:{passage}=unwind")).unwrap();
        assert!(catch_unwind(AssertUnwindSafe(|| place.plugin())).is_err());
        drop(faults);
        check(&place, false);
    };
    leftover("reconcile-file", 1);
    leftover("reconcile-file", 2);
    leftover("reconcile-record", 1);
}
