//! The results of a claim that are for this node, checked and joined with what the node knows of them.

use std::collections::{BTreeMap, BTreeSet};

use lanemate_api::{Environment, names};

use crate::attribute::AttributeValue;
use crate::claim::allocated::{AllocatedClaim, RequestName};
use crate::discovery::Facts;
use crate::discovery::facts::PciFunction;
use crate::ids::{Kind, PciAddress};
use crate::inventory::{Inventory, Reason, ReasonCode};

use super::PrepareError;

/// One granted device of this node.
pub(super) struct Grant<'a> {
    pub request: &'a RequestName,
    pub pool: &'a str,
    pub device: &'a str,
    pub kind: Kind,
    pub address: PciAddress,
    pub function: &'a PciFunction,
    /// As published; absent for a device that is left out by now.
    pub attributes: Option<&'a BTreeMap<String, AttributeValue>>,
    /// What is asked for on behalf of its request.
    pub environment: Environment,
    /// Index of its unit in the claim's list.
    pub unit: Option<usize>,
}

/// The grants of the inventory's node, in the order of the allocation.
pub(super) fn of_node<'a>(
    claim: &'a AllocatedClaim,
    facts: &'a Facts,
    inventory: &'a Inventory,
) -> Result<Vec<Grant<'a>>, PrepareError> {
    let here = claim.results.iter().filter(|result| result.pool == inventory.node);
    let mut held = BTreeSet::new();
    let mut grants = Vec::new();
    for result in here {
        // Administrators look at devices that others hold, and may do so from several requests.
        if !result.admin_access && !held.insert(&result.device) {
            return Err(PrepareError::Twice(result.device.clone()));
        }
        let unknown = || PrepareError::UnknownDevice {
            device: result.device.clone(),
            node: inventory.node.clone(),
        };
        let found = find(inventory, &result.device).ok_or_else(unknown)?;
        if let Some(reason) = found.left_out.filter(|reason| never_offered(reason.code)) {
            let (device, reason) = (result.device.clone(), reason.to_string());
            return Err(PrepareError::MustNotBeGranted { device, reason });
        }
        grants.push(Grant {
            request: &result.request,
            pool: &result.pool,
            device: &result.device,
            kind: found.kind,
            address: found.address,
            function: facts.functions.get(&found.address).ok_or_else(unknown)?,
            attributes: found.attributes,
            environment: claim.environment_of(&result.request),
            unit: unit_of(claim, &result.pool, &result.device),
        });
    }
    if grants.is_empty() {
        return Err(PrepareError::NothingForNode {
            claim: format!("{}/{}", claim.namespace, claim.name),
            node: inventory.node.clone(),
            pools: claim.results.iter().map(|result| result.pool.clone()).collect(),
        });
    }
    Ok(grants)
}

/// Remarks on results that are skipped or no longer offered.
pub(super) fn notes(claim: &AllocatedClaim, inventory: &Inventory) -> Vec<String> {
    let mut notes = Vec::new();
    for result in &claim.results {
        if result.pool != inventory.node {
            notes.push(format!("{} is in pool {}: skipped", result.device, result.pool));
        }
    }
    for left_out in &inventory.left_out {
        let name = left_out.address.map(|address| left_out.kind.device_name(address));
        let granted = |name: &String| {
            claim.results.iter().any(|r| r.pool == inventory.node && r.device == *name)
        };
        if let Some(name) = name.filter(granted) {
            notes.push(format!("{name} is granted but no longer offered: {}", left_out.reason));
        }
    }
    notes
}

struct Found<'a> {
    kind: Kind,
    address: PciAddress,
    attributes: Option<&'a BTreeMap<String, AttributeValue>>,
    /// Why it is not offered now.
    left_out: Option<&'a Reason>,
}

/// What is left out for such a reason cannot have been offered before in the same state, and would
/// give a container what belongs to others: the instances of a GPU, or the NVLink fabric.
fn never_offered(code: ReasonCode) -> bool {
    matches!(code, ReasonCode::Mig | ReasonCode::SwitchManagement)
}

/// A device by name: offered, or present and left out since it was granted.
fn find<'a>(inventory: &'a Inventory, name: &str) -> Option<Found<'a>> {
    let offered = inventory.devices.iter().find(|device| device.name == name).map(|device| Found {
        kind: device.kind,
        address: device.address,
        attributes: Some(&device.attributes),
        left_out: None,
    });
    offered.or_else(|| {
        inventory.left_out.iter().find_map(|left_out| {
            let address = left_out.address?;
            (left_out.kind.device_name(address) == name).then_some(Found {
                kind: left_out.kind,
                address,
                attributes: None,
                left_out: Some(&left_out.reason),
            })
        })
    })
}

fn unit_of(claim: &AllocatedClaim, pool: &str, device: &str) -> Option<usize> {
    claim.units.iter().position(|unit| {
        let mut devices = unit.devices.iter();
        devices.any(|d| d.driver == names::DRIVER && d.pool == pool && d.device == device)
    })
}
