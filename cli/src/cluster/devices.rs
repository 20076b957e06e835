//! The devices of our driver, by name: what they are, and who holds them.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{Device, ResourceClaim, ResourceSlice};
use lanemate_api::node_state::HeldState;
use lanemate_api::{NodeState, attribute, names};
use lanemate_driver::allocation::{DeviceId, device_of};
use lanemate_driver::pending::{ClaimRef, allocation_of};

use super::read::Seen;

/// All devices that are offered, or held.
#[derive(Debug, Default)]
pub struct Devices {
    by_id: BTreeMap<DeviceId, Facts>,
}

/// What is known of a device.
#[derive(Debug, Default)]
pub struct Facts {
    /// Its node; absent where no slice offers it.
    pub node: Option<String>,
    /// `gpu` or `nic`.
    pub kind: Option<String>,
    /// PCI address.
    pub pci: Option<String>,
    /// Taints, without that of our allocator: `key=value:effect`.
    pub taints: Vec<String>,
    /// The taint of our allocator is there.
    pub is_fenced: bool,
    /// Claims whose allocation names it, `namespace/name`.
    pub claims: Vec<String>,
    /// Claims that its node still has it for, and how far they are.
    pub on_node: Vec<(String, HeldState)>,
}

impl Devices {
    /// Of a cluster.
    pub fn of(seen: &Seen) -> Self {
        let mut devices = Self::default();
        for slice in &seen.objects.slices {
            devices.offer(slice);
        }
        for claim in &seen.objects.claims {
            devices.allocate(claim);
        }
        for state in seen.node_states.iter().flatten() {
            devices.hold(state);
        }
        devices
    }

    /// A device; none where nobody offers or holds it.
    pub fn get(&self, id: &DeviceId) -> Option<&Facts> {
        self.by_id.get(id)
    }

    /// All of them, by driver, pool and name.
    pub fn iter(&self) -> impl Iterator<Item = (&DeviceId, &Facts)> {
        self.by_id.iter()
    }

    /// What nodes hold, by holder, as decisions take it.
    pub fn held_on_nodes(&self) -> Vec<(String, Vec<DeviceId>)> {
        let mut held = BTreeMap::<String, Vec<DeviceId>>::new();
        for (id, facts) in &self.by_id {
            for (holder, _) in &facts.on_node {
                held.entry(holder.clone()).or_default().push(id.clone());
            }
        }
        held.into_iter().collect()
    }

    fn offer(&mut self, slice: &ResourceSlice) {
        let spec = &slice.spec;
        for device in spec.devices.iter().flatten() {
            let id = (spec.driver.clone(), spec.pool.name.clone(), device.name.clone());
            let facts = self.by_id.entry(id).or_default();
            facts.node.clone_from(&spec.node_name);
            facts.kind = text(device, attribute::TYPE);
            facts.pci = text(device, attribute::PCI_BUS_ID);
            for taint in device.taints.iter().flatten() {
                let value = taint.value.as_deref().unwrap_or_default();
                if taint.key == names::ALLOCATOR_TAINT_KEY && value == names::ALLOCATOR_TAINT_VALUE
                {
                    facts.is_fenced = true;
                } else {
                    let equals = if value.is_empty() { "" } else { "=" };
                    facts.taints.push(format!("{}{equals}{value}:{}", taint.key, taint.effect));
                }
            }
        }
    }

    fn allocate(&mut self, claim: &ResourceClaim) {
        let results = allocation_of(claim).and_then(|allocation| allocation.devices.as_ref());
        let results = results.into_iter().flat_map(|devices| devices.results.iter().flatten());
        let name = ClaimRef::of(&claim.metadata).to_string();
        for result in results {
            let is_taken = result.driver == names::DRIVER && result.admin_access != Some(true);
            if is_taken {
                let facts = self.by_id.entry(device_of(result)).or_default();
                facts.claims.push(name.clone());
            }
        }
    }

    fn hold(&mut self, state: &NodeState) {
        let node = state.metadata.name.clone().unwrap_or_default();
        for held in &state.status.held {
            let claim = &held.claim;
            let holder = match (&claim.namespace, &claim.name) {
                (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
                _ => format!("claim {}", claim.uid),
            };
            for device in &held.devices {
                let id = (names::DRIVER.to_owned(), node.clone(), device.clone());
                let facts = self.by_id.entry(id).or_default();
                facts.on_node.push((holder.clone(), held.state));
            }
        }
    }
}

/// A text attribute.
fn text(device: &Device, name: &str) -> Option<String> {
    device.attributes.as_ref()?.get(name)?.string.clone()
}
