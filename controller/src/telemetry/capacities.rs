//! Free, stranded and aligned capacity of each node, counted again only where it can have changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use lanemate_driver::allocation::capacity::{NodeCapacity, capacity, units_left};
use lanemate_driver::allocation::{Cluster, Evaluations};
use lanemate_driver::claim::Class;
use lanemate_driver::pool::DeviceSet;

/// Between two counts: dashboards ask every few seconds at most.
const COUNT_EVERY: SignedDuration = SignedDuration::from_secs(1);

/// Nodes that one count may look at anew: each takes some ten microseconds for each class, and pods wait meanwhile.
const MOST_NODES: usize = 100;

/// Counts by node.
#[derive(Debug, Default)]
pub struct Capacities {
    counted_at: Option<Timestamp>,
    classes: Vec<Arc<Class>>,
    nodes: BTreeMap<String, Counted>,
    /// The node after which the next count goes on, so that each has its turn where many change all the time.
    last: String,
}

/// What was counted of a node, and of which state of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    state: (usize, DeviceSet),
    /// Devices.
    pub devices: NodeCapacity,
    /// Units of each class that still fit.
    pub units: BTreeMap<String, u32>,
}

/// What has changed since the last count.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Nodes counted anew.
    pub counted: BTreeMap<String, Counted>,
    /// Nodes that are gone, with the classes that were counted for them.
    pub gone: BTreeMap<String, Vec<String>>,
}

impl Capacities {
    /// Counts nodes that changed, all of them where a class did; nothing within a second of the last count. What is too
    /// much for one count is left for the next.
    pub fn count(
        &mut self,
        cluster: &Cluster,
        evaluations: &mut Evaluations,
        classes: &[Arc<Class>],
        now: Timestamp,
    ) -> Changes {
        let mut changes = Changes::default();
        let next = self.counted_at.and_then(|last| last.checked_add(COUNT_EVERY).ok());
        if let (Some(last), Some(next)) = (self.counted_at, next)
            && (last..next).contains(&now)
        {
            return changes;
        }
        self.counted_at = Some(now);
        let are_same = self.classes.len() == classes.len()
            && self.classes.iter().zip(classes).all(|(a, b)| Arc::ptr_eq(a, b));
        if !are_same {
            self.classes = classes.to_vec();
            changes.gone.extend(self.forget(|_| true));
        }
        changes.gone.extend(self.forget(|name| cluster.node(name).is_none()));
        let last = std::mem::take(&mut self.last);
        let later = cluster.nodes().filter(|(name, _)| *name > last.as_str());
        let earlier = cluster.nodes().filter(|(name, _)| *name <= last.as_str());
        for (name, node) in later.chain(earlier) {
            let state = (node.layout_id, node.free);
            if self.nodes.get(name).is_some_and(|counted| counted.state == state) {
                continue;
            }
            let units = classes
                .iter()
                .map(|class| (class.name.clone(), units_left(node, evaluations, class)));
            let counted = Counted { state, devices: capacity(node), units: units.collect() };
            self.nodes.insert(name.to_owned(), counted.clone());
            changes.counted.insert(name.to_owned(), counted);
            if changes.counted.len() >= MOST_NODES {
                name.clone_into(&mut self.last);
                break;
            }
        }
        changes
    }

    fn forget(&mut self, is_gone: impl Fn(&str) -> bool) -> BTreeMap<String, Vec<String>> {
        let gone: Vec<String> = self.nodes.keys().filter(|name| is_gone(name)).cloned().collect();
        let taken = gone.into_iter().filter_map(|name| {
            let classes = self.nodes.remove(&name)?.units.into_keys().collect();
            Some((name, classes))
        });
        taken.collect()
    }
}

#[cfg(test)]
mod tests {
    use lanemate_driver::testing::cluster::{classes, cluster, switches, unit_class};
    use serde_json::json;

    use super::*;

    #[test]
    fn only_nodes_that_changed_are_counted_and_that_once_a_second() {
        let mut known = classes(&[unit_class("pair", (1, 1), json!({}))]);
        let pair = [known.get("pair").unwrap()];
        let mut cluster = cluster(&[("a", switches(4, 1, 1)), ("b", switches(2, 1, 1))]);
        let (mut capacities, mut evaluations) = (Capacities::default(), Evaluations::default());
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut count = |cluster: &Cluster, classes: &[Arc<Class>], second| {
            capacities.count(cluster, &mut evaluations, classes, at(second))
        };
        let pairs = |changes: &Changes| -> Vec<(String, Option<u32>)> {
            let of = |(name, counted): (&String, &Counted)| {
                (name.clone(), counted.units.get("pair").copied())
            };
            changes.counted.iter().map(of).collect()
        };
        let all = [("a".to_owned(), Some(4)), ("b".to_owned(), Some(2))];
        assert_eq!(pairs(&count(&cluster, &pair, 10)), all);
        let gpu = ("lanemate.dev".to_owned(), "a".to_owned(), "gpu-0-0".to_owned());
        assert!(cluster.reserve("ns/c", &[gpu]).is_empty());
        assert_eq!(count(&cluster, &pair, 10), Changes::default());
        assert_eq!(pairs(&count(&cluster, &pair, 11)), [("a".to_owned(), Some(3))]);
        assert_eq!(count(&cluster, &pair, 12), Changes::default());
        let changes = count(&cluster, &[], 13);
        assert_eq!(changes.gone.get("a"), Some(&vec!["pair".to_owned()]));
        assert_eq!(pairs(&changes), [("a".to_owned(), None), ("b".to_owned(), None)]);
        let gone = count(&Cluster::default(), &[], 14).gone;
        assert_eq!(gone.keys().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn nodes_that_change_all_the_time_keep_no_other_from_being_counted() {
        let names: Vec<String> =
            (0..MOST_NODES + 50).map(|number| format!("n{number:03}")).collect();
        let nodes: Vec<_> = names.iter().map(|name| (name.as_str(), switches(1, 1, 1))).collect();
        let mut cluster = cluster(&nodes);
        let (mut capacities, mut evaluations) = (Capacities::default(), Evaluations::default());
        let mut counted = std::collections::BTreeSet::new();
        for second in 0..2 {
            let now = Timestamp::from_second(second).unwrap();
            let changes = capacities.count(&cluster, &mut evaluations, &[], now);
            assert_eq!(changes.counted.len(), MOST_NODES);
            counted.extend(changes.counted.into_keys());
            for name in &names {
                let gpu = ("lanemate.dev".to_owned(), name.clone(), "gpu-0-0".to_owned());
                assert!(cluster.reserve("ns/c", &[gpu]).is_empty());
            }
        }
        assert_eq!(counted.len(), names.len());
    }
}
