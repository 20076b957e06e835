//! The order in which waiting pods are served: that of [`precedence`], as in `lanemate plan`.

use lanemate_driver::pending::precedence;

use crate::id::Uid;
use crate::index::PodFacts;

/// The highest priority first, then the oldest, then by namespace and name. A pod without a creation time is not in the
/// cluster yet, and comes after all that are.
pub fn in_order<'a>(pods: impl Iterator<Item = &'a PodFacts>) -> Vec<Uid> {
    let mut pods: Vec<&PodFacts> = pods.collect();
    let place = |pod: &PodFacts| precedence(pod.priority, pod.created);
    pods.sort_by(|a, b| place(a).cmp(&place(b)).then_with(|| a.id.key.cmp(&b.id.key)));
    pods.into_iter().map(|pod| pod.id.uid.clone()).collect()
}
