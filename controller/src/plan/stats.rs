//! What a round saw, for metrics: durations are measured by the caller, who has a clock.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// Sums over the waiting pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Pods that wait for devices of ours.
    pub waiting: usize,
    /// When the oldest of them was created.
    pub oldest: Option<Timestamp>,
    /// Pods that cannot go on now, by the reason of their event.
    pub refused: BTreeMap<&'static str, usize>,
    /// Counts asked for by unallocated claims of waiting pods, by class: units of a ResourceClass, devices of a DeviceClass.
    pub wanted: BTreeMap<String, u64>,
    /// Decisions made in this round.
    pub decisions: usize,
}
