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
    let mut taken = BTreeSet::new();
    let named = joint.filter_map(|(port, group)| {
        let name = group.names(port).into_iter().find(|name| !taken.contains(name))?;
        taken.insert(name.clone());
        Some((port, name))
    });
    named.collect()
}

/// Offered devices below one root port.
#[derive(Default)]
struct Group<'a> {
    kinds: BTreeSet<Kind>,
    places: Vec<&'a Place>,
}

impl Group<'_> {
    /// What the group can be called, the best name first. An override may give a real switch to
    /// some of the functions below it and leave out the others: these need another name. The last
    /// one is no other group's.
    fn names(&self, (host_bridge, slot): (&str, &str)) -> Vec<String> {
        let outermost = self.places.iter().filter_map(|place| place.outermost_switch()).min();
        let slot_address = self.places.first().map(|place| place.slot_address());
        let own = Place::new(host_bridge.to_owned(), slot.to_owned(), []).to_string();
        outermost.into_iter().chain(slot_address).chain([own]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::{Inventory, Policy};
    use crate::topology::{Override, fixtures};

    const PORTS: [&str; 3] = ["0000:15:01.0", "0000:16:00.0", "0000:17:00.0"];

    fn check(bridges: &[&str], xml: Option<&str>, expect: &[&str]) {
        let functions = [
            fixtures::gpu("0000:1a:00.0", "pci0000:15", bridges),
            fixtures::nic("0000:1b:00.0", "pci0000:15", bridges),
            fixtures::gpu("0000:1c:00.0", "pci0000:15", bridges),
            fixtures::nic("0000:1d:00.0", "pci0000:15", bridges),
        ];
        let facts = fixtures::facts(functions);
        let xml = xml.map(|text| Override::parse(text).unwrap());
        let topology = Topology::build(&facts, xml.as_ref());
        let inventory = Inventory::build("n1", &facts, &topology, &Policy::default());
        let mut devices: Vec<&OfferedDevice> = inventory.devices.iter().collect();
        devices.sort_by_key(|device| device.address);
        let found: Vec<&str> = devices
            .iter()
            .map(|device| match device.attributes.get(attribute::PCIE_SWITCH) {
                Some(AttributeValue::String(text)) => text,
                _ => "-",
            })
            .collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn the_outermost_switch_or_else_the_root_port_is_the_joint_switch() {
        check(&PORTS, None, &["0000:16:00.0"; 4]);
        check(&PORTS[..1], None, &["0000:15:01.0"; 4]);
    }

    #[test]
    fn a_real_switch_that_an_override_gives_to_some_is_not_the_others_joint_switch() {
        let xml = "<system><pci busid='0000:16:00.0'><pci busid='0000:1a:00.0'/>
                   <pci busid='0000:1b:00.0'/></pci></system>";
        let (switch, port) = ("0000:16:00.0", "0000:15:01.0");
        check(&PORTS, Some(xml), &[switch, switch, port, port]);
    }
}
