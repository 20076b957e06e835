//! Events about waiting pods: told when they begin or change, repeated seldom, and closed when the pod has its devices.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::timing::{self, OTHER_WORDS, SAME_WORDS};
use super::{About, Notice};
use crate::id::{Id, Uid};

/// Nothing is wrong, and there is nothing to give yet.
pub const WAITING: &str = "PlacementWaiting";
/// The pod cannot be served as it is.
pub const REFUSED: &str = "PlacementRefused";
/// A claim asks for devices of ours and of other drivers.
pub const MIXED: &str = "MixedDrivers";
/// The pod that was told to wait has its devices.
pub const PLACED: &str = "Placed";
/// kube-scheduler could not place the pod where its devices are.
pub const MOVED: &str = "PlacementMoved";

/// Why a pod does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// [`WAITING`], [`REFUSED`] or [`MIXED`].
    pub reason: &'static str,
    /// A sentence for people.
    pub note: String,
    /// The claim at fault, which gets an event too.
    pub claim: Option<Id>,
}

/// What was told of each pod.
#[derive(Debug, Default)]
pub struct Notices {
    told: BTreeMap<Uid, Told>,
}

#[derive(Debug)]
struct Told {
    at: Timestamp,
    waiting: Waiting,
}

impl Waiting {
    /// Something is to come.
    pub fn for_now(note: impl Into<String>) -> Self {
        Self { reason: WAITING, note: note.into(), claim: None }
    }

    /// Somebody has to mend something.
    pub fn broken(note: impl Into<String>) -> Self {
        Self { reason: REFUSED, note: note.into(), claim: None }
    }

    /// It is the fault of a claim.
    #[must_use]
    pub fn of(self, claim: &Id) -> Self {
        Self { claim: Some(claim.clone()), ..self }
    }
}

impl Notices {
    /// When something may be told of a pod again.
    pub fn may_tell_at(&self, pod: &Uid) -> Option<Timestamp> {
        self.told.get(pod).map(|told| timing::after(told.at, OTHER_WORDS))
    }

    /// The events of a pod that waits; none where they were told already, or others a moment ago.
    pub fn tell(&mut self, pod: &Id, waiting: &Waiting, now: Timestamp) -> Vec<Notice> {
        if let Some(told) = self.told.get(&pod.uid) {
            let rest = if told.waiting == *waiting { SAME_WORDS } else { OTHER_WORDS };
            if now < timing::after(told.at, rest) {
                return Vec::new();
            }
        }
        self.told.insert(pod.uid.clone(), Told { at: now, waiting: waiting.clone() });
        let abouts = [Some(About::Pod(pod.clone())), waiting.claim.clone().map(About::Claim)];
        let notices = abouts.into_iter().flatten().map(|about| Notice {
            about,
            is_warning: waiting.reason != WAITING,
            reason: waiting.reason,
            note: waiting.note.clone(),
        });
        notices.collect()
    }

    /// The event that closes what was told of a pod, which is forgotten. A pod of which nothing was told needs none: it
    /// would cost the API server a write per pod to repeat what the pod's annotation says.
    pub fn placed(&mut self, pod: &Id, note: String) -> Option<Notice> {
        self.told.remove(&pod.uid)?;
        Some(Notice { about: About::Pod(pod.clone()), is_warning: false, reason: PLACED, note })
    }

    /// Forgets pods that are gone.
    pub fn retain(&mut self, lives: impl Fn(&Uid) -> bool) {
        self.told.retain(|pod, _| lives(pod));
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::id::Key;

    #[test]
    fn the_same_words_are_told_every_five_minutes_and_others_every_ten_seconds() {
        let key = Key { namespace: "ns".to_owned(), name: "p".to_owned() };
        let pod = Id { key, uid: Uid("u".to_owned()) };
        let mut notices = Notices::default();
        for (second, note, told) in [
            (0, "a", true),
            (1, "a", false),
            (9, "b", false),
            (10, "b", true),
            (11, "b", false),
            (309, "b", false),
            (310, "b", true),
            (315, "c", false),
            (320, "c", true),
        ] {
            let now = timing::after(Timestamp::UNIX_EPOCH, SignedDuration::from_secs(second));
            let told_now = notices.tell(&pod, &Waiting::for_now(note), now);
            assert_eq!(!told_now.is_empty(), told, "{second} {note}");
        }
        assert_eq!(notices.placed(&pod, "x".to_owned()).unwrap().reason, PLACED);
        assert_eq!(notices.placed(&pod, "x".to_owned()), None, "nothing is left to close");
        let broken = Waiting::broken("c").of(&pod);
        let told = notices.tell(&pod, &broken, Timestamp::UNIX_EPOCH);
        assert_eq!(told.len(), 2, "after Placed everything is news; pod and claim are told");
        assert!(told.iter().all(|notice| notice.is_warning));
    }
}
