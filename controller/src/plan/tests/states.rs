//! One pod: every state that the planner tells apart.

use lanemate_api::names::PLACEMENT_GATE;
use serde_json::json;

use super::world::*;
use crate::change::{Change, Write};
use crate::index::Object;
use crate::plan::{Planned, notices, timing};

/// What a plan does, in short.
fn deeds(planned: &Planned) -> Vec<String> {
    let deed = |change: &Change| match change {
        Change::Place(place) => {
            let claims: Vec<String> = place
                .claims
                .iter()
                .map(|claim| match claim.write {
                    Write::Allocate { .. } => format!("allocate {}", claim.claim.key.name),
                    Write::Reserve => format!("reserve {}", claim.claim.key.name),
                })
                .collect();
            let release = match &place.release {
                None => "keep".to_owned(),
                Some(release) => match &release.pin {
                    Some(node) => format!("pin {node}"),
                    None => "let go".to_owned(),
                },
            };
            format!("{} on {}: {}, {release}", place.pod.key.name, place.node, claims.join(" "))
        }
        Change::Ungate(ungate) => format!("ungate {}", ungate.pod.key.name),
        Change::Clear(clear) => format!("clear {}", clear.claim.key.name),
        Change::DeletePod(delete) => format!("delete {}", delete.pod.key.name),
        Change::Protect(protect) => format!("protect {}", protect.claim.key.name),
        Change::Class(_) => "class".to_owned(),
    };
    planned.changes.iter().map(deed).collect()
}

fn reasons(planned: &Planned) -> Vec<&'static str> {
    planned.notices.iter().map(|notice| notice.reason).collect()
}

#[test]
fn a_gated_pod_gets_its_devices_in_one_write_and_is_pinned() {
    let mut world = World::new(&[("n1", 8)]);
    world.claim(claim("c", "pair", 4));
    world.pod(gated("p", &["c"]));
    let planned = world.settle();
    assert_eq!(deeds(&planned), ["p on n1: allocate c, pin n1"]);
    assert_eq!(world.node_of("c").unwrap(), "n1");
    assert_eq!(world.users_of("c"), ["p"]);
    assert_eq!(world.pin_of("p").unwrap(), "n1");
    assert_eq!(world.gates_of("p"), Vec::<String>::new());
    assert_eq!(reasons(&planned), Vec::<&str>::new(), "nobody was told to wait");
}

#[test]
fn the_annotation_names_each_device_and_its_path() {
    let mut world = World::new(&[("n1", 2)]);
    world.claim(claim("c", "pair", 1));
    world.pod(gated("p", &["c"]));
    let planned = world.settle();
    let Change::Place(place) = &planned.changes[0] else { panic!("{planned:?}") };
    let assignment = &place.release.as_ref().unwrap().assignment;
    let value: serde_json::Value = serde_json::from_str(assignment).unwrap();
    assert_eq!(
        value,
        json!([
            {"claim": "of-c", "request": "r", "device": "gpu-0-0", "path": "PIX"},
            {"claim": "of-c", "request": "r", "device": "nic-0-0", "path": "PIX"},
        ])
    );
}

#[test]
fn the_allocation_has_whole_seconds_and_the_form_that_node_plugins_need() {
    let mut world = World::new(&[("n1", 2)]);
    world.now = "2026-01-01T00:00:00.75Z".parse().unwrap();
    world.claim(claim("c", "pair", 1));
    world.pod(gated("p", &["c"]));
    world.settle();
    let status = world.claims[&key("c")].status.clone().unwrap();
    let allocation = serde_json::to_value(status.allocation.unwrap()).unwrap();
    assert_eq!(allocation["allocationTimestamp"], "2026-01-01T00:00:00Z");
    let requirement = json!({"key": "metadata.name", "operator": "In", "values": ["n1"]});
    let terms = json!([{"matchFields": [requirement]}]);
    assert_eq!(allocation["nodeSelector"], json!({"nodeSelectorTerms": terms}));
}

#[test]
fn a_claim_that_no_pod_uses_is_left_alone() {
    let mut world = World::new(&[("n1", 8)]);
    world.claim(claim("c", "pair", 1));
    assert_eq!(deeds(&world.settle()), Vec::<String>::new());
}

#[test]
fn our_gate_comes_off_pods_that_need_nothing_of_us() {
    let mut world = World::new(&[("n1", 8)]);
    world.claim(claim("c", "other", 1));
    world.pod(gated("p", &["c"]));
    world.pod(ungated("q", &["c"]));
    assert_eq!(deeds(&world.settle()), ["ungate p"]);
}

#[test]
fn nothing_is_done_for_a_pod_whose_claims_are_still_to_be_made() {
    let mut world = World::new(&[("n1", 8)]);
    let mut pod = gated("p", &[]);
    pod["spec"]["resourceClaims"] = json!([{"name": "e", "resourceClaimTemplateName": "template"}]);
    world.pod(pod.clone());
    assert_eq!(deeds(&world.settle()), Vec::<String>::new());

    let id = world.pods[&key("p")].metadata.uid.clone().unwrap();
    let mut made = claim("p-e-x", "pair", 1);
    made["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": id, "controller": true,
    }]);
    world.claim(made);
    pod["status"] = json!({"resourceClaimStatuses": [{"name": "e", "resourceClaimName": "p-e-x"}]});
    world.pod(pod);
    assert_eq!(deeds(&world.settle()), ["p on n1: allocate p-e-x, pin n1"]);
}

#[test]
fn a_made_claim_of_another_pod_is_not_touched() {
    let mut world = World::new(&[("n1", 8)]);
    let mut made = claim("p-e-x", "pair", 1);
    made["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "earlier", "controller": true,
    }]);
    world.claim(made);
    let mut pod = gated("p", &[]);
    pod["spec"]["resourceClaims"] = json!([{"name": "e", "resourceClaimTemplateName": "template"}]);
    pod["status"] = json!({"resourceClaimStatuses": [{"name": "e", "resourceClaimName": "p-e-x"}]});
    world.pod(pod);
    let planned = world.settle();
    assert_eq!(deeds(&planned), Vec::<String>::new());
    assert_eq!(reasons(&planned), [notices::REFUSED, notices::REFUSED]);
}

#[test]
fn a_gated_pod_waits_for_a_claim_that_is_missing_or_being_deleted() {
    let mut world = World::new(&[("n1", 8)]);
    world.pod(gated("p", &["c"]));
    world.pod(ungated("q", &["d"]));
    // The claim may only not have been seen yet.
    let planned = world.settle();
    assert_eq!(reasons(&planned), Vec::<&str>::new());
    assert_eq!(planned.next, Some(timing::after(world.now, timing::UNSEEN_CLAIM)));
    world.wait(2);
    let planned = world.settle();
    assert_eq!(deeds(&planned), Vec::<String>::new());
    assert_eq!(reasons(&planned), [notices::WAITING]);
    assert_eq!(
        planned.notices[0].note,
        "claim ns/c does not exist: create it, or correct its name"
    );

    let mut deleting = claim("c", "pair", 1);
    deleting["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    deleting["metadata"]["finalizers"] = json!(["x"]);
    world.claim(deleting);
    world.wait(10);
    let planned = world.settle();
    assert_eq!(deeds(&planned), Vec::<String>::new());
    assert_eq!(planned.notices[0].note, "claim ns/c is being deleted");

    world.claim(claim("c", "pair", 1));
    let planned = world.settle();
    assert_eq!(deeds(&planned), ["p on n1: allocate c, pin n1"]);
    assert_eq!(reasons(&planned), [notices::PLACED]);
    assert_eq!(planned.notices[0].note, "node n1: 1 unit, PIX");
}

#[test]
fn a_claim_with_requests_of_two_drivers_is_refused_with_the_way_out() {
    let mut world = World::new(&[("n1", 8)]);
    world.claim(lanemate_driver::testing::cluster::claim_value(
        "c",
        &[("a", "pair", 1), ("b", "other", 1)],
    ));
    world.pod(gated("p", &["c"]));
    let planned = world.settle();
    assert_eq!(deeds(&planned), Vec::<String>::new());
    assert_eq!(reasons(&planned), [notices::MIXED, notices::MIXED]);
    assert!(planned.notices[0].note.contains("make two claims"), "{:?}", planned.notices);
    assert!(planned.notices.iter().all(|notice| notice.is_warning));
}

#[test]
fn nothing_is_allocated_while_another_gate_is_present() {
    let mut world = World::new(&[("n1", 8)]);
    world.claim(claim("c", "pair", 1));
    let mut pod = gated("p", &["c"]);
    pod["spec"]["schedulingGates"] =
        json!([{"name": "kueue.x-k8s.io/admission"}, {"name": "lanemate.dev/placement"}]);
    world.pod(pod);
    assert_eq!(deeds(&world.settle()), Vec::<String>::new());
    world.pod(gated("p", &["c"]));
    assert_eq!(deeds(&world.settle()), ["p on n1: allocate c, pin n1"]);
}

#[test]
fn a_class_that_is_missing_or_selects_by_attributes_decides_whose_claim_it_is() {
    for (class, deed) in [
        ("nowhere", None),
        ("by-attribute", Some("p on n1: allocate c, pin n1")),
        // It selects devices of both drivers.
        ("any", Some("ungate p")),
    ] {
        let mut world = World::new(&[("n1", 8)]);
        world.tell(Object::Slice(Box::new(other_slice("n1", 2))));
        world.claim(claim("c", class, 1));
        world.pod(gated("p", &["c"]));
        let planned = world.settle();
        assert_eq!(deeds(&planned), Vec::from_iter(deed.map(str::to_owned)), "{class}");
        if deed.is_none() {
            assert_eq!(reasons(&planned), [notices::REFUSED, notices::REFUSED]);
        }
    }
}

#[test]
fn several_claims_are_given_together_or_not_at_all() {
    let mut world = World::new(&[("n1", 2), ("n2", 3)]);
    world.claim(claim("a", "pair", 2));
    world.claim(claim("b", "pair", 1));
    world.pod(gated("p", &["a", "b"]));
    assert_eq!(deeds(&world.settle()), ["p on n2: allocate a allocate b, pin n2"]);

    world.claim(claim("c", "pair", 2));
    world.claim(claim("d", "pair", 1));
    world.pod(gated("q", &["c", "d"]));
    let planned = world.settle();
    assert_eq!(deeds(&planned), Vec::<String>::new());
    assert_eq!(reasons(&planned), [notices::WAITING]);
    assert!(!planned.notices[0].is_warning);
}

#[test]
fn a_shared_claim_binds_later_pods_to_its_node_and_is_reserved_for_each() {
    let mut world = World::new(&[("n1", 2), ("n2", 2)]);
    world.claim(claim("shared", "pair", 1));
    world.pod(gated("p", &["shared"]));
    world.settle();
    let node = world.node_of("shared").unwrap();
    world.pod(gated("q", &["shared"]));
    let planned = world.settle();
    assert_eq!(deeds(&planned), [format!("q on {node}: reserve shared, pin {node}")]);
    assert_eq!(world.users_of("shared"), ["p", "q"]);

    world.claim(claim("own", "pair", 1));
    world.pod(gated("r", &["own", "shared"]));
    let planned = world.settle();
    assert_eq!(deeds(&planned), [format!("r on {node}: allocate own reserve shared, pin {node}")]);

    // The node has no pair left, and the other claim cannot be elsewhere.
    world.claim(claim("more", "pair", 1));
    world.pod(gated("s", &["more", "shared"]));
    assert_eq!(deeds(&world.settle()), Vec::<String>::new());
    assert_eq!(world.users_of("shared"), ["p", "q", "r"]);
}

#[test]
fn a_claim_with_256_users_takes_no_more() {
    let mut world = World::new(&[("n1", 2)]);
    world.claim(claim("shared", "pair", 1));
    world.pod(gated("p", &["shared"]));
    world.settle();
    world.change_claim(&key("shared"), |claim| {
        let users = claim.status.as_mut().unwrap().reserved_for.as_mut().unwrap();
        for number in 1..256 {
            let mut user = users[0].clone();
            user.uid = format!("user-{number}");
            users.push(user);
        }
    });
    world.pod(gated("q", &["shared"]));
    let planned = world.settle();
    assert_eq!(deeds(&planned), Vec::<String>::new());
    assert!(planned.notices[0].note.contains("256 users"), "{:?}", planned.notices);
}

#[test]
fn claims_of_others_for_different_nodes_are_refused() {
    let mut world = World::new(&[("n1", 1), ("n2", 1)]);
    for name in ["a", "b"] {
        world.claim(claim(name, "pair", 1));
        world.pod(gated(&format!("user-{name}"), &[name]));
    }
    world.settle();
    assert_ne!(world.node_of("a"), world.node_of("b"));
    world.pod(gated("p", &["a", "b"]));
    let planned = world.settle();
    assert_eq!(deeds(&planned), Vec::<String>::new());
    assert_eq!(reasons(&planned), [notices::REFUSED]);
    assert!(planned.notices[0].note.contains("n1, n2"), "{:?}", planned.notices);
}

#[test]
fn what_a_crash_left_between_two_claims_is_completed_or_taken_back() {
    for (taken, expect) in
        [(0, vec!["p on n1: allocate b, pin n1".to_owned()]), (1, vec!["clear a".to_owned()])]
    {
        let mut world = World::new(&[("n1", 3)]);
        world.claim(claim("a", "pair", 2));
        world.claim(claim("b", "pair", 1));
        world.pod(gated("p", &["a", "b"]));
        world.watch(usize::MAX);
        let planned = world.plan();
        world.write(&planned.changes[0], Fate::Stop(1));
        assert_eq!(world.users_of("a"), ["p"]);
        assert_eq!(world.node_of("b"), None);
        if taken > 0 {
            world.claim(claim("other", "pair", 1));
            let mut pod = gated("before", &["other"]);
            pod["spec"]["priority"] = json!(10);
            world.pod(pod);
        }
        let mut deeds = deeds(&world.settle());
        deeds.retain(|deed| !deed.starts_with("before"));
        assert_eq!(deeds, expect, "{taken}");
        assert_eq!(world.node_of("a").is_some(), taken == 0);
    }
}

#[test]
fn claims_that_are_written_while_the_gate_stayed_are_handed_over() {
    let mut world = World::new(&[("n1", 3)]);
    world.claim(claim("a", "pair", 2));
    world.pod(gated("p", &["a"]));
    world.watch(usize::MAX);
    let planned = world.plan();
    world.write(&planned.changes[0], Fate::Stop(1));
    assert_eq!(deeds(&world.settle()), ["p on n1: , pin n1"]);
    assert_eq!(world.pin_of("p").unwrap(), "n1");
}

#[test]
fn a_grant_on_a_node_that_no_longer_suits_a_gated_pod_is_planned_anew() {
    let mut world = World::new(&[("n1", 3)]);
    world.claim(claim("a", "pair", 2));
    world.pod(gated("p", &["a"]));
    world.watch(usize::MAX);
    let planned = world.plan();
    world.write(&planned.changes[0], Fate::Stop(1));
    let mut cordoned = node("n1");
    cordoned.spec.get_or_insert_default().unschedulable = Some(true);
    world.tell(Object::Node(Box::new(cordoned)));
    world.tell(Object::Node(Box::new(node("n2"))));
    world.tell(Object::Slice(Box::new(our_slice("n2", 3))));
    assert_eq!(deeds(&world.settle()), ["clear a", "p on n2: allocate a, pin n2"]);
}

#[test]
fn a_bound_pod_gets_its_claim_on_its_node_alone() {
    let mut world = World::new(&[("n1", 3), ("n2", 1)]);
    world.claim(claim("a", "pair", 1));
    let mut pod = ungated("p", &["a"]);
    pod["spec"]["nodeName"] = json!("n2");
    world.pod(pod);
    assert_eq!(deeds(&world.settle()), ["p on n2: allocate a, keep"]);

    world.claim(claim("b", "pair", 1));
    let mut pod = ungated("q", &["b"]);
    pod["spec"]["nodeName"] = json!("n2");
    world.pod(pod);
    let planned = world.settle();
    assert_eq!(deeds(&planned), Vec::<String>::new());
    assert!(planned.notices[0].note.starts_with("node n2: "), "{:?}", planned.notices);
}

#[test]
fn an_ungated_pod_that_cannot_be_scheduled_is_moved_and_the_node_backed_off() {
    let mut world = World::new(&[("n1", 2)]);
    world.claim(claim("a", "pair", 1));
    world.pod(ungated("p", &["a"]));
    assert_eq!(deeds(&world.settle()), ["p on n1: allocate a, keep"]);

    let mut stuck = ungated("p", &["a"]);
    stuck["status"] = json!({"conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/1 nodes are available", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]});
    world.pod(stuck);
    world.wait(4);
    let planned = world.settle();
    assert_eq!(deeds(&planned), Vec::<String>::new());
    assert_eq!(planned.next, Some("2026-01-01T00:00:05Z".parse().unwrap()));

    world.wait(1);
    let planned = world.settle();
    assert_eq!(deeds(&planned), ["clear a"]);
    assert!(reasons(&planned).contains(&notices::MOVED));
    assert_eq!(planned.next, Some("2026-01-01T00:00:15Z".parse().unwrap()), "the back-off ends");

    world.tell(Object::Node(Box::new(node("n2"))));
    world.tell(Object::Slice(Box::new(our_slice("n2", 1))));
    assert_eq!(
        deeds(&world.settle()),
        ["p on n2: allocate a, keep"],
        "another node is free to take"
    );
}

#[test]
fn a_node_is_tried_again_when_its_back_off_ends() {
    let mut world = World::new(&[("n1", 2)]);
    world.claim(claim("a", "pair", 1));
    let mut stuck = ungated("p", &["a"]);
    stuck["status"] = json!({"conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
    }]});
    world.pod(stuck);
    assert_eq!(deeds(&world.settle()), ["p on n1: allocate a, keep"]);
    world.wait(5);
    assert_eq!(deeds(&world.settle()), ["clear a"]);
    world.wait(9);
    assert_eq!(deeds(&world.settle()), Vec::<String>::new());
    world.wait(1);
    assert_eq!(deeds(&world.settle()), ["p on n1: allocate a, keep"]);
    let end = timing::after(world.now, timing::UNGATED_UNSCHEDULABLE);
    assert_eq!(world.settle().next, Some(end));
}

#[test]
fn a_pod_with_a_constraint_that_is_not_modelled_is_let_go_unpinned() {
    let mut world = World::new(&[("n1", 2)]);
    world.claim(claim("a", "pair", 1));
    let mut pod = gated("p", &["a"]);
    pod["spec"]["schedulerName"] = json!("special");
    world.pod(pod);
    assert_eq!(deeds(&world.settle()), ["p on n1: allocate a, let go"]);
}

#[test]
fn claims_of_another_driver_filter_the_nodes_before_a_pin() {
    let mut world = World::new(&[("n1", 2), ("n2", 2)]);
    world.tell(Object::Slice(Box::new(other_slice("n2", 1))));
    world.claim(claim("a", "pair", 1));
    world.claim(claim("b", "other", 1));
    world.pod(gated("p", &["a", "b"]));
    let planned = world.settle();
    assert_eq!(deeds(&planned), ["p on n2: allocate a, pin n2"]);

    world.claim(claim("c", "pair", 1));
    world.claim(claim("d", "other", 2));
    world.pod(gated("q", &["c", "d"]));
    assert_eq!(deeds(&world.settle()), Vec::<String>::new(), "nowhere are two");

    world.claim(claim("e", "pair", 1));
    let mut all = claim("f", "other", 1);
    all["spec"]["devices"]["requests"][0]["exactly"] =
        json!({"deviceClassName": "other", "allocationMode": "All"});
    world.claim(all);
    world.pod(gated("r", &["e", "f"]));
    let last = deeds(&world.settle());
    assert!(last[0].ends_with("allocate e, let go"), "not judged, so not pinned: {last:?}");
}

#[test]
fn a_claim_that_cannot_be_read_is_a_warning_on_pod_and_claim() {
    let mut world = World::new(&[("n1", 2)]);
    let mut bad = claim("a", "pair", 1);
    bad["spec"]["devices"]["requests"][0]["exactly"]["allocationMode"] = json!("All");
    world.claim(bad);
    world.pod(gated("p", &["a"]));
    let planned = world.settle();
    assert_eq!(deeds(&planned), Vec::<String>::new());
    assert_eq!(reasons(&planned), [notices::REFUSED, notices::REFUSED]);
    world.wait(1);
    assert_eq!(reasons(&world.settle()), Vec::<&str>::new(), "it is told once");
    world.wait(300);
    assert_eq!(reasons(&world.settle()), [notices::REFUSED, notices::REFUSED]);
}

#[test]
fn what_was_written_stays_held_while_the_next_write_of_the_claim_is_under_way_or_fails() {
    let mut world = World::new(&[("n1", 1)]);
    world.claim(claim("shared", "pair", 1));
    world.pod(gated("p", &["shared"]));
    world.watch(usize::MAX);
    let planned = world.plan();
    world.write(&planned.changes[0], Fate::Write);
    // The watch tells of the next pod before it tells of the claim.
    let mut next = gated("q", &["shared"]);
    next["metadata"]["uid"] = json!("uid-q");
    next["metadata"]["resourceVersion"] = json!("5000");
    world.tell(Object::Pod(Box::new(serde_json::from_value(next).unwrap())));
    let free = |world: &World| world.index.cluster().node("n1").unwrap().free.len();
    assert_eq!(free(&world), 0);
    let planned = world.plan();
    assert_eq!(deeds(&planned), ["q on n1: reserve shared, pin n1"]);
    assert_eq!(free(&world), 0, "in flight");
    world.write(&planned.changes[0], Fate::Stop(0));
    assert_eq!(free(&world), 0, "refused");
}

#[test]
fn a_pod_does_not_go_on_with_a_device_that_is_in_another_claim_too() {
    let mut world = World::new(&[("n1", 2)]);
    world.claim(claim("first", "pair", 1));
    world.pod(gated("p", &["first"]));
    world.settle();
    // A write of an earlier leader that came late: the same devices for the claim of a pod that waits.
    world.claim(claim("late", "pair", 1));
    let late = world.claims[&key("first")].status.clone();
    world.change_claim(&key("late"), |claim| {
        claim.status = late;
        if let Some(status) = &mut claim.status {
            status.reserved_for = None;
        }
    });
    world.pod(gated("q", &["late"]));
    assert_eq!(deeds(&world.settle()), Vec::<String>::new());
    assert_eq!(world.gates_of("q"), [PLACEMENT_GATE]);
    // Its claim was taken back: there is another pair.
    world.change_claim(&key("late"), |claim| claim.status = None);
    let planned = world.settle();
    assert_eq!(deeds(&planned), ["q on n1: allocate late, pin n1"]);
}
