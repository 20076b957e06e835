//! Nodes that a pod is kept off for a while, because kube-scheduler could not place it there.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::timing::{self, BACK_OFF};
use crate::id::Uid;

/// Nodes by pod.
#[derive(Debug, Default)]
pub struct BackOffs {
    by_pod: BTreeMap<Uid, BTreeMap<String, BackOff>>,
}

#[derive(Clone, Copy, Debug)]
struct BackOff {
    until: Timestamp,
    length: SignedDuration,
}

impl BackOffs {
    /// Keeps a pod off a node, twice as long as the last time.
    pub fn add(&mut self, pod: &Uid, node: &str, now: Timestamp) {
        let nodes = self.by_pod.entry(pod.clone()).or_default();
        let (first, longest) = BACK_OFF;
        let last = nodes.get(node).map(|last| last.length.saturating_mul(2).min(longest));
        let length = last.unwrap_or(first);
        let until = timing::after(now, length);
        nodes.insert(node.to_owned(), BackOff { until, length });
    }

    /// Whether the pod is kept off the node.
    pub fn covers(&self, pod: &Uid, node: &str, now: Timestamp) -> bool {
        let back_off = self.by_pod.get(pod).and_then(|nodes| nodes.get(node));
        back_off.is_some_and(|back_off| now < back_off.until)
    }

    /// When the next back-off of a pod ends.
    pub fn next_end(&self, pod: &Uid, now: Timestamp) -> Option<Timestamp> {
        let ends = self.by_pod.get(pod)?.values().map(|back_off| back_off.until);
        ends.filter(|until| *until > now).min()
    }

    /// Forgets pods that are gone.
    pub fn retain(&mut self, lives: impl Fn(&Uid) -> bool) {
        self.by_pod.retain(|pod, _| lives(pod));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_back_off_doubles_from_ten_seconds_to_five_minutes() {
        let (pod, mut now) = (Uid("p".to_owned()), Timestamp::UNIX_EPOCH);
        let mut back_offs = BackOffs::default();
        for seconds in [10, 20, 40, 80, 160, 300, 300] {
            back_offs.add(&pod, "n", now);
            let end = timing::after(now, SignedDuration::from_secs(seconds));
            assert_eq!(back_offs.next_end(&pod, now), Some(end));
            let before = timing::after(end, SignedDuration::from_secs(-1));
            assert!(back_offs.covers(&pod, "n", before));
            assert!(!back_offs.covers(&pod, "n", end));
            assert!(!back_offs.covers(&pod, "other", before));
            now = end;
        }
        back_offs.retain(|_| false);
        assert_eq!(back_offs.next_end(&pod, Timestamp::UNIX_EPOCH), None);
    }
}
