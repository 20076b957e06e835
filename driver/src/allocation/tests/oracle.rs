//! The brute-force oracle: every assignment of devices to what is asked for, rated by the words of the design.
//!
//! It shares nothing with the search but the layout, the filters and the type of the score.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use lanemate_api::{Across, Within};

use crate::allocation::Score;
use crate::allocation::score::{Rating, Wishes};
use crate::attribute::AttributeValue;
use crate::claim::{Claim, Filter, Wants, filter};
use crate::ids::Kind;
use crate::pool::{DeviceSet, Layout};

/// One device asked for.
#[derive(Clone, Debug)]
pub struct Slot {
    pub claim: usize,
    pub request: usize,
    /// Index of its unit.
    pub unit: Option<usize>,
    filter: Filter,
}

/// One unit asked for.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Units of one request, or of one Placement, have one family.
    family: (usize, usize, bool),
    within: Within,
    across: Across,
}

pub struct Oracle<'a> {
    pub layout: &'a Layout,
    pub free: DeviceSet,
    pub resting: DeviceSet,
    pub claims: &'a [&'a Claim],
    pub slots: Vec<Slot>,
    pub units: Vec<Unit>,
}

impl<'a> Oracle<'a> {
    pub fn new(
        layout: &'a Layout,
        free: DeviceSet,
        resting: DeviceSet,
        claims: &'a [&'a Claim],
    ) -> Self {
        let mut oracle =
            Self { layout, free, resting, claims, slots: Vec::new(), units: Vec::new() };
        for (index, claim) in claims.iter().enumerate() {
            oracle.add_claim(index, claim);
        }
        oracle
    }

    fn add_claim(&mut self, index: usize, claim: &Claim) {
        for (number, request) in claim.requests.iter().enumerate() {
            for count in 0..request.count {
                match &request.wants {
                    Wants::Device(filter) => {
                        let unit = self.placement_unit(index, claim, number, count);
                        let filter = filter.clone();
                        self.slots.push(Slot { claim: index, request: number, unit, filter });
                    }
                    Wants::Unit(unit) => {
                        let id = self.unit((index, number, false), unit.within, unit.across);
                        for member in &unit.members {
                            let filter = member.filter.clone();
                            let slot =
                                Slot { claim: index, request: number, unit: Some(id), filter };
                            let slots = std::iter::repeat_n(slot, member.count as usize);
                            self.slots.extend(slots);
                        }
                    }
                }
            }
        }
    }

    fn placement_unit(
        &mut self,
        index: usize,
        claim: &Claim,
        request: usize,
        count: u32,
    ) -> Option<usize> {
        let (number, per_unit) = claim.placements.iter().enumerate().find_map(|(number, p)| {
            p.unit.iter().find(|(r, _)| *r == request).map(|(_, per_unit)| (number, *per_unit))
        })?;
        let placement = &claim.placements[number];
        let family = (index, number, true);
        let of_family: Vec<usize> =
            (0..self.units.len()).filter(|unit| self.units[*unit].family == family).collect();
        let wanted = (count / per_unit) as usize;
        Some(match of_family.get(wanted) {
            Some(unit) => *unit,
            None => self.unit(family, placement.within, placement.across),
        })
    }

    fn unit(&mut self, family: (usize, usize, bool), within: Within, across: Across) -> usize {
        self.units.push(Unit { family, within, across });
        self.units.len() - 1
    }

    /// The best score of all assignments.
    pub fn best(&self) -> Option<Score> {
        let mut best = None;
        self.assign(&mut Vec::new(), &mut best);
        best
    }

    fn assign(&self, devices: &mut Vec<usize>, best: &mut Option<Score>) {
        let Some(slot) = self.slots.get(devices.len()) else {
            if let Some(score) = self.score(devices) {
                *best = Some(best.map_or(score, |best: Score| best.min(score)));
            }
            return;
        };
        // Slots of one unit and member, or of one plain request, are interchangeable: ascending order will do.
        let same_as_before = devices.len().checked_sub(1).filter(|before| {
            let before = &self.slots[*before];
            (before.claim, before.request, before.unit) == (slot.claim, slot.request, slot.unit)
                && before.filter.key() == slot.filter.key()
        });
        let from = same_as_before.map_or(0, |before| devices[before] + 1);
        for device in from..self.layout.len() {
            if self.free.contains(device) && !devices.contains(&device) && self.takes(slot, device)
            {
                devices.push(device);
                self.assign(devices, best);
                devices.pop();
            }
        }
    }

    fn takes(&self, slot: &Slot, position: usize) -> bool {
        let device = &self.layout.devices[position];
        let mut steps = slot.filter.steps.iter();
        slot.filter.tolerates(device)
            && (slot.unit.is_none() || self.layout.kinds[position].is_some())
            && steps
                .all(|step| matches!(filter::matches(step, device, &device.attributes), Ok(true)))
    }

    /// The score of an assignment; absent when it breaks a rule.
    pub fn score(&self, devices: &[usize]) -> Option<Score> {
        if !self.constraints_hold(devices) {
            return None;
        }
        let mut wishes = Wishes::default();
        let mut rating = Rating::default();
        for (index, unit) in self.units.iter().enumerate() {
            let members = self.members(index, devices);
            let (gpus, nics) = (self.of(&members, Kind::Gpu), self.of(&members, Kind::Nic));
            let pairs: Vec<(usize, usize)> = if gpus.is_empty() || nics.is_empty() {
                all_pairs(&members)
            } else {
                gpus.iter().flat_map(|g| nics.iter().map(move |n| (*g, *n))).collect()
            };
            let worst = pairs.iter().map(|(a, b)| self.layout.nearness(*a, *b).rank).max();
            if worst.unwrap_or(0) > unit.within.required.rank() {
                return None;
            }
            let meets = |wish: lanemate_api::PathClass| worst.unwrap_or(0) <= wish.rank();
            wishes.within += u32::from(unit.within.preferred.is_some_and(meets));
            for (g, n) in gpus.iter().flat_map(|g| nics.iter().map(move |n| (*g, *n))) {
                rating.add(self.layout.nearness(g, n), 1);
            }
        }
        wishes.across = self.across(devices)?;
        let loose = self.slots.iter().zip(devices).filter(|(slot, _)| slot.unit.is_none());
        self.rate_loose(&loose.map(|(_, device)| *device).collect::<Vec<_>>(), &mut rating);
        Some(self.with_leftovers(wishes, rating, devices))
    }

    fn members(&self, unit: usize, devices: &[usize]) -> Vec<usize> {
        let slots = self.slots.iter().zip(devices);
        slots.filter(|(slot, _)| slot.unit == Some(unit)).map(|(_, device)| *device).collect()
    }

    fn of(&self, devices: &[usize], kind: Kind) -> Vec<usize> {
        devices.iter().copied().filter(|d| self.layout.kinds[*d] == Some(kind)).collect()
    }

    fn across(&self, devices: &[usize]) -> Option<u32> {
        let mut met = 0;
        for (a, b) in all_pairs(&(0..self.units.len()).collect::<Vec<_>>()) {
            let (unit, other) = (&self.units[a], &self.units[b]);
            if unit.family != other.family {
                continue;
            }
            let (a, b) = (self.members(a, devices), self.members(b, devices));
            let worst = |kind| {
                let (a, b) = (self.of(&a, kind), self.of(&b, kind));
                let pairs = a.iter().flat_map(|x| b.iter().map(move |y| (*x, *y)));
                pairs.map(|(x, y)| self.layout.nearness(x, y).rank).max()
            };
            let rank = worst(Kind::Gpu).or_else(|| worst(Kind::Nic)).unwrap_or(0);
            if rank > unit.across.required.rank() {
                return None;
            }
            met += u32::from(unit.across.preferred.is_some_and(|wish| rank <= wish.rank()));
        }
        Some(met)
    }

    fn rate_loose(&self, devices: &[usize], rating: &mut Rating) {
        let (gpus, nics) = (self.of(devices, Kind::Gpu), self.of(devices, Kind::Nic));
        let (many, few) = if nics.len() > gpus.len() { (nics, gpus) } else { (gpus, nics) };
        for a in many {
            if let Some(nearest) = few.iter().map(|b| self.layout.nearness(a, *b)).min() {
                rating.add(nearest, 1);
            }
        }
    }

    fn constraints_hold(&self, devices: &[usize]) -> bool {
        let constraints =
            self.claims.iter().enumerate().flat_map(|(claim, c)| {
                c.constraints.iter().map(move |constraint| (claim, constraint))
            });
        for (claim, constraint) in constraints {
            let bound = self.slots.iter().zip(devices).filter(|(slot, _)| {
                slot.claim == claim && constraint.requests.contains(&slot.request)
            });
            let values: Vec<Option<&AttributeValue>> = bound
                .map(|(_, device)| {
                    self.layout.devices[*device].attributes.get(&constraint.attribute)
                })
                .collect();
            if values.iter().any(|value| value.is_none() || *value != values[0]) {
                return false;
            }
        }
        true
    }

    fn with_leftovers(&self, wishes: Wishes, rating: Rating, devices: &[usize]) -> Score {
        let layout = self.layout;
        let taken: DeviceSet = devices.iter().copied().collect();
        let before = self.free.without(layout.tainted);
        let after = before.without(taken);
        let groups: BTreeSet<u16> = devices.iter().map(|d| layout.groups[*d]).collect();
        let gpus = self.of(devices, Kind::Gpu);
        let islands: BTreeSet<u8> = gpus.iter().map(|g| layout.islands[*g]).collect();
        let numa: BTreeSet<u8> = devices.iter().map(|d| layout.numa[*d]).collect();
        let pairs = |set: DeviceSet, members: DeviceSet| {
            let of = |kind: DeviceSet| set.and(members).and(kind).len();
            of(layout.gpus).min(of(layout.nics))
        };
        let lost =
            layout.members.iter().map(|m| pairs(before, *m) - pairs(after, *m)).sum::<usize>();
        let mut by_numa: BTreeMap<u8, usize> = BTreeMap::new();
        for members in &layout.members {
            for node in layout.numa.iter().copied().collect::<BTreeSet<u8>>() {
                let here = members.iter().filter(|m| layout.numa[*m] == node).collect();
                *by_numa.entry(node).or_default() += pairs(after, here);
            }
        }
        let left: usize = groups
            .iter()
            .map(|group| after.and(layout.members[usize::from(*group)]))
            .map(|left| left.and(layout.gpus.or(layout.nics)).len())
            .sum();
        let number = |n: usize| u32::try_from(n).unwrap();
        Score {
            wishes: Reverse(wishes),
            rating,
            islands: number(islands.len()),
            pairs_lost: number(lost),
            numa_nodes: number(numa.len()),
            fours_left: Reverse(number(by_numa.values().map(|pairs| pairs / 4).sum())),
            twos_left: Reverse(number(by_numa.values().map(|pairs| pairs / 2).sum())),
            groups_touched: number(groups.len()),
            left_in_touched: number(left),
            resting: number(taken.and(self.resting).len()),
            positions: Reverse(taken),
        }
    }
}

fn all_pairs(list: &[usize]) -> Vec<(usize, usize)> {
    let after = |(index, a): (usize, &usize)| {
        let a = *a;
        list[index + 1..].iter().map(move |b| (a, *b)).collect::<Vec<_>>()
    };
    list.iter().enumerate().flat_map(after).collect()
}
