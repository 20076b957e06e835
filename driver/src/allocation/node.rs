//! The choice among nodes.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::allocation::evaluation::{Acceptance, Evaluations};
use crate::allocation::problem::{Problem, TooManyFilters};
use crate::allocation::score::{Rating, Wishes};
use crate::allocation::solve::{Grant, State, solve};
use crate::allocation::{Cluster, Node, Shortage};
use crate::claim::filter::FilterError;
use crate::claim::{Claim, Filter};
use crate::pool::DeviceSet;
use crate::stable_hash::stable_hash;

/// A node that may be chosen, and whether the pod may run there.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Name of the node.
    pub name: String,
    /// Why the pod cannot run there; absent when it can.
    pub unfit: Option<String>,
}

/// What was decided for the claims of one pod.
#[derive(Debug)]
pub struct Decision {
    /// What the claims ask for.
    pub problem: Problem,
    /// The node, and the devices there; absent when nothing fits.
    pub chosen: Option<(String, Rc<Grant>)>,
    /// No candidate spent its search budget.
    pub optimal: bool,
    /// The answer of every candidate, in the order given.
    pub answers: Vec<(String, Answer)>,
}

/// What one candidate can give.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The pod cannot run there.
    Unfit(String),
    /// It offers no devices.
    Empty,
    /// Something is missing.
    Short(Rc<Shortage>),
    /// Nothing was found, and selectors failed on devices that might have served.
    Failed(Rc<Vec<FilterError>>),
    /// The claims fit.
    Fits(Rc<Grant>),
}

/// What ranks nodes on which the claims fit, the smallest first; the name decides between equals. The order of the
/// fields is the order of weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Wishes met: more is better.
    pub wishes: Reverse<Wishes>,
    /// Rated pairs.
    pub rating: Rating,
    /// Free NICs left.
    pub nics_left: usize,
    /// Free GPUs left.
    pub gpus_left: usize,
    /// Groups that were whole and no longer are.
    pub groups_broken: usize,
    /// Hash of the name: spreads equal nodes evenly, and alike in every release.
    pub name_hash: u64,
}

/// Decides the claims of one pod. The order of claims matters only for who gets which of several equal devices.
///
/// # Errors
/// When the claims are too many for one decision.
pub fn decide(
    cluster: &Cluster,
    evaluations: &mut Evaluations,
    claims: &[&Claim],
    candidates: &[Candidate],
    steps: u32,
) -> Result<Decision, TooManyFilters> {
    let problem = Problem::new(claims)?;
    let mut states = States::new(&problem, evaluations, steps);
    let mut best: Option<(Rank, &str, Rc<Grant>)> = None;
    let mut optimal = true;
    let mut answers = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let answer = match (&candidate.unfit, cluster.node(&candidate.name)) {
            (Some(reason), _) => Answer::Unfit(reason.clone()),
            (None, None) => Answer::Empty,
            (None, Some(node)) => {
                let (answer, rank) = states.answer(node);
                optimal &= !spent_budget(&answer);
                if let (Answer::Fits(grant), Some(rank)) = (&answer, rank) {
                    let rank = Rank { name_hash: stable_hash(candidate.name.as_bytes()), ..rank };
                    let name = candidate.name.as_str();
                    let better = best.as_ref().is_none_or(|(r, n, _)| (rank, name) < (*r, *n));
                    if better {
                        best = Some((rank, name, Rc::clone(grant)));
                    }
                }
                answer
            }
        };
        answers.push((candidate.name.clone(), answer));
    }
    let chosen = best.map(|(_, name, grant)| (name.to_owned(), grant));
    Ok(Decision { problem, chosen, optimal, answers })
}

/// The search budget was spent.
pub(super) fn spent_budget(answer: &Answer) -> bool {
    match answer {
        Answer::Fits(grant) => !grant.optimal,
        Answer::Short(shortage) => **shortage == Shortage::Budget,
        _ => false,
    }
}

/// Answers by node state: nodes that are alike and have the same devices free have the same answer.
pub(super) struct States<'a> {
    problem: &'a Problem,
    filters: Vec<&'a Filter>,
    /// A selector reads what is unique to a node.
    reads_identity: bool,
    evaluations: &'a mut Evaluations,
    known: BTreeMap<(usize, DeviceSet, DeviceSet), (Answer, Option<Rank>)>,
    steps: u32,
}

impl<'a> States<'a> {
    /// No answer is known yet.
    pub(super) fn new(problem: &'a Problem, evaluations: &'a mut Evaluations, steps: u32) -> Self {
        let filters: Vec<&Filter> = problem.filters.iter().map(|wanted| &wanted.filter).collect();
        let reads_identity = filters.iter().any(|filter| filter.reads_identity());
        Self { problem, filters, reads_identity, evaluations, known: BTreeMap::new(), steps }
    }

    /// What a node can give, and its rank without its name.
    pub(super) fn answer(&mut self, node: &Node) -> (Answer, Option<Rank>) {
        if self.reads_identity {
            return self.compute(node);
        }
        let key = (node.layout_id, node.free, node.resting);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let answer = self.compute(node);
        self.known.insert(key, answer.clone());
        answer
    }

    fn compute(&mut self, node: &Node) -> (Answer, Option<Rank>) {
        let Acceptance { accepted_by, errors } = self.evaluations.accept(&self.filters, node);
        let (free, resting) = (node.free, node.resting);
        let state = State { layout: &node.layout, accepted_by: &accepted_by, free, resting };
        match solve(self.problem, state, self.steps) {
            Ok(grant) => {
                let rank = Rank::of(node, &grant);
                (Answer::Fits(Rc::new(grant)), Some(rank))
            }
            Err(shortage) => {
                // Devices that a claim holds are not looked at, so neither are their errors.
                let of_free = errors.into_iter().filter(|(position, _)| free.contains(*position));
                let failed: Vec<FilterError> = of_free.map(|(_, error)| error).collect();
                let answer = if failed.is_empty() {
                    Answer::Short(Rc::new(shortage))
                } else {
                    Answer::Failed(Rc::new(failed))
                };
                (answer, None)
            }
        }
    }
}

impl Rank {
    /// The rank of a node that gives a grant, from its state before; without its name.
    pub fn of(node: &Node, grant: &Grant) -> Self {
        let layout = &node.layout;
        let taken: DeviceSet = grant.sets.iter().flatten().flatten().flatten().copied().collect();
        let after = node.free.without(taken).without(layout.tainted);
        let broken = layout.members.iter().filter(|members| {
            let touched = !members.and(taken).is_empty();
            touched && members.without(node.free).is_empty()
        });
        Self {
            wishes: grant.score.wishes,
            rating: grant.score.rating,
            nics_left: after.and(layout.nics).len(),
            gpus_left: after.and(layout.gpus).len(),
            groups_broken: broken.count(),
            name_hash: 0,
        }
    }
}
