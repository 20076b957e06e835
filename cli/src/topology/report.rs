//! What `topology` tells about one machine: the JSON contract, and the source of every drawing.

use std::collections::BTreeMap;

use lanemate_api::{PathClass, attribute};
use lanemate_driver::attribute::AttributeValue;
use lanemate_driver::discovery::Facts;
use lanemate_driver::discovery::facts::Problem;
use lanemate_driver::ids::{Kind, NumaNode, PciAddress};
use lanemate_driver::inventory::{LeftOut, OfferedDevice, Taint};
use lanemate_driver::machine::{Machine, MachinePath};
use lanemate_driver::topology::kind::{base_class, is_gpu};
use lanemate_driver::topology::{Place, SourcedPath, Topology};
use serde::{Serialize, Serializer};

/// Nano-units in one unit of a quantity.
const NANOS: i128 = 1_000_000_000;

/// What the label of a GPU begins with.
const GPU: &str = "GPU";

/// One machine.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Node name.
    pub host: String,
    /// GPUs in PCI address order.
    pub gpus: Vec<Gpu>,
    /// NICs in PCI address order; interfaces without a PCI function last.
    pub nics: Vec<Nic>,
    /// Every GPU with every function that has an RDMA device, offered or not.
    pub paths: Vec<PairPath>,
    /// What could not be read or made sense of.
    pub problems: Vec<Problem>,
}

/// One GPU.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gpu {
    /// `GPU0`, counted in PCI address order as `nvidia-smi` does; what else sits on the card is no GPU
    /// and is called by its kind.
    #[serde(skip)]
    pub label: String,
    /// `vendor:device`, for people where the product is unknown.
    #[serde(skip)]
    pub pci_id: Option<String>,
    /// PCI address.
    #[serde(rename = "pciBusID")]
    pub pci_bus_id: PciAddress,
    /// UUID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Product name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product_name: Option<String>,
    /// Memory in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Where it sits.
    #[serde(flatten)]
    pub seat: Seat,
    /// Whether it is offered.
    #[serde(flatten)]
    pub standing: Standing,
}

/// One NIC, or an interface that carries a default route.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Nic {
    /// PCI address; absent for an interface without a PCI function.
    #[serde(rename = "pciBusID", skip_serializing_if = "Option::is_none")]
    pub pci_bus_id: Option<PciAddress>,
    /// RDMA devices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rdma_devices: Vec<String>,
    /// Network interfaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub netdevs: Vec<String>,
    /// `InfiniBand` or `Ethernet`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_layer: Option<String>,
    /// State of the best port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_state: Option<String>,
    /// Bits per second of the best port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<u64>,
    /// Where it sits.
    #[serde(flatten)]
    pub seat: Seat,
    /// Whether it is offered.
    #[serde(flatten)]
    pub standing: Standing,
}

/// Where a device sits in the machine.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Seat {
    /// NUMA node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<NumaNode>,
    /// The standard attribute `pcieRoot`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie_root: Option<String>,
    /// The joint switch, as published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie_switch: Option<String>,
    /// The place.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    pub pcie_path: Option<Place>,
}

/// Whether a device is offered, with what reservation, or why not.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// Published in a slice.
    pub offered: bool,
    /// `code: text` of a device that is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Taints of an offered device, without the allocator's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taints: Option<Vec<Taint>>,
}

/// The path between one GPU and one NIC.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PairPath {
    /// PCI address of the GPU.
    pub gpu: PciAddress,
    /// PCI address of the NIC.
    pub nic: PciAddress,
    /// How near they are.
    pub class: PathClass,
    /// Switches on the way; PIX and PXB only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch_hops: Option<u32>,
    /// The deepest common switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// `sysfs`, `complex` or `override`.
    pub source: &'static str,
}

/// A device that is left out, for people.
#[derive(Clone, Debug)]
pub struct LeftOutRow<'a> {
    /// The name by which people know it.
    pub name: &'a str,
    /// PCI address; empty without a function.
    pub address: String,
    /// `code: text`.
    pub reason: &'a str,
}

fn as_text<S: Serializer>(place: &Option<Place>, serializer: S) -> Result<S::Ok, S::Error> {
    match place {
        Some(place) => serializer.collect_str(place),
        None => serializer.serialize_none(),
    }
}

impl Standing {
    /// Offered, with these taints.
    pub fn offered(taints: Vec<Taint>) -> Self {
        Self { offered: true, reason: None, taints: Some(taints) }
    }

    /// Left out for this reason.
    pub fn left_out(reason: String) -> Self {
        Self { offered: false, reason: Some(reason), taints: None }
    }

    /// The last part of each taint's key, e.g. `port-down`.
    pub fn taint_words(&self) -> Vec<&str> {
        let keys = self.taints.iter().flatten().map(|taint| taint.key.as_str());
        keys.map(|key| key.rsplit('/').next().unwrap_or(key)).collect()
    }
}

impl Gpu {
    /// It is a GPU, not another function of its card.
    pub fn is_gpu(&self) -> bool {
        self.label.starts_with(GPU)
    }
}

impl Nic {
    /// The name by which people know it.
    pub fn name(&self) -> &str {
        let first = self.rdma_devices.first().or(self.netdevs.first());
        first.map_or("NIC", String::as_str)
    }
}

impl Report {
    /// The path between two functions, where there is one.
    pub fn path(&self, gpu: PciAddress, nic: PciAddress) -> Option<&PairPath> {
        self.paths.iter().find(|path| path.gpu == gpu && path.nic == nic)
    }

    /// What is left out, GPUs first.
    pub fn left_out(&self) -> Vec<LeftOutRow<'_>> {
        let gpus = self
            .gpus
            .iter()
            .map(|gpu| (gpu.label.as_str(), Some(gpu.pci_bus_id), gpu.standing.reason.as_deref()));
        let nics = self
            .nics
            .iter()
            .map(|nic| (nic.name(), nic.pci_bus_id, nic.standing.reason.as_deref()));
        let row = |(name, address, reason): (_, Option<PciAddress>, Option<_>)| {
            let address = address.map(|address| address.to_string()).unwrap_or_default();
            Some(LeftOutRow { name, address, reason: reason? })
        };
        gpus.chain(nics).filter_map(row).collect()
    }

    /// GPU-NIC pairs that fit within PXB at the same time: the sum over root ports of the smaller
    /// of the two numbers. Tainted devices do not count.
    pub fn aligned_pairs(&self) -> usize {
        let mut groups = BTreeMap::<(&str, &str), (usize, usize)>::new();
        let free = |standing: &Standing| standing.offered && standing.taint_words().is_empty();
        let gpus = self.gpus.iter().map(|gpu| (Kind::Gpu, &gpu.seat, &gpu.standing));
        let nics = self.nics.iter().map(|nic| (Kind::Nic, &nic.seat, &nic.standing));
        for (kind, seat, standing) in gpus.chain(nics) {
            let Some(place) = seat.pcie_path.as_ref().filter(|_| free(standing)) else { continue };
            let count = groups.entry(place.root_port()).or_default();
            match kind {
                Kind::Gpu => count.0 += 1,
                Kind::Nic => count.1 += 1,
            }
        }
        groups.values().map(|(gpus, nics)| gpus.min(nics)).sum()
    }
}

impl Report {
    /// The report of a machine that was read.
    pub fn new(machine: &Machine) -> Self {
        let Machine { facts, topology, inventory } = machine;
        let mut report = Self {
            host: inventory.node.clone(),
            gpus: Vec::new(),
            nics: Vec::new(),
            paths: machine.paths().into_iter().map(PairPath::from).collect(),
            problems: inventory.problems.clone(),
        };
        for device in &inventory.devices {
            let seat = Seat::of(device.address, facts, topology, Some(device));
            let standing = Standing::offered(device.taints.clone());
            match device.kind {
                Kind::Gpu => report.gpus.push(gpu(device.address, facts, seat, standing)),
                Kind::Nic => {
                    let address = Some(device.address);
                    report.nics.push(nic(address, facts, (seat, standing), Some(device)));
                }
            }
        }
        for device in &inventory.left_out {
            report.push_left_out(device, facts, topology);
        }
        report.gpus.sort_by_key(|gpu| gpu.pci_bus_id);
        report.label_gpus(facts);
        report.nics.sort_by_key(|nic| (nic.pci_bus_id.is_none(), nic.pci_bus_id));
        report
    }

    fn label_gpus(&mut self, facts: &Facts) {
        let mut number = 0;
        for gpu in &mut self.gpus {
            let Some(function) = facts.functions.get(&gpu.pci_bus_id) else { continue };
            gpu.label = if is_gpu(function, facts) {
                number += 1;
                format!("{GPU}{}", number - 1)
            } else {
                match base_class(function) {
                    Some(0x04) => "audio".to_owned(),
                    Some(0x0c) => "USB".to_owned(),
                    _ => "display".to_owned(),
                }
            };
        }
    }

    fn push_left_out(&mut self, device: &LeftOut, facts: &Facts, topology: &Topology) {
        let standing = Standing::left_out(device.reason.to_string());
        let seat = |address| Seat::of(address, facts, topology, None);
        match (device.kind, device.address) {
            (Kind::Gpu, Some(address)) => {
                self.gpus.push(gpu(address, facts, seat(address), standing));
            }
            // A GPU is a PCI function: there is none without an address.
            (Kind::Gpu, None) => {}
            (Kind::Nic, address) => {
                let seat = address.map(seat).unwrap_or_default();
                let mut nic = nic(address, facts, (seat, standing), None);
                nic.rdma_devices.clone_from(&device.rdma_devices);
                nic.netdevs.clone_from(&device.netdevs);
                self.nics.push(nic);
            }
        }
    }
}

impl Seat {
    /// Where a function sits; the joint switch is known of offered devices alone.
    fn of(
        address: PciAddress,
        facts: &Facts,
        topology: &Topology,
        offered: Option<&OfferedDevice>,
    ) -> Self {
        let function = facts.functions.get(&address);
        Self {
            numa_node: topology.numa_node(address),
            pcie_root: function.and_then(|function| function.pcie_root.clone()),
            pcie_switch: text(offered, attribute::PCIE_SWITCH),
            pcie_path: topology.place(address).cloned(),
        }
    }
}

fn gpu(address: PciAddress, facts: &Facts, seat: Seat, standing: Standing) -> Gpu {
    let function = facts.functions.get(&address);
    let nvml = facts.nvml.as_ref().and_then(|nvml| nvml.gpus.get(&address));
    let product = nvml.and_then(|gpu| gpu.name.clone());
    let memory = nvml.and_then(|gpu| gpu.memory_bytes);
    let ids = function.and_then(|function| Some((function.vendor?, function.device?)));
    Gpu {
        label: String::new(),
        pci_id: ids.map(|(vendor, device)| format!("{vendor:04x}:{device:04x}")),
        pci_bus_id: address,
        uuid: nvml.and_then(|gpu| gpu.uuid.clone()),
        product_name: product.or_else(|| function?.product_name.clone()),
        memory_bytes: memory.or_else(|| function?.vram_bytes),
        seat,
        standing,
    }
}

/// A NIC by its facts; of an offered one also what is published of its ports.
fn nic(
    address: Option<PciAddress>,
    facts: &Facts,
    (seat, standing): (Seat, Standing),
    offered: Option<&OfferedDevice>,
) -> Nic {
    let function = address.and_then(|address| facts.functions.get(&address));
    let rdma = function.map(|function| function.rdma.as_slice()).unwrap_or_default();
    let bandwidth = offered.and_then(|device| device.capacity.get(attribute::BANDWIDTH));
    Nic {
        pci_bus_id: address,
        rdma_devices: rdma.iter().map(|device| device.name.clone()).collect(),
        netdevs: function.map(|function| function.netdevs.clone()).unwrap_or_default(),
        link_layer: text(offered, attribute::LINK_LAYER),
        port_state: text(offered, attribute::PORT_STATE),
        bandwidth: bandwidth.and_then(|bits| u64::try_from(bits.nanos() / NANOS).ok()),
        seat,
        standing,
    }
}

/// A published attribute that is a text.
fn text(device: Option<&OfferedDevice>, name: &str) -> Option<String> {
    match device?.attributes.get(name) {
        Some(AttributeValue::String(text)) => Some(text.clone()),
        _ => None,
    }
}

impl From<MachinePath> for PairPath {
    fn from(MachinePath { gpu, nic, path }: MachinePath) -> Self {
        let SourcedPath { class, switch_hops, via, source } = path;
        Self { gpu, nic, class, switch_hops, via, source: source.as_str() }
    }
}
