//! What is free on a node by group and NUMA node, and what a choice of devices costs there.

use std::collections::BTreeMap;

use crate::pool::{DeviceSet, Layout};

/// Free GPUs and NICs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Free {
    /// GPUs.
    pub gpus: u32,
    /// NICs.
    pub nics: u32,
}

impl Free {
    /// G-N pairs that can be formed.
    pub fn pairs(self) -> u32 {
        self.gpus.min(self.nics)
    }

    fn minus(self, other: Self) -> Self {
        Self {
            gpus: self.gpus.saturating_sub(other.gpus),
            nics: self.nics.saturating_sub(other.nics),
        }
    }
}

/// Free devices of a node: not held, and no taint but the allocator's.
#[derive(Debug)]
pub struct Ledger<'a> {
    layout: &'a Layout,
    resting: DeviceSet,
    groups: Vec<Free>,
    cells: BTreeMap<(u16, u8), Free>,
    /// Pairs per NUMA node, summed over the groups.
    pairs_by_numa: Vec<u32>,
}

/// What a choice of devices costs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// Islands of the GPUs taken.
    pub islands: DeviceSet,
    /// NUMA nodes of the devices taken.
    pub numa_nodes: DeviceSet,
    /// Pairs fewer than before, over all groups.
    pub pairs_lost: u32,
    /// Pairs fewer than before, by NUMA node.
    pub lost_by_numa: Vec<(u8, u32)>,
    /// Groups touched.
    pub groups_touched: u32,
    /// Free devices left in them.
    pub left_in_touched: u32,
    /// Devices that rest.
    pub resting: u32,
}

impl<'a> Ledger<'a> {
    /// The ledger of a node state.
    pub fn new(layout: &'a Layout, free: DeviceSet, resting: DeviceSet) -> Self {
        let mut ledger = Self {
            layout,
            resting,
            groups: vec![Free::default(); layout.members.len()],
            cells: BTreeMap::new(),
            pairs_by_numa: vec![0; usize::from(layout.numa.iter().copied().max().unwrap_or(0)) + 1],
        };
        for position in free.without(layout.tainted).iter() {
            let group = layout.groups[position];
            let cell = ledger.cells.entry((group, layout.numa[position])).or_default();
            count(layout, position, cell);
            count(layout, position, &mut ledger.groups[usize::from(group)]);
        }
        for ((_, numa), cell) in &ledger.cells {
            ledger.pairs_by_numa[usize::from(*numa)] += cell.pairs();
        }
        ledger
    }

    /// Free devices of a group.
    pub fn group(&self, group: u16) -> Free {
        self.groups[usize::from(group)]
    }

    /// Free devices of a group by NUMA node.
    pub fn by_numa(&self, group: u16) -> Vec<(u8, Free)> {
        let cells = self.cells.range((group, 0)..=(group, u8::MAX));
        cells.map(|((_, numa), free)| (*numa, *free)).collect()
    }

    /// What taking some free devices costs.
    pub fn cost(&self, taken: DeviceSet) -> Cost {
        let mut cost = Cost::default();
        // Few groups at a time: a list is faster than a map.
        let mut groups: Vec<(u16, Free)> = Vec::new();
        let mut cells: Vec<((u16, u8), Free)> = Vec::new();
        for position in taken.iter() {
            let (group, numa) = (self.layout.groups[position], self.layout.numa[position]);
            cost.numa_nodes.insert(usize::from(numa));
            if self.layout.gpus.contains(position) {
                cost.islands.insert(usize::from(self.layout.islands[position]));
            }
            cost.resting += u32::from(self.resting.contains(position));
            let mut device = Free::default();
            if !self.layout.tainted.contains(position) {
                count(self.layout, position, &mut device);
            }
            add(&mut groups, group, device);
            add(&mut cells, (group, numa), device);
        }
        for (group, taken) in groups {
            let before = self.group(group);
            let after = before.minus(taken);
            cost.groups_touched += 1;
            cost.left_in_touched += after.gpus + after.nics;
            cost.pairs_lost += before.pairs() - after.pairs();
        }
        for (cell, taken) in cells {
            let before = self.cells.get(&cell).copied().unwrap_or_default();
            let lost = before.pairs() - before.minus(taken).pairs();
            if lost > 0 {
                add_lost(&mut cost.lost_by_numa, cell.1, lost);
            }
        }
        cost.lost_by_numa.sort_unstable();
        cost
    }

    /// Whole fours and twos of pairs left per NUMA node.
    pub fn fours_and_twos(&self, lost: &[(u8, u32)]) -> (u32, u32) {
        let mut left = self.pairs_by_numa.clone();
        for (numa, lost) in lost {
            let pairs = &mut left[usize::from(*numa)];
            *pairs = pairs.saturating_sub(*lost);
        }
        (left.iter().map(|pairs| pairs / 4).sum(), left.iter().map(|pairs| pairs / 2).sum())
    }
}

fn count(layout: &Layout, position: usize, free: &mut Free) {
    free.gpus += u32::from(layout.gpus.contains(position));
    free.nics += u32::from(layout.nics.contains(position));
}

fn add<K: PartialEq>(list: &mut Vec<(K, Free)>, key: K, more: Free) {
    match list.iter_mut().find(|(other, _)| *other == key) {
        Some((_, free)) => {
            free.gpus += more.gpus;
            free.nics += more.nics;
        }
        None => list.push((key, more)),
    }
}

fn add_lost(list: &mut Vec<(u8, u32)>, numa: u8, lost: u32) {
    match list.iter_mut().find(|(other, _)| *other == numa) {
        Some((_, sum)) => *sum += lost,
        None => list.push((numa, lost)),
    }
}
