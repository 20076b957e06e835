//! Others that give our devices away: a device in two hands is in two containers.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::Device;
use lanemate_api::attribute;

use super::found::Found;
use super::{Check, listed, named};

/// Drivers of dynamic resource allocation that offer a device which we offer.
pub fn drivers(found: &Found) -> Check {
    let mut ours = BTreeSet::new();
    for facts in found.devices.iter().map(|(_, facts)| facts) {
        if let (Some(node), Some(pci)) = (&facts.node, &facts.pci) {
            ours.insert((node.as_str(), pci.to_ascii_lowercase()));
        }
    }
    let mut shared = BTreeMap::<(&str, &str), BTreeSet<String>>::new();
    for slice in &found.foreign {
        let Some(node) = slice.spec.node_name.as_deref() else { continue };
        for device in slice.spec.devices.iter().flatten() {
            let address = address(device).filter(|pci| ours.contains(&(node, pci.clone())));
            let of = (slice.spec.driver.as_str(), node);
            shared.entry(of).or_default().extend(address);
        }
    }
    shared.retain(|_, addresses| !addresses.is_empty());
    if shared.is_empty() {
        return Check::ok("Other drivers", "none offers a device of ours");
    }
    let words: Vec<String> = shared
        .iter()
        .map(|((driver, node), addresses)| {
            let addresses: Vec<String> = addresses.iter().cloned().collect();
            format!("{driver} on {node}: {}", named(&addresses))
        })
        .collect();
    let todo = "a device that two drivers offer is given to two pods: switch it off in one. NVIDIA's chart: \
                --set resources.gpus.enabled=false; others: their filter of devices; ours: `exclude` in the plugin's \
                --config, or keep one of the two off the node";
    Check::failed("Other drivers", format!("also offered by {}", listed(&words, "; ")), todo)
}

fn address(device: &Device) -> Option<String> {
    let attribute = device.attributes.as_ref()?.get(attribute::PCI_BUS_ID)?;
    Some(attribute.string.as_ref()?.to_ascii_lowercase())
}

/// Device plugins that count a kind of device which we offer on the node.
pub fn device_plugins(found: &Found) -> Check {
    let nodes = found.nodes();
    let mut ours = BTreeMap::<&str, BTreeSet<&str>>::new();
    for facts in found.devices.iter().map(|(_, facts)| facts) {
        if let (Some(node), Some(kind)) = (&facts.node, &facts.kind) {
            ours.entry(node).or_default().insert(kind);
        }
    }
    let mut words = Vec::new();
    for (name, kinds) in ours {
        let Some(node) = nodes.get(name) else { continue };
        let shared = plugged(node)
            .into_iter()
            .filter(|resource| kind(resource).is_some_and(|kind| kinds.contains(kind)));
        let shared: Vec<String> = shared.collect();
        if !shared.is_empty() {
            words.push(format!("{name} ({})", named(&shared)));
        }
    }
    if words.is_empty() {
        return Check::ok("Device plugins", "none counts devices where we offer some of the kind");
    }
    let todo = "what a device plugin counts is given to pods beside us: switch it off on these nodes (NVIDIA's GPU \
                operator: devicePlugin.enabled=false, or the label nvidia.com/gpu.deploy.device-plugin=false on the \
                node), or keep our plugin off them";
    let words = format!("allocatable beside our devices on {}", named(&words));
    Check::failed("Device plugins", words, todo)
}

/// Names of allocatable resources that are GPUs or RDMA NICs of a device plugin.
pub fn plugged(node: &Node) -> Vec<String> {
    let allocatable = node.status.iter().flat_map(|status| status.allocatable.iter().flatten());
    let is_some = |quantity: &str| !quantity.chars().all(|c| c == '0');
    allocatable
        .filter(|(name, quantity)| kind(name).is_some() && is_some(&quantity.0))
        .map(|(name, _)| name.clone())
        .collect()
}

/// `gpu` or `nic`; none for other resources.
fn kind(resource: &str) -> Option<&'static str> {
    let gpus = ["nvidia.com/gpu", "nvidia.com/mig-", "amd.com/gpu"];
    if gpus.iter().any(|prefix| resource.starts_with(prefix)) {
        return Some("gpu");
    }
    resource.starts_with("rdma/").then_some("nic")
}
