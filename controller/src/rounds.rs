//! The one task that owns the index: takes in what is new, plans, and hands the changes to the writer.
//!
//! ```text
//! idle --update, report, or the time a plan asked for--> take all that waits --> plan --> idle
//! ```
//! Until every kind was listed once nothing is planned: who plans on half of the claims grants devices twice.

use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use lanemate_runtime::shutdown::InputEnded;
use tokio::sync::{mpsc, watch};

use crate::change::{Change, Report};
use crate::index::{Index, Kind, Update};
use crate::plan::{Planned, Planner};
use crate::telling::{About, Teller};

/// Updates taken in before a plan is made: a bound, so that a storm of them does not keep pods waiting.
const BATCH: usize = 4096;
/// The longest time without a look: a clock that was set back must not put off what is due.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);

/// The state of the owner task.
pub struct Rounds {
    index: Index,
    planner: Planner,
    teller: Teller,
    state: watch::Sender<State>,
}

/// How far the controller is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Another instance works.
    Standby,
    /// These kinds are still to be listed.
    Listing(Vec<Kind>),
    /// It plans.
    Working,
    /// It must not plan; why, for people.
    Refusing(String),
}

/// Where changes go and reports come from.
pub struct Writing {
    /// Jobs of the writer: its capacity bounds what a round plans.
    pub jobs: mpsc::Sender<Change>,
    /// What became of them.
    pub reports: mpsc::Receiver<Report>,
}

impl Rounds {
    /// The owner of an empty index.
    pub fn new(
        index: Index,
        planner: Planner,
        teller: Teller,
        state: watch::Sender<State>,
    ) -> Self {
        Self { index, planner, teller, state }
    }

    /// Plans until told to end.
    ///
    /// # Errors
    /// When updates or reports no longer come.
    pub async fn run(
        mut self,
        mut updates: mpsc::Receiver<Update>,
        mut writing: Writing,
        stopped: impl Future<Output = ()>,
    ) -> Result<(), InputEnded> {
        let mut stopped = pin!(stopped);
        let mut sleep = Duration::ZERO;
        loop {
            tokio::select! {
                () = &mut stopped => return Ok(()),
                update = updates.recv() => {
                    self.apply(update.ok_or(ended("updates"))?);
                }
                report = writing.reports.recv() => {
                    self.finish(&report.ok_or(ended("reports"))?);
                }
                () = tokio::time::sleep(sleep) => {}
            }
            for _ in 0..BATCH {
                let Ok(update) = updates.try_recv() else { break };
                self.apply(update);
            }
            while let Ok(report) = writing.reports.try_recv() {
                self.finish(&report);
            }
            sleep = self.round(&writing.jobs);
        }
    }

    fn apply(&mut self, update: Update) {
        self.index.apply(update, Timestamp::now());
    }

    fn finish(&mut self, report: &Report) {
        let now = Timestamp::now();
        self.teller.report(report);
        self.planner.note(report, now);
        self.index.finish(report, now);
    }

    /// Plans once; how long to sleep if nothing happens.
    fn round(&mut self, jobs: &mpsc::Sender<Change>) -> Duration {
        let now = Timestamp::now();
        let rested = self.index.expire(now);
        let state = self.judge();
        let works = state == State::Working;
        self.enter(state);
        if !works {
            return LONGEST_SLEEP;
        }
        let begun = Instant::now();
        let Planned { changes, notices, next, stats } =
            self.planner.plan(&mut self.index, now, jobs.capacity());
        let took = begun.elapsed();
        for notice in notices {
            self.teller.notice(notice);
        }
        for change in changes {
            self.teller.handed(&change);
            // The plan kept within the capacity, and nobody else sends.
            if let Err(error) = jobs.try_send(change) {
                tracing::error!(%error, "a change found no place in the queue of the writer");
            }
        }
        let counts = self.planner.troubles();
        let about = About { stats: &stats, counts: &counts, took, now };
        self.teller.planned(&mut self.index, &about);
        let due = [rested, next].into_iter().flatten().min();
        let until = due.and_then(|due| Duration::try_from(due.duration_since(now)).ok());
        until.map_or(LONGEST_SLEEP, |until| until.min(LONGEST_SLEEP))
    }

    fn judge(&self) -> State {
        let missing = self.index.missing();
        if !missing.is_empty() {
            return State::Listing(missing);
        }
        match self.index.untainted().next() {
            Some(slice) => State::Refusing(format!(
                "ResourceSlice {slice} offers devices without the taint lanemate.dev/allocator=controller:NoSchedule, so \
                 kube-scheduler may grant them too: expected every plugin to run with --mode controller, and an API \
                 server that keeps device taints (Kubernetes 1.36 or later)"
            )),
            None => State::Working,
        }
    }

    fn enter(&self, state: State) {
        self.state.send_if_modified(|current| {
            if *current == state {
                return false;
            }
            match &state {
                State::Refusing(why) => tracing::error!(why, "nothing is allocated"),
                state => tracing::info!(?state, "the controller has a new state"),
            }
            *current = state;
            true
        });
    }
}

fn ended(input: &'static str) -> InputEnded {
    InputEnded { task: "rounds", input }
}
