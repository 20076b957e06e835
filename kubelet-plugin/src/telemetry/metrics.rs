//! Metrics, in the Prometheus text format. Names and labels are a contract with dashboards.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// All metrics of the process; cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    operations: Family<OperationLabels, Histogram, fn() -> Histogram>,
    lock_wait: Histogram,
    records: Family<StateLabels, Gauge>,
    reconciled: Family<ResultLabels, Counter>,
    quarantined: Counter,
    slices: Gauge,
    generation: Gauge,
    slice_writes: Family<ResultLabels, Counter>,
    last_published: Gauge<f64, AtomicU64>,
}

/// What kubelet asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Operation {
    /// NodePrepareResources, for one claim.
    Prepare,
    /// NodeUnprepareResources, for one claim.
    Unprepare,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Outcome {
    /// Done, or nothing to do.
    Success,
    /// The claim cannot be served: a person or the controller has to change something.
    Refused,
    /// A fault on the way; kubelet tries again.
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    operation: Operation,
    result: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

impl Metrics {
    /// Registers all metrics.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            operations: Family::new_with_constructor(seconds),
            lock_wait: seconds(),
            records: Family::default(),
            reconciled: Family::default(),
            quarantined: Counter::default(),
            slices: Gauge::default(),
            generation: Gauge::default(),
            slice_writes: Family::default(),
            last_published: Gauge::default(),
        };
        let registry = registry.sub_registry_with_prefix("lanemate_plugin");
        let all = &metrics;
        registry.register(
            "operation_duration_seconds",
            "Prepare and Unprepare of one claim, by result",
            all.operations.clone(),
        );
        registry.register(
            "state_lock_wait_seconds",
            "Wait for the lock of the state directory, which two plugins share during an update",
            all.lock_wait.clone(),
        );
        registry.register("records", "Claims on record, by state", all.records.clone());
        registry.register(
            "reconciled_claims",
            "Claims looked at by reconciliation, by result",
            all.reconciled.clone(),
        );
        registry.register(
            "quarantined_records",
            "Records that could not be read and were set aside",
            all.quarantined.clone(),
        );
        registry.register("slices", "ResourceSlices that this node publishes", all.slices.clone());
        registry.register("pool_generation", "Generation of the pool", all.generation.clone());
        registry.register(
            "slice_writes",
            "Writes of ResourceSlices, by result",
            all.slice_writes.clone(),
        );
        registry.register(
            "last_published_timestamp_seconds",
            "When the slices in the cluster were last seen to be what they should be",
            all.last_published.clone(),
        );
        metrics
    }

    /// An operation on one claim has ended.
    pub fn operation(&self, operation: Operation, result: Outcome, took: Duration) {
        let labels = OperationLabels { operation, result };
        self.operations.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// The lock of the state directory was waited for.
    pub fn lock_wait(&self, took: Duration) {
        self.lock_wait.observe(took.as_secs_f64());
    }

    /// So many claims are on record in a state.
    pub fn records(&self, state: &'static str, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.records.get_or_create(&StateLabels { state }).set(count);
    }

    /// Reconciliation has looked at a claim.
    pub fn reconciled(&self, result: &'static str) {
        self.reconciled.get_or_create(&ResultLabels { result }).inc();
    }

    /// A record was set aside.
    pub fn quarantined(&self) {
        self.quarantined.inc();
    }

    /// The slices in the cluster are what they should be.
    pub fn published(&self, slices: usize, generation: i64, unix_seconds: f64) {
        self.slices.set(i64::try_from(slices).unwrap_or(i64::MAX));
        self.generation.set(generation);
        self.last_published.set(unix_seconds);
    }

    /// A slice was written, or could not be.
    pub fn slice_write(&self, result: &'static str) {
        self.slice_writes.get_or_create(&ResultLabels { result }).inc();
    }
}

/// 0.5 ms to 33 s: a Prepare takes some flushes of a disk, and kubelet waits 45 s.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_5, 2.0, 17))
}
