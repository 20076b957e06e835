//! Why claims wait, and where they sit, from objects as the API server gives them.

use serde_json::{Value, json};

use super::*;
use crate::args::Color;
use crate::objects::Objects;
use crate::paint::Paint;
use read::Seen;

fn device(name: &str, kind: &str) -> Value {
    json!({ "name": name, "attributes": {
        "type": { "string": kind },
        "resource.kubernetes.io/pciBusID": { "string": format!("pci-of-{name}") },
    } })
}

fn slice(node: &str, devices: &[Value]) -> Value {
    json!({ "metadata": { "name": node }, "spec": {
        "driver": "lanemate.dev", "nodeName": node, "devices": devices,
        "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 },
    } })
}

fn claim(name: &str, count: u32) -> Value {
    json!({ "metadata": { "name": name, "namespace": "ml", "uid": format!("uid-{name}") },
        "spec": { "devices": { "requests": [
            { "name": "gpu", "exactly": { "deviceClassName": "gpu.lanemate.dev", "count": count } },
        ] } } })
}

fn granted(name: &str, device: &str) -> Value {
    let mut claim = claim(name, 1);
    claim["status"] = json!({
        "allocation": { "devices": { "results": [
            { "request": "gpu", "driver": "lanemate.dev", "pool": "n1", "device": device },
        ] } },
        "reservedFor": [{ "resource": "pods", "name": "p", "uid": "u" }],
    });
    claim
}

fn pod(name: &str, claim: &str, gates: &[&str]) -> Value {
    let gates: Vec<Value> = gates.iter().map(|gate| json!({ "name": gate })).collect();
    json!({ "metadata": { "name": name, "namespace": "ml", "uid": format!("uid-{name}"),
            "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "containers": [], "schedulingGates": gates,
            "resourceClaims": [{ "name": "d", "resourceClaimName": claim }] },
        "status": { "phase": "Pending" } })
}

fn now() -> Timestamp {
    "2026-01-01T00:01:00Z".parse().unwrap()
}

/// Two nodes with a GPU each, the first one's held by the claim `held`.
fn seen(claims: &[Value], pods: &[Value]) -> Seen {
    let gpu = |name: &str| vec![device(name, "gpu")];
    let slices = [slice("n1", &gpu("gpu-1")), slice("n2", &gpu("gpu-2"))];
    let lease = json!({ "spec": { "holderIdentity": "c", "leaseDurationSeconds": 15,
        "renewTime": "2026-01-01T00:00:55.000000Z" } });
    let objects = Objects {
        slices: serde_json::from_value(json!(slices)).unwrap(),
        claims: serde_json::from_value(json!(claims)).unwrap(),
        pods: serde_json::from_value(json!(pods)).unwrap(),
        ..Objects::default()
    };
    Seen { objects, node_states: None, lease: serde_json::from_value(lease).unwrap() }
}

fn explain(seen: &Seen, subject: &str) -> Vec<Explanation> {
    let subject = Subject::parse(Some(subject), "ml").unwrap();
    of(seen, &subject, now()).unwrap().claims
}

fn reason(seen: &Seen, claim: &str) -> String {
    let mut claims = explain(seen, claim);
    assert_eq!(claims.len(), 1);
    claims.remove(0).reason.unwrap_or_default()
}

#[test]
fn a_claim_that_waits_says_for_what() {
    let fitting = pod("a", "one", &["lanemate.dev/placement"]);
    let mut cluster = seen(&[claim("one", 1)], &[fitting]);
    assert!(reason(&cluster, "one").ends_with("the controller places it when its turn comes"));
    cluster.lease = None;
    assert!(reason(&cluster, "one").contains("no controller is at work"));
    let cluster = seen(&[claim("two", 2)], &[pod("a", "two", &[])]);
    let words = reason(&cluster, "two");
    assert!(words.starts_with("none of 2 nodes fits; nearest is n1: request gpu"), "{words}");
    let gated = pod("a", "one", &["lanemate.dev/placement", "queue.example/quota"]);
    let cluster = seen(&[claim("one", 1)], &[gated]);
    let words = reason(&cluster, "one");
    assert!(words.starts_with("its pod has the scheduling gate queue.example/quota:"), "{words}");
    let cluster = seen(&[claim("one", 1)], &[]);
    assert!(reason(&cluster, "one").starts_with("no unfinished pod names it"));
}

#[test]
fn what_nodes_still_hold_is_not_free_and_nodes_with_one_reason_stand_together() {
    let granted = granted("held", "gpu-1");
    let mut cluster = seen(&[granted, claim("one", 1)], &[pod("a", "one", &[])]);
    assert!(reason(&cluster, "one").starts_with("it fits on node n2"));
    let states = json!([{ "apiVersion": "lanemate.dev/v1alpha1", "kind": "NodeState",
        "metadata": { "name": "n2" }, "status": { "held": [{ "devices": ["gpu-2"],
            "claim": { "namespace": "ml", "name": "gone", "uid": "u9" }, "state": "Prepared" }] } }]);
    cluster.node_states = serde_json::from_value(states).unwrap();
    let found = explain(&cluster, "one").remove(0);
    let nodes: Vec<&str> = found.nodes.iter().flat_map(|g| &g.nodes).map(String::as_str).collect();
    assert_eq!(nodes, ["n1", "n2"]);
    let all: String = found.nodes.iter().map(|group| group.reason.as_str()).collect();
    assert!(all.contains("ml/held") && all.contains("ml/gone"), "{all}");
    let text = table::render(
        &Explained { controller: Leader::of(None, now()), claims: vec![found] },
        Paint::new(Color::Never),
    );
    assert!(text.starts_with("ml/one waits\n"), "{text}");
    assert!(text.contains("\n  pod a Pending\n"), "{text}");
}

#[test]
fn a_grant_shows_devices_addresses_users_and_who_else_has_them() {
    let claims = [granted("a", "gpu-1"), granted("b", "gpu-1"), granted("c", "gpu-9")];
    let mut cluster = seen(&claims, &[pod("p", "a", &[])]);
    let states = json!([{ "apiVersion": "lanemate.dev/v1alpha1", "kind": "NodeState",
        "metadata": { "name": "n1" }, "status": { "held": [{ "devices": ["gpu-1"],
            "claim": { "namespace": "ml", "name": "a", "uid": "uid-a" }, "state": "Prepared" }] } }]);
    cluster.node_states = serde_json::from_value(states).unwrap();
    let found = explain(&cluster, "claim/a").remove(0);
    assert_eq!((found.state, found.node.as_deref()), (State::Allocated, Some("n1")));
    assert_eq!(found.reserved_for, ["pods/p"]);
    let text = table::render(
        &Explained { controller: Leader::of(None, now()), claims: vec![found] },
        Paint::new(Color::Never),
    );
    let expect = "\
ml/a has its devices on node n1
  gpu-1  pci-of-gpu-1  gpu  Prepared  held by ml/b as well
  pod p Pending
  reserved for pods/p
";
    assert_eq!(text, expect);
    let gone = explain(&cluster, "c").remove(0);
    assert!(gone.devices[0].is_gone);
    assert_eq!(gone.devices[0].also_held_by, [""; 0]);
}

#[test]
fn a_pod_stands_for_its_claims_and_those_still_to_be_made() {
    let mut templated = pod("t", "x", &[]);
    templated["spec"]["resourceClaims"] = json!([
        { "name": "d", "resourceClaimTemplateName": "missing" },
        { "name": "e", "resourceClaimName": "one" },
    ]);
    let cluster = seen(&[claim("one", 1)], &[templated]);
    let found = explain(&cluster, "pod/t");
    let states: Vec<_> = found.iter().map(|one| (one.claim.as_str(), one.state)).collect();
    assert_eq!(states, [("ml/t-d", State::NotMade), ("ml/one", State::Waiting)]);
    let of_all = of(&cluster, &Subject::Waiting("ml".to_owned()), now()).unwrap();
    assert_eq!(of_all.claims.len(), 1);
    assert!(of(&cluster, &Subject::Waiting("x".to_owned()), now()).unwrap().claims.is_empty());
}

#[test]
fn what_is_not_there_is_an_error() {
    let cluster = seen(&[], &[]);
    for (subject, words) in [("a", "claim ml/a: not found"), ("pod/a", "pod ml/a: not found")] {
        let subject = Subject::parse(Some(subject), "ml").unwrap();
        let error = of(&cluster, &subject, now()).unwrap_err().to_string();
        assert!(error.starts_with(words), "{error}");
    }
    for text in ["job/a", "", "pod/", "a/b/c", "UPPER"] {
        assert!(Subject::parse(Some(text), "ml").is_err(), "{text}");
    }
}
