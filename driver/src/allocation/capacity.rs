//! What a node offers and what of it can still be used: counts for people and dashboards, never for a decision.
//!
//! ```text
//! offered = held + tainted + free        free GPUs of a group without a free NIC there are stranded, and so are NICs
//! ```

use std::sync::Arc;

use lanemate_api::Across;

use crate::allocation::evaluation::Acceptance;
use crate::allocation::ledger::{Free, Ledger};
use crate::allocation::{Evaluations, Node, Problem, State, solve};
use crate::claim::{Claim, Class, Filter, Request, UnitOf, Wants};
use crate::pool::DeviceSet;

/// Steps that the search for one number of units may take: a tenth of what a decision may, since there are several
/// numbers to try for each node and class, and a count that is too low by one misleads nobody for long.
const STEPS: u32 = 5_000;

/// GPUs and NICs of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCapacity {
    /// Published.
    pub offered: Free,
    /// Held by claims, or by the node itself.
    pub held: Free,
    /// Not held, but kept from claims by a taint that is not the allocator's.
    pub tainted: Free,
    /// Neither held nor tainted.
    pub free: Free,
    /// Free in a group in which nothing of the other kind is free.
    pub stranded: Free,
    /// Pairs of a free GPU and a free NIC of one group, each device in one pair.
    pub pairs: u32,
}

/// Counts the devices of a node.
pub fn capacity(node: &Node) -> NodeCapacity {
    let layout = &node.layout;
    let count = |set: DeviceSet| Free {
        gpus: number(set.and(layout.gpus)),
        nics: number(set.and(layout.nics)),
    };
    let all: DeviceSet = (0..layout.len()).collect();
    let mut counted = NodeCapacity {
        offered: count(all),
        held: count(all.without(node.free)),
        tainted: count(node.free.and(layout.tainted)),
        free: count(node.free.without(layout.tainted)),
        ..NodeCapacity::default()
    };
    let ledger = Ledger::new(layout, node.free, node.resting);
    let groups = u16::try_from(layout.members.len()).unwrap_or(u16::MAX);
    for free in (0..groups).map(|group| ledger.group(group)) {
        counted.pairs += free.pairs();
        if free.pairs() == 0 {
            counted.stranded.gpus += free.gpus;
            counted.stranded.nics += free.nics;
        }
    }
    counted
}

/// Units of a class that still fit on a node, each for a claim of its own; devices, for a class without units.
///
/// Wishes of the class do not count. Where the search is cut short, the number is a lower bound.
pub fn units_left(node: &Node, evaluations: &mut Evaluations, class: &Arc<Class>) -> u32 {
    let wants = wanted(class);
    let filters: Vec<&Filter> = match &wants {
        Wants::Device(filter) => vec![filter],
        Wants::Unit(unit) => unit.members.iter().map(|member| &member.filter).collect(),
    };
    let Acceptance { accepted_by, .. } = evaluations.accept(&filters, node);
    let size = match &wants {
        Wants::Device(_) => 1,
        Wants::Unit(unit) => unit.members.iter().map(|member| member.count).sum(),
    };
    let usable = node.free.iter().filter(|p| accepted_by.get(*p).is_some_and(|by| *by != 0));
    let usable = u32::try_from(usable.count()).unwrap_or(u32::MAX);
    let Some(most) = usable.checked_div(size) else { return 0 };
    // What fits n times fits fewer times too: between 0 and `most` the answer is where fitting ends.
    let (mut fitting, mut failing) = (0, most.saturating_add(1));
    while failing - fitting > 1 {
        let middle = fitting + (failing - fitting) / 2;
        if fits(node, evaluations, class, &wants, middle) {
            fitting = middle;
        } else {
            failing = middle;
        }
    }
    fitting
}

fn number(set: DeviceSet) -> u32 {
    u32::try_from(set.len()).unwrap_or(u32::MAX)
}

/// One unit of a class without wishes, and without a say about other units.
fn wanted(class: &Class) -> Wants {
    match &class.unit {
        None => Wants::Device(class.filter.clone()),
        Some(unit) => {
            let within = lanemate_api::Within { preferred: None, ..unit.within };
            Wants::Unit(UnitOf { members: unit.members.clone(), within, across: Across::default() })
        }
    }
}

fn fits(
    node: &Node,
    evaluations: &mut Evaluations,
    class: &Arc<Class>,
    wants: &Wants,
    count: u32,
) -> bool {
    let request = Request {
        name: class.name.clone(),
        count,
        wants: wants.clone(),
        tolerations: Vec::new(),
        class: Arc::clone(class),
    };
    let claim = Claim {
        namespace: String::new(),
        name: String::new(),
        requests: vec![request],
        placements: Vec::new(),
        constraints: Vec::new(),
        config: Vec::new(),
    };
    let Ok(problem) = Problem::new(&[&claim]) else { return false };
    let filters: Vec<&Filter> = problem.filters.iter().map(|wanted| &wanted.filter).collect();
    let Acceptance { accepted_by, .. } = evaluations.accept(&filters, node);
    let (free, resting) = (node.free, node.resting);
    let state = State { layout: &node.layout, accepted_by: &accepted_by, free, resting };
    solve(&problem, state, STEPS).is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::allocation::Cluster;
    use crate::testing::cluster::{TestDevice, classes, cluster, switches, unit_class};

    fn hold(cluster: &mut Cluster, names: &[&str]) {
        let id = |name: &&str| ("lanemate.dev".to_owned(), "n".to_owned(), (*name).to_owned());
        let devices: Vec<_> = names.iter().map(id).collect();
        assert!(cluster.reserve("ns/other", &devices).is_empty());
    }

    fn of(devices: Vec<TestDevice>, held: &[&str]) -> Cluster {
        let mut cluster = cluster(&[("n", devices)]);
        hold(&mut cluster, held);
        cluster
    }

    fn counted(cluster: &Cluster) -> NodeCapacity {
        capacity(cluster.node("n").unwrap())
    }

    fn left(cluster: &Cluster, class: Value) -> u32 {
        let name = class["metadata"]["name"].as_str().unwrap().to_owned();
        let class = classes(&[class]).get(&name).unwrap();
        units_left(cluster.node("n").unwrap(), &mut Evaluations::default(), &class)
    }

    #[test]
    fn an_empty_node_has_everything_free_and_paired() {
        let seen = counted(&of(switches(4, 2, 1), &[]));
        let all = Free { gpus: 8, nics: 4 };
        assert_eq!((seen.offered, seen.free, seen.pairs), (all, all, 4));
        assert_eq!((seen.held, seen.stranded), (Free::default(), Free::default()));
    }

    #[test]
    fn devices_without_a_free_partner_below_their_switch_are_stranded() {
        let seen = counted(&of(switches(4, 1, 1), &["gpu-0-0", "nic-1-0", "nic-2-0"]));
        assert_eq!(seen.held, Free { gpus: 1, nics: 2 });
        assert_eq!(seen.free, Free { gpus: 3, nics: 2 });
        assert_eq!(seen.stranded, Free { gpus: 2, nics: 1 });
        assert_eq!(seen.pairs, 1);
    }

    #[test]
    fn a_tainted_device_is_neither_free_nor_held() {
        let mut devices = switches(2, 1, 1);
        devices.iter_mut().filter(|d| d.name == "nic-0-0").for_each(|d| d.tainted = true);
        let seen = counted(&of(devices, &[]));
        assert_eq!(seen.tainted, Free { gpus: 0, nics: 1 });
        assert_eq!(seen.free, Free { gpus: 2, nics: 1 });
        assert_eq!((seen.stranded, seen.pairs), (Free { gpus: 1, nics: 0 }, 1));
    }

    #[test]
    fn units_are_counted_where_their_devices_are_near_enough() {
        let near = unit_class("pair", (1, 1), json!({}));
        let anywhere = unit_class("loose", (1, 1), json!({"within": {"required": "SYS"}}));
        let four = unit_class("four", (4, 4), json!({"within": {"required": "SYS"}}));
        let cluster = of(switches(4, 2, 2), &["gpu-0-0", "gpu-0-1", "nic-1-0", "nic-1-1"]);
        assert_eq!(left(&cluster, near), 4);
        assert_eq!(left(&cluster, anywhere), 6);
        assert_eq!(left(&cluster, four), 1);
    }

    #[test]
    fn what_the_class_asks_between_the_units_of_one_claim_does_not_count() {
        let across = json!({"across": {"required": "PIX"}});
        assert_eq!(left(&of(switches(4, 1, 1), &[]), unit_class("pair", (1, 1), across)), 4);
    }

    #[test]
    fn nothing_is_left_on_a_full_node_and_a_class_without_selectors_takes_any_device() {
        let full = of(switches(1, 1, 1), &["gpu-0-0"]);
        assert_eq!(left(&full, unit_class("pair", (1, 1), json!({}))), 0);
        let empty = Arc::new(Class { unit: None, ..Class::default() });
        let cluster = of(switches(1, 1, 1), &[]);
        let left = units_left(cluster.node("n").unwrap(), &mut Evaluations::default(), &empty);
        assert_eq!(left, 2, "a class without selectors takes any device");
    }
}
