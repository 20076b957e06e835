//! The tree of a machine, reduced to what says something about nearness; every drawing is made from it.

use std::collections::BTreeMap;

use lanemate_driver::ids::{Kind, PciAddress};
use lanemate_driver::topology::{NodeKind, Topology, TreeNode};

use super::report::{Gpu, Nic, Report, Standing};

/// A GPU or a NIC of a report.
#[derive(Clone, Copy, Debug)]
pub enum Device<'a> {
    /// A GPU.
    Gpu(&'a Gpu),
    /// A NIC.
    Nic(&'a Nic),
}

/// What holds devices together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A NUMA node.
    Numa,
    /// A host bridge.
    HostBridge,
    /// A root port.
    RootPort,
    /// A switch.
    Switch,
}

/// A holder with what it holds. No deeper than the tree of the topology.
#[derive(Clone, Debug)]
pub struct Branch<'a> {
    /// What it is.
    pub holder: Holder,
    /// Its name: `NUMA 0`, `pci0000:15` or a PCI address.
    pub label: String,
    /// Devices directly below.
    pub devices: Vec<Seated<'a>>,
    /// Holders below.
    pub branches: Vec<Branch<'a>>,
}

/// A device below its holder.
#[derive(Clone, Debug)]
pub struct Seated<'a> {
    /// The device.
    pub device: Device<'a>,
    /// The inner switch that is not drawn because it holds nothing else.
    pub below: Option<String>,
}

/// The NUMA nodes that have one of the devices, in order; unknown last.
pub fn numa_branches<'a>(topology: &Topology, devices: &[Device<'a>]) -> Vec<Branch<'a>> {
    let by_address: BTreeMap<_, _> =
        devices.iter().filter_map(|device| Some((device.function()?, *device))).collect();
    let kinds = by_address.iter().map(|(address, device)| (*address, device.kind()));
    let tree = topology.tree("", kinds);
    let mut branches: Vec<_> =
        tree.children.iter().filter_map(|node| branch(node, &by_address)).collect();
    branches.iter_mut().for_each(reduce);
    branches
}

impl<'a> Device<'a> {
    /// All GPUs and NICs of a report that have a PCI function, GPUs first.
    pub fn all(report: &'a Report) -> Vec<Self> {
        let gpus = report.gpus.iter().filter(|gpu| gpu.is_gpu()).map(Self::Gpu);
        let nics = report.nics.iter().filter(|nic| nic.pci_bus_id.is_some()).map(Self::Nic);
        gpus.chain(nics).collect()
    }

    /// Its PCI function.
    pub fn function(&self) -> Option<PciAddress> {
        match self {
            Self::Gpu(gpu) => Some(gpu.pci_bus_id),
            Self::Nic(nic) => nic.pci_bus_id,
        }
    }

    /// GPU or NIC.
    pub fn kind(&self) -> Kind {
        if self.is_gpu() { Kind::Gpu } else { Kind::Nic }
    }

    /// Whether it is offered.
    pub fn standing(&self) -> &'a Standing {
        match self {
            Self::Gpu(gpu) => &gpu.standing,
            Self::Nic(nic) => &nic.standing,
        }
    }

    /// The name by which people know it.
    pub fn name(&self) -> String {
        match self {
            Self::Gpu(gpu) => gpu.label.clone(),
            Self::Nic(nic) => nic.name().to_owned(),
        }
    }

    /// Its PCI address, empty without a function.
    pub fn address(&self) -> String {
        self.function().map(|address| address.to_string()).unwrap_or_default()
    }

    /// It is a GPU.
    pub fn is_gpu(&self) -> bool {
        matches!(self, Self::Gpu(_))
    }
}

impl<'a> Branch<'a> {
    /// Devices below, at any depth: (GPUs, NICs).
    pub fn count(&self) -> (usize, usize) {
        let gpus = self.devices.iter().filter(|seated| seated.device.is_gpu()).count();
        let own = (gpus, self.devices.len() - gpus);
        self.branches.iter().map(Branch::count).fold(own, |a, b| (a.0 + b.0, a.1 + b.1))
    }

    /// All devices below, at any depth.
    pub fn all_devices(&self) -> Vec<Device<'a>> {
        let own = self.devices.iter().map(|seated| seated.device);
        own.chain(self.branches.iter().flat_map(Branch::all_devices)).collect()
    }

    /// It holds both kinds.
    pub fn is_mixed(&self) -> bool {
        let (gpus, nics) = self.count();
        gpus > 0 && nics > 0
    }
}

/// A node of the tree with its devices; nothing for a function.
fn branch<'a>(node: &TreeNode, devices: &BTreeMap<PciAddress, Device<'a>>) -> Option<Branch<'a>> {
    let holder = match node.kind {
        NodeKind::Machine | NodeKind::Function(_) => return None,
        NodeKind::Numa => Holder::Numa,
        NodeKind::HostBridge => Holder::HostBridge,
        NodeKind::RootPort => Holder::RootPort,
        NodeKind::Switch => Holder::Switch,
    };
    let own = node.children.iter().filter_map(|child| devices.get(&child.address?));
    Some(Branch {
        holder,
        label: node.label.clone(),
        devices: own.map(|device| Seated { device: *device, below: None }).collect(),
        branches: node.children.iter().filter_map(|child| branch(child, devices)).collect(),
    })
}

/// Takes out what says nothing: a holder of one device, a host bridge or root port of one kind or
/// with one thing below.
fn reduce(branch: &mut Branch<'_>) {
    let mut kept = Vec::new();
    for mut child in std::mem::take(&mut branch.branches) {
        reduce(&mut child);
        let (gpus, nics) = child.count();
        let single = child.devices.len() + child.branches.len() == 1;
        let says_nothing = match &child.holder {
            Holder::Numa => false,
            Holder::HostBridge | Holder::RootPort => single || gpus == 0 || nics == 0,
            Holder::Switch => gpus + nics == 1,
        };
        if !says_nothing {
            kept.push(child);
            continue;
        }
        let parent_shares = matches!(branch.holder, Holder::Switch | Holder::RootPort);
        for mut seated in child.devices {
            seated.below = match &child.holder {
                Holder::Switch if parent_shares => {
                    seated.below.or_else(|| Some(child.label.clone()))
                }
                _ => None,
            };
            branch.devices.push(seated);
        }
        kept.append(&mut child.branches);
    }
    branch.branches = kept;
    branch.devices.sort_by_key(|seated| (!seated.device.is_gpu(), seated.device.function()));
}
