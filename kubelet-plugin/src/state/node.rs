//! The node's state without thread, clock and API server: records, files and the machine, under the
//! lock of the state directory. `prepare`, `release` and `reconcile` beside this file add the operations.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use lanemate_driver::claim::allocated::ClaimUid;
use lanemate_driver::files::Roots;
use lanemate_driver::machine::Machine;
use lanemate_driver::prepare::PrepareOptions;
use lanemate_driver::resource_slice::Mode;

use super::identity::{Identities, Identity};
use super::lock::{Lock, LockError};
use super::mode::ModeInForce;
use super::records::{Bad, OnDisk, Records, RecordsError};
use super::tombstone::Tombstones;
use super::view::{Lost, View};
use super::{Held, HeldState, Ticket, host_files};
use crate::claim_id::ClaimId;
use crate::fault::{self, Point};
use crate::kubernetes::events::{About, Events};
use crate::telemetry::metrics::Metrics;

/// The reason of an event about a record that could not be read and was set aside.
const RECORD_LOST: &str = "RecordLost";

/// Where the state lies, and its bounds.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Directory of records, tombstones, quarantine and lock. Made when it is missing.
    pub directory: PathBuf,
    /// Directories of CDI and metadata files.
    pub roots: Roots,
    /// Kubelet's own record of claims, `<kubelet root>/dra_manager_state`.
    pub kubelet_checkpoint: PathBuf,
    /// How long to wait for another plugin of this node; see [`Settings::LOCK_WAIT`].
    pub lock_wait: Duration,
    /// How long a claim has to be gone before its devices are free; see [`Settings::GONE_GRACE`].
    pub gone_grace: Duration,
    /// Who is to allocate.
    pub mode: Mode,
    /// A text that no other plugin of this node has at the same time, such as the process's id.
    pub instance: String,
}

/// What is read of the host at one moment.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// The machine.
    pub machine: Arc<Machine>,
    /// What others have put on the host, and where metadata files lie.
    pub options: Arc<PrepareOptions>,
    /// `proc/sys/kernel/random/boot_id`; absent when it cannot be read.
    pub boot_id: Option<String>,
}

/// Reads the host.
pub type Source = Box<dyn FnMut() -> Reading + Send>;

/// The node's state. The only one in its process that works on its directory.
pub struct Node {
    pub(super) settings: Settings,
    source: Source,
    pub(super) metrics: Metrics,
    pub(super) events: Events,
    pub(super) records: Records,
    pub(super) tombstones: Tombstones,
    pub(super) identities: Identities,
    /// Cards of claims whose record was undone and that may be prepared again, such as after a reboot.
    pub(super) before_boot: BTreeMap<ClaimUid, Vec<(String, Identity)>>,
    /// Since when claims are known to be gone.
    pub(super) gone: BTreeMap<ClaimUid, Timestamp>,
    pub(super) view: View,
    /// Lost claims that were told of.
    told: BTreeSet<ClaimUid>,
    machine: Arc<Machine>,
    mode: ModeInForce,
}

/// How records are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// With the lock: bad ones are moved.
    Locked,
    /// Without it.
    Look,
}

/// The state cannot be used now.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The directory cannot be made.
    #[error("create directory {path}: {error}")]
    Directory {
        /// Of the state.
        path: PathBuf,
        /// What the operating system says.
        error: io::Error,
    },
    /// The lock was not had.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The records cannot be read.
    #[error(transparent)]
    Records(#[from] RecordsError),
}

impl Settings {
    /// Kubelet waits 45 s for an answer, and the operation itself takes some flushes of a disk.
    pub const LOCK_WAIT: Duration = Duration::from_secs(20);
    /// After a force delete kubelet unprepares within seconds; a restart of kubelet takes longer.
    pub const GONE_GRACE: Duration = Duration::from_secs(60);
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Node {
    /// The state of a directory. Nothing is read or changed on the host yet.
    pub fn new(settings: Settings, source: Source, metrics: Metrics, events: Events) -> Self {
        let directory = &settings.directory;
        Self {
            records: Records::new(directory),
            tombstones: Tombstones::new(directory.join("tombstones"), settings.instance.clone()),
            mode: ModeInForce::read(directory.join("mode"), settings.mode),
            settings,
            source,
            metrics,
            events,
            identities: Identities::default(),
            before_boot: BTreeMap::new(),
            gone: BTreeMap::new(),
            view: View::default(),
            told: BTreeSet::new(),
            machine: Arc::default(),
        }
    }

    /// Reads the machine.
    pub fn read(&mut self, now: Timestamp) -> Reading {
        let reading = (self.source)();
        let is_same = Arc::ptr_eq(&reading.machine, &self.machine)
            || is_same(&reading.machine, &self.machine);
        if !is_same {
            self.identities.note(&reading.machine, now);
            self.machine = Arc::clone(&reading.machine);
        }
        reading
    }

    /// The machine as last read; the same as before where nothing of it has changed.
    pub fn machine(&self) -> Arc<Machine> {
        Arc::clone(&self.machine)
    }

    /// What is held, as of the last operation.
    pub fn held(&self) -> Vec<Held> {
        self.view.held()
    }

    /// Who allocates.
    pub fn mode(&self) -> Mode {
        self.mode.get()
    }

    /// See [`super::Question::Ticket`].
    pub fn ticket(&self, uid: &ClaimUid, now: Timestamp) -> Ticket {
        Ticket { tombstone: self.tombstones.mark(uid, now) }
    }

    /// See [`super::Question::Claims`]. While another plugin is at work, as of the last operation.
    pub fn claims(&mut self) -> Vec<ClaimId> {
        self.refresh();
        self.view.held().into_iter().map(|held| held.claim).collect()
    }

    /// Reads what another plugin may have changed, unless it is at work.
    pub fn refresh(&mut self) {
        match self.begin_within(Duration::ZERO) {
            Ok(lock) => self.end(lock),
            Err(StateError::Lock(LockError::Held { .. })) => {}
            Err(error) => tracing::warn!(%error, "the records cannot be read"),
        }
    }

    /// Reads the records without the lock and changes nothing: better than to publish that nothing is
    /// held, where the lock cannot be had.
    pub(super) fn look(&mut self) {
        if let Err(error) = self.load(Access::Look) {
            tracing::error!(%error, "the records cannot be read: what is held is unknown");
        }
    }

    /// Begins an operation: takes the lock and reads the records.
    pub(super) fn begin(&mut self) -> Result<Lock, StateError> {
        self.begin_within(self.settings.lock_wait)
    }

    /// Ends an operation that has changed records: what others see of them is brought up to date.
    pub(super) fn end(&mut self, lock: Lock) {
        if let Err(error) = self.load(Access::Locked) {
            tracing::warn!(%error, "the records cannot be read");
        }
        self.mode.settle(!self.view.is_empty(), &self.events);
        drop(lock);
        for state in HeldState::ALL {
            self.metrics.records(state.as_str(), self.view.count(state));
        }
    }

    fn begin_within(&mut self, wait: Duration) -> Result<Lock, StateError> {
        let path = &self.settings.directory;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|error| StateError::Directory { path: path.clone(), error })?;
        let begun = Instant::now();
        let lock = Lock::take(&path.join("lock"), wait);
        self.metrics.lock_wait(begun.elapsed());
        let lock = lock?;
        self.load(Access::Locked)?;
        Ok(lock)
    }

    /// Reads the records, and what stands beside them.
    fn load(&mut self, access: Access) -> Result<(), RecordsError> {
        let OnDisk { good, bad } = self.records.read()?;
        let mut lost = BTreeMap::new();
        for bad in bad {
            lost.insert(bad.uid.clone(), self.lost_record(bad, access));
        }
        for (uid, told) in self.records.in_quarantine()? {
            if good.contains_key(&uid) {
                // Rebuilt or prepared anew before the file could be put away.
                if access == Access::Locked {
                    self.resolve(&uid);
                }
            } else {
                let is_sure = told.as_ref().is_some_and(|(_, is_sure)| *is_sure);
                let reason = "its record is in quarantine".to_owned();
                let told = told.map(|(told, _)| told);
                lost.entry(uid).or_insert(Lost { told, is_sure, reason });
            }
        }
        for uid in host_files::claims_with_spec(&self.settings.roots)? {
            if good.contains_key(&uid) {
                continue;
            }
            let told = host_files::told_by_spec(&uid, &self.settings.roots)?;
            let lost = lost.entry(uid).or_insert_with(|| Lost {
                reason: "it has a CDI file and no record".to_owned(),
                ..Lost::default()
            });
            // The file was written whole, which is more than can be said of a bad record.
            if !lost.is_sure && told.is_some() {
                (lost.told, lost.is_sure) = (told, true);
            }
        }
        self.view = View { records: good, lost };
        self.tell_of_lost();
        Ok(())
    }

    /// A bad record goes to quarantine. A newer one stays where it is, since a newer plugin may be
    /// at work beside this one, until it has to make room.
    fn lost_record(&mut self, bad: Bad, access: Access) -> Lost {
        let is_sure = bad.is_newer();
        let reason = format!("its record cannot be used: {}", bad.error);
        if !self.told.contains(&bad.uid) {
            self.metrics.quarantined();
        }
        if !is_sure && access == Access::Locked {
            let moved = self.records.set_aside(&bad.uid);
            let passed = fault::at(Point::QuarantineMoved);
            match (moved, passed) {
                (Ok(place), Ok(())) => {
                    tracing::warn!(claim = %bad.uid, place = %place.display(), "{reason}");
                }
                (moved, _) => tracing::warn!(claim = %bad.uid, ?moved, "{reason}; not moved"),
            }
        }
        Lost { told: bad.readable, is_sure, reason }
    }

    fn tell_of_lost(&mut self) {
        self.told.retain(|uid| self.view.lost.contains_key(uid));
        for (uid, lost) in &self.view.lost {
            if !self.told.insert(uid.clone()) {
                continue;
            }
            let claim = lost.claim(uid);
            let shown = claim.as_ref().map_or_else(|| uid.to_string(), ClaimId::to_string);
            let note = format!(
                "claim {shown}: {}; its devices stay held until reconciliation rebuilds the record \
                 or finds the claim gone",
                lost.reason
            );
            tracing::warn!("{note}");
            self.events.warn(claim.map_or(About::Node, About::Claim), RECORD_LOST, note);
        }
    }

    /// Puts away what lies in quarantine of a claim.
    pub(super) fn resolve(&self, uid: &ClaimUid) {
        if let Err(error) = self.records.resolve(uid) {
            tracing::warn!(claim = %uid, %error, "quarantine");
        }
    }
}

/// Topology follows from the facts, and from an override that does not change while the plugin runs.
fn is_same(one: &Machine, other: &Machine) -> bool {
    let (a, b) = (&one.inventory, &other.inventory);
    a.node == b.node
        && a.devices == b.devices
        && a.left_out == b.left_out
        && a.problems == b.problems
        && one.facts == other.facts
}
