//! Network interfaces, what stands on what, and the interfaces of default routes.

use super::facts::{Interface, Network};
use super::host::RealPath;
use super::pci::{Functions, function_above};
use super::read::{Reader, shown};

/// Route flags of the kernel (`include/uapi/linux/route.h`).
const UP: u32 = 0x0001;
const REJECT: u32 = 0x0200;

/// Interfaces and default routes; adds the names of the interfaces to their functions.
pub(super) fn read(reader: &mut Reader<'_>, functions: &mut Functions) -> Network {
    let mut network = Network::default();
    let class = reader.real("sys/class/net");
    for (name, directory) in class.map(|class| interfaces(reader, &class)).unwrap_or_default() {
        let interface = read_interface(reader, &directory);
        if let Some(function) =
            interface.function.and_then(|address| functions.by_address.get_mut(&address))
        {
            function.netdevs.push(name.clone());
        }
        network.interfaces.insert(name, interface);
    }
    network.default_v4 = default_routes(reader, "route", true, default_v4);
    network.default_v6 = default_routes(reader, "ipv6_route", false, default_v6);
    network
}

/// Interfaces are links; files such as `bonding_masters` stand among them.
fn interfaces(reader: &mut Reader<'_>, class: &RealPath) -> Vec<(String, RealPath)> {
    let names = reader.names(class);
    let mut found = Vec::new();
    for name in names {
        if reader.is_link(class, &name)
            && let Some(directory) = reader.real_below(class, &name)
        {
            found.push((name, directory));
        }
    }
    found
}

fn read_interface(reader: &mut Reader<'_>, directory: &RealPath) -> Interface {
    let mut interface = Interface {
        // Below a function there may be more, such as `virtio0/net/eth0`.
        function: function_above(directory),
        software: directory.components().take(3).eq(["sys", "devices", "virtual"]),
        address: reader.text(directory, "address"),
        operstate: reader.text(directory, "operstate"),
        ..Interface::default()
    };
    for name in reader.names(directory) {
        if let Some(lower) = name.strip_prefix("lower_") {
            if reader.is_link(directory, &name) {
                interface.lower.push(lower.to_owned());
            }
        } else if let Some(upper) = name.strip_prefix("upper_")
            && reader.is_link(directory, &name)
        {
            interface.upper.push(upper.to_owned());
        }
    }
    interface.upper.extend(reader.link_name(directory, "master"));
    for names in [&mut interface.lower, &mut interface.upper] {
        names.sort();
        names.dedup();
    }
    interface
}

/// What one line of a routing table is.
enum Line<'a> {
    Default(&'a str),
    Other,
    Malformed,
}

/// Interfaces of default routes in the namespace of process 1, which is the host's even where we
/// run in a container with the host's `/proc`; else in our own.
fn default_routes(
    reader: &mut Reader<'_>,
    file: &str,
    expected: bool,
    parse: fn(&str) -> Line<'_>,
) -> Vec<String> {
    let candidates = [format!("proc/1/net/{file}"), format!("proc/net/{file}")];
    let table = candidates.iter().find_map(|path| {
        let (directory, name) = path.rsplit_once('/')?;
        let directory = reader.real(directory)?;
        Some((path, reader.bytes(&directory, name)?))
    });
    let Some((path, table)) = table else {
        if expected {
            let path = format!("proc/net/{file}");
            reader.problem(path, "expected a routing table: which NICs are uplinks is unknown");
        }
        return Vec::new();
    };
    let table = String::from_utf8_lossy(&table);
    let mut found = Vec::new();
    for (index, line) in table.lines().enumerate() {
        match parse(line) {
            Line::Default(interface) => found.push(interface.to_owned()),
            Line::Other => {}
            Line::Malformed => {
                let message =
                    format!("line {}: expected a route, found {}", index + 1, shown(line));
                reader.problem(path.as_str(), message);
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// `Iface Destination Gateway Flags RefCnt Use Metric Mask …`, addresses in hexadecimal.
fn default_v4(line: &str) -> Line<'_> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [interface, destination, _, flags, _, _, _, mask, ..] = fields.as_slice() else {
        return if fields.is_empty() { Line::Other } else { Line::Malformed };
    };
    if *destination == "Destination" {
        return Line::Other;
    }
    let numbers = (hex(destination), hex(flags), hex(mask));
    let (Some(destination), Some(flags), Some(mask)) = numbers else {
        return Line::Malformed;
    };
    let leads_out = destination == 0 && mask == 0 && flags & UP != 0 && flags & REJECT == 0;
    if leads_out && *interface != "lo" { Line::Default(interface) } else { Line::Other }
}

/// `destination length source length next-hop metric refcount use flags interface`.
fn default_v6(line: &str) -> Line<'_> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [destination, length, _, _, _, _, _, _, flags, interface] = fields.as_slice() else {
        return if fields.is_empty() { Line::Other } else { Line::Malformed };
    };
    let (Some(length), Some(flags), 32) = (hex(length), hex(flags), destination.len()) else {
        return Line::Malformed;
    };
    let all = length == 0 && destination.bytes().all(|digit| digit == b'0');
    let leads_out = all && flags & UP != 0 && flags & REJECT == 0 && *interface != "lo";
    if leads_out { Line::Default(interface) } else { Line::Other }
}

fn hex(digits: &str) -> Option<u32> {
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(parse: fn(&str) -> Line<'_>, line: &str, expect: &str) {
        let found = match parse(line) {
            Line::Default(interface) => interface,
            Line::Other => "other",
            Line::Malformed => "malformed",
        };
        assert_eq!(found, expect, "{line}");
    }

    #[test]
    fn an_ipv4_default_route_has_neither_destination_nor_mask_and_leads_out() {
        check(
            default_v4,
            "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask",
            "other",
        );
        check(default_v4, "eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0  ", "eth0");
        check(default_v4, "tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0", "other");
        check(default_v4, "eth0\t0000000A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0", "other");
        check(default_v4, "eth0\t00000000\t00000000\t0002\t0\t0\t0\t00000000\t0\t0\t0", "other");
        check(default_v4, "*\t00000000\t00000000\t0201\t0\t0\t0\t00000000\t0\t0\t0", "other");
        check(default_v4, "", "other");
        check(default_v4, "x", "malformed");
        check(default_v4, "eth0\tz\t00000000\t0001\t0\t0\t0\t0000FFFF", "malformed");
    }

    #[test]
    fn an_ipv6_default_route_ignores_loopback_and_unreachable() {
        let zero = "0".repeat(32);
        let line = |length: &str, flags: &str, interface: &str| {
            format!(
                "{zero} {length} {zero} 00 {zero} 00000400 00000001 00000000 {flags} {interface}"
            )
        };
        check(default_v6, &line("00", "00450003", "eth0"), "eth0");
        check(default_v6, &line("00", "00200200", "lo"), "other");
        check(default_v6, &line("00", "00200201", "eth0"), "other");
        check(default_v6, &line("00", "00450003", "lo"), "other");
        check(default_v6, &line("40", "00450003", "eth0"), "other");
        check(default_v6, "x", "malformed");
    }
}
