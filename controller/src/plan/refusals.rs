//! Pods that were refused, and on what grounds: until those change they are not decided again.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::notices::Waiting;
use super::pod::claims_of;
use crate::id::{Uid, Version};
use crate::index::{Index, PodFacts};

/// What a refusal rests on, beside the pod and its claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grounds {
    /// Of our cluster, and of that of other drivers.
    pub capacity: (u64, u64),
    /// Of [`super::belongs::Belongs`].
    pub classes: u64,
    /// Of the fit of nodes; absent where no node that has devices was unfit.
    pub fit: Option<u64>,
    /// The node that was kept for a pod before this one.
    pub kept: Option<String>,
}

/// A refusal.
#[derive(Clone, Debug)]
pub struct Refusal {
    pod: Version,
    claims: Vec<Option<Version>>,
    /// What it rests on.
    pub grounds: Grounds,
    /// When time alone may change it.
    pub until: Option<Timestamp>,
    /// What is to be told; absent until somebody asked for the words.
    pub waiting: Option<Arc<Waiting>>,
}

/// Refusals by pod.
#[derive(Debug, Default)]
pub struct Refusals {
    by_pod: BTreeMap<Uid, Refusal>,
}

impl Refusal {
    /// A refusal of a pod as it is.
    pub fn new(
        (pod, index): (&PodFacts, &Index),
        grounds: Grounds,
        until: Option<Timestamp>,
        waiting: Option<Arc<Waiting>>,
    ) -> Self {
        let (version, claims) = versions(pod, index);
        Self { pod: version, claims, grounds, until, waiting }
    }

    /// Whether nothing that it rests on has changed.
    fn holds(&self, pod: &PodFacts, index: &Index, now: &Grounds, time: Timestamp) -> bool {
        let Grounds { capacity, classes, fit, kept } = &self.grounds;
        *capacity == now.capacity
            && *classes == now.classes
            && (fit.is_none() || *fit == now.fit)
            && *kept == now.kept
            && self.until.is_none_or(|until| time < until)
            && versions(pod, index) == (self.pod.clone(), self.claims.clone())
    }
}

impl Refusals {
    /// Notes a refusal.
    pub fn add(&mut self, pod: &Uid, refusal: Refusal) {
        self.by_pod.insert(pod.clone(), refusal);
    }

    /// The refusal of a pod, if it still holds.
    pub fn standing(
        &mut self,
        (pod, index): (&PodFacts, &Index),
        grounds: &Grounds,
        now: Timestamp,
    ) -> Option<&mut Refusal> {
        let refusal = self.by_pod.get_mut(&pod.id.uid)?;
        refusal.holds(pod, index, grounds, now).then_some(refusal)
    }

    /// Forgets the refusal of a pod.
    pub fn remove(&mut self, pod: &Uid) {
        self.by_pod.remove(pod);
    }

    /// Forgets pods that are gone.
    pub fn retain(&mut self, lives: impl Fn(&Uid) -> bool) {
        self.by_pod.retain(|pod, _| lives(pod));
    }
}

fn versions(pod: &PodFacts, index: &Index) -> (Version, Vec<Option<Version>>) {
    let claims = claims_of(pod).into_iter();
    let claims = claims.map(|key| index.claim(&key).map(|claim| claim.version.clone()));
    (pod.version.clone(), claims.collect())
}
