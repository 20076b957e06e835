//! Tests of pools.

use serde_json::{Value, json};

use super::*;
use crate::testing::cluster::from_json;

fn slice(name: &str, pool: (&str, i64, i64), place: Value, devices: &[&str]) -> ResourceSlice {
    let devices: Vec<Value> = devices.iter().map(|name| json!({"name": name})).collect();
    let (pool, generation, count) = pool;
    let mut spec = json!({
        "driver": "d.example.com", "devices": devices,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
    });
    spec.as_object_mut().unwrap().extend(place.as_object().unwrap().clone());
    from_json(json!({"metadata": {"name": name}, "spec": spec}))
}

fn on(node: &str) -> Value {
    json!({"nodeName": node})
}

/// What node `n` sees: devices, then the reasons of the pools that do not count.
fn check(slices: &[ResourceSlice], devices: &[&str], reasons: &[&str]) {
    let seen = Slices::new(slices, |_| true).of_node("n", |_| true);
    let names: Vec<&str> = seen.devices.iter().map(|device| device.name.as_str()).collect();
    let found: Vec<String> = seen.unusable.iter().map(|pool| pool.reason.to_string()).collect();
    assert_eq!(
        (names, found),
        (devices.to_vec(), reasons.iter().map(|r| (*r).to_owned()).collect())
    );
}

#[test]
fn devices_stand_by_pool_then_slice_name_then_place() {
    check(
        &[
            slice("b", ("p", 1, 2), on("n"), &["z", "y"]),
            slice("a", ("p", 1, 2), on("n"), &["x"]),
            slice("c", ("o", 1, 1), on("n"), &["w"]),
            slice("d", ("q", 1, 1), on("other"), &["v"]),
        ],
        &["w", "x", "z", "y"],
        &[],
    );
}

#[test]
fn the_highest_generation_counts_even_when_it_is_incomplete() {
    check(
        &[slice("a", ("p", 1, 1), on("n"), &["old"]), slice("b", ("p", 2, 2), on("n"), &["new"])],
        &[],
        &["incomplete: 1 of 2 slices of generation 2 are published"],
    );
}

#[test]
fn slices_of_other_nodes_complete_a_pool_and_can_supersede_it() {
    let here = slice("a", ("p", 1, 2), on("n"), &["x"]);
    check(&[here.clone(), slice("b", ("p", 1, 2), on("o"), &["y"])], &["x"], &[]);
    check(
        &[here, slice("b", ("p", 2, 2), on("o"), &["y"])],
        &[],
        &["outdated: generation 1 is superseded by a slice of another node"],
    );
}

#[test]
fn a_name_that_stands_twice_spoils_its_pool_only() {
    check(
        &[
            slice("a", ("p", 1, 1), on("n"), &["x", "x"]),
            slice("b", ("q", 1, 1), json!({"allNodes": true}), &["y"]),
        ],
        &["y"],
        &["invalid: device x is published twice"],
    );
}

#[test]
fn what_is_not_supported_is_named() {
    let mut counters = slice("a", ("p", 1, 1), on("n"), &[]);
    counters.spec.shared_counters = Some(vec![Default::default()]);
    check(&[counters], &[], &["slice a: spec.sharedCounters is not supported yet"]);
    let mut shared = slice("a", ("p", 1, 1), on("n"), &["x"]);
    shared.spec.devices.as_mut().unwrap()[0].allow_multiple_allocations = Some(true);
    let reason = "slice a: device x: allowMultipleAllocations is not supported yet";
    check(&[shared], &[], &[reason]);
}

#[test]
fn the_order_of_slices_does_not_matter() {
    let slices = [
        slice("a", ("p", 1, 2), on("n"), &["x"]),
        slice("b", ("p", 1, 2), on("n"), &["y"]),
        slice("c", ("o", 1, 1), json!({"nodeSelector": {"nodeSelectorTerms": []}}), &["w"]),
    ];
    let reversed: Vec<_> = slices.iter().rev().cloned().collect();
    check(&slices, &["w", "x", "y"], &[]);
    check(&reversed, &["w", "x", "y"], &[]);
}

#[test]
fn nodes_that_are_alike_share_a_layout() {
    let slice = |node: &str, uuid: &str| {
        let device = json!({"name": "gpu", "attributes": {
            "lanemate.dev/uuid": {"string": uuid}, "lanemate.dev/type": {"string": "gpu"}}});
        from_json::<ResourceSlice>(json!({
            "metadata": {"name": node},
            "spec": {"driver": "lanemate.dev", "nodeName": node, "devices": [device],
                     "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}},
        }))
    };
    let slices = [slice("a", "GPU-1"), slice("b", "GPU-2")];
    let cluster = crate::testing::cluster::cluster_of(&slices);
    let (a, b) = (cluster.node("a").unwrap(), cluster.node("b").unwrap());
    assert_eq!(a.layout_id, b.layout_id);
    assert_ne!(a.identity.attributes, b.identity.attributes);
    assert_eq!(b.device_id(0), ("lanemate.dev".into(), "b".into(), "gpu".into()));
}

#[test]
fn a_constraint_on_what_is_unique_to_a_device_holds_for_one_device_only() {
    use crate::testing::cluster::{claim_value, classes, cluster_of, decided, parse};
    let device = |name: &str| {
        json!({"name": name, "attributes": {
            "type": {"string": "gpu"}, "uuid": {"string": format!("GPU-{name}")}}})
    };
    let slice = from_json::<ResourceSlice>(json!({
        "metadata": {"name": "a"},
        "spec": {"driver": "lanemate.dev", "nodeName": "a", "devices": [device("x"), device("y")],
                 "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1}},
    }));
    let cluster = cluster_of(&[slice]);
    for (count, expect) in [(1, true), (2, false)] {
        let mut claim = claim_value("c", &[("g", "gpu.lanemate.dev", count)]);
        claim["spec"]["devices"]["constraints"] =
            json!([{"requests": ["g"], "matchAttribute": "lanemate.dev/uuid"}]);
        let claim = parse(claim, &mut classes(&[])).unwrap();
        assert_eq!(decided(&cluster, &[&claim]).chosen.is_some(), expect, "{count}");
    }
}
