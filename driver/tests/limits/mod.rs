//! The limits that resource.k8s.io/v1 documents for ResourceSlices, checked independently of the
//! code that keeps them.

#![allow(clippy::unwrap_used, reason = "the expressions are constant")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use k8s_openapi::api::resource::v1::{Device, DeviceAttribute, DeviceTaint, ResourceSlice};
use regex::Regex;

static WORD: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$").unwrap());
static LABEL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("^[a-z0-9]([a-z0-9-]*[a-z0-9])?$").unwrap());
static IDENTIFIER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("^[A-Za-z_][A-Za-z0-9_]*$").unwrap());

/// What the API server would refuse in the slices of one pool.
pub fn violations(slices: &[ResourceSlice]) -> Vec<String> {
    let mut found = Vec::new();
    let mut names = BTreeSet::new();
    for slice in slices {
        let spec = &slice.spec;
        let name = slice.metadata.name.as_deref().unwrap_or_default();
        let mut demand = |holds: bool, what: String| {
            if !holds {
                found.push(format!("{name}: {what}"));
            }
        };
        demand(is_subdomain(name, 253), "object name".to_owned());
        demand(is_subdomain(&spec.driver, 63), "driver name".to_owned());
        demand(is_pool_name(&spec.pool.name), "pool name".to_owned());
        demand(spec.pool.generation >= 0, "generation".to_owned());
        let count = spec.pool.resource_slice_count;
        demand(usize::try_from(count) == Ok(slices.len()), "resourceSliceCount".to_owned());
        demand(spec.pool == slices[0].spec.pool, "one pool".to_owned());
        let selections = [
            spec.node_name.is_some(),
            spec.node_selector.is_some(),
            spec.all_nodes.is_some(),
            spec.per_device_node_selection.is_some(),
        ];
        demand(selections.iter().filter(|set| **set).count() == 1, "one node selection".to_owned());
        let devices = spec.devices.as_deref().unwrap_or_default();
        let rich = devices.iter().any(is_rich);
        let limit = if rich { 64 } else { 128 };
        demand(devices.len() <= limit, format!("{} devices, {limit} allowed", devices.len()));
        let bytes = serde_json::to_vec(slice).unwrap().len();
        demand(bytes < 1_500_000, format!("{bytes} bytes"));
        for device in devices {
            demand(names.insert(device.name.clone()), format!("device {} twice", device.name));
            of_device(device).into_iter().for_each(|what| demand(false, what));
        }
    }
    let names: Vec<_> = slices.iter().map(|slice| &slice.metadata.name).collect();
    if !names.is_sorted_by(|a, b| a < b) {
        found.push("slice names are not in order".to_owned());
    }
    found
}

fn of_device(device: &Device) -> Vec<String> {
    let mut found = Vec::new();
    let mut demand = |holds: bool, what: String| {
        if !holds {
            found.push(format!("{}: {what}", device.name));
        }
    };
    demand(is_label(&device.name), "device name".to_owned());
    let none = BTreeMap::new();
    let attributes = device.attributes.as_ref().unwrap_or(&none);
    let capacities: Vec<&String> = device.capacity.iter().flat_map(BTreeMap::keys).collect();
    let count = attributes.len() + capacities.len();
    demand(count <= 32, format!("{count} attributes and capacities"));
    for name in attributes.keys().chain(capacities) {
        demand(is_qualified(name), format!("name {name}"));
    }
    let values: usize = attributes.values().map(values_of).sum();
    demand(values <= 48, format!("{values} attribute values"));
    for (name, value) in attributes {
        demand(values_of(value) > 0, format!("attribute {name} without exactly one value"));
        let versions = value.versions.iter().flatten().chain(&value.version);
        let texts = value.strings.iter().flatten().chain(&value.string).chain(versions.clone());
        demand(texts.clone().all(|text| text.len() <= 64), format!("{name}: 64 bytes"));
        let semantic = |version: &String| semver::Version::parse(version).is_ok();
        demand(versions.clone().all(semantic), format!("{name}: version"));
    }
    let taints = device.taints.as_deref().unwrap_or_default();
    demand(taints.len() <= 16, format!("{} taints", taints.len()));
    for taint in taints {
        found.extend(of_taint(taint));
    }
    found
}

/// Values of an attribute; 0 unless exactly one field is set.
fn values_of(value: &DeviceAttribute) -> usize {
    let lengths = [
        value.bool.map(|_| 1),
        value.int.map(|_| 1),
        value.string.as_ref().map(|_| 1),
        value.version.as_ref().map(|_| 1),
        value.bools.as_ref().map(Vec::len),
        value.ints.as_ref().map(Vec::len),
        value.strings.as_ref().map(Vec::len),
        value.versions.as_ref().map(Vec::len),
    ];
    let set: Vec<usize> = lengths.into_iter().flatten().collect();
    if set.len() == 1 { set[0] } else { 0 }
}

fn of_taint(taint: &DeviceTaint) -> Vec<String> {
    let mut found = Vec::new();
    let (prefix, name) = taint.key.split_once('/').unwrap_or(("a", &taint.key));
    if !is_subdomain(prefix, 253) || name.len() > 63 || !WORD.is_match(name) {
        found.push(format!("taint key {:?}", taint.key));
    }
    let value = taint.value.as_deref().unwrap_or_default();
    if !value.is_empty() && (value.len() > 63 || !WORD.is_match(value)) {
        found.push(format!("taint value {value:?}"));
    }
    if !["None", "NoSchedule", "NoExecute"].contains(&taint.effect.as_str()) {
        found.push(format!("taint effect {:?}", taint.effect));
    }
    found
}

fn is_rich(device: &Device) -> bool {
    let lists = |value: &DeviceAttribute| {
        value.bools.is_some()
            || value.ints.is_some()
            || value.strings.is_some()
            || value.versions.is_some()
    };
    device.taints.as_ref().is_some_and(|taints| !taints.is_empty())
        || device.consumes_counters.is_some()
        || device.attributes.iter().flatten().any(|(_, value)| lists(value))
}

fn is_label(text: &str) -> bool {
    text.len() <= 63 && LABEL.is_match(text)
}

fn is_subdomain(text: &str, limit: usize) -> bool {
    text.len() <= limit && text.split('.').all(|label| LABEL.is_match(label))
}

fn is_pool_name(text: &str) -> bool {
    (1..=253).contains(&text.len()) && text.split('/').all(|part| is_subdomain(part, 253))
}

fn is_qualified(name: &str) -> bool {
    let (domain, identifier) = name.split_once('/').unwrap_or(("a", name));
    is_subdomain(domain, 63) && identifier.len() <= 32 && IDENTIFIER.is_match(identifier)
}
