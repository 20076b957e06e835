//! What repairs remember from look to look: since when something has been wrong, what was done, and what was told.
//!
//! All of it is bounded by what is wrong now: what a look does not see any more is forgotten at its end.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::Rule;
use crate::id::{Uid, Version};
use crate::plan::timing::{self, SAME_WORDS};

/// A change that was planned for one version of an object and did not alter it was refused, or lost with the lease.
const DO_AGAIN: SignedDuration = SignedDuration::from_secs(5 * 60);

/// The first pause between pods of one workload that are ended for what kube-scheduler says, and the longest: pods that
/// come back to the same end must not be made and ended without a rest.
const PAUSE: (SignedDuration, SignedDuration) =
    (SignedDuration::from_secs(30), SignedDuration::from_secs(30 * 60));

/// Memory of the repairs. Nothing is lost when it is dropped: every wait starts anew.
#[derive(Debug, Default)]
pub struct Repairs {
    looked_at: Option<Timestamp>,
    since: BTreeMap<(Rule, Uid), Timestamp>,
    seen: BTreeSet<(Rule, Uid)>,
    told: BTreeMap<(Rule, Uid), Timestamp>,
    done: BTreeMap<Uid, (Version, Timestamp)>,
    pauses: BTreeMap<String, Pause>,
    /// What the last look counted.
    pub counts: Counts,
}

/// What is wrong, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Devices in two claims or more.
    pub contested: usize,
    /// Claims with devices of ours that somebody else allocated.
    pub foreign: usize,
    /// Claims of which a device is gone.
    pub vanished: usize,
    /// Allocations that nobody uses.
    pub orphans: usize,
    /// Pods that are pinned and cannot run where they are pinned to.
    pub mispinned: usize,
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    until: Timestamp,
    length: SignedDuration,
}

impl Repairs {
    /// When everything was last looked at.
    pub fn looked_at(&self) -> Option<Timestamp> {
        self.looked_at
    }

    pub(super) fn begin(&mut self, now: Timestamp) {
        self.looked_at = Some(now);
        self.seen.clear();
        self.counts = Counts::default();
    }

    /// Since when a rule has found an object wrong, without a break. A time in the future is one from before the clock
    /// was set back.
    pub(super) fn since(&mut self, rule: Rule, uid: &Uid, now: Timestamp) -> Timestamp {
        let key = (rule, uid.clone());
        self.seen.insert(key.clone());
        let since = self.since.entry(key).or_insert(now);
        *since = (*since).min(now);
        *since
    }

    /// Whether people should be told (again).
    pub(super) fn tells(&mut self, rule: Rule, uid: &Uid, now: Timestamp) -> bool {
        let key = (rule, uid.clone());
        let last = self.told.get(&key);
        let is_news = last.is_none_or(|last| now >= timing::after(*last, SAME_WORDS));
        if is_news {
            self.told.insert(key, now);
        }
        is_news
    }

    /// Whether a change was planned for this version of an object, not long ago.
    pub(super) fn was_done(&self, uid: &Uid, version: &Version, now: Timestamp) -> bool {
        let last = self.done.get(uid);
        last.is_some_and(|(done, at)| done == version && now < timing::after(*at, DO_AGAIN))
    }

    pub(super) fn done(&mut self, uid: &Uid, version: &Version, now: Timestamp) {
        self.done.insert(uid.clone(), (version.clone(), now));
    }

    /// When the next pod of a workload may be ended.
    pub(super) fn paused_until(&self, workload: &str) -> Option<Timestamp> {
        self.pauses.get(workload).map(|pause| pause.until)
    }

    /// A pod of a workload was ended: the pause after it is twice as long as the last one.
    pub(super) fn deleted(&mut self, workload: &str, now: Timestamp) {
        let (first, longest) = PAUSE;
        let last = self.pauses.get(workload);
        let length = last.map_or(first, |last| last.length.saturating_mul(2).min(longest));
        let until = timing::after(now, length);
        self.pauses.insert(workload.to_owned(), Pause { until, length });
    }

    pub(super) fn end(&mut self, now: Timestamp) {
        let Self { seen, since, told, done, pauses, .. } = self;
        since.retain(|key, _| seen.contains(key));
        told.retain(|_, at| now < timing::after(*at, SAME_WORDS));
        done.retain(|_, (_, at)| now < timing::after(*at, DO_AGAIN));
        // A pause is forgotten when the longest one has passed after it: the workload is well since.
        pauses.retain(|_, pause| now < timing::after(pause.until, PAUSE.1));
    }
}
