//! Which classes wait: for a write to be answered and seen, or after one that failed.
//!
//! ```text
//! free --planned--> in flight --Done--> until what is seen changes, 5 s at most --> free
//!                        |
//!                        +--else--> back-off, 1 s to 5 min, or until what is seen changes --> free
//! ```

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::{Seen, subject};
use crate::change::{Change, Outcome, Report};
use crate::id::{Uid, Version};
use crate::plan::timing::after;

/// A report that is out for so long is lost: requests are given up after 5 s.
const IN_FLIGHT: SignedDuration = SignedDuration::from_secs(60);
/// A watch shows a write within a second; after this, what is seen counts again.
const UNSEEN: SignedDuration = SignedDuration::from_secs(5);
/// The wait after a failure, doubled with each to 256 s.
const BACK_OFF: SignedDuration = SignedDuration::from_secs(1);
const MOST_DOUBLINGS: u32 = 8;

/// What each class waits for.
#[derive(Debug, Default)]
pub struct Waits {
    by_class: BTreeMap<Uid, Wait>,
}

#[derive(Debug)]
struct Wait {
    until: Timestamp,
    /// What was seen when the write was planned, while another view ends the wait.
    seen: Option<View>,
    failures: u32,
    view: View,
}

/// The versions of a class and its DeviceClass.
type View = (Version, Option<Version>);

fn view(seen: &Seen<'_>) -> View {
    let device_class = seen.device_class.map(|class| Version::of(&class.metadata));
    (Version::of(&seen.class.metadata), device_class)
}

impl Waits {
    /// When the class may be planned again; none: now.
    pub fn until(&self, uid: &Uid, seen: &Seen<'_>, now: Timestamp) -> Option<Timestamp> {
        let wait = self.by_class.get(uid)?;
        let is_changed = wait.seen.as_ref().is_some_and(|before| *before != view(seen));
        (wait.until > now && !is_changed).then_some(wait.until)
    }

    /// A write for the class was planned.
    pub fn start(&mut self, uid: Uid, seen: &Seen<'_>, now: Timestamp) {
        let failures = self.by_class.get(&uid).map_or(0, |wait| wait.failures);
        let wait = Wait { until: after(now, IN_FLIGHT), seen: None, failures, view: view(seen) };
        self.by_class.insert(uid, wait);
    }

    /// A write is over; those of other kinds are none of ours.
    pub fn note(&mut self, report: &Report, now: Timestamp) {
        let Change::Class(change) = &report.change else { return };
        let Some(wait) = subject(change).and_then(|uid| self.by_class.get_mut(&uid)) else {
            return;
        };
        wait.seen = Some(wait.view.clone());
        if report.outcome == Outcome::Done {
            wait.failures = 0;
            wait.until = after(now, UNSEEN);
        } else {
            let doublings = wait.failures.min(MOST_DOUBLINGS);
            wait.until = after(now, BACK_OFF * (1 << doublings));
            wait.failures += 1;
        }
    }

    /// Forgets classes that are gone.
    pub fn retain(&mut self, is_there: impl Fn(&Uid) -> bool) {
        self.by_class.retain(|uid, _| is_there(uid));
    }
}
