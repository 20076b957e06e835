//! Small clusters, claims and classes, made from a few words.
// Panics on fixtures that do not parse: they are written in tests.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1 as resource;
use lanemate_api::{ResourceClass, names};
use serde_json::{Value, json};

use crate::allocation::{Cluster, Decision, Evaluations, SEARCH_BUDGET, decide, node::Candidate};
use crate::claim::{Claim, ClaimError, Classes};
use crate::pool::Slices;

/// One device in short: kind, place, NUMA node, island and further attributes.
#[derive(Clone, Debug)]
pub struct TestDevice {
    /// Name within the pool.
    pub name: String,
    /// `gpu` or `nic`.
    pub kind: &'static str,
    /// `pciePath`.
    pub place: String,
    /// NUMA node.
    pub numa: i64,
    /// `nvlinkDomain`.
    pub island: Option<String>,
    /// An attribute `color`.
    pub color: Option<&'static str>,
    /// Carries a taint instead of the allocator's.
    pub tainted: bool,
}

/// A slice that publishes some devices on a node.
pub fn slice(node: &str, devices: &[TestDevice]) -> resource::ResourceSlice {
    let devices: Vec<Value> = devices.iter().map(device).collect();
    from_json(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
        "metadata": {"name": format!("00000-{node}")},
        "spec": {
            "driver": names::DRIVER, "nodeName": node, "devices": devices,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        },
    }))
}

fn device(device: &TestDevice) -> Value {
    let mut attributes = BTreeMap::from([
        ("type", json!({"string": device.kind})),
        ("pciePath", json!({"string": device.place})),
        ("resource.kubernetes.io/numaNode", json!({"int": device.numa})),
    ]);
    if let Some(island) = &device.island {
        attributes.insert("nvlinkDomain", json!({"string": island}));
    }
    if let Some(color) = device.color {
        attributes.insert("color", json!({"string": color}));
    }
    let mut switches = device.place.split('/').skip(2);
    if let Some(switch) = switches.next() {
        let root = device.place.split('/').next().unwrap_or_default();
        attributes.insert("pcieSwitch", json!({"string": format!("{root}/{switch}")}));
    }
    let taints = if device.tainted {
        json!([{"key": "lanemate.dev/port-down", "effect": "NoSchedule"}])
    } else {
        json!([{"key": "lanemate.dev/allocator", "value": "controller", "effect": "NoSchedule"}])
    };
    json!({"name": device.name, "attributes": attributes, "taints": taints})
}

/// A typed object.
///
/// # Panics
/// When the value has another shape.
pub fn from_json<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// `switches` root ports with a switch each, `gpus` and `nics` below each; half of the switches on each NUMA node.
/// GPUs stand before NICs, as upstream's measurements have it.
pub fn switches(switches: usize, gpus: usize, nics: usize) -> Vec<TestDevice> {
    let of_kind = |kind: &'static str, count: usize| {
        (0..switches).flat_map(move |switch| {
            (0..count).map(move |index| TestDevice {
                name: format!("{kind}-{switch}-{index}"),
                kind,
                place: format!("pci0000:{switch:02x}/01.0/{switch:02x}:00.0"),
                numa: i64::from(switch >= switches / 2 && switches > 1),
                island: (kind == "gpu").then(|| "0000:00:00.0".to_owned()),
                color: None,
                tainted: false,
            })
        })
    };
    of_kind("gpu", gpus).chain(of_kind("nic", nics)).collect()
}

/// A cluster of nodes with one slice each.
pub fn cluster(nodes: &[(&str, Vec<TestDevice>)]) -> Cluster {
    let slices: Vec<_> = nodes.iter().map(|(node, devices)| slice(node, devices)).collect();
    cluster_of(&slices)
}

/// A cluster of the nodes that some slices name.
///
/// # Panics
/// When a node has too many devices.
pub fn cluster_of(slices: &[resource::ResourceSlice]) -> Cluster {
    let index = Slices::new(slices, |_| true);
    let mut cluster = Cluster::default();
    for node in index.node_names() {
        cluster.apply_node(node, index.of_node(node, |_| false)).unwrap();
    }
    cluster
}

/// The shipped classes and some more.
pub fn classes(resource_classes: &[Value]) -> Classes {
    let mut classes = Classes::default();
    for kind in ["gpu", "nic"] {
        let expression =
            format!("device.attributes[\"lanemate.dev\"].?type.orValue(\"\") == \"{kind}\"");
        classes.apply_device_class(from_json(json!({
            "metadata": {"name": format!("{kind}.lanemate.dev")},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        })));
    }
    classes.apply_device_class(from_json(json!({"metadata": {"name": "any"}, "spec": {}})));
    for class in resource_classes {
        classes.apply_resource_class(from_json::<ResourceClass>(class.clone()));
    }
    classes
}

/// A ResourceClass of some GPUs and NICs.
pub fn unit_class(name: &str, (gpus, nics): (u32, u32), locality: Value) -> Value {
    let member = |name: &str, count: u32| {
        let class = format!("{name}.lanemate.dev");
        (count > 0).then(|| json!({"name": name, "deviceClassName": class, "count": count}))
    };
    let members: Vec<Value> =
        [member("gpu", gpus), member("nic", nics)].into_iter().flatten().collect();
    json!({
        "apiVersion": "lanemate.dev/v1alpha1", "kind": "ResourceClass", "metadata": {"name": name},
        "spec": {"members": members, "locality": locality},
    })
}

/// A claim with requests of the form (name, class, count).
pub fn claim_value(name: &str, requests: &[(&str, &str, u32)]) -> Value {
    let requests: Vec<Value> = requests
        .iter()
        .map(|(name, class, count)| {
            json!({"name": name, "exactly": {"deviceClassName": class, "count": count}})
        })
        .collect();
    json!({
        "metadata": {"namespace": "ns", "name": name},
        "spec": {"devices": {"requests": requests}},
    })
}

/// A claim against classes.
///
/// # Errors
/// Those of [`Claim::parse`].
pub fn parse(claim: Value, classes: &mut Classes) -> Result<Claim, ClaimError> {
    Claim::parse(&from_json(claim), classes)
}

/// Decides on all nodes of a cluster.
///
/// # Panics
/// When the claims have too many filters.
pub fn decided(cluster: &Cluster, claims: &[&Claim]) -> Decision {
    let candidates: Vec<_> =
        cluster.nodes().map(|(name, _)| Candidate { name: name.to_owned(), unfit: None }).collect();
    decide(cluster, &mut Evaluations::default(), claims, &candidates, SEARCH_BUDGET).unwrap()
}
