//! Reconciliation: what was left by crashes, restarts and people is brought back into order. At the
//! start without the API server; later with what it says became of the claims.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::resource::v1::ResourceClaim;
use lanemate_driver::claim::allocated::{AllocatedClaim, AllocatedClaimError, ClaimUid};
use lanemate_driver::files::sweep;
use lanemate_driver::prepare::PreparePlan;

use super::node::{Node, Reading};
use super::plans::{self, is_for, names_are, plan_again, plan_lost, replaced, results_here};
use super::prepare::{is_of_other_boot, new_record};
use super::record::{Record, RecordDevice, RecordState};
use super::release::{RECONCILE, ReleaseError};
use super::{Fate, Reconciled, host_files, kubelet};
use crate::claim_id::ClaimId;
use crate::fault::{self, Point};

/// Why a claim may have to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gone {
    /// The API server does not have it.
    Deleted,
    /// It is there and has no device of this node, or its name cannot be trusted: kubelet must have
    /// forgotten it as well.
    Unallocated,
}

/// A claim that cannot be brought into order now.
#[derive(Debug, thiserror::Error)]
pub(super) enum RepairError {
    /// The machine or the claim stands against it.
    #[error("{0}")]
    Refused(String),
    /// A step failed.
    #[error(transparent)]
    Step(#[from] ReleaseError),
}

impl Node {
    /// Brings records and files into order before anybody asks. What fails is told, and tried again
    /// by later reconciliations: no state of the directories keeps the plugin from starting.
    pub fn start(&mut self, reading: &Reading) -> Reconciled {
        let mut done = Reconciled::default();
        let lock = match self.begin() {
            Ok(lock) => lock,
            Err(error) => {
                tracing::error!(%error, "the state cannot be used: no claim can be prepared");
                self.look();
                return done;
            }
        };
        self.forget_other_boots(reading, &mut done);
        self.keep_order(reading, &mut done);
        self.end(lock);
        self.count(&done);
        done
    }

    /// See [`super::Question::Reconcile`].
    pub fn reconcile(
        &mut self,
        fates: Vec<(ClaimId, Fate)>,
        reading: &Reading,
        now: Timestamp,
    ) -> Reconciled {
        let mut done = Reconciled::default();
        let lock = match self.begin() {
            Ok(lock) => lock,
            Err(error) => {
                let failed = fates.into_iter().map(|(claim, _)| (claim, error.to_string()));
                done.failed = failed.collect();
                return done;
            }
        };
        self.keep_order(reading, &mut done);
        for (claim, fate) in fates {
            self.settle(&claim, fate, reading, now, &mut done);
        }
        self.release_nameless(now);
        self.end(lock);
        self.gone.retain(|uid, _| {
            self.view.records.contains_key(uid) || self.view.lost.contains_key(uid)
        });
        self.count(&done);
        done
    }

    /// Records of before the machine was started anew hold nothing: no container has survived. What
    /// has of their files goes. Kubelet prepares again before it makes a sandbox, and a card that was
    /// moved meanwhile is found then.
    fn forget_other_boots(&mut self, reading: &Reading, done: &mut Reconciled) {
        let records = self.view.records.values();
        let old = records.filter(|record| is_of_other_boot(record, reading)).cloned();
        for record in old.collect::<Vec<_>>() {
            self.remember_cards(&record);
            self.finish(&record, done);
        }
    }

    /// Which cards a claim had, for when it is prepared again.
    pub(super) fn remember_cards(&mut self, record: &Record) {
        let cards = record.devices.iter();
        let cards = cards.map(|device| (device.device.clone(), device.identity.clone()));
        self.before_boot.insert(record.uid.clone(), cards.collect());
    }

    /// What can be done without the API server.
    fn keep_order(&mut self, reading: &Reading, done: &mut Reconciled) {
        self.sweep();
        for record in self.view.records.values().cloned().collect::<Vec<_>>() {
            if record.state != RecordState::Prepared {
                self.finish(&record, done);
            } else if !is_of_other_boot(&record, reading) {
                match self.repair(&record, reading) {
                    Ok(true) => done.repaired.push(record.claim()),
                    Ok(false) => {}
                    Err(error) => done.failed.push((record.claim(), error.to_string())),
                }
            }
        }
    }

    /// Undoes what is left of a claim that is not prepared.
    fn finish(&mut self, record: &Record, done: &mut Reconciled) {
        match self.release_record(record, RECONCILE) {
            Ok(()) => {
                self.view.records.remove(&record.uid);
                tracing::info!(claim = %record.claim(), state = ?record.state, "left over: undone");
            }
            Err(error) => done.failed.push((record.claim(), error.to_string())),
        }
    }

    /// Removes files that no claim has. All writers hold the lock, so none is at work.
    fn sweep(&self) {
        let roots = &self.settings.roots;
        let mut swept: Vec<Result<(), ReleaseError>> = vec![
            self.records.sweep().map_err(Into::into),
            sweep(&self.settings.directory).map_err(Into::into),
            sweep(&roots.cdi).map_err(Into::into),
        ];
        for uid in host_files::claims_with_metadata(roots) {
            let is_known =
                self.view.records.contains_key(&uid) || self.view.lost.contains_key(&uid);
            let sweep =
                if is_known { host_files::sweep_metadata } else { host_files::remove_metadata };
            swept.push(sweep(&uid, roots).map_err(Into::into));
        }
        for error in swept.into_iter().filter_map(Result::err) {
            tracing::warn!(%error, "files of nobody");
        }
    }

    /// Writes missing and different files of a prepared claim again. True when there were such.
    pub(super) fn repair(
        &mut self,
        record: &Record,
        reading: &Reading,
    ) -> Result<bool, RepairError> {
        let refused = |error: &dyn std::fmt::Display| RepairError::Refused(error.to_string());
        let object = record.allocation.claim(&record.claim()).map_err(|error| refused(&error))?;
        let claim = AllocatedClaim::parse(&object).map_err(|error| refused(&error))?;
        if let Some((device, before, present)) = replaced(record, reading) {
            let note = format!("device {device}: it was {before}, and now there is {present}");
            return Err(RepairError::Refused(note));
        }
        let plan = plan_again(record, &claim, reading).map_err(|error| refused(&error))?;
        let spec =
            self.settings.roots.cdi.join(plan.files.last().map_or("", |file| &file.path.path));
        if !names_are(record, &plan) && spec.exists() {
            // Kubelet goes by the old names; the next Prepare tells it the new ones.
            return Ok(false);
        }
        Ok(self.bring_to(record, &plan, &object, reading)?)
    }

    /// What a claim's fate asks for.
    fn settle(
        &mut self,
        id: &ClaimId,
        fate: Fate,
        reading: &Reading,
        now: Timestamp,
        done: &mut Reconciled,
    ) {
        let uid = &id.uid;
        let is_held = self.view.records.contains_key(uid) || self.view.lost.contains_key(uid);
        if !is_held {
            return;
        }
        let settled = match fate {
            Fate::Unknown(_) => return,
            Fate::Exists(claim) if claim.metadata.uid.as_deref() == Some(uid.as_str()) => {
                self.settle_existing(id, &claim, reading, now, done)
            }
            Fate::Exists(_) | Fate::Gone => self.settle_gone(id, Gone::Deleted, now, done),
        };
        if let Err(error) = settled {
            tracing::warn!(claim = %id, %error, "reconcile");
            done.failed.push((id.clone(), error.to_string()));
        }
    }

    fn settle_existing(
        &mut self,
        id: &ClaimId,
        object: &ResourceClaim,
        reading: &Reading,
        now: Timestamp,
        done: &mut Reconciled,
    ) -> Result<(), RepairError> {
        let node = &reading.machine.inventory.node;
        let claim = match AllocatedClaim::parse(object) {
            Ok(claim) if results_here(&claim, node).next().is_some() => claim,
            Ok(_) | Err(AllocatedClaimError::NotAllocated(_)) => {
                return self.settle_gone(id, Gone::Unallocated, now, done);
            }
            Err(error) => return Err(RepairError::Refused(error.to_string())),
        };
        self.gone.remove(&id.uid);
        match self.view.records.get(&id.uid) {
            Some(record) if !is_for(record, &claim, node) => Err(RepairError::Refused(
                "its allocation names other devices than those that it holds: kubelet has to \
                 unprepare it"
                    .to_owned(),
            )),
            Some(_) => Ok(()),
            None => {
                self.rebuild(id, &claim, object, reading)?;
                done.rebuilt.push(id.clone());
                Ok(())
            }
        }
    }

    /// Writes the record of a claim anew that is allocated and has lost it.
    fn rebuild(
        &mut self,
        id: &ClaimId,
        claim: &AllocatedClaim,
        object: &ResourceClaim,
        reading: &Reading,
    ) -> Result<(), RepairError> {
        let plan = plan_lost(claim, reading, self)
            .map_err(|error| RepairError::Refused(error.to_string()))?;
        let devices = plans::devices(claim, &plan, reading);
        if let Some(conflict) = self.view.conflict(&id.uid, &devices, &reading.machine.facts) {
            return Err(RepairError::Refused(conflict));
        }
        Ok(self.write_lost(id, object, reading, devices, &plan)?)
    }

    /// Writes record and files of a claim whose record is lost. It says `Prepared` at once, since
    /// containers may run.
    pub(super) fn write_lost(
        &mut self,
        id: &ClaimId,
        object: &ResourceClaim,
        reading: &Reading,
        devices: Vec<RecordDevice>,
        plan: &PreparePlan,
    ) -> Result<(), ReleaseError> {
        let planned = plan.files.iter().map(|file| file.path.clone());
        let mut paths = host_files::of_claim(&id.uid, &self.settings.roots);
        paths.retain(|path| plan.files.iter().all(|file| file.path != *path));
        let paths = paths.into_iter().chain(planned);
        let record = new_record(id, RecordState::Prepared, object, reading, devices, paths);
        self.records.set_aside_if_there(&id.uid)?;
        self.records.write(&record)?;
        fault::at(Point::RebuildRecorded)?;
        self.resolve(&id.uid);
        fault::at(Point::RebuildResolved)?;
        self.view.lost.remove(&id.uid);
        self.view.records.insert(id.uid.clone(), record.clone().into());
        self.bring_to(&record, plan, object, reading)?;
        Ok(())
    }

    fn settle_gone(
        &mut self,
        id: &ClaimId,
        gone: Gone,
        now: Timestamp,
        done: &mut Reconciled,
    ) -> Result<(), RepairError> {
        let is_sure = self.view.lost.get(&id.uid).is_none_or(|lost| lost.is_sure);
        let gone = if is_sure { gone } else { Gone::Unallocated };
        if !self.may_go(&id.uid, gone, now) {
            done.waiting.push(id.clone());
            return Ok(());
        }
        self.let_go(&id.uid, now)?;
        tracing::info!(claim = %id, ?gone, "released");
        done.released.push(id.clone());
        Ok(())
    }

    /// A claim of which nothing can be read but its UID is released when kubelet does not have it.
    fn release_nameless(&mut self, now: Timestamp) {
        let lost = self.view.lost.iter().filter(|(_, lost)| lost.told.is_none());
        for uid in lost.map(|(uid, _)| uid.clone()).collect::<Vec<_>>() {
            if self.may_go(&uid, Gone::Unallocated, now) {
                match self.let_go(&uid, now) {
                    Ok(()) => tracing::info!(claim = %uid, "released: nothing is known of it"),
                    Err(error) => tracing::warn!(claim = %uid, %error, "release"),
                }
            }
        }
    }

    /// After a force delete containers can outlive their claim, and a device freed early is given
    /// twice. So a claim has to be gone for a while, and kubelet must not have it any more.
    fn may_go(&mut self, uid: &ClaimUid, gone: Gone, now: Timestamp) -> bool {
        let since = self.gone.entry(uid.clone()).or_insert(now);
        // Where the clock was set back the wait begins anew.
        *since = now.min(*since);
        let grace =
            SignedDuration::try_from(self.settings.gone_grace).unwrap_or(SignedDuration::MAX);
        if now.duration_since(*since) < grace {
            return false;
        }
        match kubelet::remembers(&self.settings.kubelet_checkpoint, uid) {
            Some(remembers) => !remembers,
            None => gone == Gone::Deleted,
        }
    }

    fn let_go(&mut self, uid: &ClaimUid, now: Timestamp) -> Result<(), ReleaseError> {
        // A call that read the claim before it went must not bring it back.
        self.bury(uid, now);
        fault::at(Point::ReconcileTombstone)?;
        self.release(uid, RECONCILE)?;
        self.view.records.remove(uid);
        self.view.lost.remove(uid);
        Ok(())
    }

    fn count(&self, done: &Reconciled) {
        let Reconciled { released, waiting, rebuilt, repaired, failed } = done;
        for (result, count) in [
            ("released", released.len()),
            ("waiting", waiting.len()),
            ("rebuilt", rebuilt.len()),
            ("repaired", repaired.len()),
            ("failed", failed.len()),
        ] {
            (0..count).for_each(|_| self.metrics.reconciled(result));
        }
    }
}
