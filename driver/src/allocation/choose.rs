//! The choice among many nodes at the cost of a few: answers are kept for each shape of problem, ranked, and renewed
//! on nodes that changed since.
//!
//! [`choose`] answers as [`decide`](super::decide) does, and [`refuse`] as its summary; a property test holds them
//! together.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use crate::allocation::node::{Answer, Rank, States, spent_budget};
use crate::allocation::problem::{Problem, Rule};
use crate::allocation::refusal::{self, Distance};
use crate::allocation::{Cluster, Evaluations, Grant, Node};
use crate::attribute::QualifiedName;
use crate::claim::filter::Toleration;
use crate::stable_hash::stable_hash;

/// What was chosen for a problem.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The node, and the devices there; absent when nothing fits.
    pub chosen: Option<(String, Rc<Grant>)>,
    /// No candidate spent its search budget.
    pub optimal: bool,
}

/// Why nothing was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// In words that a person can act on.
    pub reason: String,
    /// Selectors failed on devices that might have served: more devices would not help.
    pub failed: bool,
}

/// Rankings of the shapes of problems seen last.
#[derive(Debug, Default)]
pub struct Rankings {
    /// The one used last stands last.
    kept: Vec<Ranking>,
}

/// Rankings kept. One of 5,000 nodes takes about a megabyte; more shapes than this in turn pay for judging all nodes.
const MAX_RANKINGS: usize = 64;

/// What decides which devices serve a problem, whoever asks.
#[derive(Clone, Debug, PartialEq)]
struct Shape {
    /// Selectors, tolerations and bonds.
    filters: Vec<(Vec<usize>, Vec<Toleration>, Vec<usize>)>,
    items: Vec<ItemShape>,
    bonds: Vec<QualifiedName>,
    tied: Vec<QualifiedName>,
    steps: u32,
}

/// An item without its owners.
#[derive(Clone, Debug, PartialEq)]
struct ItemShape {
    parts: Vec<(usize, u32)>,
    rule: Rule,
    count: u32,
}

/// The answers of all nodes to one shape of problem.
#[derive(Debug)]
struct Ranking {
    shape: Shape,
    /// Changes of the cluster that are in it.
    seen: u64,
    places: BTreeMap<Arc<str>, Place>,
    /// Nodes where it fits, the best first.
    fitting: BTreeSet<(Rank, Arc<str>)>,
    /// Nodes where it does not, the nearest to fitting first.
    short: BTreeSet<(Distance, Arc<str>)>,
    /// Nodes that spent their search budget.
    spent: BTreeSet<Arc<str>>,
}

/// Where a node stands.
#[derive(Clone, Copy, Debug)]
enum Place {
    Fits(Rank),
    Short(Distance),
}

/// Chooses the node and the devices for a problem. `fits` says whether the pod may run on a node; it is asked for as few
/// nodes as possible, the best first, and for all of those that fit if it always denies. The evaluations have to be those
/// of this cluster alone.
pub fn choose(
    cluster: &Cluster,
    evaluations: &mut Evaluations,
    problem: &Problem,
    fits: &mut dyn FnMut(&str) -> bool,
    steps: u32,
) -> Choice {
    let mut rankings = std::mem::take(&mut evaluations.rankings);
    let ranking = rankings.current(cluster, evaluations, problem, steps);
    let mut chosen = None;
    for (_, name) in &ranking.fitting {
        let Some(node) = cluster.node(name).filter(|_| fits(name)) else { continue };
        if let (Answer::Fits(grant), _) = answer(evaluations, problem, steps, node) {
            chosen = Some((name.to_string(), grant));
            break;
        }
    }
    let optimal = !ranking.spent.iter().any(|name| fits(name));
    evaluations.rankings = rankings;
    Choice { chosen, optimal }
}

/// Why nothing was chosen, in words: the reason of the node that comes nearest. `candidates` are names in ascending
/// order; `unfit` says why the pod cannot run on one of them, and something for any other node.
pub fn refuse<'n>(
    cluster: &Cluster,
    evaluations: &mut Evaluations,
    problem: &Problem,
    candidates: &mut dyn Iterator<Item = &'n str>,
    unfit: &mut dyn FnMut(&str) -> Option<String>,
    steps: u32,
) -> Refusal {
    let mut rankings = std::mem::take(&mut evaluations.rankings);
    let ranking = rankings.current(cluster, evaluations, problem, steps);
    let mut near = ranking.short.iter().map(|(_, name)| name);
    let nearest = near.find(|name| unfit(name).is_none()).cloned();
    evaluations.rankings = rankings;
    let candidates: Vec<&str> = candidates.collect();
    let (name, answer) = match nearest {
        Some(name) => {
            let node = cluster.node(&name);
            let answer = node.map(|node| answer(evaluations, problem, steps, node).0);
            (name, answer.unwrap_or(Answer::Empty))
        }
        None => {
            let mut unfits = candidates.iter().filter_map(|name| Some((*name, unfit(name)?)));
            match (unfits.next(), candidates.first()) {
                (Some((name, why)), _) => (Arc::from(name), Answer::Unfit(why)),
                (None, Some(first)) => (Arc::from(*first), Answer::Empty),
                (None, None) => return Refusal { reason: refusal::no_node(), failed: false },
            }
        }
    };
    let told = refusal::of_answer(problem, cluster, &name, &answer).unwrap_or_default();
    // A node where a selector failed is nearer than any other that refuses.
    let failed = matches!(answer, Answer::Failed(_));
    Refusal { reason: refusal::in_short(&name, &told, candidates.len()), failed }
}

/// What one node answers to a problem, and why not in words.
pub fn judge(
    cluster: &Cluster,
    evaluations: &mut Evaluations,
    problem: &Problem,
    name: &str,
    steps: u32,
) -> (Answer, Option<String>) {
    let node = cluster.node(name);
    let answer = node.map_or(Answer::Empty, |node| answer(evaluations, problem, steps, node).0);
    let reason = refusal::of_answer(problem, cluster, name, &answer);
    (answer, reason)
}

fn answer(
    evaluations: &mut Evaluations,
    problem: &Problem,
    steps: u32,
    node: &Node,
) -> (Answer, Option<Rank>) {
    States::new(problem, evaluations, steps).answer(node)
}

impl Rankings {
    /// The ranking of a problem, brought up to date.
    fn current(
        &mut self,
        cluster: &Cluster,
        evaluations: &mut Evaluations,
        problem: &Problem,
        steps: u32,
    ) -> &Ranking {
        let shape = Shape::of(problem, steps);
        let known = self.kept.iter().position(|ranking| ranking.shape == shape);
        let mut ranking = match known {
            Some(index) => self.kept.remove(index),
            None => Ranking::new(shape),
        };
        ranking.renew(cluster, States::new(problem, evaluations, steps));
        if self.kept.len() >= MAX_RANKINGS {
            self.kept.remove(0);
        }
        let last = self.kept.len();
        self.kept.push(ranking);
        &self.kept[last]
    }
}

impl Shape {
    fn of(problem: &Problem, steps: u32) -> Self {
        let filters = problem.filters.iter().map(|wanted| {
            let (selectors, tolerations) = wanted.filter.key();
            (selectors, tolerations, wanted.bonds.clone())
        });
        let items = problem.items.iter().map(|item| ItemShape {
            parts: item.parts.clone(),
            rule: item.rule.clone(),
            count: item.count,
        });
        Self {
            filters: filters.collect(),
            items: items.collect(),
            bonds: problem.bonds.clone(),
            tied: problem.tied.clone(),
            steps,
        }
    }
}

impl Ranking {
    fn new(shape: Shape) -> Self {
        Self {
            shape,
            seen: 0,
            places: BTreeMap::new(),
            fitting: BTreeSet::new(),
            short: BTreeSet::new(),
            spent: BTreeSet::new(),
        }
    }

    /// Judges the nodes anew that changed since the last time.
    fn renew(&mut self, cluster: &Cluster, mut states: States<'_>) {
        let changes = cluster.changes();
        match changes.since(self.seen) {
            Some(changed) => changed.iter().for_each(|name| self.judge(cluster, &mut states, name)),
            None => {
                let shape = self.shape.clone();
                *self = Self::new(shape);
                for (name, _) in cluster.nodes() {
                    self.judge(cluster, &mut states, &Arc::from(name));
                }
            }
        }
        self.seen = changes.total();
    }

    fn judge(&mut self, cluster: &Cluster, states: &mut States<'_>, name: &Arc<str>) {
        match self.places.remove(name) {
            Some(Place::Fits(rank)) => self.fitting.remove(&(rank, Arc::clone(name))),
            Some(Place::Short(distance)) => self.short.remove(&(distance, Arc::clone(name))),
            None => false,
        };
        self.spent.remove(name);
        let Some(node) = cluster.node(name) else { return };
        let (answer, rank) = states.answer(node);
        let place = match rank {
            Some(rank) => {
                let rank = Rank { name_hash: stable_hash(name.as_bytes()), ..rank };
                self.fitting.insert((rank, Arc::clone(name)));
                Place::Fits(rank)
            }
            None => {
                let distance = refusal::distance(&answer);
                self.short.insert((distance, Arc::clone(name)));
                Place::Short(distance)
            }
        };
        if spent_budget(&answer) {
            self.spent.insert(Arc::clone(name));
        }
        self.places.insert(Arc::clone(name), place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::cluster::{claim_value, classes, cluster, parse, switches};

    #[test]
    fn the_shape_used_longest_ago_is_forgotten_first() {
        let cluster = cluster(&[("n", switches(1, 1, 1))]);
        let value = claim_value("c", &[("g", "gpu.lanemate.dev", 1)]);
        let claim = parse(value, &mut classes(&[])).unwrap();
        let problem = Problem::new(&[&claim]).unwrap();
        let mut evaluations = Evaluations::default();
        let mut ask = |steps| {
            let choice = choose(&cluster, &mut evaluations, &problem, &mut |_| true, steps);
            assert!(choice.chosen.is_some());
            evaluations.rankings.kept.iter().map(|kept| kept.shape.steps).collect::<Vec<_>>()
        };
        let most = u32::try_from(MAX_RANKINGS).unwrap();
        (100..100 + most).for_each(|steps| drop(ask(steps)));
        assert_eq!(ask(100).len(), MAX_RANKINGS, "it is known");
        let kept = ask(1000);
        assert_eq!(kept.len(), MAX_RANKINGS);
        assert_eq!((kept.first(), kept.contains(&100)), (Some(&102), true));
    }
}
