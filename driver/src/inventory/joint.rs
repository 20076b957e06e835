//! The joint switch: one value that a GPU and a NIC share if and only if they are PXB or nearer.

use std::collections::{BTreeMap, BTreeSet};

use lanemate_api::attribute;

use super::OfferedDevice;
use crate::attribute::AttributeValue;
use crate::ids::Kind;
use crate::topology::{Place, Topology};

/// Sets `pcieSwitch` on every device below whose root port both kinds are offered, and clears it on
/// the others.
pub fn publish(devices: &mut [OfferedDevice], topology: &Topology) {
    let joint = joint_switches(devices, topology);
    for device in devices {
        let place = topology.place(device.address);
        let switch = place.and_then(|place| joint.get(&place.root_port()));
        match switch {
            Some(switch) => {
                let value = AttributeValue::String(switch.clone());
                device.attributes.insert(attribute::PCIE_SWITCH.to_owned(), value);
            }
            None => {
                device.attributes.remove(attribute::PCIE_SWITCH);
            }
        }
    }
}

/// (host bridge, slot) -> full address of the outermost switch. The functions of one card can share
/// a root port without any switch: then the root port itself is the value.
fn joint_switches<'a>(
    devices: &[OfferedDevice],
    topology: &'a Topology,
) -> BTreeMap<(&'a str, &'a str), String> {
    let mut groups: BTreeMap<(&str, &str), Group<'_>> = BTreeMap::new();
    for device in devices {
        if let Some(place) = topology.place(device.address) {
            let group = groups.entry(place.root_port()).or_default();
            group.kinds.insert(device.kind);
            group.places.push(place);
        }
    }
    let joint = groups.into_iter().filter(|(_, group)| group.kinds.len() > 1);
    joint.filter_map(|(port, group)| Some((port, group.name()?))).collect()
}

/// Offered devices below one root port.
#[derive(Default)]
struct Group<'a> {
    kinds: BTreeSet<Kind>,
    places: Vec<&'a Place>,
}

impl Group<'_> {
    fn name(&self) -> Option<String> {
        let outermost = self.places.iter().filter_map(|place| place.outermost_switch()).min();
        outermost.or_else(|| Some(self.places.first()?.slot_address()))
    }
}
