//! Blocks: parts of a node that share no set, so that each can be looked at alone.
//!
//! A block has a list of options, each of which serves a number of sets of every item. Two blocks that are mirror
//! images of each other have the same options, and the search uses that to look at only one order of them.

use crate::allocation::alike::{Alike, Traits};
use crate::allocation::ledger::{Free, Ledger};
use crate::allocation::problem::Item;
use crate::allocation::sets::DeviceChoice;
use crate::allocation::supply::Supply;
use crate::ids::Kind;
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
    /// What is asked for.
    pub items: &'a [Item],
    /// Sets wanted of each item.
    pub wanted: &'a [u32],
    /// What devices of different sets have to do with each other.
    pub relations: Relations,
}

/// What devices of different sets have to do with each other, beside being different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relations {
    /// GPUs outside units are rated with NICs outside units.
    pub loose_pairs: bool,
    /// Units have a limit or a wish about each other.
    pub across: bool,
}

impl Relations {
    /// Whether there are any: then it matters how near blocks are to each other.
    pub fn any(self) -> bool {
        self.loose_pairs || self.across
    }
}

/// A part of a node that shares no set with the rest.
#[derive(Debug, Default)]
pub struct Block {
    /// Indices of its alike devices.
    pub alike: Vec<usize>,
    /// Indices of its sets.
    pub choices: Vec<usize>,
    /// What it can give, nothing included; the same order for mirror images.
    pub options: Vec<Supply>,
    /// It is a mirror image of the block before.
    pub mirrors_previous: bool,
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
            *other == image
                && (!setting.relations.any() || equally_far(setting, &mirrors[0], &block))
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
    devices: Vec<(Traits, u32)>,
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
    /// How near some alike devices are to other ones, or to each other.
    pub fn nearness(&self, a: usize, b: usize) -> Nearness {
        match self.alike[a].devices.as_slice() {
            [first, second, ..] if a == b => self.layout.nearness(*first, *second),
            _ => self.layout.nearness(self.alike[a].first(), self.alike[b].first()),
        }
    }

    /// Pairs of units that meet their wish; absent when two units are too far apart.
    pub fn across_wishes<'s>(
        &self,
        sets: impl Iterator<Item = &'s (usize, u32)> + Clone,
    ) -> Option<u32> {
        let mut met = 0;
        for (index, item) in self.items.iter().enumerate() {
            let Some(across) = item.across() else { continue };
            let of_item = sets.clone().filter(|(choice, _)| self.choices[*choice].item == index);
            let units: Vec<usize> =
                of_item.flat_map(|(choice, n)| std::iter::repeat_n(*choice, *n as usize)).collect();
            for (number, a) in units.iter().enumerate() {
                for b in &units[number + 1..] {
                    let rank = self.farthest(*a, *b);
                    if rank > across.required.rank() {
                        return None;
                    }
                    met += u32::from(across.preferred.is_some_and(|wish| rank <= wish.rank()));
                }
            }
        }
        Some(met)
    }

    /// The farthest rank between the GPUs of two units, or their NICs where they have no GPU.
    fn farthest(&self, a: usize, b: usize) -> u8 {
        let between = |kind: Kind| {
            let pairs =
                self.of_kind(a, kind).flat_map(|x| self.of_kind(b, kind).map(move |y| (x, y)));
            pairs.map(|(x, y)| self.nearness(x, y).rank).max()
        };
        between(Kind::Gpu).or_else(|| between(Kind::Nic)).unwrap_or(0)
    }

    /// Alike devices of one kind in a set.
    pub fn of_kind(&self, choice: usize, kind: Kind) -> impl Iterator<Item = usize> + '_ {
        let takes = self.choices[choice].takes.iter().map(|take| take.alike);
        takes.filter(move |alike| self.alike[*alike].traits.kind == Some(kind))
    }

    /// The first devices of alike ones.
    pub fn devices(&self, used: &[(usize, u32)]) -> DeviceSet {
        let positions = used.iter().flat_map(|(index, count)| {
            self.alike[*index].devices.iter().take(*count as usize).copied()
        });
        positions.collect()
    }
}
