//! Many pods: the order of serving, back-fill, the head of the queue, and what a round spares itself.

use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::json;

use super::world::*;
use crate::change::{Change, Generations};
use crate::id::{Id, Uid, Version};
use crate::index::{Index, Kind, Object, PodFacts, Stage};
use crate::plan::{Planned, Planner, Settings, notices, order, timing};

/// Names of the pods that a plan places.
fn placed(planned: &Planned) -> Vec<String> {
    let place = |change: &Change| match change {
        Change::Place(place) => Some(format!("{} {}", place.pod.key.name, place.node)),
        _ => None,
    };
    planned.changes.iter().filter_map(place).collect()
}

fn queue(world: &mut World, pods: &[(&str, u32, i32)]) {
    for (name, count, priority) in pods {
        world.claim(claim(&format!("c-{name}"), "pair", *count));
        let mut pod = gated(name, &[&format!("c-{name}")]);
        pod["spec"]["priority"] = json!(priority);
        world.pod(pod);
    }
}

#[test]
fn higher_priority_comes_first_then_age_then_name() {
    let mut world = World::new(&[("n1", 3)]);
    queue(&mut world, &[("b", 1, 0), ("a", 1, 0)]);
    world.wait(1);
    queue(&mut world, &[("young", 1, 0), ("high", 1, 5)]);
    assert_eq!(placed(&world.settle()), ["high n1", "a n1", "b n1"]);
}

#[test]
fn a_smaller_pod_passes_one_that_does_not_fit() {
    let mut world = World::new(&[("n1", 3)]);
    queue(&mut world, &[("large", 4, 9), ("small", 2, 0)]);
    assert_eq!(placed(&world.settle()), ["small n1"]);
}

#[test]
fn a_pod_that_has_waited_long_keeps_its_best_node_for_itself() {
    let mut world = World::new(&[("n1", 4), ("n2", 4), ("n3", 2)]);
    queue(&mut world, &[("on-1", 3, 0)]);
    assert_eq!(placed(&world.settle()).len(), 1);
    let full = world.node_of("c-on-1").unwrap();
    let best = if full == "n1" { "n2" } else { "n1" };
    // One device is missing on the best node, three on the full one.
    queue(&mut world, &[("on-2", 1, 0)]);
    let mut pinned = gated("on-2", &["c-on-2"]);
    pinned["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": best});
    world.pod(pinned);
    assert_eq!(placed(&world.settle()), [format!("on-2 {best}")]);

    queue(&mut world, &[("large", 4, 0)]);
    assert_eq!(placed(&world.settle()), Vec::<String>::new());
    world.wait(599);
    queue(&mut world, &[("early", 1, 0)]);
    let planned = world.settle();
    assert_eq!(placed(&planned).len(), 1, "before ten minutes small pods pass it");
    world.wait(1);
    queue(&mut world, &[("s1", 2, 0), ("s2", 2, 0), ("s3", 1, 0)]);
    let placed_now = placed(&world.settle());
    assert!(placed_now.iter().all(|one| !one.ends_with(best)), "{placed_now:?}");

    for name in ["on-2", "early"] {
        if world.node_of(&format!("c-{name}")).as_deref() == Some(best) {
            world.delete_pod(&key(name));
            world.change_claim(&key(&format!("c-{name}")), |claim| claim.status = None);
        }
    }
    world.wait(1);
    let placed_now = placed(&world.settle());
    assert_eq!(placed_now.first(), Some(&format!("large {best}")), "{placed_now:?}");
}

#[test]
fn a_refused_pod_is_not_decided_again_before_something_changes() {
    let mut world = World::new(&[("n1", 2)]);
    queue(&mut world, &[("holder", 2, 0), ("p", 1, 0)]);
    world.settle();
    let planned = world.settle();
    assert_eq!(planned.stats.decisions, 0);
    assert_eq!(planned.stats.waiting, 1);
    assert_eq!(planned.stats.wanted, [("pair".to_owned(), 1)].into());
    assert_eq!(planned.stats.refused, [(notices::WAITING, 1)].into());
    assert!(planned.stats.oldest.is_some());

    world.delete_pod(&key("holder"));
    world.change_claim(&key("c-holder"), |claim| claim.status = None);
    assert_eq!(placed(&world.settle()), ["p n1"]);
}

#[test]
fn a_refused_pod_is_decided_again_when_a_node_has_room_for_it() {
    let mut world = World::new(&[("n1", 4)]);
    let mut hungry = ungated("hungry", &[]);
    hungry["spec"]["nodeName"] = json!("n1");
    hungry["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("8");
    world.pod(hungry);
    queue(&mut world, &[("p", 1, 0)]);
    let planned = world.settle();
    assert_eq!(placed(&planned), Vec::<String>::new());
    assert!(planned.notices[0].note.contains("cpu"), "{:?}", planned.notices);
    world.delete_pod(&key("hungry"));
    assert_eq!(placed(&world.settle()), ["p n1"]);
}

#[test]
fn pods_that_ask_for_the_same_are_refused_together() {
    let mut world = World::new(&[("n1", 2), ("n2", 2)]);
    let pods: Vec<String> = (0..50).map(|number| format!("p{number}")).collect();
    let pods: Vec<_> = pods.iter().map(|name| (name.as_str(), 3, 0)).collect();
    queue(&mut world, &pods);
    world.watch(usize::MAX);
    let planned = world.plan();
    assert_eq!(planned.stats.decisions, 1);
    assert_eq!(planned.notices.len(), 50, "each hears of it");
    assert_eq!(planned.stats.refused, [(notices::WAITING, 50)].into());
}

#[test]
fn a_round_plans_no_more_than_the_writer_has_room_for() {
    let mut world = World::new(&[("n1", 4)]);
    queue(&mut world, &[("a", 1, 0), ("b", 1, 0), ("c", 1, 0)]);
    world.watch(usize::MAX);
    let planned = world.plan_at_most(2);
    assert_eq!(placed(&planned), ["a n1", "b n1"]);
    let planned = world.plan_at_most(2);
    assert_eq!(placed(&planned), ["c n1"], "what is in flight is left alone");
}

#[test]
fn nothing_is_planned_before_every_kind_was_listed() {
    let mut index = Index::new(Generations::default());
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let mut planner = Planner::new(Settings::default());
    list(&mut index, Kind::Node, vec![Object::Node(Box::new(node("n1")))], now);
    assert!(planner.plan(&mut index, now, 10).changes.is_empty());
    assert!(!index.missing().is_empty());
}

#[test]
fn an_event_that_turned_out_false_is_never_told() {
    let mut world = World::new(&[("n1", 4)]);
    queue(&mut world, &[("a", 1, 0)]);
    world.watch(usize::MAX);
    let planned = world.plan();
    world.write(&planned.changes[0], Fate::Stop(0));
    world.delete_pod(&key("a"));
    assert_eq!(world.settle().notices, Vec::new());
}

#[test]
fn what_is_being_taken_back_is_not_taken_back_again() {
    let mut world = World::new(&[("n1", 3)]);
    world.claim(claim("a", "pair", 2));
    world.claim(claim("b", "pair", 1));
    world.pod(gated("p", &["a", "b"]));
    world.watch(usize::MAX);
    let planned = world.plan();
    world.write(&planned.changes[0], Fate::Stop(1));
    queue(&mut world, &[("first", 1, 9)]);
    world.watch(usize::MAX);
    let planned = world.plan();
    assert_eq!(placed(&planned), ["first n1"]);
    assert!(matches!(planned.changes[1..], [Change::Clear(_)]), "{:?}", planned.changes);
    assert!(world.plan().changes.is_empty());
}

#[test]
fn a_pod_gets_the_node_that_was_kept_when_the_head_has_gone() {
    let mut world = World::new(&[("n1", 4)]);
    queue(&mut world, &[("holder", 1, 0)]);
    world.settle();
    queue(&mut world, &[("large", 4, 0)]);
    world.settle();
    world.wait(600);
    queue(&mut world, &[("small", 1, 0)]);
    let planned = world.settle();
    assert_eq!(placed(&planned), Vec::<String>::new());
    let of_small = planned.notices.iter().find(|notice| notice.note.contains("waited longer"));
    assert!(of_small.is_some(), "{:?}", planned.notices);
    assert_eq!(world.settle().stats.decisions, 0, "neither is decided again");
    world.delete_pod(&key("large"));
    assert_eq!(placed(&world.settle()), ["small n1"]);
}

#[test]
fn a_head_keeps_its_node_also_when_a_younger_pod_was_refused_the_same() {
    let mut world = World::new(&[("n1", 2)]);
    queue(&mut world, &[("holder", 1, 0)]);
    world.settle();
    queue(&mut world, &[("old", 2, 0)]);
    world.settle();
    world.wait(600);
    queue(&mut world, &[("young", 2, 9), ("small", 1, 0)]);
    assert_eq!(placed(&world.settle()), Vec::<String>::new());
}

fn facts(number: usize, (priority, created): (i32, Option<i64>)) -> PodFacts {
    let start: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    PodFacts {
        id: Id { key: key(&format!("p{number}")), uid: Uid(number.to_string()) },
        version: Version("1".to_owned()),
        priority,
        created: created.map(|age| timing::after(start, SignedDuration::from_secs(age))),
        stage: Stage::Waiting,
        deleting: false,
        gates: Vec::new(),
        claims: Vec::new(),
        is_owned: false,
        pinned_to: None,
        unscheduled: None,
        object: None,
        needs: std::sync::Arc::default(),
    }
}

proptest! {
    #[test]
    fn the_order_does_not_depend_on_the_order_of_the_pods(
        pods in proptest::collection::vec((0..3_i32, proptest::option::of(0..3_i64)), 0..12),
        seed in any::<prop::sample::Index>(),
    ) {
        let pods: Vec<PodFacts> = pods.into_iter().enumerate().map(|(n, pod)| facts(n, pod)).collect();
        let ordered = order::in_order(pods.iter());
        let mut turned: Vec<&PodFacts> = pods.iter().collect();
        if !turned.is_empty() {
            let middle = seed.index(turned.len());
            turned.rotate_left(middle);
        }
        prop_assert_eq!(&order::in_order(turned.into_iter()), &ordered);
        let by_uid = |uid: &Uid| pods.iter().find(|pod| pod.id.uid == *uid).unwrap();
        for pair in ordered.windows(2) {
            let (a, b) = (by_uid(&pair[0]), by_uid(&pair[1]));
            prop_assert!(a.priority >= b.priority);
            if a.priority == b.priority {
                prop_assert!(b.created.is_none() || a.created.is_some_and(|age| age <= b.created.unwrap()));
            }
        }
    }
}
