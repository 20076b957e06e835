//! Which piece of hardware stands at an address. Addresses are given anew when cards are moved or
//! firmware numbers buses otherwise; a claim is for the card that was allocated.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use lanemate_driver::discovery::Facts;
use lanemate_driver::ids::PciAddress;
use lanemate_driver::machine::Machine;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What tells one card from another, as far as known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// UUID of an NVIDIA GPU, unique id of an AMD GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Node GUID of a NIC's first RDMA device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_guid: Option<String>,
    /// Serial number, from the vital product data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// What this version does not know of an identity on record.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The published identities, and when they were seen to change.
#[derive(Debug, Default)]
pub struct Identities {
    by_device: BTreeMap<String, Seen>,
}

#[derive(Debug)]
struct Seen {
    now: Identity,
    /// Absent while the first is there.
    changed: Option<(Timestamp, Identity)>,
}

/// A GUID of zeros is written by firmware that has none.
const NO_GUID: &str = "0000:0000:0000:0000";

impl Identity {
    /// Of the function at an address.
    pub fn of(address: PciAddress, facts: &Facts) -> Self {
        let function = facts.functions.get(&address);
        let gpu = facts.nvml.as_ref().and_then(|nvml| nvml.gpus.get(&address));
        let rdma = function.and_then(|function| function.rdma.first());
        let guid = rdma.and_then(|device| device.node_guid.clone());
        Self {
            uuid: gpu
                .and_then(|gpu| gpu.uuid.clone())
                .or_else(|| function.and_then(|function| function.unique_id.clone())),
            node_guid: guid.filter(|guid| guid != NO_GUID),
            serial: function.and_then(|function| function.vpd.get("SN").cloned()),
            rest: Map::new(),
        }
    }

    /// Nothing is known.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// True when both know a thing and differ in it. What one of them does not know says nothing: the
    /// driver may not be loaded.
    pub fn differs(&self, other: &Self) -> bool {
        let pairs = [
            (&self.uuid, &other.uuid),
            (&self.node_guid, &other.node_guid),
            (&self.serial, &other.serial),
        ];
        pairs.iter().any(|(one, other)| one.is_some() && other.is_some() && one != other)
    }

    /// This, and what of the other this one does not know.
    fn or(self, other: &Self) -> Self {
        Self {
            uuid: self.uuid.or_else(|| other.uuid.clone()),
            node_guid: self.node_guid.or_else(|| other.node_guid.clone()),
            serial: self.serial.or_else(|| other.serial.clone()),
            rest: self.rest,
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named =
            [("UUID", &self.uuid), ("node GUID", &self.node_guid), ("serial number", &self.serial)];
        let known = named.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let known: Vec<String> = known.map(|(name, value)| format!("{name} {value}")).collect();
        f.write_str(if known.is_empty() { "an unknown one" } else { "" })?;
        f.write_str(&known.join(", "))
    }
}

impl Identities {
    /// Takes note of a machine that is about to be published.
    pub fn note(&mut self, machine: &Machine, now: Timestamp) {
        for offered in &machine.inventory.devices {
            let fresh = Identity::of(offered.address, &machine.facts);
            match self.by_device.get_mut(&offered.name) {
                Some(seen) if seen.now.differs(&fresh) => {
                    let before = std::mem::replace(&mut seen.now, fresh);
                    seen.changed = Some((now, before));
                }
                Some(seen) => seen.now = fresh.or(&seen.now),
                None => {
                    let seen = Seen { now: fresh, changed: None };
                    self.by_device.insert(offered.name.clone(), seen);
                }
            }
        }
    }

    /// The card that was published when a claim was allocated, if another stands there now, and that
    /// one. The time is when the claim was allocated, or the earliest at which that can have been.
    pub fn replaced(&self, device: &str, allocated: Option<Timestamp>) -> Option<[&Identity; 2]> {
        let seen = self.by_device.get(device)?;
        let (changed, before) = seen.changed.as_ref()?;
        (allocated? < *changed).then_some([before, &seen.now])
    }
}

#[cfg(test)]
mod tests {
    use lanemate_driver::inventory::Policy;
    use lanemate_driver::testing;

    use super::*;

    const GPU: &str = "gpu-0000-1b-00-0";

    fn uuid(text: &str) -> Identity {
        Identity { uuid: Some(text.to_owned()), ..Identity::default() }
    }

    #[test]
    fn what_is_unknown_makes_no_difference() {
        assert!(uuid("a").differs(&uuid("b")));
        assert!(!uuid("a").differs(&uuid("a")));
        assert!(!uuid("a").differs(&Identity::default()));
        let nic = Identity { serial: Some("b".to_owned()), ..Identity::default() };
        assert!(!uuid("a").differs(&nic));
        assert_eq!(uuid("a").to_string(), "UUID a");
        assert_eq!(Identity::default().to_string(), "an unknown one");
    }

    #[test]
    fn a_claim_allocated_before_the_card_changed_is_for_the_other_card() {
        let mut facts = testing::facts("dgx-h100");
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let mut identities = Identities::default();
        let mut note = |facts: &Facts, seconds| {
            let machine = Machine::from_facts("n", facts.clone(), None, &Policy::default());
            identities.note(&machine, at(seconds));
        };
        note(&facts, 10);
        let address = "0000:1b:00.0".parse().unwrap();
        let before = Identity::of(address, &facts);
        let gpus = &mut facts.nvml.as_mut().unwrap().gpus;
        gpus.get_mut(&address).unwrap().uuid = None;
        note(&facts, 20);
        let gpus = &mut facts.nvml.as_mut().unwrap().gpus;
        gpus.get_mut(&address).unwrap().uuid = Some("GPU-other".to_owned());
        note(&facts, 30);
        note(&facts, 40);
        let now = uuid("GPU-other");
        assert_eq!(identities.replaced(GPU, Some(at(29))), Some([&before, &now]));
        assert_eq!(identities.replaced(GPU, Some(at(30))), None);
        assert_eq!(identities.replaced(GPU, None), None);
        assert_eq!(identities.replaced("nic-0000-18-00-0", Some(at(29))), None);
    }
}
