//! Attributes, capacities and taints of one device. What is unknown is absent.

use std::collections::BTreeMap;

use lanemate_api::{Quantity, attribute, names};

use super::exclusion::{is_smi, is_zero_guid};
use super::limits::{MAX_STRING, cut};
use super::version;
use super::{OfferedDevice, Taint};
use crate::attribute::AttributeValue;
use crate::discovery::facts::{Facts, NvLinkRemote, NvmlFacts, PciFunction, RdmaPort};
use crate::ids::{Kind, PciAddress};
use crate::topology::{Place, Topology};

/// A device as far as the function itself tells (the joint switch is not known yet), and what
/// could not be published.
pub fn device(
    function: &PciFunction,
    kind: Kind,
    facts: &Facts,
    topology: &Topology,
) -> (OfferedDevice, Vec<String>) {
    let mut sheet = Sheet::default();
    sheet.both(function, kind);
    sheet.place(topology.place(function.address));
    let mut taints = Vec::new();
    match kind {
        Kind::Gpu => sheet.gpu(function, facts),
        Kind::Nic => {
            sheet.nic(function, facts);
            taints.extend(port_down(function));
        }
    }
    let device = OfferedDevice {
        name: kind.device_name(function.address),
        address: function.address,
        kind,
        attributes: sheet.attributes,
        capacity: sheet.capacity,
        taints,
    };
    (device, sheet.problems)
}

/// Attributes and capacities while they are collected.
#[derive(Default)]
struct Sheet {
    attributes: BTreeMap<String, AttributeValue>,
    capacity: BTreeMap<String, Quantity>,
    problems: Vec<String>,
}

impl Sheet {
    fn set(&mut self, name: &str, value: Option<AttributeValue>) {
        if let Some(value) = value {
            self.attributes.insert(name.to_owned(), value);
        }
    }

    /// Blank texts say nothing.
    fn text(&mut self, name: &str, value: Option<&str>) {
        let value = value.map(str::trim).filter(|value| !value.is_empty());
        self.set(name, value.map(|value| AttributeValue::String(value.to_owned())));
    }

    fn int(&mut self, name: &str, value: Option<impl Into<i64>>) {
        self.set(name, value.map(|value| AttributeValue::Int(value.into())));
    }

    fn bool(&mut self, name: &str, value: Option<bool>) {
        self.set(name, value.map(AttributeValue::Bool));
    }

    fn version(&mut self, name: &str, value: Option<String>) {
        self.set(name, value.map(AttributeValue::Version));
    }

    /// More than 2^63 units is no capacity of a device.
    fn amount(&mut self, name: &str, units: Option<u64>) {
        if let Some(units) = units.and_then(|units| i64::try_from(units).ok()) {
            self.capacity.insert(name.to_owned(), Quantity::from_units(units));
        }
    }

    fn both(&mut self, function: &PciFunction, kind: Kind) {
        self.text(attribute::TYPE, Some(kind.as_str()));
        self.text(attribute::VENDOR, function.vendor.and_then(vendor));
        self.text(attribute::PCI_BUS_ID, Some(&function.address.to_string()));
        self.text(attribute::PCIE_ROOT, function.pcie_root.as_deref());
        self.int(attribute::NUMA_NODE, function.numa_node.map(|node| node.0));
        // A function without a link of its own, as virtual ones are, names no speed either.
        let width = function.link_width.filter(|width| *width > 0);
        self.int(attribute::PCIE_LINK_GENERATION, width.and(function.link_generation));
        self.int(attribute::PCIE_LINK_WIDTH, width);
        self.bool(attribute::ACS_REDIRECT, function.acs_redirect);
    }

    fn place(&mut self, place: Option<&Place>) {
        let Some(place) = place else { return };
        let published = place.cut(MAX_STRING);
        if published != *place {
            self.problems.push(format!(
                "attribute {}: {place}: expected at most {MAX_STRING} bytes: cut to {published}",
                attribute::PCIE_PATH
            ));
        }
        self.text(attribute::PCIE_PATH, Some(&published.to_string()));
    }

    fn product(&mut self, name: Option<&str>) {
        self.text(attribute::PRODUCT_NAME, name.map(|name| cut(name.trim())));
    }

    fn gpu(&mut self, function: &PciFunction, facts: &Facts) {
        let library = facts.nvml.as_ref();
        let gpu = library.and_then(|library| library.gpus.get(&function.address));
        let name = gpu.and_then(|gpu| gpu.name.as_deref());
        self.product(name.or(function.product_name.as_deref()));
        self.amount(
            attribute::MEMORY,
            gpu.and_then(|gpu| gpu.memory_bytes).or(function.vram_bytes),
        );
        let (Some(library), Some(gpu)) = (library, gpu) else { return };
        self.text(attribute::UUID, gpu.uuid.as_deref());
        self.text(attribute::BRAND, gpu.brand.as_deref());
        self.text(attribute::ARCHITECTURE, gpu.architecture.as_deref());
        let capability = gpu.compute_capability.map(|(major, minor)| format!("{major}.{minor}.0"));
        self.version(attribute::CUDA_COMPUTE_CAPABILITY, capability);
        let driver = library.driver_version.as_deref().and_then(version::normalised);
        self.version(attribute::DRIVER_VERSION, driver);
        self.version(
            attribute::CUDA_DRIVER_VERSION,
            library.cuda_driver_version.map(version::cuda),
        );
        let island = nvlink_island(function.address, library);
        self.text(attribute::NVLINK_DOMAIN, island.map(|lowest| lowest.to_string()).as_deref());
    }

    fn nic(&mut self, function: &PciFunction, facts: &Facts) {
        self.product(function.vpd.get("ID").map(String::as_str));
        let mut devices = function.rdma.iter().filter(|device| !is_smi(device));
        if let Some(first) = devices.next() {
            self.text(attribute::RDMA_DEVICE, Some(&first.name));
            let guid = first.node_guid.as_deref().filter(|guid| !is_zero_guid(guid));
            self.text(attribute::NODE_GUID, guid);
            self.text(attribute::FIRMWARE_VERSION, first.firmware.as_deref());
            self.text(attribute::BOARD_ID, first.board_id.as_deref());
        }
        self.text(attribute::NETDEV, function.netdevs.first().map(String::as_str));
        if let Some(port) = best_port(function) {
            let layer = port.link_layer.as_deref().map(str::trim);
            let known = layer.filter(|layer| matches!(*layer, "InfiniBand" | "Ethernet"));
            self.text(attribute::LINK_LAYER, known);
            self.text(attribute::PORT_STATE, port_state(port).map(PortState::as_str));
            self.amount(attribute::BANDWIDTH, port.rate);
            self.bool(attribute::ROCE_V2, Some(ports(function).any(|port| port.roce_v2)));
        }
        let is_virtual = function.physical_function.is_some() || is_mellanox_vf(function);
        self.bool(attribute::VIRTUAL_FUNCTION, Some(is_virtual));
        self.bool(attribute::GPUDIRECT_RDMA, facts.gpudirect_rdma);
    }
}

/// Vendors of GPUs and RDMA NICs by PCI id; absent for others.
fn vendor(id: u16) -> Option<&'static str> {
    Some(match id {
        0x10de => "nvidia",
        0x1002 | 0x1022 => "amd",
        0x15b3 => "mellanox",
        0x14e4 => "broadcom",
        0x1d0f => "amazon",
        0x8086 => "intel",
        0x1dd8 => "pensando",
        0x1414 => "microsoft",
        0x1ae0 => "google",
        0x19e5 => "huawei",
        0x1077 => "qlogic",
        0x1425 => "chelsio",
        0x1ded => "alibaba",
        _ => return None,
    })
}

/// Virtual functions of ConnectX-4 to ConnectX-8 and BlueField by device id: inside a virtual
/// machine sysfs names no physical function.
fn is_mellanox_vf(function: &PciFunction) -> bool {
    function.vendor == Some(0x15b3)
        && matches!(
            function.device,
            Some(0x1014 | 0x1016 | 0x1018 | 0x101a | 0x101c | 0x101e | 0xa2d3)
        )
}

/// Logical state of a port. Ordered: a greater state is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PortState {
    Down,
    Init,
    Armed,
    Active,
}

impl PortState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Down => "Down",
            Self::Init => "Init",
            Self::Armed => "Armed",
            Self::Active => "Active",
        }
    }
}

fn port_state(port: &RdmaPort) -> Option<PortState> {
    match port.state.as_deref()?.trim() {
        "DOWN" => Some(PortState::Down),
        "INIT" => Some(PortState::Init),
        "ARMED" => Some(PortState::Armed),
        "ACTIVE" => Some(PortState::Active),
        _ => None,
    }
}

fn ports(function: &PciFunction) -> impl Iterator<Item = &RdmaPort> {
    let devices = function.rdma.iter().filter(|device| !is_smi(device));
    devices.flat_map(|device| device.ports.values())
}

/// The port in the best state, among equals the fastest, among these the first.
fn best_port(function: &PciFunction) -> Option<&RdmaPort> {
    let mut best: Option<&RdmaPort> = None;
    for port in ports(function) {
        let better =
            |best: &RdmaPort| (port_state(port), port.rate) > (port_state(best), best.rate);
        if best.is_none_or(better) {
            best = Some(port);
        }
    }
    best
}

/// The taint of a NIC of which no port is up. A port whose state is unknown may be up.
fn port_down(function: &PciFunction) -> Option<Taint> {
    let mut ports = ports(function).peekable();
    ports.peek()?;
    let is_up = |port: &RdmaPort| port_state(port).is_none_or(|state| state == PortState::Active);
    (!ports.any(is_up)).then(|| Taint {
        key: names::PORT_DOWN_TAINT_KEY.to_owned(),
        value: None,
        effect: "NoSchedule".to_owned(),
    })
}

/// The lowest address of the GPUs that NVLink joins with this one; GPUs whose links end at a switch
/// are one island. Absent without NVLink. Each GPU is visited once.
fn nvlink_island(address: PciAddress, library: &NvmlFacts) -> Option<PciAddress> {
    let gpu = library.gpus.get(&address)?;
    if gpu.nvlinks.is_empty() {
        return None;
    }
    let mut island = vec![address];
    let mut next = 0;
    while let Some(at) = island.get(next).copied() {
        next += 1;
        for (other, gpu) in &library.gpus {
            if !island.contains(other) && are_linked(at, *other, library) && !gpu.nvlinks.is_empty()
            {
                island.push(*other);
            }
        }
    }
    island.into_iter().min()
}

fn are_linked(a: PciAddress, b: PciAddress, library: &NvmlFacts) -> bool {
    let has = |from: PciAddress, remote| {
        library.gpus.get(&from).is_some_and(|gpu| gpu.nvlinks.contains(&remote))
    };
    has(a, NvLinkRemote::Gpu(b))
        || has(b, NvLinkRemote::Gpu(a))
        || (has(a, NvLinkRemote::Switch) && has(b, NvLinkRemote::Switch))
}

#[cfg(test)]
mod tests;
