//! Metrics, in the Prometheus text format. Names and labels are a contract with dashboards.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::capacities::{Changes, Counted};
use crate::plan::repair::Counts;

/// All metrics of the process; cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    leader: Gauge,
    queue: Gauge,
    oldest: Gauge,
    in_flight: Gauge,
    objects: Family<KindLabels, Gauge>,
    decisions: Histogram,
    writes: Family<KindLabels, Histogram, fn() -> Histogram>,
    conflicts: Counter,
    refusals: Family<ReasonLabels, Counter>,
    wanted: Family<ClassLabels, Gauge>,
    troubles: Family<KindLabels, Gauge>,
    devices: Family<DeviceLabels, Gauge>,
    pairs: Family<NodeLabels, Gauge>,
    units: Family<UnitLabels, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClassLabels {
    class: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NodeLabels {
    node: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeviceLabels {
    node: String,
    kind: &'static str,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UnitLabels {
    node: String,
    class: String,
}

impl Metrics {
    /// Registers all metrics.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            leader: Gauge::default(),
            queue: Gauge::default(),
            oldest: Gauge::default(),
            in_flight: Gauge::default(),
            objects: Family::default(),
            decisions: Histogram::new(exponential_buckets(0.000_05, 2.0, 16)),
            writes: Family::new_with_constructor(write_seconds),
            conflicts: Counter::default(),
            refusals: Family::default(),
            wanted: Family::default(),
            troubles: Family::default(),
            devices: Family::default(),
            pairs: Family::default(),
            units: Family::default(),
        };
        let registry = registry.sub_registry_with_prefix("lanemate");
        let all = &metrics;
        let mut gauge = |name, help, gauge: &Gauge| registry.register(name, help, gauge.clone());
        gauge("leader", "1 while this process holds the lease", &all.leader);
        gauge("queue_length", "Pods that wait for devices", &all.queue);
        gauge("oldest_waiting_seconds", "Age of the oldest pod that waits", &all.oldest);
        gauge("changes_in_flight", "Changes that the writer has", &all.in_flight);
        registry.register("index_objects", "Objects known, by kind", all.objects.clone());
        registry.register(
            "decision_duration_seconds",
            "Time to decide the devices of one pod",
            all.decisions.clone(),
        );
        registry.register(
            "write_duration_seconds",
            "Time from handing a change to the writer to its report, by kind",
            all.writes.clone(),
        );
        registry.register(
            "write_conflicts",
            "Changes given up since somebody else was faster",
            all.conflicts.clone(),
        );
        registry.register("refusals", "Pods told why they wait, by reason", all.refusals.clone());
        registry.register("units_wanted", "Units that pods wait for, by class", all.wanted.clone());
        registry.register("troubles", "What is wrong now, by kind", all.troubles.clone());
        registry.register("node_devices", "Devices by kind and state", all.devices.clone());
        registry.register("node_pairs", "Aligned pairs that are free", all.pairs.clone());
        registry.register("node_units", "Units of a class that still fit", all.units.clone());
        metrics
    }

    /// Whether this process holds the lease.
    pub fn leader(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// Pods that wait, the age of the oldest one, and changes with the writer.
    pub fn queue(&self, waiting: usize, oldest: Duration, in_flight: usize) {
        self.queue.set(number(waiting));
        self.oldest.set(i64::try_from(oldest.as_secs()).unwrap_or(i64::MAX));
        self.in_flight.set(number(in_flight));
    }

    /// So many objects of a kind are known.
    pub fn objects(&self, kind: &'static str, count: usize) {
        self.objects.get_or_create(&KindLabels { kind }).set(number(count));
    }

    /// The devices of a pod were decided.
    pub fn decision(&self, took: Duration) {
        self.decisions.observe(took.as_secs_f64());
    }

    /// A change was written, or given up.
    pub fn write(&self, kind: &'static str, took: Duration) {
        self.writes.get_or_create(&KindLabels { kind }).observe(took.as_secs_f64());
    }

    /// Somebody else was faster.
    pub fn conflict(&self) {
        self.conflicts.inc();
    }

    /// A pod was told why it waits.
    pub fn refusal(&self, reason: &'static str) {
        self.refusals.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// Units that pods wait for, of all classes that any waits for.
    pub fn wanted<'a>(&self, units: impl IntoIterator<Item = (&'a str, u64)>) {
        self.wanted.clear();
        for (class, count) in units {
            let labels = ClassLabels { class: class.to_owned() };
            self.wanted.get_or_create(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// What is wrong now.
    pub fn troubles(&self, counts: &Counts) {
        let Counts { contested, foreign, vanished, orphans, mispinned } = *counts;
        for (kind, count) in [
            ("contested_device", contested),
            ("foreign_allocation", foreign),
            ("vanished_devices", vanished),
            ("unused_allocation", orphans),
            ("pinned_in_vain", mispinned),
        ] {
            self.troubles.get_or_create(&KindLabels { kind }).set(number(count));
        }
    }

    /// Capacities that have changed. Series of what is gone end.
    pub fn capacities(&self, changes: &Changes) {
        for (node, classes) in &changes.gone {
            self.pairs.remove(&NodeLabels { node: node.clone() });
            for (kind, state) in KINDS.iter().flat_map(|k| STATES.iter().map(move |s| (*k, *s))) {
                self.devices.remove(&DeviceLabels { node: node.clone(), kind, state });
            }
            for class in classes {
                self.units.remove(&UnitLabels { node: node.clone(), class: class.clone() });
            }
        }
        changes.counted.iter().for_each(|(node, counted)| self.node(node, counted));
    }

    fn node(&self, node: &str, counted: &Counted) {
        let seen = &counted.devices;
        let states = [seen.held, seen.tainted, seen.free, seen.stranded];
        for (state, count) in STATES.into_iter().zip(states) {
            for (kind, count) in KINDS.into_iter().zip([count.gpus, count.nics]) {
                let labels = DeviceLabels { node: node.to_owned(), kind, state };
                self.devices.get_or_create(&labels).set(i64::from(count));
            }
        }
        let labels = NodeLabels { node: node.to_owned() };
        self.pairs.get_or_create(&labels).set(i64::from(seen.pairs));
        for (class, units) in &counted.units {
            let labels = UnitLabels { node: node.to_owned(), class: class.clone() };
            self.units.get_or_create(&labels).set(i64::from(*units));
        }
    }
}

const KINDS: [&str; 2] = ["gpu", "nic"];
/// In the order in which they are counted; what is stranded is free as well.
const STATES: [&str; 4] = ["held", "tainted", "free", "stranded"];

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// 1 ms to 33 s: a write takes some milliseconds, and a request time-out ends it.
fn write_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 16))
}

#[cfg(test)]
mod tests {
    use lanemate_driver::allocation::Evaluations;
    use lanemate_driver::testing::cluster::{classes, cluster, switches, unit_class};
    use prometheus_client::encoding::text::encode;
    use serde_json::json;

    use super::*;
    use crate::telemetry::capacities::Capacities;

    fn text(registry: &Registry) -> String {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn capacities_of_a_node_are_told_until_it_is_gone() {
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        let classes = [classes(&[unit_class("pair", (1, 1), json!({}))]).get("pair").unwrap()];
        let (mut capacities, mut evaluations) = (Capacities::default(), Evaluations::default());
        let mut cluster = cluster(&[("n", switches(4, 1, 1))]);
        let nic = ("lanemate.dev".to_owned(), "n".to_owned(), "nic-0-0".to_owned());
        assert!(cluster.reserve("ns/c", &[nic]).is_empty());
        let now = jiff::Timestamp::UNIX_EPOCH;
        metrics.capacities(&capacities.count(&cluster, &mut evaluations, &classes, now));
        let told = text(&registry);
        for line in [
            "lanemate_node_devices{node=\"n\",kind=\"gpu\",state=\"free\"} 4",
            "lanemate_node_devices{node=\"n\",kind=\"gpu\",state=\"stranded\"} 1",
            "lanemate_node_devices{node=\"n\",kind=\"nic\",state=\"held\"} 1",
            "lanemate_node_pairs{node=\"n\"} 3",
            "lanemate_node_units{node=\"n\",class=\"pair\"} 3",
        ] {
            assert!(told.lines().any(|told| told == line), "{line}\n{told}");
        }
        let later = jiff::Timestamp::from_second(2).unwrap();
        let none = lanemate_driver::allocation::Cluster::default();
        metrics.capacities(&capacities.count(&none, &mut evaluations, &classes, later));
        assert!(!text(&registry).contains("node=\"n\""));
    }

    #[test]
    fn classes_that_nobody_waits_for_any_more_are_not_told_of() {
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        metrics.wanted([("pair", 3), ("four", 1)]);
        assert!(text(&registry).contains("lanemate_units_wanted{class=\"pair\"} 3"));
        metrics.wanted([("four", 2)]);
        assert!(!text(&registry).contains("pair"));
        metrics.troubles(&Counts { contested: 2, ..Counts::default() });
        assert!(text(&registry).contains("lanemate_troubles{kind=\"contested_device\"} 2"));
    }
}
