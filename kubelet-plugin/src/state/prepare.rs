//! Prepare: all checks before any effect, and each effect on record before it is there.

use jiff::Timestamp;
use k8s_openapi::api::resource::v1::ResourceClaim;
use lanemate_driver::claim::allocated::AllocatedClaim;
use lanemate_driver::files::apply;
use lanemate_driver::prepare::PreparePlan;
use serde_json::Map;

use super::identity::Identity;
use super::node::{Node, Reading};
use super::plans::{self, EFFECT, is_for, plan, plan_again, replaced, results_here};
use super::record::{Allocation, Effect, MIN_READER, Record, RecordDevice, RecordState, SCHEMA};
use super::release::{ReleaseError, UNDO};
use super::{Consumer, Fetched, PrepareError, Prepared};
use crate::claim_id::ClaimId;
use crate::fault::{self, Point};

/// Program and version, for people.
pub(super) const WRITER: &str = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"));

/// A claim that is asked for.
struct Asked<'a> {
    id: ClaimId,
    claim: AllocatedClaim,
    object: &'a ResourceClaim,
    reading: &'a Reading,
}

impl Asked<'_> {
    fn node(&self) -> &str {
        &self.reading.machine.inventory.node
    }

    fn refused(&self, why: impl std::fmt::Display) -> PrepareError {
        PrepareError::Refused(format!("prepare claim {}: {why}", self.id))
    }

    fn failed(&self, why: impl std::fmt::Display) -> PrepareError {
        PrepareError::Failed(format!("prepare claim {}: {why}", self.id))
    }
}

impl Node {
    /// See [`super::Question::Prepare`]. The reading was begun after the claim was asked for, since
    /// minor numbers change when a driver is loaded anew.
    ///
    /// # Errors
    /// See [`PrepareError`].
    pub fn prepare(
        &mut self,
        fetched: &Fetched,
        reading: &Reading,
        now: Timestamp,
    ) -> Result<Prepared, PrepareError> {
        let claim = AllocatedClaim::parse(&fetched.claim)
            .map_err(|error| PrepareError::Refused(error.to_string()))?;
        let id = ClaimId {
            namespace: claim.namespace.clone(),
            name: claim.name.clone(),
            uid: claim.uid.clone(),
        };
        let asked = Asked { id, claim, object: &fetched.claim, reading };
        let lock = self.begin().map_err(|error| asked.failed(error))?;
        let prepared = self.prepare_locked(&asked, fetched, now);
        self.end(lock);
        if prepared.is_ok() {
            self.gone.remove(&asked.id.uid);
        }
        prepared
    }

    /// See [`super::Question::Prepared`]: the answer for a claim that is prepared, with its files in
    /// place.
    pub fn prepared(&mut self, claim: &ClaimId, reading: &Reading) -> Option<Prepared> {
        let lock = self.begin().ok()?;
        let record = self.view.records.get(&claim.uid).cloned();
        let record = record.filter(|record| {
            record.state == RecordState::Prepared
                && record.claim() == *claim
                && !is_of_other_boot(record, reading)
        });
        let repaired = record.map(|record| self.repair(&record, reading));
        // As repaired: the CDI names may be others.
        let record = self.view.records.get(&claim.uid).cloned();
        self.end(lock);
        match repaired? {
            Ok(_) => Some(Prepared { devices: record?.prepared(), notes: Vec::new() }),
            Err(error) => {
                tracing::warn!(%claim, %error, "a prepared claim cannot be restored");
                None
            }
        }
    }

    fn prepare_locked(
        &mut self,
        asked: &Asked<'_>,
        fetched: &Fetched,
        now: Timestamp,
    ) -> Result<Prepared, PrepareError> {
        self.check_tombstone(asked, fetched, now)?;
        let Some(record) = self.view.records.get(&asked.id.uid).cloned() else {
            return self.prepare_fresh(asked);
        };
        if record.state == RecordState::Prepared && !is_of_other_boot(&record, asked.reading) {
            return self.prepare_again(asked, &record);
        }
        self.release_record(&record, UNDO)
            .map_err(|error| asked.failed(format!("undo what an earlier try has left: {error}")))?;
        self.prepare_fresh(asked)
    }

    /// What was read of a claim before it was unprepared says nothing about it now.
    fn check_tombstone(
        &self,
        asked: &Asked<'_>,
        fetched: &Fetched,
        now: Timestamp,
    ) -> Result<(), PrepareError> {
        let Some(mark) = self.tombstones.mark(&asked.id.uid, now) else { return Ok(()) };
        if fetched.ticket.tombstone != Some(mark) {
            return Err(PrepareError::Stale(asked.id.clone()));
        }
        match &fetched.consumer {
            Consumer::Alive => Ok(()),
            Consumer::Gone(instead) => Err(asked.refused(format!(
                "it was unprepared lately, and no pod that is not ending has it reserved: {instead}"
            ))),
            Consumer::NotAsked => Err(PrepareError::Stale(asked.id.clone())),
        }
    }

    /// A claim that is prepared: for the next of its pods, or after a restart of kubelet.
    fn prepare_again(
        &mut self,
        asked: &Asked<'_>,
        record: &Record,
    ) -> Result<Prepared, PrepareError> {
        if !is_for(record, &asked.claim, asked.node()) {
            return Err(asked.refused(format!(
                "it is prepared with {}, and its allocation now names {}: kubelet has to unprepare it \
                 first",
                listed(record.devices.iter().map(|device| &*device.device)),
                listed(results_here(&asked.claim, asked.node()).map(|result| &*result.device)),
            )));
        }
        if let Some((device, before, present)) = replaced(record, asked.reading) {
            return Err(asked.refused(other_card(&device, &before, &present)));
        }
        let plan = plan_again(record, &asked.claim, asked.reading)
            .map_err(|error| asked.refused(error))?;
        self.bring_to(record, &plan, asked.object, asked.reading)
            .map_err(|error| asked.failed(error))?;
        Ok(Prepared { devices: plan.devices, notes: plan.notes })
    }

    fn prepare_fresh(&mut self, asked: &Asked<'_>) -> Result<Prepared, PrepareError> {
        let plan = plan(&asked.claim, asked.reading).map_err(|error| asked.refused(error))?;
        let devices = plans::devices(&asked.claim, &plan, asked.reading);
        self.check(asked, &devices)?;
        let record = reserved(asked, devices, &plan);
        if let Err(error) = self.carry_out(&record, &plan) {
            return Err(asked.failed(self.undo(&record, error)));
        }
        self.before_boot.remove(&asked.id.uid);
        Ok(Prepared { devices: plan.devices, notes: plan.notes })
    }

    /// What stands against a claim that is not prepared yet.
    fn check(&self, asked: &Asked<'_>, devices: &[RecordDevice]) -> Result<(), PrepareError> {
        let metadata = &asked.object.metadata;
        let status = asked.object.status.as_ref();
        let is_reserved = status
            .and_then(|status| status.reserved_for.as_ref())
            .is_some_and(|consumers| !consumers.is_empty());
        if metadata.deletion_timestamp.is_some() && !is_reserved {
            return Err(asked.refused("it is being deleted, and no pod has it reserved"));
        }
        let allocated = status
            .and_then(|status| status.allocation.as_ref())
            .and_then(|allocation| allocation.allocation_timestamp.as_ref())
            .or(metadata.creation_timestamp.as_ref())
            .map(|time| time.0);
        let before = self.before_boot.get(&asked.id.uid).map_or(&[][..], Vec::as_slice);
        for device in devices {
            if let Some([before, present]) = self.identities.replaced(&device.device, allocated) {
                return Err(asked.refused(other_card(&device.device, before, present)));
            }
            let before = before.iter().find(|(name, _)| *name == device.device);
            if let Some((_, before)) = before.filter(|(_, card)| card.differs(&device.identity)) {
                return Err(asked.refused(other_card(&device.device, before, &device.identity)));
            }
        }
        match self.view.conflict(&asked.id.uid, devices, &asked.reading.machine.facts) {
            Some(conflict) => Err(asked.refused(conflict)),
            None => Ok(()),
        }
    }

    /// The effects, each of them on record before it is there.
    fn carry_out(&mut self, record: &Record, plan: &PreparePlan) -> Result<(), ReleaseError> {
        fault::at(Point::PrepareBegin)?;
        self.records.set_aside_if_there(&record.uid)?;
        self.records.write(record)?;
        self.resolve(&record.uid);
        fault::at(Point::PrepareReserved)?;
        for file in &plan.files {
            apply(std::slice::from_ref(file), &self.settings.roots, EFFECT)?;
            fault::at(Point::PrepareFile)?;
        }
        let prepared = Record { state: RecordState::Prepared, ..record.clone() };
        self.records.write(&prepared)?;
        Ok(fault::at(Point::PrepareRecorded)?)
    }

    /// Takes back what a failed Prepare has done. The first error is told, and that of the undoing.
    fn undo(&mut self, record: &Record, first: ReleaseError) -> String {
        match self.release_record(record, UNDO) {
            Ok(()) => format!("{first}; what was done is undone"),
            Err(error) => format!(
                "{first}; undoing it failed as well: {error}; the devices stay held until that succeeds"
            ),
        }
    }
}

/// True for a record of before the machine was started anew. An unknown boot is taken for this one.
pub(super) fn is_of_other_boot(record: &Record, reading: &Reading) -> bool {
    match (&record.boot_id, &reading.boot_id) {
        (Some(then), Some(now)) => then != now,
        _ => false,
    }
}

fn reserved(asked: &Asked<'_>, devices: Vec<RecordDevice>, plan: &PreparePlan) -> Record {
    Record {
        schema: SCHEMA,
        min_reader: MIN_READER,
        writer: WRITER.to_owned(),
        namespace: asked.id.namespace.clone(),
        name: asked.id.name.clone(),
        uid: asked.id.uid.clone(),
        state: RecordState::Reserved,
        boot_id: asked.reading.boot_id.clone(),
        devices,
        effects: plan.files.iter().map(|file| Effect::file(file.path.clone())).collect(),
        allocation: Allocation::of(asked.object),
        rest: Map::new(),
    }
}

fn other_card(device: &str, before: &Identity, present: &Identity) -> String {
    format!(
        "another card stands at the address of device {device}: it was allocated as {before}, now \
         there is {present}; delete the pod, so that its claim is allocated anew"
    )
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "no device".to_owned() } else { names.join(", ") }
}
