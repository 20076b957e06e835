//! Takes the effects of claims back: the undoing of a failed Prepare, Unprepare, and what reconciliation
//! does with claims that are gone.
//!
//! The CDI file goes first, since it gives the devices to containers, and the record goes last, since
//! it holds the devices. A crash in between leaves a record, by which all of it is done again. So
//! `Releasing` is written only when a step fails: without it a record that says `Prepared` would have its
//! files written again at the next start.

use std::fmt;
use std::io;

use jiff::Timestamp;
use lanemate_driver::claim::allocated::ClaimUid;
use lanemate_driver::files::{FilesError, remove};
use lanemate_driver::prepare::PlannedPath;

use super::node::Node;
use super::record::{Record, RecordState};
use super::records::RecordsError;
use super::{UnprepareError, host_files};
use crate::claim_id::ClaimId;
use crate::fault::{self, Point};

/// The points that a release passes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Points {
    /// After each file.
    pub file: Point,
    /// After the record.
    pub record: Point,
}

/// A step of a release that failed. The devices stay held.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReleaseError {
    /// A file of the host.
    #[error(transparent)]
    File(#[from] FilesError),
    /// The record.
    #[error(transparent)]
    Record(#[from] RecordsError),
    /// A fault that a test has put there.
    #[error("{0}")]
    Fault(#[from] io::Error),
}

/// Of a Prepare that failed.
pub(super) const UNDO: Points = Points { file: Point::UndoFile, record: Point::UndoRecord };
/// Of reconciliation.
pub(super) const RECONCILE: Points =
    Points { file: Point::ReconcileFile, record: Point::ReconcileRecord };
const UNPREPARE: Points = Points { file: Point::UnprepareFile, record: Point::UnprepareRecord };

impl Node {
    /// See [`super::Question::Unprepare`]. Needs neither the API server nor the kernel driver.
    ///
    /// # Errors
    /// A step failed. The devices stay held.
    pub fn unprepare(&mut self, claim: &ClaimId, now: Timestamp) -> Result<(), UnprepareError> {
        let failed = |error: &dyn fmt::Display| {
            UnprepareError::Failed(format!("unprepare claim {claim}: {error}"))
        };
        let lock = self.begin().map_err(|error| failed(&error))?;
        let released = self.unprepare_locked(&claim.uid, now).map_err(|error| failed(&error));
        self.end(lock);
        released
    }

    fn unprepare_locked(&mut self, uid: &ClaimUid, now: Timestamp) -> Result<(), ReleaseError> {
        fault::at(Point::UnprepareBegin)?;
        self.bury(uid, now);
        fault::at(Point::UnprepareTombstone)?;
        self.before_boot.remove(uid);
        self.release(uid, UNPREPARE)
    }

    /// Leaves a tombstone. On a full disk that must not keep the devices from being freed.
    pub(super) fn bury(&mut self, uid: &ClaimUid, now: Timestamp) {
        if let Err(error) = self.tombstones.put(uid, now) {
            tracing::warn!(claim = %uid, %error, "the tombstone is kept in memory only");
        }
    }

    /// Releases whatever there is of a claim; nothing is success.
    pub(super) fn release(&mut self, uid: &ClaimUid, points: Points) -> Result<(), ReleaseError> {
        if let Some(record) = self.view.records.get(uid).cloned() {
            return self.release_record(&record, points);
        }
        if self.view.lost.contains_key(uid) {
            let paths = host_files::of_claim(uid, &self.settings.roots);
            self.remove_files(&paths, points)?;
            host_files::remove_metadata(uid, &self.settings.roots)?;
            self.records.set_aside_if_there(uid)?;
            self.records.resolve(uid)?;
            fault::at(points.record)?;
            self.gone.remove(uid);
        }
        Ok(())
    }

    /// Takes back the effects of a record, and removes it.
    pub(super) fn release_record(
        &mut self,
        record: &Record,
        points: Points,
    ) -> Result<(), ReleaseError> {
        let paths: Vec<PlannedPath> =
            record.effects.iter().map(|effect| effect.path.clone()).collect();
        let released = self.remove_files(&paths, points).and_then(|()| {
            self.records.remove(&record.uid)?;
            Ok(fault::at(points.record)?)
        });
        if released.is_ok() {
            self.gone.remove(&record.uid);
        } else if record.state != RecordState::Releasing {
            let releasing = Record { state: RecordState::Releasing, ..record.clone() };
            if let Err(error) = self.records.write(&releasing) {
                // The files are then written again at the next start, and removed again after it.
                tracing::warn!(claim = %record.claim(), %error, "the record cannot say Releasing");
            }
        }
        released
    }

    fn remove_files(&self, paths: &[PlannedPath], points: Points) -> Result<(), ReleaseError> {
        for path in paths.iter().rev() {
            remove([path], &self.settings.roots)?;
            fault::at(points.file)?;
        }
        Ok(())
    }
}
