//! Who holds what, as the records say, and whether a claim may have its devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use lanemate_driver::claim::allocated::ClaimUid;
use lanemate_driver::discovery::Facts;
use lanemate_driver::ids::{Kind, PciAddress};

use super::record::{Readable, Record, RecordDevice, RecordState};
use super::{Held, HeldState};
use crate::claim_id::ClaimId;

/// All claims that hold devices of this node.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Those with a record.
    pub records: BTreeMap<ClaimUid, Arc<Record>>,
    /// Those whose record cannot be used or is lost.
    pub lost: BTreeMap<ClaimUid, Lost>,
}

/// What is known of a claim without a usable record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Absent when nothing can be read.
    pub told: Option<Readable>,
    /// What is told is what was written. Else a name may be wrong, and that no claim has it proves nothing.
    pub is_sure: bool,
    /// What is wrong.
    pub reason: String,
}

impl From<RecordState> for HeldState {
    fn from(state: RecordState) -> Self {
        match state {
            RecordState::Reserved => Self::Reserved,
            RecordState::Prepared => Self::Prepared,
            RecordState::Releasing => Self::Releasing,
        }
    }
}

impl Lost {
    /// The claim, where its name is known.
    pub fn claim(&self, uid: &ClaimUid) -> Option<ClaimId> {
        let told = self.told.as_ref()?;
        Some(ClaimId {
            namespace: told.namespace.clone(),
            name: told.name.clone(),
            uid: uid.clone(),
        })
    }
}

impl View {
    /// For publishing. Of a claim whose name is unknown the devices are unknown as well.
    pub fn held(&self) -> Vec<Held> {
        let of_record = |record: &Arc<Record>| Held {
            claim: record.claim(),
            devices: sorted(record.held().map(|device| device.device.clone())),
            state: record.state.into(),
        };
        let of_lost = |(uid, lost): (&ClaimUid, &Lost)| {
            Some(Held {
                claim: lost.claim(uid)?,
                devices: sorted(lost.told.iter().flat_map(|told| told.devices.iter().cloned())),
                state: HeldState::Quarantined,
            })
        };
        let records = self.records.values().map(of_record);
        let mut held: Vec<Held> = records.chain(self.lost.iter().filter_map(of_lost)).collect();
        held.sort_unstable();
        held
    }

    /// True when nothing is held.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.lost.is_empty()
    }

    /// How many claims are in a state.
    pub fn count(&self, state: HeldState) -> usize {
        let records = self.records.values().filter(|record| HeldState::from(record.state) == state);
        records.count() + if state == HeldState::Quarantined { self.lost.len() } else { 0 }
    }

    /// Why a claim cannot have devices: another claim holds one of them, or the function that it is
    /// a part of, or a part of it.
    pub fn conflict(
        &self,
        own: &ClaimUid,
        wanted: &[RecordDevice],
        facts: &Facts,
    ) -> Option<String> {
        let wanted = wanted.iter().filter(|device| !device.admin_access);
        wanted.into_iter().find_map(|device| {
            let records = self.records.values().filter(|record| record.uid != *own);
            let by_record = |record: &Arc<Record>| {
                let held = record.held().find(|held| overlap(device, held.address, held.parent))?;
                let state = HeldState::from(record.state).as_str();
                Some(refusal(
                    &device.device,
                    &held.device,
                    &format!("{} ({state})", record.claim()),
                ))
            };
            let lost = self.lost.iter().filter(|(uid, _)| *uid != own);
            let by_lost = |(uid, lost): (&ClaimUid, &Lost)| {
                let mut names = lost.told.iter().flat_map(|told| &told.devices);
                let held = names.find(|name| {
                    let function = function_of(name, facts);
                    **name == device.device
                        || function
                            .is_some_and(|(address, parent)| overlap(device, address, parent))
                })?;
                let claim = lost.claim(uid)?;
                let state = HeldState::Quarantined.as_str();
                Some(refusal(&device.device, held, &format!("{claim} ({state}: {})", lost.reason)))
            };
            records.into_iter().find_map(by_record).or_else(|| lost.into_iter().find_map(by_lost))
        })
    }
}

fn sorted(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn overlap(wanted: &RecordDevice, address: PciAddress, parent: Option<PciAddress>) -> bool {
    wanted.address == address || wanted.parent == Some(address) || parent == Some(wanted.address)
}

fn refusal(wanted: &str, held: &str, holder: &str) -> String {
    let what = if wanted == held {
        format!("device {wanted}")
    } else {
        format!("device {wanted} shares hardware with {held}, which")
    };
    format!("{what} is held by claim {holder}, until that is unprepared on this node")
}

/// Address of the device with a name, and of its physical function.
fn function_of(name: &str, facts: &Facts) -> Option<(PciAddress, Option<PciAddress>)> {
    let named = |address: PciAddress| {
        [Kind::Gpu, Kind::Nic].iter().any(|kind| kind.device_name(address) == name)
    };
    let function = facts.functions.values().find(|function| named(function.address))?;
    Some((function.address, function.physical_function))
}
