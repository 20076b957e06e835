//! What was handed to the writer, and what it has written, laid over what was seen.
//!
//! ```text
//!           start              finish: written             the watch shows that version, or a newer one
//! as seen --------> in flight ------------------> written ---------------------------------------------> as seen
//!                      `--finish: not written--> as seen
//! ```
//! In flight, a claim holds what it was seen with and what it is to get: the write may be done at any moment. Events of the
//! watch that are older than what was written change nothing.

use jiff::Timestamp;
use lanemate_api::names;

use super::{ClaimEntry, ClaimFacts, Consumer, Grant, Index, PodEntry, PodFacts, Stage};
use crate::change::{Change, ClaimWrite, Clear, Outcome, Place, Protect, Report, Write};
use crate::classes;
use crate::id::{Id, Uid, Version};

/// What is laid over a claim.
#[derive(Clone, Debug)]
pub enum ClaimOver {
    /// To be allocated, or to get one more user.
    Granting {
        /// Absent where it has one.
        grant: Option<Grant>,
        /// The pod.
        consumer: Consumer,
    },
    /// A write that takes nothing and gives nothing yet.
    Changing,
    /// Written.
    Written {
        /// Since this version.
        version: Version,
        /// What it holds.
        grant: Option<Grant>,
        /// Its users.
        reserved_for: Vec<Consumer>,
    },
}

/// What is laid over a pod.
#[derive(Clone, Debug)]
pub enum PodOver {
    /// It gets devices of this node.
    Placing {
        /// The node.
        node: String,
    },
    /// Another write.
    Changing,
    /// Our gate is off.
    Released {
        /// Since this version.
        version: Version,
        /// Where its devices are.
        node: Option<String>,
        /// Where it is pinned to.
        pin: Option<String>,
    },
    /// Deleted: whatever the watch shows next says so.
    Deleted {
        /// As it was seen last.
        version: Version,
    },
}

impl ClaimOver {
    /// The writer has it.
    pub fn is_in_flight(&self) -> bool {
        matches!(self, Self::Granting { .. } | Self::Changing)
    }

    /// Whether what was seen says it all.
    pub fn is_outdated(&self, seen: &ClaimFacts) -> bool {
        matches!(self, Self::Written { version, .. } if seen.version.reaches(version))
    }

    fn lay_over(&self, seen: &ClaimFacts) -> ClaimFacts {
        let mut shown = seen.clone();
        match self {
            Self::Changing => {}
            Self::Granting { grant, consumer } => {
                shown.grant = shown.grant.or_else(|| grant.clone());
                if !shown.is_reserved_for(&consumer.uid) {
                    shown.reserved_for.push(consumer.clone());
                }
            }
            Self::Written { version, grant, reserved_for } => {
                shown.version = version.clone();
                shown.grant = grant.clone();
                shown.reserved_for = reserved_for.clone();
                shown.is_protected |= grant.is_some();
            }
        }
        if shown.grant.is_some() {
            shown.object = None;
        }
        shown
    }
}

impl PodOver {
    /// The writer has it.
    pub fn is_in_flight(&self) -> bool {
        matches!(self, Self::Placing { .. } | Self::Changing)
    }

    /// The node that the pod was given devices of.
    pub fn node(&self) -> Option<String> {
        match self {
            Self::Placing { node } => Some(node.clone()),
            Self::Released { node, .. } => node.clone(),
            Self::Changing | Self::Deleted { .. } => None,
        }
    }

    /// Whether what was seen says it all.
    pub fn is_outdated(&self, seen: &PodFacts) -> bool {
        match self {
            Self::Released { version, .. } => seen.version.reaches(version),
            Self::Deleted { version } => seen.version != *version,
            Self::Placing { .. } | Self::Changing => false,
        }
    }

    fn lay_over(&self, seen: &PodFacts) -> PodFacts {
        let mut shown = seen.clone();
        match self {
            Self::Placing { .. } | Self::Changing => {}
            Self::Released { version, pin, .. } => {
                shown.version = version.clone();
                shown.gates.retain(|gate| gate != names::PLACEMENT_GATE);
                shown.pinned_to = pin.clone().or(shown.pinned_to);
            }
            Self::Deleted { .. } => shown.deleting = true,
        }
        shown
    }
}

impl ClaimEntry {
    /// Lays something over. What was written before, and not seen yet, counts as seen when another write begins: that one
    /// may fail, and the first stays true.
    fn lay_over(&mut self, over: Option<ClaimOver>) {
        if over.as_ref().is_some_and(ClaimOver::is_in_flight) {
            self.seen = self.shown().clone();
        }
        self.over = over;
    }

    /// Shows what is laid over what.
    pub fn refresh(&mut self) {
        self.over.take_if(|over| over.is_outdated(&self.seen));
        self.shown = self.over.as_ref().map(|over| Box::new(over.lay_over(&self.seen)));
    }
}

impl PodEntry {
    /// Lays something over. What was written before, and not seen yet, counts as seen when another write begins: that one
    /// may fail, and the first stays true.
    fn lay_over(&mut self, over: Option<PodOver>) {
        if over.as_ref().is_some_and(PodOver::is_in_flight) {
            self.seen = self.shown().clone();
        }
        self.over = over;
    }

    /// Shows what is laid over what.
    pub fn refresh(&mut self) {
        self.over.take_if(|over| over.is_outdated(&self.seen));
        self.shown = self.over.as_ref().map(|over| Box::new(over.lay_over(&self.seen)));
    }
}

impl Index {
    /// A change goes to the writer: what it gives is held from here on.
    pub fn start(&mut self, change: &Change, now: Timestamp) {
        match change {
            Change::Place(place) => {
                for claim in &place.claims {
                    self.lay_over_claim(&claim.claim.uid, Some(granting(place, claim)), now);
                }
                let node = place.node.clone();
                self.lay_over_pod(&place.pod.uid, Some(PodOver::Placing { node }));
            }
            Change::Ungate(ungate) => {
                self.lay_over_pod(&ungate.pod.uid, Some(PodOver::Changing));
            }
            Change::DeletePod(delete) => {
                self.lay_over_pod(&delete.pod.uid, Some(PodOver::Changing));
            }
            Change::Clear(Clear { claim, .. }) | Change::Protect(Protect { claim, .. }) => {
                self.lay_over_claim(&claim.uid, Some(ClaimOver::Changing), now);
            }
            Change::Class(class) => self.busy_classes.extend(classes::subject(class)),
        }
    }

    /// A change is over: what was written stays until the watch shows it, the rest is undone.
    pub fn finish(&mut self, report: &Report, now: Timestamp) {
        // Nobody knows what the last write has done, and the process ends.
        if report.outcome == Outcome::Fenced {
            return;
        }
        match &report.change {
            Change::Place(place) => self.finish_place(place, report, now),
            Change::Ungate(ungate) => {
                let over = report.version_of(&ungate.pod).map(|version| PodOver::Released {
                    version: version.clone(),
                    node: None,
                    pin: None,
                });
                self.lay_over_pod(&ungate.pod.uid, over);
            }
            Change::DeletePod(delete) => {
                let seen = self.pods.get(&delete.pod.uid).map(|entry| entry.seen.version.clone());
                let over = seen.filter(|_| report.outcome == Outcome::Done);
                let over = over.map(|version| PodOver::Deleted { version });
                self.lay_over_pod(&delete.pod.uid, over);
            }
            Change::Clear(clear) => {
                let over = report.version_of(&clear.claim).map(|version| ClaimOver::Written {
                    version: version.clone(),
                    grant: None,
                    reserved_for: Vec::new(),
                });
                self.lay_over_claim(&clear.claim.uid, over, now);
            }
            // The watch shows the finalizer; until then its absence is nothing new.
            Change::Protect(protect) => self.lay_over_claim(&protect.claim.uid, None, now),
            Change::Class(class) => {
                if let Some(uid) = classes::subject(class) {
                    self.busy_classes.remove(&uid);
                }
            }
        }
    }

    fn finish_place(&mut self, place: &Place, report: &Report, now: Timestamp) {
        for claim in &place.claims {
            let version = report.version_of(&claim.claim).filter(|_| !report.was_taken_back());
            let shown = self.claim_by_uid(&claim.claim.uid);
            let over = version.zip(shown).map(|(version, shown)| ClaimOver::Written {
                version: version.clone(),
                grant: shown.grant.clone(),
                reserved_for: shown.reserved_for.clone(),
            });
            self.lay_over_claim(&claim.claim.uid, over, now);
        }
        let pin = place.release.as_ref().and_then(|release| release.pin.clone());
        let over = report.version_of(&place.pod).map(|version| PodOver::Released {
            version: version.clone(),
            node: Some(place.node.clone()),
            pin,
        });
        self.lay_over_pod(&place.pod.uid, over);
    }

    /// The node that a pod counts for: where it is, or where it was let go to, or where its devices are.
    pub(crate) fn home(&self, pod: &PodFacts) -> Option<String> {
        match &pod.stage {
            Stage::Finished => None,
            Stage::Bound(node) => Some(node.clone()),
            // Where its author pins it to says nothing while it has no devices: it may wait for them for long.
            Stage::Waiting => {
                let placed = self.pods.get(&pod.id.uid).and_then(|entry| entry.over.as_ref());
                placed.and_then(|over| over.node()).or_else(|| self.node_of_claims(&pod.id, pod))
            }
        }
    }

    fn node_of_claims(&self, id: &Id, pod: &PodFacts) -> Option<String> {
        let reserved = |claim: &&ClaimFacts| claim.is_reserved_for(&id.uid);
        let mut granted = self.claims_of(pod).filter(reserved);
        granted.find_map(|claim| claim.grant.as_ref()?.node.clone())
    }

    fn lay_over_claim(&mut self, uid: &Uid, over: Option<ClaimOver>, now: Timestamp) {
        self.change_claim(uid, now, |entry| entry.lay_over(over));
    }

    fn lay_over_pod(&mut self, uid: &Uid, over: Option<PodOver>) {
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.lay_over(over);
            entry.refresh();
        }
        self.settle(uid);
    }
}

impl Report {
    /// The version that was written of an object.
    fn version_of(&self, id: &Id) -> Option<&Version> {
        self.written.iter().find(|(written, _)| written.uid == id.uid).map(|(_, version)| version)
    }

    fn was_taken_back(&self) -> bool {
        matches!(self.outcome, Outcome::Dropped(_))
    }
}

fn granting(place: &Place, claim: &ClaimWrite) -> ClaimOver {
    let grant = match &claim.write {
        Write::Allocate { allocation, .. } => {
            Some(Grant { by_us: Some(true), ..Grant::of(allocation) })
        }
        Write::Reserve => None,
    };
    let consumer =
        Consumer { is_pod: true, name: place.pod.key.name.clone(), uid: place.pod.uid.clone() };
    ClaimOver::Granting { grant, consumer }
}
