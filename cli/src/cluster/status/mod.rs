//! `status`: what each node offers, what is free, and who waits.

mod count;
pub mod table;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde::Serialize;

use super::leader::Leader;
use super::read::Seen;

pub use self::count::conditions;

/// What is told.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Who decides.
    pub controller: Leader,
    /// Sums over the nodes.
    pub total: Total,
    /// Nodes with devices, by name.
    pub nodes: Vec<NodeReport>,
    /// Unfinished pods that wait for claims, the oldest first.
    pub waiting: Vec<WaitingPod>,
    /// Classes whose claims cannot be served.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub broken_classes: Vec<BrokenClass>,
}

/// Sums.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Total {
    /// GPUs.
    pub gpus: Kind,
    /// NICs.
    pub nics: Kind,
    /// Units that fit, by ResourceClass.
    pub units: Vec<Units>,
    /// Nodes whose plugin says what it holds.
    pub with_node_state: usize,
}

/// Devices of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Kind {
    /// Published.
    pub offered: u32,
    /// Neither held nor tainted.
    pub free: u32,
    /// Held by claims, or by the node.
    pub held: u32,
    /// Free where nothing of the other kind is free at the same switch.
    pub stranded: u32,
    /// Kept from claims by a taint.
    pub tainted: u32,
}

/// Units of a class that fit, each for a claim of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Units {
    /// The ResourceClass.
    pub class: String,
    /// How many.
    pub fit: u32,
}

/// One node.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// Its name.
    pub name: String,
    /// GPUs.
    pub gpus: Kind,
    /// NICs.
    pub nics: Kind,
    /// By ResourceClass.
    pub units: Vec<Units>,
    /// Its plugin says what it holds.
    pub has_node_state: bool,
    /// Pods are not scheduled there: `NotReady`, `cordoned`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<&'static str>,
    /// Taints of its devices, without the controller's, each with the devices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<TaintReport>,
    /// Pools that do not count, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// A taint and the devices that have it.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaintReport {
    /// `key=value:effect`.
    pub taint: String,
    /// Names.
    pub devices: Vec<String>,
}

/// A pod that waits.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingPod {
    /// `namespace/name`.
    pub pod: String,
    /// Claims without devices; of those still to be made the entry's name.
    pub claims: Vec<String>,
    /// How long it is there, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age: Option<String>,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// A class and its reason.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BrokenClass {
    /// Its name.
    pub class: String,
    /// The condition's reason.
    pub reason: String,
}

/// Of what was read.
pub fn of(seen: &Seen, now: Timestamp) -> anyhow::Result<Status> {
    let nodes = count::nodes(seen)?;
    Ok(Status {
        controller: Leader::of(seen.lease.as_ref(), now),
        total: count::total(&nodes),
        waiting: count::waiting(seen, now),
        broken_classes: count::broken_classes(seen),
        nodes,
    })
}
