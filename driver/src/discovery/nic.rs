//! RDMA devices of the functions, from `sys/class/infiniband*`.

use std::collections::BTreeMap;

use super::facts::{RdmaDevice, RdmaPort};
use super::host::RealPath;
use super::pci::{Functions, function_above};
use super::read::{Parsed, Reader};

/// A GID table has at most 256 entries on the devices known; twice that.
const MAX_GIDS: usize = 512;

/// Adds every RDMA device to its function. Devices without a PCI function (software ones) are left
/// out.
pub(super) fn read(reader: &mut Reader<'_>, functions: &mut Functions) {
    let verbs = class_devices(reader, "sys/class/infiniband_verbs", &["uverbs"]);
    let mad = class_devices(reader, "sys/class/infiniband_mad", &["umad", "issm"]);
    for (name, (address, directory)) in find(reader, functions) {
        let Some(function) = functions.by_address.get_mut(&address) else { continue };
        let mut device = read_device(reader, &directory, &name);
        device.uverbs = verbs.get(&name).cloned().unwrap_or_default();
        device.mad = mad.get(&name).cloned().unwrap_or_default();
        function.rdma.push(device);
    }
}

type Found = BTreeMap<String, (crate::ids::PciAddress, RealPath)>;

/// RDMA devices by name: those of the class, and those in the functions' own directories.
fn find(reader: &mut Reader<'_>, functions: &Functions) -> Found {
    let mut found = BTreeMap::new();
    if let Some((class, names)) =
        reader.real("sys/class/infiniband").map(|class| (class.clone(), reader.names(&class)))
    {
        for name in names {
            let Some(directory) = reader.real_below(&class, &name) else { continue };
            let device = reader.real_below(&directory, "device");
            let address = device
                .filter(|device| device.as_str() != directory.child("device"))
                .as_ref()
                .and_then(function_above)
                .or_else(|| function_above(&directory));
            if let Some(address) = address {
                found.insert(name, (address, directory));
            }
        }
    }
    for (&address, directory) in &functions.directories {
        let Some((own, names)) = reader.names_below(directory, "infiniband") else { continue };
        for name in names {
            let Some(directory) = reader.real_below(&own, &name) else { continue };
            found.entry(name).or_insert((address, directory));
        }
    }
    found
}

/// Names of a class' entries by the RDMA device that their `ibdev` names, in numeric order.
fn class_devices(
    reader: &mut Reader<'_>,
    class: &str,
    prefixes: &[&str],
) -> BTreeMap<String, Vec<String>> {
    let mut by_device: BTreeMap<String, Vec<(usize, u32, String)>> = BTreeMap::new();
    let Some(class) = reader.real(class) else { return BTreeMap::new() };
    for name in reader.names(&class) {
        let number = prefixes.iter().enumerate().find_map(|(kind, prefix)| {
            Some((kind, name.strip_prefix(prefix)?.parse::<u32>().ok()?))
        });
        let Some((kind, number)) = number else { continue };
        if let Some(device) = reader.text(&class, &format!("{name}/ibdev")) {
            by_device.entry(device).or_default().push((kind, number, name));
        }
    }
    let sorted = |mut entries: Vec<(usize, u32, String)>| {
        entries.sort();
        entries.into_iter().map(|(_, _, name)| name).collect()
    };
    by_device.into_iter().map(|(device, entries)| (device, sorted(entries))).collect()
}

fn read_device(reader: &mut Reader<'_>, directory: &RealPath, name: &str) -> RdmaDevice {
    let mut device = RdmaDevice {
        name: name.to_owned(),
        node_guid: reader.text(directory, "node_guid"),
        sys_image_guid: reader.text(directory, "sys_image_guid"),
        firmware: reader.text(directory, "fw_ver"),
        board_id: reader.text(directory, "board_id"),
        hca_type: reader.text(directory, "hca_type"),
        ..RdmaDevice::default()
    };
    let Some((ports, names)) = reader.names_below(directory, "ports") else { return device };
    for name in names {
        let Ok(number) = name.parse::<u32>() else { continue };
        let Some(directory) = reader.real_below(&ports, &name) else { continue };
        device.ports.insert(number, read_port(reader, &directory));
    }
    if device.ports.is_empty() {
        reader.problem(ports.as_str(), "expected at least one port");
    }
    device
}

fn read_port(reader: &mut Reader<'_>, directory: &RealPath) -> RdmaPort {
    let link_layer =
        reader.required(directory, "link_layer", "InfiniBand, Ethernet or Unspecified", link_layer);
    RdmaPort {
        roce_v2: link_layer.as_deref() != Some("InfiniBand") && has_roce_v2(reader, directory),
        link_layer,
        state: reader.required(directory, "state", "a number and a state", numbered),
        physical_state: reader.optional(directory, "phys_state", "a number and a state", numbered),
        rate: reader.optional(directory, "rate", "a rate in Gb/sec", rate),
    }
}

/// The kernel refuses to read the type of an empty entry, which is no problem.
fn has_roce_v2(reader: &mut Reader<'_>, directory: &RealPath) -> bool {
    let Some((types, names)) = reader.names_below(directory, "gid_attrs/types") else {
        return false;
    };
    let mut indices: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    indices.sort_unstable();
    indices
        .iter()
        .take(MAX_GIDS)
        .any(|index| reader.quiet_text(&types, &index.to_string()).as_deref() == Some("RoCE v2"))
}

fn link_layer(text: &str) -> Parsed<String> {
    let known = matches!(text, "InfiniBand" | "Ethernet" | "Unspecified" | "Unknown");
    Parsed::or_malformed(known.then(|| text.to_owned()))
}

/// `4: ACTIVE` -> `ACTIVE`.
fn numbered(text: &str) -> Parsed<String> {
    let named = text.split_once(':').filter(|(number, _)| number.parse::<u32>().is_ok());
    let name = named.map(|(_, name)| name.trim().to_owned());
    Parsed::or_malformed(name.filter(|name| !name.is_empty()))
}

/// `400 Gb/sec (4X NDR)` -> bits per second; at most nine digits after the point count.
fn rate(text: &str) -> Parsed<u64> {
    const GIGA_DIGITS: usize = 9;
    let gigabits = text.split_once(" Gb/sec").map(|(number, _)| number);
    let value = gigabits.and_then(|number| {
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let fits = fraction.len() <= GIGA_DIGITS && !whole.is_empty();
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if !fits || !digits(whole) || !digits(fraction) {
            return None;
        }
        let fraction: u64 = format!("{fraction:0<GIGA_DIGITS$}").parse().ok()?;
        whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)
    });
    match value {
        Some(0) => Parsed::Unknown,
        value => Parsed::or_malformed(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_bits_per_second_with_and_without_a_fraction() {
        for (text, bits) in [
            ("400 Gb/sec (4X NDR)", Some(400_000_000_000)),
            ("2.5 Gb/sec (1X SDR)", Some(2_500_000_000)),
            ("800 Gb/sec (4X XDR)", Some(800_000_000_000)),
            ("0 Gb/sec", None),
        ] {
            let found = match rate(text) {
                Parsed::Value(value) => Some(value),
                _ => None,
            };
            assert_eq!(found, bits, "{text}");
        }
        for text in ["", "x", "400", "-1 Gb/sec", "1.0000000000 Gb/sec", "99999999999999 Gb/sec"] {
            assert!(matches!(rate(text), Parsed::Malformed), "{text}");
        }
    }

    #[test]
    fn states_are_the_words_after_the_number() {
        assert!(matches!(numbered("4: ACTIVE"), Parsed::Value(name) if name == "ACTIVE"));
        for text in ["", "ACTIVE", "4:", "x: ACTIVE"] {
            assert!(matches!(numbered(text), Parsed::Malformed), "{text}");
        }
    }
}
