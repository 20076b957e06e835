//! What a waiting pod needs next, from what is known of it and its claims.
//!
//! ```text
//!  claims to be made, or to be seen soon ----> nothing yet
//!  a claim missing, deleting, of another pod -> wait, and say so
//!  no claim of ours ---- our gate on? -------> take it off; else nothing
//!  requests of ours and of others in one ----> wait, and say how to split it
//!  another gate -----------------------------> nothing: its owner decides first
//!                       |
//!        claims of ours | open: not allocated   own: allocated by us, for this pod alone   fixed: any other
//!                       v
//!  fixed for two nodes ----------------------> wait, and say so
//!  own and fixed for two nodes --------------> clear own
//!  bound, nothing open ----------------------> nothing
//!  no gate of ours, nothing open or to add:
//!      pinned -------------------------------> nothing (repair watches it)
//!      unschedulable for 5 s since our grant > clear own, back off
//!  else -------------------------------------> work: decide what is open, reserve what is fixed, let the pod go
//! ```

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeSelector;
use lanemate_api::names::PLACEMENT_GATE;
use lanemate_driver::node_fit::{NodeView, node_selector_matches};

use super::belongs::{Belongs, Side};
use super::notices::{MIXED, Waiting};
use super::timing::{self, CONTESTED, UNGATED_UNSCHEDULABLE, UNSEEN_CLAIM};
use crate::id::{Id, Key, Uid};
use crate::index::pods::ClaimName;
use crate::index::{ClaimFacts, Grant, Index, PodFacts, Stage};

/// Users that one claim may have (`ResourceClaimReservedForMaxSize`).
const MAX_USERS: usize = 256;

/// What a pod needs next.
#[derive(Debug)]
pub enum Next {
    /// Nothing of us, until something changes.
    Nothing,
    /// Nothing of us before this time.
    Later(Timestamp),
    /// Our gate is to come off.
    Ungate,
    /// It cannot go on, which people should know.
    Wait(Waiting),
    /// Allocations are to be taken back.
    Clear(Cleared),
    /// Devices are to be found, or only to be handed over.
    Work(Box<Work>),
}

/// Allocations of one pod that do not serve it.
#[derive(Debug, PartialEq, Eq)]
pub struct Cleared {
    /// The claims.
    pub claims: Vec<Id>,
    /// For people.
    pub why: String,
    /// The node that the pod is kept off for a while.
    pub back_off: Option<String>,
}

/// What is to be done for a pod, all of it on one node.
#[derive(Debug, Default)]
pub struct Work {
    /// Claims of ours that are not allocated, with the names of the pod's entries.
    pub open: Vec<(String, Id)>,
    /// Claims that we allocated for this pod alone.
    pub own: Vec<Id>,
    /// Allocated claims of ours that the pod is to be added to.
    pub to_reserve: Vec<Id>,
    /// Devices of allocated claims of ours, with the names of the pod's entries.
    pub held: Vec<(String, Vec<lanemate_driver::allocation::DeviceId>)>,
    /// Claims of other drivers that are not allocated.
    pub others: Vec<Id>,
    /// Where it may be.
    pub place: Place,
    /// The pod is bound, or we have pinned it: its node counts it already.
    pub is_settled: bool,
    /// Our gate is on.
    pub is_gated: bool,
}

/// The nodes that a pod's allocated claims, and its binding, leave.
#[derive(Debug, Default)]
pub struct Place {
    /// The one node.
    pub only: Option<String>,
    /// Selectors of claims, all of which are to be met.
    pub selectors: Vec<NodeSelector>,
}

/// The claims of a pod, sorted.
#[derive(Default)]
struct Sorted<'a> {
    open: Vec<(&'a str, &'a ClaimFacts)>,
    own: Vec<(&'a ClaimFacts, &'a Grant)>,
    fixed: Vec<(&'a ClaimFacts, &'a Grant)>,
    others: Vec<&'a ClaimFacts>,
    elsewhere: Vec<&'a Grant>,
    held: Vec<(String, Vec<lanemate_driver::allocation::DeviceId>)>,
}

impl Place {
    /// Whether the node is among them.
    pub fn allows(&self, node: &NodeView) -> bool {
        self.only.as_ref().is_none_or(|only| *only == node.name)
            && self.selectors.iter().all(|selector| node_selector_matches(selector, node))
    }
}

/// The claims of a pod that have a name, each once.
pub fn claims_of(pod: &PodFacts) -> Vec<Key> {
    let mut seen = BTreeSet::new();
    let names = pod.claims.iter().filter_map(|entry| match &entry.claim {
        ClaimName::Named(name) | ClaimName::Made(name) => Some(name),
        ClaimName::ToBeMade | ClaimName::Unneeded => None,
    });
    names.filter(|name| seen.insert(*name)).map(|name| key(pod, name)).collect()
}

/// Says what a pod needs next. The claims have been learnt.
pub fn next(pod: &PodFacts, index: &Index, belongs: &Belongs, now: Timestamp) -> Next {
    let is_gated = pod.gates.iter().any(|gate| gate == PLACEMENT_GATE);
    if pod.claims.iter().any(|entry| entry.claim == ClaimName::ToBeMade) {
        return Next::Nothing;
    }
    if let Some(time) = on_its_way(pod, index, now) {
        return Next::Later(time);
    }
    let (sorted, fault) = sort(pod, index, belongs);
    let has_ours = !(sorted.open.is_empty() && sorted.own.is_empty() && sorted.fixed.is_empty());
    if let Some((waiting, is_ours)) = fault {
        // A pod that has nothing to do with us hears of it from kube-scheduler.
        return if is_gated || has_ours || is_ours { Next::Wait(waiting) } else { Next::Nothing };
    }
    if !has_ours {
        return if is_gated { Next::Ungate } else { Next::Nothing };
    }
    if pod.gates.iter().any(|gate| gate != PLACEMENT_GATE) {
        return Next::Nothing;
    }
    if let Some(waiting) = unusable(pod, &sorted) {
        return Next::Wait(waiting);
    }
    // A write of the leader before this one may come late: no pod goes on with a device that is in another claim too.
    let is_bound = matches!(pod.stage, Stage::Bound(_));
    let mut held = sorted.held.iter().flat_map(|(_, devices)| devices);
    if !is_bound && held.any(|device| index.is_contested(device)) {
        return Next::Later(timing::after(now, CONTESTED));
    }
    match place(pod, &sorted) {
        Ok(place) => go_on(pod, &sorted, place, is_gated, now),
        Err(next) => *next,
    }
}

/// Until when a claim that is absent may only not have been seen yet. A clock that is far from the API server's does not
/// put it off.
fn on_its_way(pod: &PodFacts, index: &Index, now: Timestamp) -> Option<Timestamp> {
    let until = timing::after(pod.created?, UNSEEN_CLAIM);
    let is_near = now < until && until <= timing::after(now, UNSEEN_CLAIM);
    (is_near && claims_of(pod).iter().any(|key| index.claim(key).is_none())).then_some(until)
}

/// Sorts the claims, or says what is wrong with one, and whether that one is certainly ours.
fn sort<'a>(
    pod: &'a PodFacts,
    index: &'a Index,
    belongs: &Belongs,
) -> (Sorted<'a>, Option<(Waiting, bool)>) {
    let (mut sorted, mut fault) = (Sorted::default(), None);
    let mut seen = BTreeSet::new();
    for entry in &pod.claims {
        let (ClaimName::Named(name) | ClaimName::Made(name)) = &entry.claim else { continue };
        if !seen.insert(name) {
            continue;
        }
        let key = key(pod, name);
        let Some(claim) = index.claim(&key) else {
            let note = format!("claim {key} does not exist: create it, or correct its name");
            fault = fault.or(Some((Waiting::for_now(note), false)));
            continue;
        };
        let is_made = matches!(entry.claim, ClaimName::Made(_));
        if is_made && claim.owner.as_ref() != Some(&pod.id.uid) {
            let note = format!("claim {key} was made for another pod");
            fault = fault.or(Some((Waiting::broken(note).of(&claim.id), false)));
            continue;
        }
        match &claim.grant {
            Some(grant) => sorted.add_allocated(&entry.entry, pod, claim, grant),
            None => fault = fault.or(sorted.add_open(&entry.entry, claim, belongs)),
        }
    }
    (sorted, fault)
}

impl<'a> Sorted<'a> {
    fn add_allocated(
        &mut self,
        entry: &str,
        pod: &PodFacts,
        claim: &'a ClaimFacts,
        grant: &'a Grant,
    ) {
        if grant.devices.is_empty() {
            self.elsewhere.push(grant);
            return;
        }
        self.held.push((entry.to_owned(), grant.devices.clone()));
        if is_own(pod, claim, grant) {
            self.own.push((claim, grant));
        } else {
            self.fixed.push((claim, grant));
        }
    }

    fn add_open(
        &mut self,
        entry: &'a str,
        claim: &'a ClaimFacts,
        belongs: &Belongs,
    ) -> Option<(Waiting, bool)> {
        let id = &claim.id;
        match belongs.get(&id.uid).map(|known| &known.side) {
            Some(Side::Ours) => self.open.push((entry, claim)),
            Some(Side::Others) => self.others.push(claim),
            Some(Side::Mixed(ours, others)) => {
                let note = format!(
                    "claim {id}: request {ours} is for devices of lanemate.dev and request {others} \
                     for those of another driver: make two claims of it, one for each driver, and \
                     name both in the pod"
                );
                let waiting = Waiting { reason: MIXED, note, claim: Some(id.clone()) };
                return Some((waiting, true));
            }
            Some(Side::Unclear(why)) => {
                return Some((Waiting::broken(format!("claim {id}: {why}")).of(id), false));
            }
            // Its object is not known: it is about to be seen.
            None => return Some((Waiting::for_now(format!("claim {id} is being read")), false)),
        }
        None
    }

    /// Nodes that the allocations name, and selectors that name none.
    fn nodes<'b>(grants: impl Iterator<Item = &'b Grant>) -> BTreeSet<&'b str> {
        grants.filter_map(|grant| grant.node.as_deref()).collect()
    }
}

/// We allocated it, and it serves this pod and no other: it may be taken back as long as the pod is not bound.
fn is_own(pod: &PodFacts, claim: &ClaimFacts, grant: &Grant) -> bool {
    let for_this = claim.reserved_for.iter().all(|user| user.is_pod && user.uid == pod.id.uid);
    let is_named = !claim.reserved_for.is_empty() || claim.owner.as_ref() == Some(&pod.id.uid);
    let is_bound = matches!(pod.stage, Stage::Bound(_));
    grant.by_us == Some(true) && for_this && is_named && !claim.deleting && !is_bound
}

fn has(claim: &ClaimFacts, pod: &Uid) -> bool {
    claim.reserved_for.iter().any(|user| user.uid == *pod)
}

/// A claim that the pod cannot use (any more).
fn unusable(pod: &PodFacts, sorted: &Sorted<'_>) -> Option<Waiting> {
    let allocated = sorted.own.iter().chain(&sorted.fixed).map(|(claim, _)| *claim);
    let mut claims = sorted.open.iter().map(|(_, claim)| *claim).chain(allocated);
    claims.find_map(|claim| {
        let id = &claim.id;
        if has(claim, &pod.id.uid) {
            return None;
        }
        if claim.deleting {
            return Some(Waiting::broken(format!("claim {id} is being deleted")).of(id));
        }
        (claim.reserved_for.len() >= MAX_USERS).then(|| {
            let note = format!("claim {id} has {MAX_USERS} users, the most that a claim may have");
            Waiting::for_now(note).of(id)
        })
    })
}

/// The nodes that are left, or what is to be done as there are none.
fn place(pod: &PodFacts, sorted: &Sorted<'_>) -> Result<Place, Box<Next>> {
    let own = Sorted::nodes(sorted.own.iter().map(|(_, grant)| *grant));
    let fixed =
        sorted.fixed.iter().map(|(_, grant)| *grant).chain(sorted.elsewhere.iter().copied());
    let mut nodes = Sorted::nodes(fixed.clone());
    match (&pod.stage, &pod.pinned_to) {
        (Stage::Bound(node), _) | (_, Some(node)) => nodes.insert(node),
        _ => false,
    };
    let named: Vec<&str> = nodes.iter().copied().collect();
    if named.len() > 1 {
        let note = format!(
            "the pod and its claims are for different nodes ({}): it can run on none of them",
            named.join(", ")
        );
        return Err(Box::new(Next::Wait(Waiting::broken(note))));
    }
    let all: BTreeSet<&str> = nodes.union(&own).copied().collect();
    if all.len() > 1 {
        let all: Vec<&str> = all.into_iter().collect();
        let why = format!("the claims of pod {} are for several nodes: {}", pod.id, all.join(", "));
        return Err(Box::new(Next::Clear(cleared(sorted, why, None))));
    }
    let unnamed = fixed.chain(sorted.own.iter().map(|(_, grant)| *grant));
    let selectors = unnamed.filter(|grant| grant.node.is_none());
    Ok(Place {
        only: all.into_iter().next().map(str::to_owned),
        selectors: selectors.filter_map(|grant| grant.selector.clone()).collect(),
    })
}

fn go_on(
    pod: &PodFacts,
    sorted: &Sorted<'_>,
    place: Place,
    is_gated: bool,
    now: Timestamp,
) -> Next {
    let ids = |claims: &[(&ClaimFacts, &Grant)]| -> Vec<Id> {
        claims.iter().map(|(claim, _)| claim.id.clone()).collect()
    };
    let is_bound = matches!(pod.stage, Stage::Bound(_));
    let allocated = sorted.own.iter().chain(&sorted.fixed).map(|(claim, _)| *claim);
    let to_reserve: Vec<Id> =
        allocated.filter(|claim| !has(claim, &pod.id.uid)).map(|claim| claim.id.clone()).collect();
    if sorted.open.is_empty() {
        if is_bound {
            return Next::Nothing;
        }
        if !is_gated && to_reserve.is_empty() {
            return left_alone(pod, sorted, place, now);
        }
    }
    Next::Work(Box::new(Work {
        open: sorted
            .open
            .iter()
            .map(|(entry, claim)| ((*entry).to_owned(), claim.id.clone()))
            .collect(),
        own: ids(&sorted.own),
        to_reserve,
        held: sorted.held.clone(),
        others: sorted.others.iter().map(|claim| claim.id.clone()).collect(),
        place,
        is_settled: is_bound || (pod.pinned_to.is_some() && !is_gated),
        is_gated,
    }))
}

/// A pod that has all it needs of us, and is not bound yet.
fn left_alone(pod: &PodFacts, sorted: &Sorted<'_>, place: Place, now: Timestamp) -> Next {
    let unschedulable = pod.unscheduled.as_ref().filter(|why| why.reason == "Unschedulable");
    let (Some(why), false, None) = (unschedulable, sorted.own.is_empty(), &pod.pinned_to) else {
        return Next::Nothing;
    };
    let granted = sorted.own.iter().filter_map(|(_, grant)| grant.at).max();
    let since = granted.into_iter().chain(why.since).max().unwrap_or(Timestamp::MIN);
    let end = timing::after(since, UNGATED_UNSCHEDULABLE);
    if now < end {
        return Next::Later(end);
    }
    let node = place.only;
    let words = format!(
        "kube-scheduler could not place pod {} on node {}: {}",
        pod.id,
        node.as_deref().unwrap_or("(any)"),
        why.message
    );
    Next::Clear(cleared(sorted, words, node))
}

fn cleared(sorted: &Sorted<'_>, why: String, back_off: Option<String>) -> Cleared {
    Cleared {
        claims: sorted.own.iter().map(|(claim, _)| claim.id.clone()).collect(),
        why,
        back_off,
    }
}

fn key(pod: &PodFacts, name: &str) -> Key {
    Key { namespace: pod.id.key.namespace.clone(), name: name.to_owned() }
}
