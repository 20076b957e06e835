//! The place of a function from its chain of bridges in sysfs.

use super::place::Place;
use crate::discovery::facts::{Bridge, PciFunction, PortType};
use crate::ids::PciAddress;

/// The place of a function; absent when its host bridge is unknown.
pub fn place(function: &PciFunction) -> Option<Place> {
    let host_bridge = function.host_bridge.clone()?;
    let outermost = function.bridges.first().map_or(function.address, |bridge| bridge.address);
    let switches = switches(&function.bridges).into_iter().map(below_root);
    Some(Place::new(host_bridge, slot(outermost), switches))
}

/// `dd.f`.
fn slot(address: PciAddress) -> String {
    format!("{:02x}.{}", address.device, address.function)
}

/// `bb:dd.f`.
fn below_root(address: PciAddress) -> String {
    format!("{:02x}:{:02x}.{}", address.bus, address.device, address.function)
}

/// Upstream ports of the switches, outermost first: each upstream port that has a downstream port
/// below it. A bridge that ends the chain at the position of an upstream port is a PCIe-to-PCI
/// bridge, no switch.
fn switches(bridges: &[Bridge]) -> Vec<PciAddress> {
    let ports = ports(bridges);
    let below = ports.iter().skip(1);
    let is_switch = |(upper, lower): (&PortType, &PortType)| {
        *upper == PortType::Upstream && *lower == PortType::Downstream
    };
    let found = ports.iter().zip(below).map(is_switch).zip(bridges);
    found.filter(|(is_switch, _)| *is_switch).map(|(_, bridge)| bridge.address).collect()
}

/// The role of each bridge: its PCIe capability where readable, else what must follow the bridge
/// above it, which is root port, then upstream and downstream ports in turn.
fn ports(bridges: &[Bridge]) -> Vec<PortType> {
    let mut ports: Vec<PortType> = Vec::with_capacity(bridges.len());
    for bridge in bridges {
        let by_position = match ports.last() {
            None => PortType::Root,
            Some(PortType::Root | PortType::Downstream) => PortType::Upstream,
            Some(PortType::Upstream) => PortType::Downstream,
            // What hangs below conventional PCI is conventional PCI.
            Some(PortType::PciBridge) => PortType::PciBridge,
        };
        ports.push(bridge.port.unwrap_or(by_position));
    }
    ports
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::fixtures::function;

    fn check(address: &str, bridges: &[(&str, Option<PortType>)], expect: &str) {
        let mut function = function(address, "pci0000:15", &[]);
        let bridge = |(address, port): &(&str, Option<PortType>)| Bridge {
            address: address.parse().unwrap(),
            port: *port,
        };
        function.bridges = bridges.iter().map(bridge).collect();
        assert_eq!(place(&function).unwrap().to_string(), expect);
    }

    #[test]
    fn ports_alternate_below_the_root_port() {
        let root = ("0000:15:01.0", None);
        let (up, down) = (("0000:16:00.0", None), ("0000:17:02.0", None));
        let (up2, down2) = (("0000:18:00.0", None), ("0000:19:00.0", None));
        check("0000:15:03.2", &[], "pci0000:15/03.2");
        check("0000:16:00.0", &[root], "pci0000:15/01.0");
        check("0000:18:00.0", &[root, up, down], "pci0000:15/01.0/16:00.0");
        let nested = [root, up, down, up2, down2];
        check("0000:1a:00.0", &nested, "pci0000:15/01.0/16:00.0/18:00.0");
    }

    #[test]
    fn a_last_bridge_in_the_position_of_an_upstream_port_is_no_switch() {
        check("0000:17:00.0", &[("0000:15:01.0", None), ("0000:16:00.0", None)], "pci0000:15/01.0");
    }

    #[test]
    fn port_types_take_precedence_over_positions() {
        let up = ("0000:15:00.0", Some(PortType::Upstream));
        let down = ("0000:16:00.0", Some(PortType::Downstream));
        check("0000:17:00.0", &[up, down], "pci0000:15/00.0/15:00.0");
        let root = ("0000:15:01.0", None);
        let pci = ("0000:16:00.0", Some(PortType::PciBridge));
        check("0000:18:00.0", &[root, pci, ("0000:17:00.0", None)], "pci0000:15/01.0");
    }

    #[test]
    fn a_function_without_a_host_bridge_has_no_place() {
        let mut function = function("0000:15:01.0", "pci0000:15", &[]);
        function.host_bridge = None;
        assert_eq!(place(&function), None);
    }
}
