//! What nodes offer and who waits, from objects as the API server gives them.

use serde_json::{Value, json};

use super::*;
use crate::args::Color;
use crate::objects::Objects;
use crate::paint::Paint;

fn device(kind: &str, bus: &str) -> Value {
    json!({ "name": format!("{kind}-{bus}"), "attributes": {
        "type": { "string": kind },
        "resource.kubernetes.io/pciBusID": { "string": format!("0000:{bus}:00.0") },
        "resource.kubernetes.io/pcieRoot": { "string": "pci0000:15" },
        "pciePath": { "string": format!("pci0000:15/01.0/16:00.0/{bus}:00.0") },
        "pcieSwitch": { "string": "0000:16:00.0" },
        "resource.kubernetes.io/numaNode": { "int": 0 },
    } })
}

fn slice(node: &str, devices: &[Value]) -> Value {
    json!({ "metadata": { "name": node }, "spec": {
        "driver": "lanemate.dev", "nodeName": node, "devices": devices,
        "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 },
    } })
}

/// Two nodes: one with a pair, one with a GPU alone whose NIC is tainted.
fn seen() -> Seen {
    let mut tainted = device("nic", "31");
    tainted["taints"] = json!([{ "key": "lanemate.dev/port-down", "effect": "NoSchedule" }]);
    let slices = [
        slice("n1", &[device("gpu", "20"), device("nic", "21")]),
        slice("n2", &[device("gpu", "30"), tainted]),
    ];
    let node = |name: &str, ready: &str| {
        json!({ "metadata": { "name": name }, "spec": { "unschedulable": ready == "False" },
            "status": { "conditions": [{ "type": "Ready", "status": ready }] } })
    };
    let class = json!({ "apiVersion": "lanemate.dev/v1alpha1", "kind": "ResourceClass",
        "metadata": { "name": "pair" }, "spec": { "members": [
            { "name": "gpu", "deviceClassName": "gpu.lanemate.dev" },
            { "name": "nic", "deviceClassName": "nic.lanemate.dev" },
        ] } });
    let pod = |name: &str, time: &str, phase: &str| {
        json!({ "metadata": { "name": name, "namespace": "ml", "creationTimestamp": time },
            "spec": { "containers": [],
                "resourceClaims": [{ "name": "d", "resourceClaimName": name }] },
            "status": { "phase": phase } })
    };
    let pods = [
        pod("late", "2026-01-01T00:00:30Z", "Pending"),
        pod("early", "2026-01-01T00:00:00Z", "Pending"),
        pod("over", "2026-01-01T00:00:00Z", "Succeeded"),
    ];
    let states = json!([{ "apiVersion": "lanemate.dev/v1alpha1", "kind": "NodeState",
        "metadata": { "name": "n1" } }]);
    let objects = Objects {
        slices: serde_json::from_value(json!(slices)).unwrap(),
        nodes: serde_json::from_value(json!([node("n1", "True"), node("n2", "False")])).unwrap(),
        resource_classes: serde_json::from_value(json!([class])).unwrap(),
        pods: serde_json::from_value(json!(pods)).unwrap(),
        ..Objects::default()
    };
    Seen { objects, node_states: serde_json::from_value(states).unwrap(), lease: None }
}

fn now() -> Timestamp {
    "2026-01-01T00:01:00Z".parse().unwrap()
}

#[test]
fn counts_say_what_is_free_stranded_and_tainted() {
    let status = of(&seen(), now()).unwrap();
    let kind =
        |offered, free, stranded, tainted| Kind { offered, free, held: 0, stranded, tainted };
    assert_eq!(status.total.gpus, kind(2, 2, 1, 0));
    assert_eq!(status.total.nics, kind(2, 1, 0, 1));
    assert_eq!(status.total.units, [Units { class: "pair".to_owned(), fit: 1 }]);
    assert_eq!(status.total.with_node_state, 1);
    let waiting: Vec<&str> = status.waiting.iter().map(|pod| pod.pod.as_str()).collect();
    assert_eq!(waiting, ["ml/early", "ml/late"]);
}

#[test]
fn a_device_that_its_node_holds_is_not_free() {
    let mut cluster = seen();
    let held = json!({ "held": [{ "devices": ["gpu-20"], "state": "Releasing",
        "claim": { "uid": "u9" } }] });
    cluster.node_states.as_mut().unwrap()[0].status = serde_json::from_value(held).unwrap();
    let status = of(&cluster, now()).unwrap();
    let gpus = status.total.gpus;
    assert_eq!((gpus.offered, gpus.free, gpus.held), (2, 1, 1));
    assert_eq!(status.total.units[0].fit, 0);
}

#[test]
fn the_table_begins_with_the_sum_and_ends_with_who_waits() {
    let text = table::render(&of(&seen(), now()).unwrap(), Paint::new(Color::Never));
    let expect = "\
Controller  none: nobody holds the lease
Nodes       2 with devices, 1 say what they hold
GPUs        2 offered, 2 free, 0 held, 1 stranded
NICs        2 offered, 1 free, 0 held, 1 tainted
Class       pair: 1 unit more
Waiting     2 pods

NODE  FREE GPUS  FREE NICS   STRANDED  pair
n1          1/1        1/1        0+0     1
n2          1/1        0/1        1+0     0

n2: NotReady
n2: cordoned
n2: no NodeState: its plugin does not say what it holds
n2: lanemate.dev/port-down:NoSchedule on nic-31

WAITING
ml/early  1m0s  early
ml/late  30s  late
why: lanemate explain pod/NAME -n NAMESPACE
";
    assert_eq!(text, expect);
}

#[test]
fn a_class_that_is_not_ready_says_why() {
    let mut cluster = seen();
    let condition = json!({ "conditions": [{ "type": "Ready", "status": "False",
        "reason": "NameConflict", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" }] });
    cluster.objects.resource_classes[0].status = serde_json::from_value(condition).unwrap();
    let text = table::render(&of(&cluster, now()).unwrap(), Paint::new(Color::Never));
    assert!(text.contains("pair: not ready: NameConflict\n"), "{text}");
}

#[test]
fn an_empty_cluster_is_no_error() {
    let text = table::render(&of(&Seen::default(), now()).unwrap(), Paint::new(Color::Never));
    assert!(text.contains("0 with devices"), "{text}");
    assert!(text.ends_with("Waiting     0 pods\n"), "{text}");
}
