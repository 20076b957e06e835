//! Updates of a watch, and who holds a device after them.

use k8s_openapi::api::resource::v1::ResourceClaim;
use lanemate_driver::testing::cluster::from_json;
use serde_json::{Value, json};

use super::*;
use crate::change::Generations;

fn claim(name: &str, version: &str, device: Option<&str>) -> Object {
    let results: Vec<Value> = device
        .into_iter()
        .map(|device| json!({"driver": names::DRIVER, "pool": "n", "device": device, "request": "r"}))
        .collect();
    let status = match results.is_empty() {
        true => json!({}),
        false => json!({"allocation": {"devices": {"results": results}}}),
    };
    let claim: ResourceClaim = from_json(json!({
        "metadata": {
            "namespace": "ns", "name": name, "uid": format!("uid-{name}"), "resourceVersion": version,
        },
        "spec": {}, "status": status,
    }));
    Object::Claim(Box::new(claim))
}

fn device(name: &str) -> DeviceId {
    (names::DRIVER.to_owned(), "n".to_owned(), name.to_owned())
}

fn index() -> Index {
    Index::new(Generations::default())
}

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// A list of claims, as a watch hands it on.
fn list(index: &mut Index, objects: Vec<Object>) {
    let names = objects.iter().filter_map(Object::key).collect();
    objects.into_iter().for_each(|object| index.apply(Update::Apply(object), NOW));
    index.apply(Update::Listed(Kind::Claim, names), NOW);
}

#[test]
fn a_list_that_is_behind_does_not_free_what_a_later_version_holds() {
    let mut index = index();
    index.apply(Update::Apply(claim("c", "10", Some("d"))), NOW);
    list(&mut index, vec![claim("c", "9", None)]);
    assert_eq!(index.cluster().holder(&device("d")), Some("ns/c"));
    index.apply(Update::Apply(claim("c", "9", None)), NOW);
    assert_eq!(index.holders(&device("d")).len(), 1);
    index.apply(Update::Apply(claim("c", "11", None)), NOW);
    assert_eq!(index.holders(&device("d")), BTreeSet::new());
    assert_eq!(index.cluster().holder(&device("d")), None);
}

#[test]
fn what_a_complete_list_does_not_name_is_gone_and_not_before() {
    let mut index = index();
    for (name, held) in [("a", "1"), ("b", "2")] {
        index.apply(Update::Apply(claim(name, "1", Some(held))), NOW);
    }
    // Another list begins: what it has come to so far changes nothing for the rest.
    index.apply(Update::Apply(claim("b", "1", Some("2"))), NOW);
    assert_eq!(index.cluster().holder(&device("1")), Some("ns/a"));
    assert!(index.missing().contains(&Kind::Claim));
    let names = claim("b", "1", None).key().into_iter().collect();
    index.apply(Update::Listed(Kind::Claim, names), NOW);
    assert_eq!(index.cluster().holder(&device("1")), None);
    assert_eq!(index.cluster().holder(&device("2")), Some("ns/b"));
    assert!(!index.missing().contains(&Kind::Claim));
}

#[test]
fn a_device_in_two_claims_is_free_when_both_have_let_go() {
    let mut index = index();
    for name in ["a", "b"] {
        index.apply(Update::Apply(claim(name, "1", Some("d"))), NOW);
    }
    assert!(index.is_contested(&device("d")));
    index.apply(Update::Apply(claim("a", "2", None)), NOW);
    assert!(!index.is_contested(&device("d")));
    assert_eq!(index.cluster().holder(&device("d")), Some("ns/b"));
    index.apply(Update::Delete(Kind::Claim, Key { namespace: "ns".into(), name: "b".into() }), NOW);
    assert_eq!(index.cluster().holder(&device("d")), None);
}

#[test]
fn a_device_that_its_node_holds_is_not_free_whatever_the_claims_say() {
    let mut index = index();
    let state = |devices: &[&str]| -> Object {
        let held = json!([{
            "claim": {"namespace": "ns", "name": "a", "uid": "uid-a"}, "devices": devices,
            "state": "Prepared",
        }]);
        Object::NodeState(Box::new(from_json(json!({
            "apiVersion": "lanemate.dev/v1alpha1", "kind": "NodeState",
            "metadata": {"name": "n", "uid": "n", "resourceVersion": "1"}, "status": {"held": held},
        }))))
    };
    index.apply(Update::Apply(claim("a", "1", Some("d"))), NOW);
    index.apply(Update::Apply(state(&["d"])), NOW);
    index.apply(Update::Apply(claim("a", "2", None)), NOW);
    let holder = index.cluster().holder(&device("d")).map(str::to_owned);
    assert_eq!(holder.as_deref(), Some("ns/a, still prepared on its node"));
    index.apply(Update::Apply(state(&[])), NOW);
    assert_eq!(index.cluster().holder(&device("d")), None);
}
