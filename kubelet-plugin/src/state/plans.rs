//! Plans of claims that are prepared already. What kubelet was told stays true: it keeps the CDI names
//! of a prepared claim, so a CDI file that other names belong to would take devices from containers.

use std::collections::BTreeSet;

use k8s_openapi::api::resource::v1::ResourceClaim;
use lanemate_driver::claim::allocated::{AllocatedClaim, AllocatedResult};
use lanemate_driver::files::{Durability, apply, is_applied};
use lanemate_driver::prepare::{self, PlannedPath, PreparePlan, PreparedDevice};

use super::identity::Identity;
use super::node::{Node, Reading};
use super::record::{Allocation, Effect, Record, RecordDevice};
use super::release::ReleaseError;
use crate::fault::{self, Point};

/// Files of a claim are for containers, none of which survives a loss of power. What is left of them is
/// removed or compared with the record before the plugin answers again.
pub(super) const EFFECT: Durability = Durability::Volatile;

/// Plans a claim as the machine is now.
pub(super) fn plan(
    claim: &AllocatedClaim,
    reading: &Reading,
) -> Result<PreparePlan, prepare::PrepareError> {
    let machine = &reading.machine;
    prepare::plan(claim, &machine.facts, &machine.inventory, &reading.options)
}

/// Plans a prepared claim so that the CDI names are those that kubelet was told, if that can be: a
/// vendor's CDI file may have come or gone meanwhile.
pub(super) fn plan_again(
    record: &Record,
    claim: &AllocatedClaim,
    reading: &Reading,
) -> Result<PreparePlan, prepare::PrepareError> {
    let told = record.devices.iter().flat_map(|device| &device.cdi_device_ids);
    let machine = &reading.machine;
    let mut options = (*reading.options).clone();
    options.vendor_cdi = options.vendor_cdi.only(told.map(String::as_str));
    match prepare::plan(claim, &machine.facts, &machine.inventory, &options) {
        Ok(plan) if names_are(record, &plan) => Ok(plan),
        _ => self::plan(claim, reading),
    }
}

/// Plans a claim whose record is lost: as its CDI file is, if one of the ways gives that file.
pub(super) fn plan_lost(
    claim: &AllocatedClaim,
    reading: &Reading,
    node: &Node,
) -> Result<PreparePlan, prepare::PrepareError> {
    let fresh = plan(claim, reading)?;
    let is_there = |plan: &PreparePlan| {
        plan.files.last().is_some_and(|spec| is_applied(spec, &node.settings.roots))
    };
    if is_there(&fresh) {
        return Ok(fresh);
    }
    let mut options = (*reading.options).clone();
    options.vendor_cdi = options.vendor_cdi.only([]);
    let without = Reading { options: options.into(), ..reading.clone() };
    Ok(plan(claim, &without).ok().filter(is_there).unwrap_or(fresh))
}

/// True when a plan gives the CDI names that kubelet was told.
pub(super) fn names_are(record: &Record, plan: &PreparePlan) -> bool {
    let told = record.devices.iter().map(|device| &device.cdi_device_ids);
    told.eq(plan.devices.iter().map(|device| &device.cdi_device_ids))
}

/// The results of a claim that are for a node.
pub(super) fn results_here<'a>(
    claim: &'a AllocatedClaim,
    node: &'a str,
) -> impl Iterator<Item = &'a AllocatedResult> {
    claim.results.iter().filter(move |result| result.pool == node)
}

/// True when a record has the devices of an allocation, in its order, by which CDI names are made.
pub(super) fn is_for(record: &Record, claim: &AllocatedClaim, node: &str) -> bool {
    let recorded = record.devices.iter().map(|device| {
        (&*device.device, &*device.pool, device.request.clone(), device.admin_access)
    });
    let allocated = results_here(claim, node).map(|result| {
        (&*result.device, &*result.pool, result.request.to_string(), result.admin_access)
    });
    recorded.eq(allocated)
}

/// The devices of a plan, as a record keeps them.
pub(super) fn devices(
    claim: &AllocatedClaim,
    plan: &PreparePlan,
    reading: &Reading,
) -> Vec<RecordDevice> {
    let machine = &reading.machine;
    let results = results_here(claim, &machine.inventory.node);
    // A plan has one device per result of the node, in the same order.
    let pairs = results.zip(&plan.devices);
    let device = |(result, planned): (&AllocatedResult, &PreparedDevice)| {
        let address = address_of(&result.device, reading)?;
        Some(RecordDevice {
            request: result.request.to_string(),
            pool: result.pool.clone(),
            device: result.device.clone(),
            address,
            parent: machine.facts.functions.get(&address)?.physical_function,
            identity: Identity::of(address, &machine.facts),
            admin_access: result.admin_access,
            cdi_device_ids: planned.cdi_device_ids.clone(),
            rest: serde_json::Map::new(),
        })
    };
    pairs.filter_map(device).collect()
}

fn address_of(name: &str, reading: &Reading) -> Option<lanemate_driver::ids::PciAddress> {
    let inventory = &reading.machine.inventory;
    let offered = inventory.devices.iter().find(|device| device.name == name);
    offered.map(|device| device.address).or_else(|| {
        inventory.left_out.iter().find_map(|left_out| {
            left_out.address.filter(|address| left_out.kind.device_name(*address) == name)
        })
    })
}

/// Another card at the address of a device of a record: its name, the card on record, and that one.
pub(super) fn replaced(record: &Record, reading: &Reading) -> Option<(String, Identity, Identity)> {
    record.devices.iter().find_map(|device| {
        let now = Identity::of(device.address, &reading.machine.facts);
        device.identity.differs(&now).then(|| (device.device.clone(), device.identity.clone(), now))
    })
}

impl Node {
    /// Brings record and files of a prepared claim to a plan. True when a file was written.
    pub(super) fn bring_to(
        &mut self,
        record: &Record,
        plan: &PreparePlan,
        claim: &ResourceClaim,
        reading: &Reading,
    ) -> Result<bool, ReleaseError> {
        let updated = updated(record, plan, claim, reading);
        if updated != *record {
            // Before the files, so that none exists that no record knows.
            self.records.write(&updated)?;
            self.view.records.insert(updated.uid.clone(), updated.into());
        }
        let mut has_written = false;
        for file in &plan.files {
            if !is_applied(file, &self.settings.roots) {
                apply(std::slice::from_ref(file), &self.settings.roots, EFFECT)?;
                has_written = true;
                fault::at(Point::RepairFile)?;
            }
        }
        Ok(has_written)
    }
}

/// The record of a claim after a plan. What this version does not know of it stays.
fn updated(
    record: &Record,
    plan: &PreparePlan,
    claim: &ResourceClaim,
    reading: &Reading,
) -> Record {
    let mut updated = record.clone();
    for (device, planned) in updated.devices.iter_mut().zip(&plan.devices) {
        device.cdi_device_ids.clone_from(&planned.cdi_device_ids);
    }
    let known: BTreeSet<PlannedPath> =
        record.effects.iter().map(|effect| effect.path.clone()).collect();
    // Files that are no longer planned are still there.
    let new = plan.files.iter().filter(|file| !known.contains(&file.path));
    let new: Vec<Effect> = new.map(|file| Effect::file(file.path.clone())).collect();
    // In front, as the CDI file is to stay the last.
    updated.effects.splice(0..0, new);
    let Allocation { pod_claim_name, devices, rest: _ } = Allocation::of(claim);
    updated.allocation.pod_claim_name = pod_claim_name;
    updated.allocation.devices = devices;
    updated.boot_id = updated.boot_id.or_else(|| reading.boot_id.clone());
    updated
}
