//! Blocks: parts of a node that share no set, so that each can be looked at alone.
//!
//! A block has a list of options, each of which serves a number of sets of every item. Two blocks that are mirror
//! images of each other have the same options, and the search uses that to look at only one order of them.

use std::cmp::Reverse;

use crate::allocation::Budget;
use crate::allocation::alike::Alike;
use crate::allocation::ledger::{Cost, Free, Ledger};
use crate::allocation::score::Rating;
use crate::allocation::sets::DeviceChoice;
use crate::pool::layout::Nearness;
use crate::pool::{DeviceSet, Layout};

/// All that the search of one node needs, and nothing that changes during it.
pub struct Setting<'a> {
    /// Devices of the node.
    pub layout: &'a Layout,
    /// What is free.
    pub ledger: &'a Ledger<'a>,
    /// Usable devices.
    pub alike: &'a [Alike],
    /// Sets, by item, the best first.
    pub choices: &'a [DeviceChoice],
    /// Sets wanted of each item.
    pub wanted: &'a [u32],
    /// How near devices of different blocks are matters too.
    pub crosses: bool,
}

/// A part of a node that shares no set with the rest.
#[derive(Debug, Default)]
pub struct Block {
    /// Indices of its alike devices.
    pub alike: Vec<usize>,
    /// Indices of its sets.
    pub choices: Vec<usize>,
    /// What it can give; nothing first or last, in a fixed order.
    pub options: Vec<Supply>,
    /// It is a mirror image of the block before.
    pub mirrors_previous: bool,
}

/// What a block gives.
#[derive(Clone, Debug)]
pub struct Supply {
    /// Sets taken: index of the choice and how often.
    pub sets: Vec<(usize, u32)>,
    /// Sets served of each item.
    pub served: Vec<u32>,
    /// Units that meet their wish.
    pub wishes: u32,
    /// Rating of the units.
    pub rating: Rating,
    /// What it costs.
    pub cost: Cost,
    /// The devices.
    pub taken: DeviceSet,
    /// Devices of each alike kind.
    used: Vec<(usize, u32)>,
}

/// Splits the usable devices into blocks, mirror images side by side.
pub fn split(setting: &Setting<'_>) -> Vec<Block> {
    let mut root: Vec<usize> = (0..setting.alike.len()).collect();
    for (index, alike) in setting.alike.iter().enumerate() {
        let earlier = setting.alike[..index].iter();
        if let Some(other) = earlier.into_iter().position(|o| o.traits.group == alike.traits.group)
        {
            join(&mut root, other, index);
        }
    }
    for choice in setting.choices {
        for take in choice.takes.iter().skip(1) {
            join(&mut root, choice.takes[0].alike, take.alike);
        }
    }
    let mut blocks: Vec<(usize, Block)> = Vec::new();
    for (index, _) in setting.alike.iter().enumerate() {
        let root = root[index];
        match blocks.iter_mut().find(|(other, _)| *other == root) {
            Some((_, block)) => block.alike.push(index),
            None => blocks.push((root, Block { alike: vec![index], ..Block::default() })),
        }
    }
    for (number, choice) in setting.choices.iter().enumerate() {
        let of = choice.takes.first().map(|take| root[take.alike]);
        if let Some((_, block)) = blocks.iter_mut().find(|(root, _)| Some(*root) == of) {
            block.choices.push(number);
        }
    }
    mirrors_together(setting, blocks.into_iter().map(|(_, block)| block).collect())
}

fn join(root: &mut [usize], a: usize, b: usize) {
    let (from, to) = (root[a].max(root[b]), root[a].min(root[b]));
    root.iter_mut().filter(|r| **r == from).for_each(|r| *r = to);
}

fn mirrors_together(setting: &Setting<'_>, blocks: Vec<Block>) -> Vec<Block> {
    let mut kinds: Vec<(Image, Vec<Block>)> = Vec::new();
    for block in blocks {
        let image = Image::of(setting, &block);
        let same = kinds.iter_mut().find(|(other, mirrors)| {
            *other == image && (!setting.crosses || equally_far(setting, &mirrors[0], &block))
        });
        match same {
            Some((_, mirrors)) => mirrors.push(block),
            None => kinds.push((image, vec![block])),
        }
    }
    let together = kinds.into_iter().flat_map(|(_, mirrors)| {
        mirrors
            .into_iter()
            .enumerate()
            .map(|(number, block)| Block { mirrors_previous: number > 0, ..block })
    });
    together.collect()
}

/// A block as its mirror images have it too: group, tied values and positions renamed.
#[derive(PartialEq)]
struct Image {
    devices: Vec<(crate::allocation::alike::Traits, u32)>,
    free: Vec<Vec<(u8, Free)>>,
    nearness: Vec<Nearness>,
}

impl Image {
    fn of(setting: &Setting<'_>, block: &Block) -> Self {
        let (mut groups, mut values) = (Vec::new(), Vec::new());
        let mut devices = Vec::with_capacity(block.alike.len());
        for index in &block.alike {
            let alike = &setting.alike[*index];
            let mut traits = alike.traits.clone();
            traits.group = u16::try_from(local(&mut groups, traits.group)).unwrap_or(u16::MAX);
            for value in traits.values.iter_mut().flatten() {
                *value = local(&mut values, *value);
            }
            devices.push((traits, alike.count()));
        }
        let pairs = block.alike.iter().flat_map(|a| block.alike.iter().map(move |b| (*a, *b)));
        Self {
            devices,
            free: groups.iter().map(|group| setting.ledger.by_numa(*group)).collect(),
            nearness: pairs.map(|(a, b)| setting.nearness(a, b)).collect(),
        }
    }
}

/// Index of a value in a list, which grows when the value is new.
fn local<T: PartialEq>(known: &mut Vec<T>, value: T) -> usize {
    known.iter().position(|other| *other == value).unwrap_or_else(|| {
        known.push(value);
        known.len() - 1
    })
}

/// Whether two blocks are equally far from everything outside both.
fn equally_far(setting: &Setting<'_>, a: &Block, b: &Block) -> bool {
    let outside = |index: &usize| !a.alike.contains(index) && !b.alike.contains(index);
    (0..setting.alike.len()).filter(outside).all(|other| {
        let mut pairs = a.alike.iter().zip(&b.alike);
        pairs.all(|(a, b)| setting.nearness(*a, other) == setting.nearness(*b, other))
    })
}

impl Setting<'_> {
    /// How near alike devices are to other ones.
    pub fn nearness(&self, a: usize, b: usize) -> Nearness {
        self.layout.nearness(self.alike[a].first(), self.alike[b].first())
    }

    /// The first devices of alike ones.
    fn devices(&self, used: &[(usize, u32)]) -> DeviceSet {
        let positions = used.iter().flat_map(|(index, count)| {
            self.alike[*index].devices.iter().take(*count as usize).copied()
        });
        positions.collect()
    }
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
            best: None,
            found: Vec::new(),
        };
        listing.choose(0, 0, Rating::default(), budget);
        block.options = listing.found;
    }
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
        let found = self.best.filter(|_| !self.setting.crosses);
        found.is_some_and(|best| (Reverse(hope), bound) > best)
    }

    fn finish(&mut self, wishes: u32, rating: Rating) {
        if self.alone {
            let key = (Reverse(wishes), rating);
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
        let crosses = self.setting.crosses;
        let same = self.found.iter_mut().find(|other| {
            (!crosses || (other.used == supply.used && other.sets == supply.sets))
                && other.served == supply.served
                && other.rating.worst == supply.rating.worst
                && other.cost.islands == supply.cost.islands
                && other.cost.numa_nodes == supply.cost.numa_nodes
                && other.cost.lost_by_numa == supply.cost.lost_by_numa
        });
        match same {
            Some(other) if rank(&supply) < rank(other) => *other = supply,
            Some(_) => {}
            None => self.found.push(supply),
        }
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
