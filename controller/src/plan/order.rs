//! The order in which waiting pods are served: queues and fairness will take the place of this one function.

use std::cmp::Reverse;

use jiff::Timestamp;

use crate::id::{Key, Uid};
use crate::index::PodFacts;

/// A pod's place in the order, the smallest first.
type Place<'a> = (Reverse<i32>, bool, Option<Timestamp>, &'a Key);

/// The highest priority first, then the oldest, then by namespace and name. A pod without a creation time is not in the
/// cluster yet, and comes after all that are.
pub fn in_order<'a>(pods: impl Iterator<Item = &'a PodFacts>) -> Vec<Uid> {
    let mut pods: Vec<&PodFacts> = pods.collect();
    pods.sort_by(|a, b| place(a).cmp(&place(b)));
    pods.into_iter().map(|pod| pod.id.uid.clone()).collect()
}

fn place(pod: &PodFacts) -> Place<'_> {
    (Reverse(pod.priority), pod.created.is_none(), pod.created, &pod.id.key)
}
