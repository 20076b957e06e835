//! PCI functions, the bridges above them, and what their own directories say.

use std::collections::BTreeMap;

use super::config::Config;
use super::facts::{Bridge, PciFunction, PortType};
use super::host::RealPath;
use super::numa::parse_node;
use super::read::{Parsed, Reader};
use super::vpd;
use crate::ids::{NumaNode, PciAddress};

const DEVICES: &str = "sys/bus/pci/devices";
/// NumVFs of the SR-IOV capability has 16 bits.
const MAX_VIRTUAL_FUNCTIONS: u32 = 65_535;
const MELLANOX: u16 = 0x15b3;
const CLASS_NETWORK: u32 = 0x02;
const CLASS_BRIDGE: u32 = 0x0604;

/// All functions with their directories.
#[derive(Default)]
pub(super) struct Functions {
    /// By address.
    pub by_address: BTreeMap<PciAddress, PciFunction>,
    /// Directory of each function.
    pub directories: BTreeMap<PciAddress, RealPath>,
}

/// Reads every function of `sys/bus/pci/devices`.
pub(super) fn read(reader: &mut Reader<'_>, nodes: &BTreeMap<NumaNode, Vec<u32>>) -> Functions {
    let mut functions = Functions::default();
    let mut configs = BTreeMap::new();
    let Some(directory) = reader.real(DEVICES) else { return functions };
    for name in reader.names(&directory) {
        let Ok(address) = name.parse::<PciAddress>() else {
            reader.problem(directory.child(&name), "expected a PCI address as name");
            continue;
        };
        let Some(real) = reader.real_below(&directory, &name) else { continue };
        let mut function = read_function(reader, address, &real, nodes);
        place(reader, &directory.child(&name), &real, &mut function);
        if function.class.is_some_and(|class| class >> 8 == CLASS_BRIDGE) {
            let config = reader.bytes(&real, "config").unwrap_or_default();
            configs.insert(address, Config::parse(&config));
        }
        functions.by_address.insert(address, function);
        functions.directories.insert(address, real);
    }
    for function in functions.by_address.values_mut() {
        ports_above(function, &configs);
    }
    pair_virtual_functions(&mut functions.by_address);
    functions
}

/// The last component of a real path that is a PCI address, and where it stands.
pub(super) fn function_above(real: &RealPath) -> Option<PciAddress> {
    real.components().rev().find_map(|component| component.parse().ok())
}

fn read_function(
    reader: &mut Reader<'_>,
    address: PciAddress,
    real: &RealPath,
    nodes: &BTreeMap<NumaNode, Vec<u32>>,
) -> PciFunction {
    let vendor = reader.required(real, "vendor", "a vendor id as 0x and 4 digits", hex16);
    let class = reader.required(real, "class", "a class as 0x and 6 digits", hex24);
    let node = |text: &str| parse_node(text, nodes);
    PciFunction {
        vendor,
        device: reader.required(real, "device", "a device id as 0x and 4 digits", hex16),
        class,
        subsystem_vendor: reader.optional(real, "subsystem_vendor", "a vendor id", hex16),
        subsystem_device: reader.optional(real, "subsystem_device", "a device id", hex16),
        driver: reader.link_name(real, "driver"),
        numa_node: reader.optional(real, "numa_node", "a node number or -1", node),
        link_generation: reader.optional(real, "current_link_speed", "a PCIe speed", generation),
        link_width: reader.optional(real, "current_link_width", "a number of lanes", width),
        physical_function: linked_function(reader, real, "physfn"),
        virtual_functions: read_virtual_functions(reader, real),
        vpd: read_vpd(reader, real, vendor, class),
        ..PciFunction::new(address)
    }
}

/// Host bridge and bridges from the real path. Nothing before the last host bridge counts: VMBus
/// and VMD put other directories there.
fn place(reader: &mut Reader<'_>, path: &str, real: &RealPath, function: &mut PciFunction) {
    let components: Vec<&str> = real.components().collect();
    let root = components.iter().rposition(|component| is_host_bridge(component));
    let ends_right = components.last().and_then(|last| last.parse().ok()) == Some(function.address);
    let (Some(root), true) = (root, ends_right) else {
        let message = format!("expected a path below pciDDDD:BB that ends in {}", function.address);
        reader.problem(path, format!("{message}, found {}", real.as_str()));
        return;
    };
    let between = components.get(root + 1..components.len() - 1).unwrap_or_default();
    let mut bridges = Vec::with_capacity(between.len());
    for component in between {
        match component.parse() {
            Ok(address) => bridges.push(Bridge { address, port: None }),
            Err(_) => {
                let message = "expected bridges between host bridge and function, found";
                reader.problem(path, format!("{message} {component}"));
                return;
            }
        }
    }
    function.pcie_root = first_host_bridge(&components);
    function.host_bridge = components.get(root).map(|&name| name.to_owned());
    function.bridges = bridges;
}

/// The host bridge right below `sys/devices`; absent where another bus lies in front.
fn first_host_bridge(components: &[&str]) -> Option<String> {
    let ["sys", "devices", first, ..] = components else { return None };
    is_host_bridge(first).then(|| (*first).to_owned())
}

fn is_host_bridge(component: &str) -> bool {
    let Some((domain, bus)) = component.strip_prefix("pci").and_then(|rest| rest.split_once(':'))
    else {
        return false;
    };
    let hex = |digits: &str| digits.bytes().all(|b| b.is_ascii_hexdigit());
    (4..=8).contains(&domain.len()) && bus.len() == 2 && hex(domain) && hex(bus)
}

/// Port types of the bridges, and whether a switch port above redirects peer traffic.
fn ports_above(function: &mut PciFunction, configs: &BTreeMap<PciAddress, Config>) {
    let mut all_read = !function.bridges.is_empty();
    let mut redirects = false;
    for bridge in &mut function.bridges {
        let config = configs.get(&bridge.address).copied().unwrap_or_default();
        bridge.port = config.port;
        match (config.port, config.redirects) {
            (Some(PortType::Downstream), Some(redirect)) => redirects |= redirect,
            (None, _) | (Some(PortType::Downstream), None) => all_read = false,
            _ => {}
        }
    }
    function.acs_redirect = (redirects || all_read).then_some(redirects);
}

fn read_virtual_functions(reader: &mut Reader<'_>, real: &RealPath) -> Vec<PciAddress> {
    let mut found = Vec::new();
    for index in 0..MAX_VIRTUAL_FUNCTIONS {
        let name = format!("virtfn{index}");
        if !reader.is_link(real, &name) {
            break;
        }
        found.extend(linked_function(reader, real, &name));
    }
    found
}

fn linked_function(reader: &mut Reader<'_>, real: &RealPath, name: &str) -> Option<PciAddress> {
    let target = reader.link_name(real, name)?;
    let address = target.parse().ok();
    if address.is_none() {
        reader.problem(real.child(name), "expected a link to a PCI function");
    }
    address
}

/// Either of the two links between a physical and a virtual function is enough.
fn pair_virtual_functions(functions: &mut BTreeMap<PciAddress, PciFunction>) {
    let mut pairs: Vec<(PciAddress, PciAddress)> = Vec::new();
    for function in functions.values() {
        pairs.extend(function.physical_function.map(|physical| (physical, function.address)));
        pairs.extend(function.virtual_functions.iter().map(|&vf| (function.address, vf)));
    }
    for (physical, virtual_function) in pairs {
        if let Some(function) = functions.get_mut(&virtual_function) {
            function.physical_function.get_or_insert(physical);
        }
        if let Some(function) = functions.get_mut(&physical) {
            function.virtual_functions.push(virtual_function);
            function.virtual_functions.sort();
            function.virtual_functions.dedup();
        }
    }
}

/// Reading the data takes tens of milliseconds a function, and some storage controllers answer it
/// with a time-out: only network functions and what comes with them are asked.
fn read_vpd(
    reader: &mut Reader<'_>,
    real: &RealPath,
    vendor: Option<u16>,
    class: Option<u32>,
) -> BTreeMap<String, String> {
    let network = class.is_some_and(|class| class >> 16 == CLASS_NETWORK);
    if vendor != Some(MELLANOX) && !network {
        return BTreeMap::new();
    }
    let bytes = reader.bytes(real, "vpd").unwrap_or_default();
    if bytes.is_empty() {
        return BTreeMap::new();
    }
    let (values, result) = vpd::parse(&bytes);
    if let Err(error) = result {
        reader.problem(real.child("vpd"), error.to_string());
    }
    values
}

fn hex16(text: &str) -> Parsed<u16> {
    Parsed::or_malformed(hex_digits(text, 4).and_then(|value| u16::try_from(value).ok()))
}

fn hex24(text: &str) -> Parsed<u32> {
    Parsed::or_malformed(hex_digits(text, 6))
}

fn hex_digits(text: &str, count: usize) -> Option<u32> {
    let digits = text.strip_prefix("0x")?;
    let fits = digits.len() == count && digits.bytes().all(|b| b.is_ascii_hexdigit());
    fits.then(|| u32::from_str_radix(digits, 16).ok())?
}

/// `16.0 GT/s PCIe` is generation 4. The kernel says `Unknown` for virtual functions.
fn generation(text: &str) -> Parsed<u8> {
    let rate = text.split_whitespace().next().unwrap_or_default();
    match rate {
        "Unknown" => Parsed::Unknown,
        "2.5" => Parsed::Value(1),
        "5.0" | "5" => Parsed::Value(2),
        "8.0" | "8" => Parsed::Value(3),
        "16.0" | "16" => Parsed::Value(4),
        "32.0" | "32" => Parsed::Value(5),
        "64.0" | "64" => Parsed::Value(6),
        "128.0" | "128" => Parsed::Value(7),
        _ => Parsed::Malformed,
    }
}

/// 0 and 255 are the kernel's words for "unknown".
fn width(text: &str) -> Parsed<u8> {
    match text.parse() {
        Ok(0 | 255) => Parsed::Unknown,
        Ok(width) => Parsed::Value(width),
        Err(_) => Parsed::Malformed,
    }
}
