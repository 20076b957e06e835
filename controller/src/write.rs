//! The writer: the only place that changes objects, for as long as the fence is open.
//!
//! ```text
//! owner --Change--> queue --> waiting --no job has its pod or claim--> running (16 have a turn) --Report--> owner
//! queue closed: what waits is dropped, what runs is finished
//! ```
//! A job that waits for an API server in trouble gives its turn away, so that one namespace whose webhook hangs does not
//! stop the others.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube::api::PostParams;
use kube::{Client, ResourceExt};
use lanemate_runtime::call::LIMIT;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinError, JoinSet};

use self::attempt::{Job, Shared};
use self::claim::For;
use crate::change::{Change, ClassChange, Generations, Outcome, Place, Report};
use crate::id::Key;
use crate::lease::Fence;

mod attempt;
mod claim;
mod class;
mod pin;
mod pod;
mod status;
#[cfg(test)]
mod tests;

pub use self::pin::{ASSIGNMENT, GATE, has_gate, ungate};
pub use crate::lease::MANAGER;

/// Changes on their way to the writer: some rounds of planning, each of which stops where this is full.
const QUEUE: usize = 256;
/// Jobs that have begun: those with a turn, and those that wait for an API server in trouble.
const BEGUN: usize = 256;
/// Jobs that talk to the API server at once: it takes some hundred writes a second, at a few milliseconds each.
const TURNS: usize = 16;

/// Writes changes; see [`Writer::run`].
pub struct Writer {
    shared: Arc<Shared>,
    jobs: mpsc::Sender<Change>,
    queue: mpsc::Receiver<Change>,
    reports: mpsc::Sender<Report>,
}

/// How the writer has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Writes of claims of which nobody knows whether they were taken, or still will be.
    pub in_doubt: usize,
}

/// What jobs must not share: one of these is written by one job at a time.
type Touched = (&'static str, Key);

/// The jobs that run and that wait.
struct Desk {
    running: JoinSet<(BTreeSet<Touched>, Report)>,
    busy: BTreeSet<Touched>,
    waiting: VecDeque<(BTreeSet<Touched>, Change)>,
}

impl Writer {
    /// A writer for as long as the fence is open, and what it will tell.
    pub fn new(
        client: Client,
        fence: Fence,
        generations: Generations,
    ) -> (Self, mpsc::Receiver<Report>) {
        Self::with_limit(client, fence, generations, LIMIT)
    }

    fn with_limit(
        client: Client,
        fence: Fence,
        generations: Generations,
        limit: Duration,
    ) -> (Self, mpsc::Receiver<Report>) {
        let (jobs, queue) = mpsc::channel(QUEUE);
        // A place for every change that can be on its way: the writer never waits for its owner.
        let (reports, told) = mpsc::channel(2 * QUEUE + BEGUN);
        let turns = Arc::new(Semaphore::new(TURNS));
        let doubts = Arc::new(AtomicUsize::new(0));
        let shared = Arc::new(Shared { client, fence, generations, limit, turns, doubts });
        (Self { shared, jobs, queue, reports }, told)
    }

    /// Where changes go. Its capacity says how many more are taken.
    pub fn jobs(&self) -> mpsc::Sender<Change> {
        self.jobs.clone()
    }

    /// Writes until every sender of [`Self::jobs`] is gone and all that has begun is finished. What has not begun is
    /// dropped.
    pub async fn run(self) -> Ended {
        let Self { shared, jobs, mut queue, reports } = self;
        drop(jobs);
        let mut desk =
            Desk { running: JoinSet::new(), busy: BTreeSet::new(), waiting: VecDeque::new() };
        let mut is_open = true;
        while is_open || !desk.running.is_empty() {
            tokio::select! {
                change = queue.recv(), if is_open && desk.waiting.len() < QUEUE => match change {
                    Some(change) => desk.waiting.push_back((touched(&change), change)),
                    None => {
                        is_open = false;
                        desk.waiting.clear();
                    }
                },
                Some(ended) = desk.running.join_next() => {
                    let Some(report) = desk.end(ended) else { break };
                    // The owner is gone when the process ends.
                    let _ = reports.send(report).await;
                }
            }
            desk.begin(&shared);
        }
        // A job that has panicked leaves its write in doubt, and its pod untold: the process must end.
        Ended { in_doubt: shared.doubts.load(Ordering::Relaxed) }
    }
}

impl Desk {
    /// Begins, in their order, those that share nothing with what runs or with what waits before them.
    fn begin(&mut self, shared: &Arc<Shared>) {
        if self.waiting.is_empty() {
            return;
        }
        let mut before = self.busy.clone();
        let waiting = std::mem::take(&mut self.waiting);
        for (touched, change) in waiting {
            let is_free = before.is_disjoint(&touched) && self.running.len() < BEGUN;
            before.extend(touched.iter().cloned());
            if is_free {
                self.busy.extend(touched.iter().cloned());
                let shared = Arc::clone(shared);
                self.running.spawn(async move { (touched, work(shared, change).await) });
            } else {
                self.waiting.push_back((touched, change));
            }
        }
    }

    fn end(&mut self, ended: Result<(BTreeSet<Touched>, Report), JoinError>) -> Option<Report> {
        match ended {
            Ok((touched, report)) => {
                self.busy.retain(|entry| !touched.contains(entry));
                Some(report)
            }
            Err(error) => {
                tracing::error!(%error, "a job of the writer has failed");
                None
            }
        }
    }
}

async fn work(shared: Arc<Shared>, change: Change) -> Report {
    let mut job = Job::begin(shared).await;
    let done = match &change {
        Change::Place(place) => job.place(place).await,
        Change::Ungate(change) => job.ungate(change).await,
        Change::Clear(change) => job.clear(change).await,
        Change::Protect(change) => job.protect_again(change).await,
        Change::DeletePod(change) => job.delete(change).await,
        Change::Class(change) => job.write_class(change).await,
    };
    let outcome = done.err().unwrap_or(Outcome::Done);
    Report { written: job.written, change, outcome }
}

impl Job {
    /// Claims first: a pod that is let go finds all its devices there.
    async fn place(&mut self, place: &Place) -> Result<(), Outcome> {
        let target = For { pod: &place.pod, node: &place.node };
        for claim in &place.claims {
            self.write_claim(claim, target).await?;
        }
        match &place.release {
            Some(release) => self.release(&place.pod, release).await,
            None => Ok(()),
        }
    }
}

fn touched(change: &Change) -> BTreeSet<Touched> {
    let pod = |id: &crate::id::Id| ("pod", id.key.clone());
    let class = |name: String| ("class", Key { namespace: String::new(), name });
    match change {
        Change::Place(place) => {
            let claims = place.claims.iter().map(|claim| ("claim", claim.claim.key.clone()));
            claims.chain([pod(&place.pod)]).collect()
        }
        Change::Ungate(change) => [pod(&change.pod)].into(),
        Change::DeletePod(change) => [pod(&change.pod)].into(),
        Change::Clear(change) => [("claim", change.claim.key.clone())].into(),
        Change::Protect(change) => [("claim", change.claim.key.clone())].into(),
        Change::Class(change) => [class(match &**change {
            ClassChange::Create(class)
            | ClassChange::Replace(class)
            | ClassChange::Delete(class) => class.name_any(),
            ClassChange::Status(class) | ClassChange::Finalizers(class) => class.name_any(),
        })]
        .into(),
    }
}

/// A write in the controller's name: the API server notes in `managedFields` who wrote what.
fn as_controller() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}
