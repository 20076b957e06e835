//! The annotation `lanemate.dev/device-assignment`: what a pod holds, for people and dashboards. Nothing reads it back.

use std::collections::BTreeMap;

use lanemate_api::{PathClass, attribute};
use lanemate_driver::allocation::{Allocation, DeviceId, Node};
use lanemate_driver::attribute::{AttributeValue, QualifiedName};
use lanemate_driver::claim::MAX_RESULTS;
use serde::Serialize;

/// One device of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Name of the claim within the pod.
    claim: String,
    /// Absent for a claim that an earlier pod brought.
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<String>,
    device: String,
    #[serde(rename = "pciBusID", skip_serializing_if = "Option::is_none")]
    pci_bus_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uuid: Option<String>,
    #[serde(rename = "nodeGUID", skip_serializing_if = "Option::is_none")]
    node_guid: Option<String>,
    /// Between the device and its mates in the unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathClass>,
}

/// The devices of an allocation that is about to be written.
pub fn of_allocation(claim: &str, allocation: &Allocation, node: &Node) -> Vec<Entry> {
    let mut paths = BTreeMap::new();
    for unit in &allocation.units {
        for device in &unit.devices {
            let id: DeviceId = (device.driver.clone(), device.pool.clone(), device.device.clone());
            paths.insert(id, unit.class);
        }
    }
    let results = allocation.result.devices.iter().flat_map(|devices| devices.results.iter());
    let entries = results.flatten().take(bound()).map(|result| {
        let id: DeviceId = (result.driver.clone(), result.pool.clone(), result.device.clone());
        let path = paths.get(&id).copied().flatten();
        Entry { request: Some(result.request.clone()), path, ..entry(claim, &id, node) }
    });
    entries.collect()
}

/// The devices of a claim that is allocated already.
pub fn of_devices(claim: &str, devices: &[DeviceId], node: Option<&Node>) -> Vec<Entry> {
    let entries = devices.iter().take(bound()).map(|id| match node {
        Some(node) => entry(claim, id, node),
        None => bare(claim, id),
    });
    entries.collect()
}

/// The value of the annotation.
pub fn encode(entries: &[Entry]) -> String {
    // Texts alone always encode.
    serde_json::to_string(entries).unwrap_or_default()
}

/// Results that one claim can have.
fn bound() -> usize {
    usize::try_from(MAX_RESULTS).unwrap_or(usize::MAX)
}

fn bare(claim: &str, id: &DeviceId) -> Entry {
    Entry {
        claim: claim.to_owned(),
        request: None,
        device: id.2.clone(),
        pci_bus_id: None,
        uuid: None,
        node_guid: None,
        path: None,
    }
}

fn entry(claim: &str, id: &DeviceId, node: &Node) -> Entry {
    let (driver, pool, name) = id;
    let mut positions = node.layout.devices.iter().enumerate();
    let found = positions.find(|(position, device)| {
        device.name == *name && device.driver == *driver && node.pool(*position) == pool
    });
    let Some((position, device)) = found else { return bare(claim, id) };
    let text = |name: &str| {
        let name = QualifiedName::parse(name, driver);
        let own = node.identity.attributes.get(position).and_then(|own| own.get(&name));
        match own.or_else(|| device.attributes.get(&name)) {
            Some(AttributeValue::String(text)) => Some(text.clone()),
            _ => None,
        }
    };
    Entry {
        pci_bus_id: text(attribute::PCI_BUS_ID),
        uuid: text(attribute::UUID),
        node_guid: text(attribute::NODE_GUID),
        ..bare(claim, id)
    }
}
