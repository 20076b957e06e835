//! The exact search on one node: which blocks serve what.
//!
//! Depth first over the blocks. A branch ends when the blocks that remain cannot serve what is still missing, or when a lower
//! bound of its score is above the best score found. Mirror images are looked at in one order only; the published
//! positions, which tell them apart, are put right for each solution that is good enough to care.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::allocation::Budget;
use crate::allocation::block::{Block, Setting};
use crate::allocation::problem::Rule;
use crate::allocation::score::{Rating, Score, Wishes};
use crate::allocation::supply::Supply;
use crate::ids::Kind;
use crate::pool::DeviceSet;

/// The best grant on a node.
#[derive(Clone, Debug)]
pub struct Solution {
    /// Its score.
    pub score: Score,
    /// Sets taken: index of the choice, how often, and the devices they are taken from.
    pub supplies: Vec<Supply>,
}

/// The search over the blocks of one setting.
pub struct Search<'a, 'b> {
    setting: &'a Setting<'b>,
    blocks: &'a [Block],
    /// Sets of each item that the blocks from an index on can serve at most.
    reach: Vec<Vec<u32>>,
    /// Best rating of one set of each item.
    best_set: Vec<Rating>,
    /// Wishes between units that could be met at most.
    most_across: u32,
    missing: Vec<u32>,
    chosen: Vec<usize>,
    /// Score to beat.
    bar: Option<Score>,
    best: Option<Solution>,
}

/// What has been chosen so far.
#[derive(Clone, Copy, Default)]
struct Sum {
    wishes: u32,
    rating: Rating,
    islands: DeviceSet,
    numa_nodes: DeviceSet,
    pairs_lost: u32,
    groups_touched: u32,
    left_in_touched: u32,
    resting: u32,
}

impl Sum {
    fn plus(mut self, supply: &Supply) -> Self {
        self.wishes += supply.wishes.within;
        self.rating = self.rating.plus(supply.rating, 1);
        self.islands = self.islands.or(supply.cost.islands);
        self.numa_nodes = self.numa_nodes.or(supply.cost.numa_nodes);
        self.pairs_lost += supply.cost.pairs_lost;
        self.groups_touched += supply.cost.groups_touched;
        self.left_in_touched += supply.cost.left_in_touched;
        self.resting += supply.cost.resting;
        self
    }
}

/// Sets of each item that the blocks from each index on can serve at most.
fn reach(items: usize, blocks: &[Block]) -> Vec<Vec<u32>> {
    let mut reach = vec![vec![0; items]];
    for block in blocks.iter().rev() {
        let most = |item: usize| block.options.iter().map(|o| o.served[item]).max().unwrap_or(0);
        let later = reach.last().into_iter().flatten().enumerate();
        reach.push(later.map(|(item, sets)| sets + most(item)).collect());
    }
    reach.reverse();
    reach
}

impl<'a, 'b> Search<'a, 'b> {
    /// A search for a score below `bar`.
    pub fn new(setting: &'a Setting<'b>, blocks: &'a [Block], bar: Option<Score>) -> Self {
        let wanted = setting.wanted;
        let best_set = |item: usize| {
            let sets = setting.choices.iter().filter(|choice| choice.item == item);
            sets.map(|choice| choice.rating).reduce(Rating::least).unwrap_or_default()
        };
        Self {
            reach: reach(wanted.len(), blocks),
            best_set: (0..setting.items.len()).map(best_set).collect(),
            most_across: setting.items.iter().map(|item| item.most_wishes().across).sum(),
            missing: wanted.to_vec(),
            chosen: Vec::with_capacity(blocks.len()),
            setting,
            blocks,
            bar,
            best: None,
        }
    }

    /// Sets of each item that can be made at most; what is short of the wanted number cannot be granted.
    pub fn reach(&self) -> &[u32] {
        self.reach.first().map_or(&[], Vec::as_slice)
    }

    /// The best solution; none when no score is below the bar.
    pub fn run(mut self, budget: &mut Budget) -> Option<Solution> {
        self.block(Sum::default(), budget);
        self.best
    }

    fn block(&mut self, sum: Sum, budget: &mut Budget) {
        let at = self.chosen.len();
        let short =
            self.missing.iter().zip(&self.reach[at]).any(|(missing, reach)| missing > reach);
        if short || !budget.step() || self.is_worse(&sum) {
            return;
        }
        let Some(block) = self.blocks.get(at) else {
            self.finish(&sum);
            return;
        };
        let first = if block.mirrors_previous { self.chosen[at - 1] } else { 0 };
        for (index, option) in block.options.iter().enumerate().skip(first) {
            if option.served.iter().zip(&self.missing).any(|(served, missing)| served > missing) {
                continue;
            }
            self.missing.iter_mut().zip(&option.served).for_each(|(m, served)| *m -= served);
            self.chosen.push(index);
            self.block(sum.plus(option), budget);
            self.chosen.pop();
            self.missing.iter_mut().zip(&option.served).for_each(|(m, served)| *m += served);
        }
    }

    /// Whether no way to go on can beat the best: each term is bounded from below, in the order of the objective.
    fn is_worse(&self, sum: &Sum) -> bool {
        let Some(bar) = &self.bar else { return false };
        let mut bound = sum.rating;
        let mut wishes = Wishes { within: sum.wishes, across: self.most_across };
        for (item, missing) in self.missing.iter().enumerate() {
            bound = bound.plus(self.best_set[item], *missing);
            let wishes_for = self.setting.items[item].preferred_within().is_some();
            wishes.within += if wishes_for { *missing } else { 0 };
        }
        let floor =
            (Reverse(wishes), bound, count(sum.islands), sum.pairs_lost, count(sum.numa_nodes));
        let Score { wishes, rating, islands, pairs_lost, numa_nodes, .. } = *bar;
        floor > (wishes, rating, islands, pairs_lost, numa_nodes)
    }

    fn finish(&mut self, sum: &Sum) {
        let sets = self.supplies().flat_map(|supply| &supply.sets);
        let Some(across) = self.setting.across_wishes(sets) else { return };
        let lost: Vec<_> =
            self.supplies().flat_map(|supply| supply.cost.lost_by_numa.iter().copied()).collect();
        let (fours, twos) = self.setting.ledger.fours_and_twos(&lost);
        let mut score = Score {
            wishes: Reverse(Wishes { within: sum.wishes, across }),
            rating: sum.rating.plus(self.loose_rating(), 1),
            islands: count(sum.islands),
            pairs_lost: sum.pairs_lost,
            numa_nodes: count(sum.numa_nodes),
            fours_left: Reverse(fours),
            twos_left: Reverse(twos),
            groups_touched: sum.groups_touched,
            left_in_touched: sum.left_in_touched,
            resting: sum.resting,
            positions: Reverse(DeviceSet::default()),
        };
        // No solution takes earlier positions than all of them.
        let floor = Score { positions: Reverse(DeviceSet::ALL), ..score };
        if self.bar.is_some_and(|bar| floor > bar) {
            return;
        }
        let arranged = self.arrange();
        let supply = |(at, option): (usize, &usize)| self.blocks[at].options[*option].clone();
        let supplies: Vec<Supply> = arranged.iter().enumerate().map(supply).collect();
        let taken = supplies.iter().fold(DeviceSet::default(), |set, supply| set.or(supply.taken));
        score.positions = Reverse(taken);
        if self.bar.is_none_or(|bar| score < bar) {
            self.bar = Some(score);
            self.best = Some(Solution { score, supplies });
        }
    }

    fn supplies(&self) -> impl Iterator<Item = &'a Supply> + Clone + '_ {
        let blocks = self.blocks;
        self.chosen.iter().enumerate().map(move |(at, option)| &blocks[at].options[*option])
    }

    /// Rating of the devices outside units: each GPU with its nearest NIC, or the reverse where NICs are more.
    fn loose_rating(&self) -> Rating {
        let mut rating = Rating::default();
        if !self.setting.relations.loose_pairs {
            return rating;
        }
        let mut gpus: Vec<(usize, u32)> = Vec::new();
        let mut nics = Vec::new();
        for (choice, sets) in self.supplies().flat_map(|supply| &supply.sets) {
            let choice = &self.setting.choices[*choice];
            if !matches!(self.setting.items[choice.item].rule, Rule::Loose(_)) {
                continue;
            }
            for take in &choice.takes {
                match self.setting.alike[take.alike].traits.kind {
                    Some(Kind::Gpu) => gpus.push((take.alike, take.count * sets)),
                    Some(Kind::Nic) => nics.push((take.alike, take.count * sets)),
                    None => {}
                }
            }
        }
        let total = |list: &[(usize, u32)]| list.iter().map(|(_, n)| n).sum::<u32>();
        let (many, few) = if total(&nics) > total(&gpus) { (nics, gpus) } else { (gpus, nics) };
        for (from, times) in many {
            let nearest = few.iter().map(|(to, _)| self.setting.nearness(from, *to)).min();
            if let Some(nearest) = nearest {
                rating.add(nearest, times);
            }
        }
        rating
    }

    /// The chosen options with those of mirror images put in the order that takes the earliest positions.
    fn arrange(&self) -> Vec<usize> {
        let mut arranged = Vec::with_capacity(self.chosen.len());
        let mut start = 0;
        while start < self.blocks.len() {
            let mirrors =
                self.blocks[start + 1..].iter().take_while(|b| b.mirrors_previous).count();
            let end = start + 1 + mirrors;
            let chosen = &self.chosen[start..end];
            if chosen.iter().all(|option| *option == chosen[0]) {
                arranged.extend_from_slice(chosen);
            } else {
                arranged.extend(earliest(&self.blocks[start..end], chosen));
            }
            start = end;
        }
        arranged
    }
}

fn count(set: DeviceSet) -> u32 {
    u32::try_from(set.len()).unwrap_or(u32::MAX)
}

/// Gives each block one of the chosen options, so that the earliest positions are taken.
///
/// The positions of different blocks are disjoint and every order takes the same number of them, so the set that holds the
/// smallest position of two is the better one, and what is best for the blocks that follow is best in any case.
fn earliest(blocks: &[Block], chosen: &[usize]) -> Vec<usize> {
    let mut left: Vec<(usize, u32)> = Vec::new();
    for option in chosen {
        match left.iter_mut().find(|(other, _)| other == option) {
            Some((_, times)) => *times += 1,
            None => left.push((*option, 1)),
        }
    }
    let mut known = BTreeMap::new();
    best_order(blocks, &mut left, &mut known).1
}

type Known = BTreeMap<Vec<u32>, (DeviceSet, Vec<usize>)>;

/// The best order for the last blocks, as many as options are left.
fn best_order(
    blocks: &[Block],
    left: &mut [(usize, u32)],
    known: &mut Known,
) -> (DeviceSet, Vec<usize>) {
    let key: Vec<u32> = left.iter().map(|(_, times)| *times).collect();
    let missing: u32 = key.iter().sum();
    if missing == 0 {
        return (DeviceSet::default(), Vec::new());
    }
    if let Some(best) = known.get(&key) {
        return best.clone();
    }
    let block = &blocks[blocks.len() - missing as usize];
    let mut best: Option<(DeviceSet, Vec<usize>)> = None;
    for index in 0..left.len() {
        let (option, times) = left[index];
        if times == 0 {
            continue;
        }
        left[index].1 -= 1;
        let (rest, mut order) = best_order(blocks, left, known);
        left[index].1 += 1;
        let taken = rest.or(block.options[option].taken);
        if best.as_ref().is_none_or(|(other, _)| taken > *other) {
            order.insert(0, option);
            best = Some((taken, order));
        }
    }
    let best = best.unwrap_or_default();
    known.insert(key, best.clone());
    best
}
