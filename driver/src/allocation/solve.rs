//! One node: the best grant, or why there is none.

use lanemate_api::PathClass;

use crate::allocation::alike::{self, Alike};
use crate::allocation::block::{self, Relations, Setting};
use crate::allocation::ledger::Ledger;
use crate::allocation::problem::{Item, Problem, Rule};
use crate::allocation::score::{Score, Wishes};
use crate::allocation::search::{Search, Solution};
use crate::allocation::sets::{self, DeviceChoice};
use crate::allocation::shortage::{self, Shortage};
use crate::allocation::supply;
use crate::attribute::AttributeValue;
use crate::ids::Kind;
use crate::pool::{DeviceSet, Layout};

/// Steps that the search of one node may take. A step costs well under a microsecond, so that a node that
/// exhausts the budget delays a decision by a few milliseconds at most.
pub const SEARCH_BUDGET: u32 = 50_000;

/// Steps left.
#[derive(Debug)]
pub struct Budget {
    left: u32,
}

impl Budget {
    /// A budget of some steps.
    pub fn new(steps: u32) -> Self {
        Self { left: steps }
    }

    /// Takes a step, unless none is left.
    pub fn step(&mut self) -> bool {
        let some = self.left > 0;
        self.left = self.left.saturating_sub(1);
        some
    }

    /// No step is left.
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }
}

/// The state of a node as a problem sees it.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    /// Devices of the node.
    pub layout: &'a Layout,
    /// Filters that accept each device, one bit each.
    pub accepted_by: &'a [u128],
    /// Devices that no claim holds.
    pub free: DeviceSet,
    /// Devices freed a short while ago.
    pub resting: DeviceSet,
}

/// Devices for every item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// How good it is.
    pub score: Score,
    /// Sets by item, in published order of their first devices.
    pub sets: Vec<Vec<GrantedSet>>,
    /// It is proved that there is none better.
    pub optimal: bool,
}

/// Devices of one set, by part, as published positions.
pub type GrantedSet = Vec<Vec<usize>>;

/// The best grant on a node, or what is missing.
pub fn solve(problem: &Problem, state: State<'_>, steps: u32) -> Result<Grant, Shortage> {
    if let Some(shortage) = shortage::count(problem, state) {
        return Err(shortage);
    }
    let mut node = OneNode {
        problem,
        ledger: Ledger::new(state.layout, state.free, state.resting),
        state,
        wanted: problem.items.iter().map(|item| item.count).collect(),
        budget: Budget::new(steps),
        best: None,
        reached: vec![0; problem.items.len()],
    };
    node.bonds(state.accepted_by, 0);
    let spent = node.budget.is_spent();
    match node.best {
        Some(Granted { score, sets }) => Ok(Grant { score, sets, optimal: !spent }),
        None if spent => Err(Shortage::Budget),
        None => Err(shortage::sets(&node.wanted, &node.reached)),
    }
}

struct OneNode<'a> {
    problem: &'a Problem,
    state: State<'a>,
    ledger: Ledger<'a>,
    wanted: Vec<u32>,
    budget: Budget,
    best: Option<Granted>,
    /// Sets of each item that could be made at most.
    reached: Vec<u32>,
}

struct Granted {
    score: Score,
    sets: Vec<Vec<GrantedSet>>,
}

impl OneNode<'_> {
    /// Tries every value of the bonds from `bond` on: only devices with the value serve the bound requests.
    fn bonds(&mut self, accepted_by: &[u128], bond: usize) {
        let Some(name) = self.problem.bonds.get(bond) else {
            self.within_levels(accepted_by);
            return;
        };
        let bound: u128 = filters_of_bond(self.problem, bond);
        let usable = self.state.free.iter().filter(|position| accepted_by[*position] & bound != 0);
        let mut values: Vec<&AttributeValue> = Vec::new();
        for value in usable.filter_map(|p| self.state.layout.devices[p].attributes.get(name)) {
            if !values.contains(&value) && !value.is_list() {
                values.push(value);
            }
        }
        for value in values {
            let mut narrowed = accepted_by.to_vec();
            for (position, accepted_by) in narrowed.iter_mut().enumerate() {
                if self.state.layout.devices[position].attributes.get(name) != Some(value) {
                    *accepted_by &= !bound;
                }
            }
            self.bonds(&narrowed, bond + 1);
        }
    }

    /// Looks for units of near devices first: when all wishes are met and no rated pair is farther than allowed by then, farther
    /// units can only be worse.
    fn within_levels(&mut self, accepted_by: &[u128]) {
        let State { layout, free, resting, .. } = self.state;
        let alike = alike::collapse(self.problem, layout, accepted_by, free, resting);
        let required = self.problem.items.iter().filter_map(required_within).max();
        let Some(last) = required else {
            self.within(&alike, PathClass::Sys);
            return;
        };
        let nearest = nearest_pair(layout, &alike).unwrap_or(0);
        let levels = PathClass::ALL
            .into_iter()
            .filter(|class| *class == last || (*class < last && class.rank() >= nearest));
        let most =
            self.problem.items.iter().map(Item::most_wishes).fold(Wishes::default(), |a, b| {
                Wishes { within: a.within + b.within, across: a.across + b.across }
            });
        for level in levels {
            // Once there is a solution that farther units might beat, only the last level is left to try.
            if self.best.is_some() && level != last {
                continue;
            }
            self.within(&alike, level);
            let settled = self.best.as_ref().is_some_and(|best| {
                best.score.wishes.0 == most && best.score.rating.worst <= level.rank()
            });
            if settled {
                return;
            }
        }
    }

    fn within(&mut self, alike: &[Alike], level: PathClass) {
        let items = &self.problem.items;
        let mut choices: Vec<DeviceChoice> = Vec::new();
        for item in items.iter().enumerate() {
            choices.extend(sets::choices(self.state.layout, alike, item, level, &mut self.budget));
        }
        let setting = Setting {
            layout: self.state.layout,
            ledger: &self.ledger,
            alike,
            choices: &choices,
            items,
            wanted: &self.wanted,
            relations: relations(items, alike),
        };
        let mut blocks = block::split(&setting);
        supply::list_options(&setting, &mut blocks, &mut self.budget);
        let known = self.best.as_ref().map(|best| best.score);
        let search = Search::new(&setting, &blocks, known);
        let reached = self.reached.iter_mut().zip(search.reach());
        reached.for_each(|(most, reach)| *most = (*reach).max(*most));
        if let Some(solution) = search.run(&mut self.budget) {
            let sets = granted_sets(&setting, &solution);
            self.best = Some(Granted { score: solution.score, sets });
        }
    }
}

/// The filters of the requests that a bond binds, one bit each.
fn filters_of_bond(problem: &Problem, bond: usize) -> u128 {
    let numbered = problem.filters.iter().enumerate();
    let bound = numbered.filter(|(_, wanted)| wanted.bonds.contains(&bond));
    bound.fold(0, |bits, (filter, _)| bits | (1 << filter))
}

fn required_within(item: &Item) -> Option<PathClass> {
    match &item.rule {
        Rule::Unit { within, .. } => Some(within.required),
        Rule::Loose(_) => None,
    }
}

fn nearest_pair(layout: &Layout, alike: &[Alike]) -> Option<u8> {
    let of_kind = |kind| alike.iter().filter(move |a| a.traits.kind == Some(kind));
    let pairs = of_kind(Kind::Gpu).flat_map(|g| of_kind(Kind::Nic).map(move |n| (g, n)));
    pairs.map(|(g, n)| layout.nearness(g.first(), n.first()).rank).min()
}

/// What devices of different sets have to do with each other.
fn relations(items: &[Item], alike: &[Alike]) -> Relations {
    let loose: u128 = items
        .iter()
        .filter(|item| matches!(item.rule, Rule::Loose(_)))
        .flat_map(|item| &item.parts)
        .fold(0, |bits, (filter, _)| bits | (1 << filter));
    let takes = |kind| {
        alike.iter().any(|a| a.traits.kind == Some(kind) && a.traits.accepted_by & loose != 0)
    };
    Relations {
        loose_pairs: takes(Kind::Gpu) && takes(Kind::Nic),
        across: items.iter().any(|item| item.across().is_some()),
    }
}

/// Hands out the devices: of alike devices the first come first.
fn granted_sets(setting: &Setting<'_>, solution: &Solution) -> Vec<Vec<GrantedSet>> {
    let items = setting.items;
    let mut next = vec![0; setting.alike.len()];
    let mut sets: Vec<Vec<GrantedSet>> = items.iter().map(|_| Vec::new()).collect();
    let taken = solution.supplies.iter().flat_map(|supply| &supply.sets);
    for (number, times) in taken {
        let choice = &setting.choices[*number];
        for _ in 0..*times {
            let mut parts: GrantedSet =
                items[choice.item].parts.iter().map(|_| Vec::new()).collect();
            for take in &choice.takes {
                let devices = &setting.alike[take.alike].devices;
                let from = next[take.alike];
                next[take.alike] += take.count as usize;
                parts[take.part].extend(devices.iter().skip(from).take(take.count as usize));
            }
            parts.iter_mut().for_each(|part| part.sort_unstable());
            sets[choice.item].push(parts);
        }
    }
    for of_item in &mut sets {
        of_item.sort_by_key(|set| set.iter().flatten().min().copied());
    }
    sets
}
