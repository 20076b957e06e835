//! The packing order: the order in which devices are published, for allocators that take the first
//! that fits.
//!
//! First come the root ports with GPU and NIC, NUMA node by NUMA node, GPUs before NICs. Last come
//! the singles, whose grant spoils no near pair; among these the farther from any mate, the earlier,
//! so that what can still make a fair pair goes last.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use lanemate_api::{PathClass, attribute};

use super::OfferedDevice;
use crate::ids::{Kind, NumaNode, PciAddress};
use crate::topology::{Place, Topology};

/// Devices in packing order. Their joint switches must be published.
pub fn packed(devices: Vec<OfferedDevice>, topology: &Topology) -> Vec<OfferedDevice> {
    let groups = groups(&devices, topology);
    let keys: Vec<Key> =
        devices.iter().map(|device| key(device, &devices, &groups, topology)).collect();
    let mut keyed: Vec<(Key, OfferedDevice)> = keys.into_iter().zip(devices).collect();
    keyed.sort_by(|(a, _), (b, _)| a.cmp(b));
    keyed.into_iter().map(|(_, device)| device).collect()
}

/// What decides the position, most important first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    single: bool,
    /// PIX for devices with a joint switch: they are told apart by what follows.
    farthest_first: Reverse<PathClass>,
    group: Group,
    kind: Kind,
    /// Deeper switches of one root port stay together.
    place: Option<Place>,
    address: PciAddress,
}

/// The devices below one root port. Ordered by NUMA node, the unknown one last, then by address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    numa_unknown: bool,
    numa: Option<NumaNode>,
    lowest: PciAddress,
}

fn key(
    device: &OfferedDevice,
    all: &[OfferedDevice],
    groups: &BTreeMap<(&str, &str), Group>,
    topology: &Topology,
) -> Key {
    let place = topology.place(device.address);
    let single = !device.attributes.contains_key(attribute::PCIE_SWITCH);
    let group = place.and_then(|place| groups.get(&place.root_port()).copied());
    let nearest = if single { nearest_mate(device, all, topology) } else { PathClass::Pix };
    Key {
        single,
        farthest_first: Reverse(nearest),
        group: group.unwrap_or_else(|| alone(device.address, topology)),
        kind: device.kind,
        place: place.cloned(),
        address: device.address,
    }
}

fn nearest_mate(device: &OfferedDevice, all: &[OfferedDevice], topology: &Topology) -> PathClass {
    let mates = all.iter().filter(|other| other.kind != device.kind);
    let classes = mates.map(|mate| topology.path(device.address, mate.address).class);
    classes.min().unwrap_or(PathClass::Sys)
}

fn groups<'a>(
    devices: &[OfferedDevice],
    topology: &'a Topology,
) -> BTreeMap<(&'a str, &'a str), Group> {
    let mut groups: BTreeMap<(&str, &str), Group> = BTreeMap::new();
    for device in devices {
        let Some(place) = topology.place(device.address) else { continue };
        let one = alone(device.address, topology);
        let group = groups.entry(place.root_port()).or_insert(one);
        // The lowest known node and the lowest address, whichever device they are of.
        let known_first = (one.numa_unknown, one.numa) < (group.numa_unknown, group.numa);
        if known_first {
            (group.numa_unknown, group.numa) = (one.numa_unknown, one.numa);
        }
        group.lowest = group.lowest.min(one.lowest);
    }
    groups
}

fn alone(address: PciAddress, topology: &Topology) -> Group {
    let numa = topology.numa_node(address);
    Group { numa_unknown: numa.is_none(), numa, lowest: address }
}
