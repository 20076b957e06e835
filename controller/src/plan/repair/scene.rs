//! One look: the index as rules see it, and what they find.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::Rule;
use super::memo::{Counts, Repairs};
use crate::change::{Change, Clear, DeletePod};
use crate::id::{Id, Key, Uid, Version};
use crate::index::pods::ClaimName;
use crate::index::{ClaimFacts, Grant, Index, PodFacts, Stage};
use crate::plan::{About, Notice, Planned, timing};

/// A change that a rule wants.
#[derive(Debug)]
pub(super) struct Wanted {
    /// The object that it is about.
    pub(super) object: Uid,
    /// Its version.
    pub(super) version: Version,
    /// The workload that rests after it.
    pub(super) workload: Option<String>,
    /// The change.
    pub(super) change: Change,
}

/// A look at the index.
#[derive(Debug)]
pub(super) struct Scene<'a> {
    pub(super) index: &'a Index,
    pub(super) now: Timestamp,
    memo: &'a mut Repairs,
    wanted: Vec<Wanted>,
    touched: BTreeSet<Uid>,
    notices: Vec<Notice>,
    next: Option<Timestamp>,
}

impl<'a> Scene<'a> {
    pub(super) fn new(index: &'a Index, memo: &'a mut Repairs, now: Timestamp) -> Self {
        let (wanted, touched, notices) = (Vec::new(), BTreeSet::new(), Vec::new());
        Self { index, now, memo, wanted, touched, notices, next: None }
    }

    pub(super) fn end(self) -> (Vec<Wanted>, Planned) {
        let planned = Planned { notices: self.notices, next: self.next, ..Planned::default() };
        (self.wanted, planned)
    }

    pub(super) fn counts(&mut self) -> &mut Counts {
        &mut self.memo.counts
    }

    /// Whether a rule has found an object wrong for some time. Where it has not, it is looked at again then.
    pub(super) fn has_lasted(&mut self, rule: Rule, uid: &Uid, wait: SignedDuration) -> bool {
        let since = self.memo.since(rule, uid, self.now);
        self.is_past(timing::after(since, wait))
    }

    /// Whether it is so late. Where it is not, there is another look then.
    pub(super) fn is_past(&mut self, due: Timestamp) -> bool {
        if self.now < due {
            self.next = timing::earlier(self.next, Some(due));
        }
        self.now >= due
    }

    /// When the next pod of a workload may be ended.
    pub(super) fn is_rested(&mut self, workload: &str) -> bool {
        let until = self.memo.paused_until(workload);
        until.is_none_or(|until| self.is_past(until))
    }

    /// Tells people of something wrong.
    pub(super) fn warn(&mut self, rule: Rule, about: About, reason: &'static str, note: String) {
        let (About::Pod(id) | About::Claim(id) | About::Class(id)) = &about;
        if self.memo.tells(rule, &id.uid, self.now) {
            self.notices.push(Notice { about, is_warning: true, reason, note });
        }
    }

    /// Takes an allocation back.
    pub(super) fn clear(&mut self, claim: &ClaimFacts, why: String) {
        let version = claim.version.clone();
        let change = Clear { claim: claim.id.clone(), version: version.clone(), why };
        self.want(&claim.id, version, None, Change::Clear(change));
    }

    /// Ends a pod, and lets its workload rest after that if one is given.
    pub(super) fn delete(&mut self, pod: &PodFacts, workload: Option<String>, why: String) {
        let change = Change::DeletePod(DeletePod { pod: pod.id.clone(), why });
        self.want(&pod.id, pod.version.clone(), workload, change);
    }

    /// Wants a change, unless the object is in flight, or has one in this look or had one for this version.
    pub(super) fn want(
        &mut self,
        object: &Id,
        version: Version,
        workload: Option<String>,
        change: Change,
    ) {
        let uid = &object.uid;
        if self.is_busy(uid) || self.memo.was_done(uid, &version, self.now) {
            return;
        }
        self.touched.insert(uid.clone());
        self.wanted.push(Wanted { object: uid.clone(), version, workload, change });
    }

    /// Whether an object is with the writer, or will be after this look.
    pub(super) fn is_busy(&self, uid: &Uid) -> bool {
        self.touched.contains(uid) || self.index.in_flight(uid)
    }

    /// The claims of a pod that exist, with entries that name none left out.
    pub(super) fn claims_of(&self, pod: &PodFacts) -> Vec<&'a ClaimFacts> {
        let of_entry = |name: &ClaimName| match name {
            ClaimName::Named(name) | ClaimName::Made(name) => {
                let namespace = pod.id.key.namespace.clone();
                self.index.claim(&Key { namespace, name: name.clone() })
            }
            ClaimName::ToBeMade | ClaimName::Unneeded => None,
        };
        pod.claims.iter().filter_map(|entry| of_entry(&entry.claim)).collect()
    }

    /// Claims that hold devices of ours and are not being deleted: those that are, kube-controller-manager frees.
    pub(super) fn held(&self) -> impl Iterator<Item = (&'a ClaimFacts, &'a Grant)> + use<'a> {
        let with_grant = |claim: &'a ClaimFacts| Some((claim, our_grant(claim)?));
        self.index.claims().filter(|claim| !claim.deleting).filter_map(with_grant)
    }

    /// Unfinished pods that use a claim and have a node.
    pub(super) fn bound_users(&self, claim: &ClaimFacts) -> Vec<&'a PodFacts> {
        let users = self.index.users(&claim.id.key);
        users.filter(|pod| matches!(pod.stage, Stage::Bound(_))).collect()
    }

    /// No unfinished pod names the claim, and it is reserved for nobody.
    pub(super) fn is_unused(&self, claim: &ClaimFacts) -> bool {
        claim.reserved_for.is_empty() && self.index.users(&claim.id.key).next().is_none()
    }
}

/// What a claim holds, if any of it is ours.
pub(super) fn our_grant(claim: &ClaimFacts) -> Option<&Grant> {
    claim.grant.as_ref().filter(|grant| !grant.devices.is_empty())
}

/// Names of pods for people, four at most.
pub(super) fn names(pods: &[&PodFacts]) -> String {
    const MOST: usize = 4;
    let named: Vec<String> = pods.iter().take(MOST).map(|pod| pod.id.to_string()).collect();
    let named = named.join(", ");
    match pods.len().saturating_sub(MOST) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
