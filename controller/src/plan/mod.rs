//! What to do next: a function of the index and the time.

pub mod assignment;
mod back_off;
mod belongs;
mod conjunct;
mod decide;
mod head;
pub mod notices;
pub mod order;
mod place;
mod pod;
mod refusals;
pub mod repair;
mod round;
pub mod stats;
mod telling;
pub mod timing;

use jiff::{SignedDuration, Timestamp};

use self::place::Placing;
use self::repair::{Counts, Repairs};
pub use self::stats::Stats;
use crate::change::{Change, Report};
use crate::classes::ClassPlanner;
use crate::id::Id;
use crate::index::Index;

/// What an operator may choose.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// A waiting pod older than this keeps later ones off its best node.
    pub head_waits: SignedDuration,
}

/// Plans, and remembers from one round to the next what spares it from planning the same again. Nothing is lost when it is
/// dropped.
#[derive(Debug, Default)]
pub struct Planner {
    repairs: Repairs,
    placing: Placing,
    classes: ClassPlanner,
}

/// What to do, what to tell, and when to look again.
#[derive(Debug, Default)]
pub struct Planned {
    /// In the order in which they are to be written.
    pub changes: Vec<Change>,
    /// What people should know.
    pub notices: Vec<Notice>,
    /// When time alone may change the plan; absent where it does not.
    pub next: Option<Timestamp>,
    /// What the round saw, for metrics.
    pub stats: Stats,
}

/// An event to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What it is about.
    pub about: About,
    /// `Warning`, or else `Normal`.
    pub is_warning: bool,
    /// One word for programs.
    pub reason: &'static str,
    /// A sentence for people.
    pub note: String,
}

/// The object of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// A pod.
    Pod(Id),
    /// A ResourceClaim.
    Claim(Id),
    /// A ResourceClass, by name and UID.
    Class(Id),
}

impl Default for Settings {
    fn default() -> Self {
        Self { head_waits: timing::HEAD_WAITS }
    }
}

impl Planner {
    /// Nothing is remembered yet.
    pub fn new(settings: Settings) -> Self {
        Self { placing: Placing::new(settings), ..Self::default() }
    }

    /// Plans a round: repairs first, since they free what pods wait for, then pods, then classes. `room` is the number of
    /// changes that the writer takes; what does not fit waits for the next round. Each change is started in the index.
    ///
    /// Nothing is planned before every kind was listed.
    pub fn plan(&mut self, index: &mut Index, now: Timestamp, room: usize) -> Planned {
        let mut planned = Planned::default();
        if index.missing().is_empty() {
            planned = repair::plan(&mut self.repairs, index, now, room);
            self.placing.plan(index, now, room, &mut planned);
            let left = room.saturating_sub(planned.changes.len());
            planned.add(self.classes.plan(index, now, left));
        }
        planned
    }

    /// What is wrong now, as of the last look.
    pub fn troubles(&self) -> Counts {
        self.repairs.counts
    }

    /// A change is over.
    pub fn note(&mut self, report: &Report, now: Timestamp) {
        self.classes.note(report, now);
    }
}

impl Planned {
    /// Adds what another part has planned.
    fn add(&mut self, other: Self) {
        self.changes.extend(other.changes);
        self.notices.extend(other.notices);
        self.next = timing::earlier(self.next, other.next);
    }
}

#[cfg(test)]
mod tests;
