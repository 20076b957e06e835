//! What this node holds: one thread owns it, others ask it through [`State`].
//!
//! ```text
//!            prepare                effects done
//!   (none) ----------> Reserved ------------------> Prepared
//!      ^                  |  undo, or found at start    |
//!      |                  v                             | unprepare
//!      +------------- Releasing <-----------------------+
//!        tombstone, effects undone, record removed
//!
//!   Prepared ---> Quarantined ---> Prepared, when the claim is allocated still
//!     record spoilt,         \---> (none), when it is gone and kubelet has forgotten it
//!     newer or lost
//! ```
//! A device is held from the moment that the record says `Reserved` until the record is gone. `Releasing`
//! is on disk only after a step of the undoing has failed.

mod host_files;
mod identity;
mod kubelet;
mod lock;
mod mode;
mod node;
mod plans;
mod prepare;
mod reconcile;
pub mod record;
mod records;
mod release;
mod tend;
mod thread;
mod tombstone;
mod view;

pub use lanemate_api::node_state::HeldState;
pub use node::{Node, Reading, Settings, Source, StateError};
pub use thread::start;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::resource::v1::ResourceClaim;
use lanemate_driver::claim::allocated::ClaimUid;
use lanemate_driver::machine::Machine;
use lanemate_driver::prepare::PreparedDevice;
use lanemate_driver::resource_slice::Mode;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::claim_id::ClaimId;

/// Questions that wait for the thread. Kubelet sends one call per pod, and callers wait for answers.
const WAITING: usize = 256;

/// Asks the thread that owns the node's state; cheap to clone.
#[derive(Clone, Debug)]
pub struct State {
    questions: mpsc::Sender<Question>,
    held: watch::Receiver<Arc<Vec<Held>>>,
    machine: watch::Receiver<Arc<Machine>>,
    mode: watch::Receiver<Mode>,
}

/// What the thread is asked.
#[derive(Debug)]
pub enum Question {
    /// A look at the tombstone of a claim, before the claim is read from the API server.
    Ticket(ClaimUid, oneshot::Sender<Ticket>),
    /// Prepare a claim. Not begun after the deadline.
    Prepare(Box<Fetched>, Instant, oneshot::Sender<Result<Prepared, PrepareError>>),
    /// Answer for a claim that is prepared already, while the API server cannot be asked.
    Prepared(ClaimId, oneshot::Sender<Option<Prepared>>),
    /// Unprepare a claim. Not begun after the deadline.
    Unprepare(ClaimId, Instant, oneshot::Sender<Result<(), UnprepareError>>),
    /// The claims on record, those in quarantine included.
    Claims(oneshot::Sender<Vec<ClaimId>>),
    /// What became of claims on record.
    Reconcile(Vec<(ClaimId, Fate)>, oneshot::Sender<Reconciled>),
    /// Read the machine again.
    Rescan(oneshot::Sender<()>),
    /// Write files of prepared claims again that somebody has removed. True when none is missing.
    Tend(oneshot::Sender<bool>),
}

/// What was seen of a claim's tombstone before the claim was read. A tombstone says that the claim
/// was unprepared; what was read of the claim before that must not bring it back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ticket {
    /// The mark of the tombstone; absent when there is none.
    pub tombstone: Option<String>,
}

/// A claim as the API server has it, read after the ticket was taken.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The claim. Its UID is what kubelet asked for.
    pub claim: ResourceClaim,
    /// Taken before the claim was read.
    pub ticket: Ticket,
    /// Whether a pod wants it; asked for when the ticket has a tombstone.
    pub consumer: Consumer,
}

/// Whether a pod that is not ending has the claim reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consumer {
    /// Nobody asked.
    NotAsked,
    /// At least one.
    Alive,
    /// None; the text says what there is instead.
    Gone(String),
}

/// A prepared claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// What kubelet gets.
    pub devices: Vec<PreparedDevice>,
    /// What a person may want to know.
    pub notes: Vec<String>,
}

/// A claim that this node holds devices for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    /// The claim.
    pub claim: ClaimId,
    /// Names of its devices, sorted.
    pub devices: Vec<String>,
    /// How far it is.
    pub state: HeldState,
}

/// What became of a claim on record.
#[derive(Clone, Debug)]
pub enum Fate {
    /// It exists, with this content.
    Exists(Box<ResourceClaim>),
    /// It does not exist, or another claim has its name.
    Gone,
    /// The API server did not say.
    Unknown(String),
}

/// What reconciliation did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Claims that were unprepared because they are gone.
    pub released: Vec<ClaimId>,
    /// Claims that are gone for too short a time, or of which kubelet still knows: look again soon.
    pub waiting: Vec<ClaimId>,
    /// Claims whose record was rebuilt.
    pub rebuilt: Vec<ClaimId>,
    /// Claims whose files were written again.
    pub repaired: Vec<ClaimId>,
    /// What failed, in words.
    pub failed: Vec<(ClaimId, String)>,
}

/// Why a claim is not prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The claim was unprepared after it was read: read it again.
    #[error("claim {0} was unprepared while it was being read")]
    Stale(ClaimId),
    /// The claim, the machine or another claim stands against it.
    #[error("{0}")]
    Refused(String),
    /// A step failed; what it had done is undone. Kubelet tries again.
    #[error("{0}")]
    Failed(String),
    /// The thread came to it too late, so kubelet no longer listens.
    #[error("claim {0} was not begun within the time that kubelet waits")]
    Late(ClaimId),
    /// The thread has ended.
    #[error("the plugin is ending")]
    Ending,
}

/// Why a claim is not unprepared.
#[derive(Debug, thiserror::Error)]
pub enum UnprepareError {
    /// A step failed. The devices stay held; kubelet tries again.
    #[error("{0}")]
    Failed(String),
    /// The thread came to it too late, so kubelet no longer listens.
    #[error("claim {0} was not begun within the time that kubelet waits")]
    Late(ClaimId),
    /// The thread has ended.
    #[error("the plugin is ending")]
    Ending,
}

impl State {
    /// The asking end, and the questions.
    pub fn channel(
        held: watch::Receiver<Arc<Vec<Held>>>,
        machine: watch::Receiver<Arc<Machine>>,
        mode: watch::Receiver<Mode>,
    ) -> (Self, mpsc::Receiver<Question>) {
        let (questions, receiver) = mpsc::channel(WAITING);
        (Self { questions, held, machine, mode }, receiver)
    }

    /// What is held, and every change of it.
    pub fn held(&self) -> watch::Receiver<Arc<Vec<Held>>> {
        self.held.clone()
    }

    /// The machine as last read, and every change of it.
    pub fn machine(&self) -> watch::Receiver<Arc<Machine>> {
        self.machine.clone()
    }

    /// Who allocates, and every change of it: a change that is asked for waits until nothing is held.
    pub fn mode(&self) -> watch::Receiver<Mode> {
        self.mode.clone()
    }

    /// See [`Question::Ticket`].
    pub async fn ticket(&self, uid: ClaimUid) -> Option<Ticket> {
        self.ask(|answer| Question::Ticket(uid, answer)).await
    }

    /// See [`Question::Prepare`].
    ///
    /// # Errors
    /// See [`PrepareError`].
    pub async fn prepare(
        &self,
        fetched: Fetched,
        deadline: Instant,
    ) -> Result<Prepared, PrepareError> {
        let question = |answer| Question::Prepare(Box::new(fetched), deadline, answer);
        self.ask(question).await.unwrap_or(Err(PrepareError::Ending))
    }

    /// See [`Question::Prepared`].
    pub async fn prepared(&self, claim: ClaimId) -> Option<Prepared> {
        self.ask(|answer| Question::Prepared(claim, answer)).await.flatten()
    }

    /// See [`Question::Unprepare`].
    ///
    /// # Errors
    /// See [`UnprepareError`].
    pub async fn unprepare(&self, claim: ClaimId, deadline: Instant) -> Result<(), UnprepareError> {
        let question = |answer| Question::Unprepare(claim, deadline, answer);
        self.ask(question).await.unwrap_or(Err(UnprepareError::Ending))
    }

    /// See [`Question::Claims`].
    pub async fn claims(&self) -> Option<Vec<ClaimId>> {
        self.ask(Question::Claims).await
    }

    /// See [`Question::Reconcile`].
    pub async fn reconcile(&self, fates: Vec<(ClaimId, Fate)>) -> Option<Reconciled> {
        self.ask(|answer| Question::Reconcile(fates, answer)).await
    }

    /// See [`Question::Rescan`].
    pub async fn rescan(&self) -> Option<()> {
        self.ask(Question::Rescan).await
    }

    /// How many questions wait for the thread.
    pub fn waiting(&self) -> usize {
        self.questions.max_capacity() - self.questions.capacity()
    }

    /// See [`Question::Tend`].
    pub async fn tend(&self) -> Option<bool> {
        self.ask(Question::Tend).await
    }

    /// True when the thread answers within a time.
    pub async fn is_responsive(&self, within: Duration) -> bool {
        matches!(tokio::time::timeout(within, self.claims()).await, Ok(Some(_)))
    }

    /// Absent when the thread has ended.
    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.questions.send(question(answer)).await.ok()?;
        answered.await.ok()
    }
}

#[cfg(test)]
mod tests;
