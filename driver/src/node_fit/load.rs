//! What runs on a node, as sums: adding a pod and removing it are exact opposites.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use lanemate_api::Quantity;

use super::requests::Amounts;
use super::{NodeView, PodNeeds, Unfit, unfit};

/// The pods of a node that are not over, those included that are pinned to it and not yet bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeLoad {
    pods: u32,
    used: Amounts,
    /// How many pods hold each port; one at most, unless the node was overcommitted by hand.
    ports: BTreeMap<HostPort, u32>,
}

/// A port of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// Port number.
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// Absent for every address.
    pub ip: Option<String>,
}

impl NodeLoad {
    /// Number of pods.
    pub fn pods(&self) -> u32 {
        self.pods
    }

    /// Counts a pod.
    pub fn add(&mut self, pod: &PodNeeds) {
        self.pods += 1;
        for (name, quantity) in &pod.requests {
            let sum = self.used.entry(name.clone()).or_insert(Quantity::ZERO);
            // No overflow: a pod's amounts are below 2^63 units, and a quantity holds 10^10 times as much.
            *sum = sum.checked_add(*quantity).unwrap_or(*sum);
        }
        for port in &pod.ports {
            *self.ports.entry(port.clone()).or_default() += 1;
        }
    }

    /// Takes a pod out that was counted with the same needs.
    pub fn remove(&mut self, pod: &PodNeeds) {
        self.pods = self.pods.saturating_sub(1);
        for (name, quantity) in &pod.requests {
            if let Some(sum) = self.used.get_mut(name) {
                *sum = sum.checked_sub(*quantity).unwrap_or(Quantity::ZERO);
                if sum.sign() <= 0 {
                    self.used.remove(name);
                }
            }
        }
        for port in &pod.ports {
            if let Entry::Occupied(mut held) = self.ports.entry(port.clone()) {
                *held.get_mut() -= 1;
                if *held.get() == 0 {
                    held.remove();
                }
            }
        }
    }

    /// Says whether the pod's resources and host ports are left on the node.
    pub(super) fn leaves_room(&self, pod: &PodNeeds, node: &NodeView) -> Result<(), Unfit> {
        if let Some(allocatable) = &node.allocatable {
            self.leaves_resources(pod, allocatable)?;
        }
        let conflict = |wanted: &&HostPort| self.ports.keys().any(|held| held.conflicts(wanted));
        match pod.ports.iter().find(conflict) {
            Some(port) => Err(unfit(format!("host port {port} is in use"))),
            None => Ok(()),
        }
    }

    fn leaves_resources(&self, pod: &PodNeeds, allocatable: &Amounts) -> Result<(), Unfit> {
        let of =
            |amounts: &Amounts, name: &str| amounts.get(name).copied().unwrap_or(Quantity::ZERO);
        let most = of(allocatable, "pods");
        if Quantity::from_units(i64::from(self.pods) + 1) > most {
            return Err(unfit(format!("no room for a pod: {} of {most} run here", self.pods)));
        }
        for (name, needed) in &pod.requests {
            let all = of(allocatable, name);
            let left = all.checked_sub(of(&self.used, name)).unwrap_or(Quantity::ZERO);
            if *needed > left {
                // An overcommitted node has less than nothing left, which tells nobody more.
                let left = left.max(Quantity::ZERO);
                return Err(unfit(format!("needs {needed} {name}; {left} of {all} are left")));
            }
        }
        Ok(())
    }
}

impl HostPort {
    /// The same port of the same protocol, on an address in common.
    fn conflicts(&self, other: &Self) -> bool {
        let share = self.ip.is_none() || other.ip.is_none() || self.ip == other.ip;
        share && self.port == other.port && self.protocol == other.protocol
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { port, protocol, ip } = self;
        match ip {
            Some(ip) => write!(f, "{ip}:{port}/{protocol}"),
            None => write!(f, "{port}/{protocol}"),
        }
    }
}
