//! A machine, read once: facts, topology and inventory together.

use crate::discovery::{Facts, GpuLibrary, Host, discover};
use crate::ids::{Kind, PciAddress};
use crate::inventory::{Inventory, Policy};
use crate::topology::kind::is_gpu;
use crate::topology::{Override, SourcedPath, Topology, TreeNode};

/// What one machine is and offers.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// What was read.
    pub facts: Facts,
    /// Where each function is.
    pub topology: Topology,
    /// What is offered.
    pub inventory: Inventory,
}

/// The path between a GPU and a NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachinePath {
    /// The GPU.
    pub gpu: PciAddress,
    /// A function with an RDMA device.
    pub nic: PciAddress,
    /// How near they are, and what decided it.
    pub path: SourcedPath,
}

impl Machine {
    /// Reads a machine, live or captured: the one way for the command line and the plugin. Never
    /// fails: trouble stands in `inventory.problems`, discovery's included.
    pub fn read(
        node: &str,
        host: &dyn Host,
        gpus: &dyn GpuLibrary,
        override_: Option<&Override>,
        policy: &Policy,
    ) -> Self {
        Self::from_facts(node, discover(host, gpus), override_, policy)
    }

    /// The machine that facts describe.
    pub fn from_facts(
        node: &str,
        facts: Facts,
        override_: Option<&Override>,
        policy: &Policy,
    ) -> Self {
        let topology = Topology::build(&facts, override_);
        let inventory = Inventory::build(node, &facts, &topology, policy);
        Self { facts, topology, inventory }
    }

    /// All GPUs, offered or not, by address. Display, audio and USB functions are none.
    pub fn gpus(&self) -> Vec<PciAddress> {
        let gpus = self.facts.functions.values().filter(|function| is_gpu(function, &self.facts));
        gpus.map(|gpu| gpu.address).collect()
    }

    /// All functions with an RDMA device, offered or not, by address.
    pub fn rdma_functions(&self) -> Vec<PciAddress> {
        let nics = self.facts.functions.values().filter(|function| !function.rdma.is_empty());
        nics.map(|nic| nic.address).collect()
    }

    /// The path of every GPU to every function with an RDMA device, offered or not.
    pub fn paths(&self) -> Vec<MachinePath> {
        let nics = self.rdma_functions();
        let of_gpu = |gpu: PciAddress| {
            let path = move |nic| MachinePath { gpu, nic, path: self.topology.path(gpu, nic) };
            nics.iter().copied().map(path)
        };
        self.gpus().into_iter().flat_map(of_gpu).collect()
    }

    /// The machine as a tree that leads to what is offered.
    pub fn tree(&self) -> TreeNode {
        let devices = self.inventory.devices.iter();
        let functions = devices.map(|device| (device.address, device.kind));
        self.topology.tree(&self.inventory.node, functions)
    }

    /// The tree that leads to all GPUs and all functions with an RDMA device, offered or not.
    pub fn whole_tree(&self) -> TreeNode {
        let gpus = self.gpus().into_iter().map(|gpu| (gpu, Kind::Gpu));
        let nics = self.rdma_functions().into_iter().map(|nic| (nic, Kind::Nic));
        self.topology.tree(&self.inventory.node, nics.chain(gpus))
    }
}
