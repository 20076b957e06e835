//! What machines with random trees of bridges and random overrides publish.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use lanemate_api::{PathClass, attribute};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

use super::*;
use crate::discovery::facts::{Bridge, Facts, PciFunction, PortType};
use crate::ids::NumaNode;
use crate::resource_slice::{Mode, RenderOptions, render};
use crate::topology::{Override, Place, Topology, fixtures, path_between};

/// Host bridges; the last one is that of a volume management device.
const HOST_BRIDGES: [(&str, u32, u8); 3] =
    [("pci0000:15", 0, 0x15), ("pci0000:80", 0, 0x80), ("pci10000:e0", 0x1_0000, 0xe0)];
/// Six nested switches below a root port: what a published place holds in full.
const MAX_BRIDGES: usize = 13;

/// One function: which way it goes at each bridge, and what the override says.
#[derive(Clone, Debug)]
struct Leaf {
    host_bridge: usize,
    way: Vec<u8>,
    is_gpu: bool,
    numa: Option<u32>,
    parents: Vec<u8>,
}

/// A machine's leaves; per bridge, in order of appearance, its port type; how many parents in the
/// override are named after real bridges.
#[derive(Clone, Debug)]
struct Tree {
    leaves: Vec<Leaf>,
    ports: Vec<Option<PortType>>,
    real_parents: usize,
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = (
        0..HOST_BRIDGES.len(),
        prop::collection::vec(0..2_u8, 0..=MAX_BRIDGES),
        any::<bool>(),
        prop::option::of(0..2_u32),
        prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(0..2_u8, 1..=3)],
    )
        .prop_map(|(host_bridge, way, is_gpu, numa, parents)| Leaf {
            host_bridge,
            way,
            is_gpu,
            numa,
            parents,
        });
    let port = prop_oneof![
        4 => Just(None),
        1 => Just(Some(PortType::Root)),
        2 => Just(Some(PortType::Upstream)),
        2 => Just(Some(PortType::Downstream)),
        1 => Just(Some(PortType::PciBridge)),
    ];
    let ports = prop::collection::vec(port, 32);
    (prop::collection::vec(leaf, 1..12), ports, 0..4_usize)
        .prop_map(|(leaves, ports, real_parents)| Tree { leaves, ports, real_parents })
}

impl Tree {
    /// The functions, and the addresses of the bridges in order of appearance.
    fn functions(&self) -> (Vec<PciFunction>, Vec<PciAddress>) {
        let mut bridges: BTreeMap<(usize, &[u8]), PciAddress> = BTreeMap::new();
        let mut order = Vec::new();
        let mut functions = Vec::new();
        for (number, leaf) in (0_u8..).zip(&self.leaves) {
            let (name, domain, bus) = HOST_BRIDGES[leaf.host_bridge];
            let mut above = Vec::new();
            for depth in 1..=leaf.way.len() {
                let way = &leaf.way[..depth];
                let (bus, device) = match depth {
                    1 => (bus, way[0] + 1),
                    _ => (u8::try_from(order.len()).unwrap(), 0),
                };
                let at = PciAddress { domain, bus, device, function: 0 };
                above.push(*bridges.entry((leaf.host_bridge, way)).or_insert_with(|| {
                    order.push(at);
                    at
                }));
            }
            let bus = if above.is_empty() { bus } else { 0xf0 };
            let address = PciAddress { domain, bus, device: 8 + number, function: 0 }.to_string();
            let make = if leaf.is_gpu { fixtures::gpu } else { fixtures::nic };
            let mut function = make(&address, name, &[]);
            function.numa_node = leaf.numa.map(NumaNode);
            function.bridges = above.iter().map(|&at| self.bridge(at, &order)).collect();
            functions.push(function);
        }
        (functions, order)
    }

    fn bridge(&self, address: PciAddress, order: &[PciAddress]) -> Bridge {
        let number = order.iter().position(|other| *other == address).unwrap_or_default();
        Bridge { address, port: self.ports.get(number).copied().flatten() }
    }

    /// The XML; each parent has a name of its own, which may be that of a real bridge.
    fn xml(&self, functions: &[PciFunction], bridges: &[PciAddress]) -> Option<Override> {
        let mut names: BTreeMap<&[u8], String> = BTreeMap::new();
        let mut text = "<system>".to_owned();
        for (leaf, function) in self.leaves.iter().zip(functions) {
            for depth in 1..=leaf.parents.len() {
                let count = names.len();
                let real = bridges.get(count).filter(|_| count < self.real_parents);
                let name = names.entry(&leaf.parents[..depth]).or_insert_with(|| {
                    real.map_or(format!("ffff:{count:02x}:01.0"), ToString::to_string)
                });
                let _ = write!(text, "<pci busid='{name}'>");
            }
            let _ = write!(text, "<pci busid='{}'/>", function.address);
            text += &"</pci>".repeat(leaf.parents.len());
        }
        let parsed = Override::parse(&(text + "</system>")).unwrap();
        (!parsed.is_empty()).then_some(parsed)
    }

    fn publish(&self) -> (Topology, Inventory) {
        let (functions, bridges) = self.functions();
        let xml = self.xml(&functions, &bridges);
        let facts: Facts = fixtures::facts(functions);
        let topology = Topology::build(&facts, xml.as_ref());
        let inventory = Inventory::build("n1", &facts, &topology, &Policy::default());
        (topology, inventory)
    }
}

fn text<'a>(device: &'a OfferedDevice, name: &str) -> Option<&'a str> {
    match device.attributes.get(name) {
        Some(AttributeValue::String(text)) => Some(text),
        _ => None,
    }
}

/// Place and NUMA node as another program reads them from the slice.
fn published(device: &OfferedDevice) -> (Option<Place>, Option<NumaNode>) {
    let numa = match device.attributes.get(attribute::NUMA_NODE) {
        Some(AttributeValue::Int(node)) => u32::try_from(*node).ok().map(NumaNode),
        _ => None,
    };
    (text(device, attribute::PCIE_PATH).and_then(|text| text.parse().ok()), numa)
}

fn check_pair(topology: &Topology, a: &OfferedDevice, b: &OfferedDevice) {
    let machine = topology.path(a.address, b.address);
    let ((place_a, numa_a), (place_b, numa_b)) = (published(a), published(b));
    let path = path_between((place_a.as_ref(), numa_a), (place_b.as_ref(), numa_b));
    let of_machine = (machine.class, machine.switch_hops, machine.via);
    assert_eq!((path.class, path.switch_hops, path.via), of_machine, "{} {}", a.name, b.name);
    if a.kind != b.kind {
        let (switch_a, switch_b) =
            (text(a, attribute::PCIE_SWITCH), text(b, attribute::PCIE_SWITCH));
        let equal = switch_a.is_some() && switch_a == switch_b;
        assert_eq!(equal, path.class <= PathClass::Pxb, "{} {}", a.name, b.name);
    }
}

/// A joint switch is one that a device of the other kind has too.
fn check_joint(inventory: &Inventory) {
    let of_kind = |kind: Kind| -> BTreeSet<&str> {
        let devices = inventory.devices.iter().filter(|device| device.kind == kind);
        devices.filter_map(|device| text(device, attribute::PCIE_SWITCH)).collect()
    };
    assert_eq!(of_kind(Kind::Gpu), of_kind(Kind::Nic));
}

/// Devices with a joint switch first; those of one switch together, GPUs before NICs.
fn check_order(inventory: &Inventory) {
    let switches = inventory.devices.iter().map(|device| text(device, attribute::PCIE_SWITCH));
    let switches: Vec<Option<&str>> = switches.collect();
    assert!(switches.is_sorted_by_key(Option::is_none), "{switches:?}");
    for group in inventory.devices.chunk_by(|a, b| {
        text(a, attribute::PCIE_SWITCH).is_some()
            && text(a, attribute::PCIE_SWITCH) == text(b, attribute::PCIE_SWITCH)
    }) {
        let switch = text(&group[0], attribute::PCIE_SWITCH);
        if switch.is_some() {
            assert!(group.is_sorted_by_key(|device| device.kind));
            assert_eq!(switches.iter().filter(|other| **other == switch).count(), group.len());
        }
    }
}

proptest! {
    #![proptest_config(Config {
        cases: 600,
        rng_seed: RngSeed::Fixed(3),
        failure_persistence: None,
        ..Config::default()
    })]

    #[test]
    fn what_is_published_tells_the_class_of_every_pair(tree in trees()) {
        let (topology, inventory) = tree.publish();
        prop_assert_eq!(inventory.devices.len(), tree.leaves.len());
        prop_assert_eq!(&inventory.problems, &[]);
        for a in &inventory.devices {
            for b in &inventory.devices {
                check_pair(&topology, a, b);
            }
        }
        check_joint(&inventory);
        check_order(&inventory);
    }

    #[test]
    fn the_same_machine_publishes_the_same_slices(tree in trees()) {
        let options = RenderOptions { mode: Mode::Controller, generation: 1 };
        let slices = |tree: &Tree| render(&tree.publish().1, options);
        prop_assert_eq!(slices(&tree), slices(&tree));
    }
}
