//! The machine as a tree for drawing: machine > NUMA node > host bridge > root port > switch >
//! function, with only what leads to the given functions.

use std::collections::BTreeMap;

use super::{Place, Topology};
use crate::ids::{Kind, NumaNode, PciAddress};

/// A node of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeNode {
    /// What it is.
    pub kind: NodeKind,
    /// Its name: the machine's, `NUMA 0`, `pci0000:15`, or a PCI address.
    pub label: String,
    /// Address of a function; absent for what is no function asked for.
    pub address: Option<PciAddress>,
    /// What lies below: switches first, then GPUs, then NICs, each by address.
    pub children: Vec<TreeNode>,
}

/// What a node of the tree stands for. Ordered as children are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeKind {
    /// The whole.
    Machine,
    /// A NUMA node, or all functions without a known one.
    Numa,
    /// A host bridge, or all functions without a known one.
    HostBridge,
    /// A root port.
    RootPort,
    /// A switch, by its upstream port.
    Switch,
    /// A function.
    Function(Kind),
}

/// One step from the machine to a function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    kind: NodeKind,
    /// Unknown NUMA nodes come last; PCI addresses sort as numbers.
    order: u64,
    label: String,
    address: Option<PciAddress>,
}

impl Topology {
    /// The tree that leads to `functions`. Functions below one root port stay together: its NUMA
    /// node is the lowest that one of them names.
    pub fn tree(
        &self,
        machine: &str,
        functions: impl IntoIterator<Item = (PciAddress, Kind)>,
    ) -> TreeNode {
        let functions: BTreeMap<PciAddress, Kind> = functions.into_iter().collect();
        let numa = self.numa_by_root_port(functions.keys().copied());
        let way = |(address, kind): (&PciAddress, &Kind)| {
            let place = self.place(*address);
            let shared = place.and_then(|place| numa.get(&place.root_port()).copied());
            way_to(*address, *kind, place, shared.or(self.numa_node(*address)))
        };
        let ways: Vec<Vec<Step>> = functions.iter().map(way).collect();
        let ways: Vec<&[Step]> = ways.iter().map(Vec::as_slice).collect();
        TreeNode {
            kind: NodeKind::Machine,
            label: machine.to_owned(),
            address: None,
            children: grow(&ways),
        }
    }

    fn numa_by_root_port(
        &self,
        functions: impl Iterator<Item = PciAddress>,
    ) -> BTreeMap<(&str, &str), NumaNode> {
        let mut lowest = BTreeMap::new();
        for address in functions {
            if let (Some(place), Some(numa)) = (self.place(address), self.numa_node(address)) {
                let entry = lowest.entry(place.root_port()).or_insert(numa);
                *entry = numa.min(*entry);
            }
        }
        lowest
    }
}

/// The steps to one function, the machine itself left out.
fn way_to(
    address: PciAddress,
    kind: Kind,
    place: Option<&Place>,
    numa: Option<NumaNode>,
) -> Vec<Step> {
    let step = |kind, label: String| Step {
        kind,
        order: label.parse::<PciAddress>().map_or(u64::MAX, rank),
        label,
        address: None,
    };
    let label = numa.map_or("NUMA unknown".to_owned(), |node| format!("NUMA {node}"));
    let order = numa.map_or(u64::MAX, |node| u64::from(node.0));
    let mut way = vec![Step { kind: NodeKind::Numa, order, label, address: None }];
    if let Some(place) = place {
        way.push(step(NodeKind::HostBridge, place.host_bridge().to_owned()));
        let port = place.slot_address();
        let kind = if place.is_override() { NodeKind::Switch } else { NodeKind::RootPort };
        // A function on the root bus is its own slot.
        if port != address.to_string() {
            way.push(step(kind, port));
        }
        let switches = place.switch_addresses();
        way.extend(switches.into_iter().map(|switch| step(NodeKind::Switch, switch)));
    }
    way.push(Step {
        kind: NodeKind::Function(kind),
        order: rank(address),
        label: address.to_string(),
        address: Some(address),
    });
    way
}

fn rank(address: PciAddress) -> u64 {
    let PciAddress { domain, bus, device, function } = address;
    u64::from(domain) << 16 | u64::from(bus) << 8 | u64::from(device) << 3 | u64::from(function)
}

/// The forest of all ways, common beginnings merged. As deep as the longest way: the bridges above
/// one function, of which a bus number of 8 bits allows 256.
fn grow(ways: &[&[Step]]) -> Vec<TreeNode> {
    let mut below: BTreeMap<&Step, Vec<&[Step]>> = BTreeMap::new();
    for way in ways {
        if let Some((first, rest)) = way.split_first() {
            below.entry(first).or_default().push(rest);
        }
    }
    let node = |(step, rest): (&Step, Vec<&[Step]>)| TreeNode {
        kind: step.kind,
        label: step.label.clone(),
        address: step.address,
        children: grow(&rest),
    };
    below.into_iter().map(node).collect()
}

#[cfg(test)]
mod tests {
    use crate::ids::Kind;
    use crate::topology::fixtures::{facts, gpu, nic};
    use crate::topology::{Override, Topology, TreeNode};

    fn draw(node: &TreeNode, depth: usize, lines: &mut Vec<String>) {
        lines.push(format!("{}{}", "  ".repeat(depth), node.label));
        for child in &node.children {
            draw(child, depth + 1, lines);
        }
    }

    fn check(xml: Option<&str>, expect: &[&str]) {
        let ports = ["0000:15:01.0", "0000:16:00.0", "0000:17:00.0"];
        let nested = [&ports[..], &["0000:18:00.0", "0000:19:00.0"]].concat();
        let mut nic0 = nic("0000:1b:00.0", "pci0000:15", &ports);
        let mut gpu0 = gpu("0000:1a:00.0", "pci0000:15", &nested);
        (nic0.numa_node, gpu0.numa_node) = (Some(crate::ids::NumaNode(0)), None);
        let gpu1 = gpu("0001:00:00.0", "pci0001:00", &[]);
        let kinds =
            [(gpu0.address, Kind::Gpu), (nic0.address, Kind::Nic), (gpu1.address, Kind::Gpu)];
        let xml = xml.map(|text| Override::parse(text).unwrap());
        let topology = Topology::build(&facts([nic0, gpu0, gpu1]), xml.as_ref());
        let mut lines = Vec::new();
        draw(&topology.tree("host", kinds), 0, &mut lines);
        assert_eq!(lines, expect);
    }

    #[test]
    fn functions_of_a_switch_stand_together_with_nested_switches_first() {
        check(
            None,
            &[
                "host",
                "  NUMA 0",
                "    pci0000:15",
                "      0000:15:01.0",
                "        0000:16:00.0",
                "          0000:18:00.0",
                "            0000:1a:00.0",
                "          0000:1b:00.0",
                "  NUMA unknown",
                "    pci0001:00",
                "      0001:00:00.0",
            ],
        );
    }

    #[test]
    fn an_override_draws_its_own_switches() {
        let xml = r#"<system><pci busid="ffff:ff:01.0">
            <pci busid="0001:00:00.0"/><pci busid="0000:1b:00.0"/></pci></system>"#;
        check(
            Some(xml),
            &[
                "host",
                "  NUMA 0",
                "    pci0000:15",
                "      ffff:ff:01.0",
                "        0001:00:00.0",
                "        0000:1b:00.0",
                "  NUMA unknown",
                "    pci0000:15",
                "      0000:15:01.0",
                "        0000:16:00.0",
                "          0000:18:00.0",
                "            0000:1a:00.0",
            ],
        );
    }
}
