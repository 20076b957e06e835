//! The slices of our driver: complete, of nodes that are there, and with something in them.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use lanemate_driver::pool::Slices;

use super::found::{Found, PLUGIN, node_of};
use super::{Check, named};
use crate::cluster::devices::Facts;
use crate::words::counted;

/// Vendors of GPUs and RDMA NICs by PCI id, as node-feature-discovery writes it in labels.
const VENDORS: [(&str, &str); 3] =
    [("10de", "NVIDIA"), ("1002", "AMD"), ("15b3", "NVIDIA networking")];

/// Every pool counts. An empty one is right on a machine without devices.
pub fn pools(found: &Found) -> Check {
    let (nodes, by_node) = (found.nodes(), found.slices_by_node());
    let index = Slices::new(found.seen.objects.slices.iter(), |_| true);
    let mut wrong = Vec::new();
    for name in by_node.keys() {
        if !nodes.contains_key(name) {
            wrong.push(format!("node {name} is gone, and its slices are not"));
            continue;
        }
        let unusable = index.of_node(name, |_| false).unusable;
        wrong.extend(unusable.iter().map(|pool| format!("{}: {}", pool.pool, pool.reason)));
    }
    if !wrong.is_empty() {
        let todo = format!(
            "a moment after a change of the machine this passes: check again; if it stays, look into the plugin's log \
             on that node (kubectl -n {} logs daemonset/{PLUGIN}), and delete the slices of a node that is gone",
            found.system
        );
        return Check::failed("Pools", named(&wrong), todo);
    }
    let empty: Vec<String> = by_node
        .iter()
        .filter(|(_, slices)| {
            slices.iter().all(|slice| slice.spec.devices.iter().flatten().next().is_none())
        })
        .map(|(name, _)| (*name).to_owned())
        .collect();
    match empty.as_slice() {
        [] => Check::ok("Pools", format!("{} complete", counted(by_node.len(), "pool"))),
        empty => Check::note(
            "Pools",
            format!("nothing is offered by {}", named(empty)),
            "if the machine has GPUs or NICs, `lanemate topology` there and the plugin's log say why they are left out",
        ),
    }
}

/// What there is to allocate.
pub fn devices(found: &Found) -> Check {
    let offered = found.devices.iter().map(|(_, facts)| facts).filter(|facts| facts.node.is_some());
    let offered: Vec<&Facts> = offered.collect();
    if offered.is_empty() {
        let todo = "start the kubelet plugin on the nodes with GPUs, or look into its log";
        return Check::failed("Devices", "no slice of lanemate.dev offers any", todo);
    }
    let of =
        |kind: &str| offered.iter().filter(|facts| facts.kind.as_deref() == Some(kind)).count();
    let nodes: BTreeSet<&str> = offered.iter().filter_map(|facts| facts.node.as_deref()).collect();
    let (gpus, nics) = (counted(of("gpu"), "GPU"), counted(of("nic"), "NIC"));
    Check::ok("Devices", format!("{gpus} and {nics} on {}", counted(nodes.len(), "node")))
}

/// Nodes that look like having devices, of which we offer none.
pub fn machines(found: &Found) -> Check {
    let offering: BTreeSet<&str> =
        found.devices.iter().filter_map(|(_, facts)| facts.node.as_deref()).collect();
    let pods: BTreeSet<&str> = found.plugin_pods().into_iter().filter_map(node_of).collect();
    let (mut silent, mut left_out, mut looking) = (Vec::new(), Vec::new(), 0);
    for (name, node) in found.nodes() {
        let Some(sign) = sign(node) else { continue };
        looking += 1;
        if offering.contains(name) {
            continue;
        }
        let of = if pods.contains(name) { &mut silent } else { &mut left_out };
        of.push(format!("{name} ({sign})"));
    }
    if !silent.is_empty() {
        let words = format!("the plugin runs, but offers nothing, on {}", named(&silent));
        let todo = format!(
            "`lanemate topology` on that node, and the plugin's log: kubectl -n {} logs POD, of the pod there",
            found.system
        );
        return Check::failed("Machines", words, todo);
    }
    if !left_out.is_empty() {
        let words = format!("devices, but no plugin, on {}", named(&left_out));
        let todo = format!(
            "if they shall be offered: the nodeSelector, affinity or tolerations of DaemonSet {PLUGIN} leave the node out"
        );
        return Check::note("Machines", words, &todo);
    }
    match looking {
        0 => Check::ok("Machines", "no node is labelled as having GPUs or NICs"),
        looking => {
            let words = format!(
                "{} labelled as having GPUs or NICs: all offer some",
                counted(looking, "node")
            );
            Check::ok("Machines", words)
        }
    }
}

/// Why a node looks like having GPUs or RDMA NICs.
fn sign(node: &Node) -> Option<String> {
    let labels = node.metadata.labels.iter().flatten();
    let mut labels = labels.filter(|(_, value)| *value == "true").map(|(key, _)| key);
    let by_label = labels.find_map(|key| {
        if key == "nvidia.com/gpu.present" {
            return Some(format!("label {key}"));
        }
        let id = key.strip_prefix("feature.node.kubernetes.io/pci-")?.strip_suffix(".present")?;
        // Either the vendor alone, or class and vendor.
        let vendor = id.split('_').rev().find_map(|part| {
            VENDORS.iter().find(|(vendor, _)| *vendor == part).map(|(_, name)| *name)
        })?;
        Some(format!("label {key}, {vendor}"))
    });
    by_label.or_else(|| {
        super::rivals::plugged(node).into_iter().next().map(|name| format!("allocatable {name}"))
    })
}
