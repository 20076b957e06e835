//! The packing order: the order in which devices are published, for allocators that take the first
//! that fits.
//!
//! First come the root ports with GPU and NIC, NUMA node by NUMA node, GPUs before NICs. Last come
//! the singles, whose grant spoils no near pair; among these the farther from any mate, the earlier,
//! so that what can still make a fair pair goes last. Singles of one host bridge stand together.

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

/// Devices that stand together. Ordered by NUMA node, the unknown one last, then by address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    numa_unknown: bool,
    numa: Option<NumaNode>,
    lowest: PciAddress,
}

/// Host bridge, and the slot below it for devices with a joint switch.
type GroupName<'a> = (&'a str, Option<&'a str>);

fn key(
    device: &OfferedDevice,
    all: &[OfferedDevice],
    groups: &BTreeMap<GroupName<'_>, Group>,
    topology: &Topology,
) -> Key {
    let group = group_name(device, topology).and_then(|name| groups.get(&name).copied());
    let single = is_single(device);
    Key {
        single,
        farthest_first: Reverse(match single {
            true => nearest_mate(device, all, topology),
            false => PathClass::Pix,
        }),
        group: group.unwrap_or_else(|| alone(device.address, topology)),
        kind: device.kind,
        place: topology.place(device.address).cloned(),
        address: device.address,
    }
}

fn is_single(device: &OfferedDevice) -> bool {
    !device.attributes.contains_key(attribute::PCIE_SWITCH)
}

fn nearest_mate(device: &OfferedDevice, all: &[OfferedDevice], topology: &Topology) -> PathClass {
    let mates = all.iter().filter(|other| other.kind != device.kind);
    let classes = mates.map(|mate| topology.path(device.address, mate.address).class);
    classes.min().unwrap_or(PathClass::Sys)
}

fn group_name<'a>(device: &OfferedDevice, topology: &'a Topology) -> Option<GroupName<'a>> {
    let (host_bridge, slot) = topology.place(device.address)?.root_port();
    Some((host_bridge, (!is_single(device)).then_some(slot)))
}

/// Each group has the lowest known NUMA node and the lowest address of its devices.
fn groups<'a>(devices: &[OfferedDevice], topology: &'a Topology) -> BTreeMap<GroupName<'a>, Group> {
    let mut groups: BTreeMap<GroupName<'_>, Group> = BTreeMap::new();
    for device in devices {
        let Some(name) = group_name(device, topology) else { continue };
        let one = alone(device.address, topology);
        let group = groups.entry(name).or_insert(one);
        let numa = (group.numa_unknown, group.numa).min((one.numa_unknown, one.numa));
        let lowest = group.lowest.min(one.lowest);
        *group = Group { numa_unknown: numa.0, numa: numa.1, lowest };
    }
    groups
}

fn alone(address: PciAddress, topology: &Topology) -> Group {
    let numa = topology.numa_node(address);
    Group { numa_unknown: numa.is_none(), numa, lowest: address }
}
