//! What one block can give: every number of sets of every item that it can serve, each in the best way.

use std::cmp::Reverse;

use crate::allocation::Budget;
use crate::allocation::alike::Alike;
use crate::allocation::block::{Block, Setting};
use crate::allocation::ledger::Cost;
use crate::allocation::score::{Rating, Wishes};
use crate::allocation::sets::DeviceChoice;
use crate::ids::Kind;
use crate::pool::DeviceSet;

/// What a block gives.
#[derive(Clone, Debug)]
pub struct Supply {
    /// Sets taken: index of the choice and how often.
    pub sets: Vec<(usize, u32)>,
    /// Sets served of each item.
    pub served: Vec<u32>,
    /// Wishes met within the block.
    pub wishes: Wishes,
    /// Rating of the units.
    pub rating: Rating,
    /// What it costs.
    pub cost: Cost,
    /// The devices.
    pub taken: DeviceSet,
    /// Devices of each alike kind.
    used: Vec<(usize, u32)>,
}

/// Lists what a block can give.
struct Listing<'a, 'b> {
    setting: &'a Setting<'b>,
    choices: &'a [usize],
    /// Least rating of the choices of one item from an index on.
    least: Vec<Rating>,
    /// The block is the only one: it serves all that is wanted or nothing.
    alone: bool,
    sets: Vec<(usize, u32)>,
    missing: Vec<u32>,
    left: Vec<u32>,
    /// Alike devices by how near they are to other blocks: the first one that is equally near stands for each.
    outer: Vec<usize>,
    best: Option<(Reverse<u32>, Rating)>,
    found: Vec<Supply>,
}

/// Fills in the options of every block.
pub fn list_options(setting: &Setting<'_>, blocks: &mut [Block], budget: &mut Budget) {
    let alone = blocks.len() == 1;
    for block in blocks.iter_mut() {
        let mut listing = Listing {
            setting,
            choices: &block.choices,
            least: least_ratings(setting, &block.choices),
            alone,
            sets: Vec::new(),
            missing: setting.wanted.to_vec(),
            left: setting.alike.iter().map(Alike::count).collect(),
            outer: outer_kinds(setting, &block.alike),
            best: None,
            found: Vec::new(),
        };
        listing.choose(0, 0, Rating::default(), budget);
        block.options = listing.found;
    }
}

/// For each alike kind the first one of the block that is equally near to everything outside.
fn outer_kinds(setting: &Setting<'_>, block: &[usize]) -> Vec<usize> {
    let mut outer: Vec<usize> = (0..setting.alike.len()).collect();
    if !setting.relations.across {
        return outer;
    }
    let outside: Vec<usize> = outer.iter().copied().filter(|c| !block.contains(c)).collect();
    for (number, a) in block.iter().enumerate() {
        let same = block[..number].iter().find(|b| {
            setting.alike[**b].traits.kind == setting.alike[*a].traits.kind
                && outside.iter().all(|c| setting.nearness(*a, *c) == setting.nearness(**b, *c))
        });
        outer[*a] = same.copied().unwrap_or(*a);
    }
    outer
}

fn least_ratings(setting: &Setting<'_>, choices: &[usize]) -> Vec<Rating> {
    let mut least: Vec<Rating> = choices.iter().map(|n| setting.choices[*n].rating).collect();
    for at in (1..choices.len()).rev() {
        let (before, after) = (&setting.choices[choices[at - 1]], &setting.choices[choices[at]]);
        if before.item == after.item {
            least[at - 1] = least[at - 1].least(least[at]);
        }
    }
    least
}

impl Listing<'_, '_> {
    /// Ends with what is taken so far, and tries to take each of the choices from `at` on next.
    fn choose(&mut self, at: usize, wishes: u32, rating: Rating, budget: &mut Budget) {
        if !budget.step() {
            return;
        }
        let complete = self.missing.iter().all(|missing| *missing == 0);
        if complete || !self.alone {
            self.finish(wishes, rating);
        }
        if complete {
            return;
        }
        for next in at..self.choices.len() {
            if self.alone && self.is_hopeless(next, wishes, rating) {
                return;
            }
            let number = self.choices[next];
            let choice = &self.setting.choices[number];
            for count in (1..=self.most(choice).min(self.missing[choice.item])).rev() {
                self.take(number, count);
                let met = if choice.meets_wish { count } else { 0 };
                self.choose(next + 1, wishes + met, rating.plus(choice.rating, count), budget);
                self.give_back(number, count);
            }
        }
    }

    /// How often a choice can be taken from what is left.
    fn most(&self, choice: &DeviceChoice) -> u32 {
        let per_alike = choice.takes.iter().map(|take| {
            let of_one = choice.takes.iter().filter(|other| other.alike == take.alike);
            self.left[take.alike] / of_one.map(|other| other.count).sum::<u32>().max(1)
        });
        per_alike.min().unwrap_or(0)
    }

    fn take(&mut self, number: usize, count: u32) {
        self.sets.push((number, count));
        let choice = &self.setting.choices[number];
        self.missing[choice.item] -= count;
        choice.takes.iter().for_each(|take| self.left[take.alike] -= take.count * count);
    }

    fn give_back(&mut self, number: usize, count: u32) {
        self.sets.pop();
        let choice = &self.setting.choices[number];
        self.missing[choice.item] += count;
        choice.takes.iter().for_each(|take| self.left[take.alike] += take.count * count);
    }

    /// Whether what is still missing cannot come from the choices at `at` and later, or only in a worse way than one
    /// found already. Choices stand by item, those that meet the wish first.
    fn is_hopeless(&self, at: usize, wishes: u32, rating: Rating) -> bool {
        let (mut hope, mut bound) = (wishes, rating);
        for (item, missing) in self.missing.iter().enumerate().filter(|(_, m)| **m > 0) {
            let later = &self.choices[at..];
            let of_item = later.iter().position(|n| self.setting.choices[*n].item == item);
            let Some(first) = of_item.map(|offset| at + offset) else { return true };
            let meets_wish = self.setting.choices[self.choices[first]].meets_wish;
            hope += if meets_wish { *missing } else { 0 };
            bound = bound.plus(self.least[first], *missing);
        }
        // Where devices of different sets have a say about each other, this is not the whole score.
        let found = self.best.filter(|_| !self.setting.relations.any());
        found.is_some_and(|best| (Reverse(hope), bound) > best)
    }

    fn finish(&mut self, within: u32, rating: Rating) {
        let Some(across) = self.setting.across_wishes(self.sets.iter()) else { return };
        let wishes = Wishes { within, across };
        if self.alone {
            let key = (Reverse(within), rating);
            self.best = Some(self.best.map_or(key, |best| best.min(key)));
        }
        let mut used: Vec<(usize, u32)> = Vec::new();
        for (number, count) in &self.sets {
            for take in &self.setting.choices[*number].takes {
                match used.iter_mut().find(|(alike, _)| *alike == take.alike) {
                    Some((_, sum)) => *sum += take.count * count,
                    None => used.push((take.alike, take.count * count)),
                }
            }
        }
        used.sort_unstable();
        let taken = self.setting.devices(&used);
        let served = self.setting.wanted.iter().zip(&self.missing).map(|(w, m)| w - m).collect();
        let (sets, cost) = (self.sets.clone(), self.setting.ledger.cost(taken));
        self.keep(Supply { sets, served, wishes, rating, cost, taken, used });
    }

    /// Of two supplies that the rest of the node cannot tell apart only the better one is kept.
    fn keep(&mut self, supply: Supply) {
        let relations = self.setting.relations;
        let units = self.units_outside(&supply);
        let same = self.found.iter().position(|other| {
            (!relations.loose_pairs || (other.used == supply.used && other.sets == supply.sets))
                && other.served == supply.served
                && other.rating.worst == supply.rating.worst
                && other.cost.islands == supply.cost.islands
                && other.cost.numa_nodes == supply.cost.numa_nodes
                && other.cost.lost_by_numa == supply.cost.lost_by_numa
                && (!relations.across || self.units_outside(other) == units)
        });
        match same.map(|index| &mut self.found[index]) {
            Some(other) if rank(&supply) < rank(other) => *other = supply,
            Some(_) => {}
            None => self.found.push(supply),
        }
    }

    /// The units that have a say about others, as other blocks see them: item, and devices by how near they are.
    fn units_outside(&self, supply: &Supply) -> Vec<(usize, Vec<usize>)> {
        let mut units = Vec::new();
        for (number, count) in &supply.sets {
            let item = self.setting.choices[*number].item;
            if self.setting.items[item].across().is_none() {
                continue;
            }
            let of_kind = |kind| self.setting.of_kind(*number, kind).map(|a| self.outer[a]);
            let mut devices: Vec<usize> = of_kind(Kind::Gpu).collect();
            if devices.is_empty() {
                devices.extend(of_kind(Kind::Nic));
            }
            devices.sort_unstable();
            devices.dedup();
            units.extend(std::iter::repeat_n((item, devices), *count as usize));
        }
        units.sort();
        units
    }
}

/// What adds up over blocks, in the order of the objective.
fn rank(supply: &Supply) -> impl Ord + use<> {
    (
        Reverse(supply.wishes),
        supply.rating.sum,
        supply.rating.hops,
        supply.cost.pairs_lost,
        supply.cost.groups_touched,
        supply.cost.left_in_touched,
        supply.cost.resting,
        Reverse(supply.taken),
    )
}
