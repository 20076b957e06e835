//! Metrics of the controller.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::change::{Outcome, Report};
use crate::index::Index;
use crate::plan::Stats;

/// All of them; cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    leader: Gauge,
    waiting: Gauge,
    rounds: Histogram,
    done: Counter<u64, AtomicU64>,
}

impl Metrics {
    /// Registers all.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            leader: Gauge::default(),
            waiting: Gauge::default(),
            rounds: Histogram::new(exponential_buckets(1e-4, 2.0, 16)),
            done: Counter::default(),
        };
        registry.register(
            "lanemate_controller_leader",
            "1 while this instance works",
            metrics.leader.clone(),
        );
        registry.register(
            "lanemate_controller_pods_waiting",
            "Pods that wait for devices",
            metrics.waiting.clone(),
        );
        registry.register(
            "lanemate_controller_round_seconds",
            "Time of a round of planning",
            metrics.rounds.clone(),
        );
        registry.register(
            "lanemate_controller_changes",
            "Changes that were written",
            metrics.done.clone(),
        );
        metrics
    }

    /// Whether this instance leads.
    pub fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// Of a change that is over.
    pub fn report(&self, report: &Report) {
        if report.outcome == Outcome::Done {
            self.done.inc();
        }
    }

    /// Of a round.
    pub fn planned(&mut self, _: &Index, stats: &Stats, took: Duration, _: Timestamp) {
        self.waiting.set(i64::try_from(stats.waiting).unwrap_or(i64::MAX));
        self.rounds.observe(took.as_secs_f64());
    }
}
