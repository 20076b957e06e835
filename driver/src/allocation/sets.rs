//! The sets that an item can be made of: for each part, how many devices of which kind of alike devices.

use lanemate_api::{PathClass, Within};

use crate::allocation::Budget;
use crate::allocation::alike::Alike;
use crate::allocation::problem::{Item, Rule};
use crate::allocation::score::Rating;
use crate::ids::Kind;
use crate::pool::Layout;

/// One way to make a set of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceChoice {
    /// Index of the item.
    pub item: usize,
    /// Index of the alike devices, part of the item, number of devices.
    pub takes: Vec<Take>,
    /// Rating of its pairs; nothing for devices outside units.
    pub rating: Rating,
    /// Meets `within.preferred`.
    pub meets_wish: bool,
}

/// Devices that a set takes from alike ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Take {
    /// Index of the alike devices.
    pub alike: usize,
    /// Part of the item.
    pub part: usize,
    /// Number of devices.
    pub count: u32,
}

/// Enumerates the sets of one item.
struct Enumerate<'a> {
    layout: &'a Layout,
    alike: &'a [Alike],
    item: &'a Item,
    index: usize,
    /// Farthest pair allowed in a unit.
    required: PathClass,
    /// Farthest G-N pair looked for at present.
    limit: PathClass,
    takes: Vec<Take>,
    found: Vec<DeviceChoice>,
}

/// All sets of an item with no pair farther than `limit`, the best rated first.
pub fn choices(
    layout: &Layout,
    alike: &[Alike],
    (index, item): (usize, &Item),
    limit: PathClass,
    budget: &mut Budget,
) -> Vec<DeviceChoice> {
    let required = match &item.rule {
        Rule::Unit { within, .. } => within.required,
        Rule::Loose(_) => PathClass::Sys,
    };
    let limit = limit.min(required);
    let (takes, found) = (Vec::new(), Vec::new());
    let mut all = Enumerate { layout, alike, item, index, required, limit, takes, found };
    all.part(0, 0, item.parts.first().map_or(0, |(_, count)| *count), budget);
    // A stable sort: sets of one rating stay in published order.
    all.found.sort_by_key(|choice| (!choice.meets_wish, choice.rating));
    all.found
}

impl Enumerate<'_> {
    /// Takes `missing` more devices for `part` from the alike devices at `from` and later.
    fn part(&mut self, part: usize, from: usize, missing: u32, budget: &mut Budget) {
        if !budget.step() {
            return;
        }
        if missing == 0 {
            match self.item.parts.get(part + 1) {
                Some((_, count)) => self.part(part + 1, 0, *count, budget),
                None => self.finish(),
            }
            return;
        }
        let filter = self.item.parts[part].0;
        for index in from..self.alike.len() {
            if !self.alike[index].accepted_by(filter) || !self.joins(part, index) {
                continue;
            }
            let left = self.alike[index].count().saturating_sub(self.taken(index));
            for count in (1..=missing.min(left)).rev() {
                self.takes.push(Take { alike: index, part, count });
                self.part(part, index + 1, missing - count, budget);
                self.takes.pop();
            }
        }
    }

    fn taken(&self, index: usize) -> u32 {
        self.takes.iter().filter(|take| take.alike == index).map(|take| take.count).sum()
    }

    /// Whether devices may join those taken so far.
    fn joins(&self, part: usize, index: usize) -> bool {
        let traits = &self.alike[index].traits;
        match &self.item.rule {
            Rule::Unit { .. } => {
                traits.kind.is_some()
                    && self.takes.iter().all(|take| {
                        let kin = self.alike[take.alike].traits.kind == traits.kind;
                        kin || self.rank(take.alike, index) <= self.limit.rank()
                    })
            }
            Rule::Loose(ties) => ties.iter().all(|(tie, parts)| {
                if !parts.contains(&part) {
                    return true;
                }
                let value = traits.values[*tie];
                let mut tied = self.takes.iter().filter(|take| parts.contains(&take.part));
                let same = |take: &Take| self.alike[take.alike].traits.values[*tie] == value;
                value.is_some() && tied.all(same)
            }),
        }
    }

    fn rank(&self, a: usize, b: usize) -> u8 {
        self.layout.nearness(self.alike[a].first(), self.alike[b].first()).rank
    }

    fn finish(&mut self) {
        let mut choice = DeviceChoice {
            item: self.index,
            takes: self.takes.clone(),
            rating: Rating::default(),
            meets_wish: false,
        };
        if let Rule::Unit { within, .. } = &self.item.rule {
            let Some((rating, worst)) = self.rate() else { return };
            choice.rating = rating;
            choice.meets_wish = meets(within, worst);
        }
        self.found.push(choice);
    }

    /// Rating of the G-N pairs, and the worst rank that counts for locality; absent when a unit of one kind is too
    /// far apart.
    fn rate(&self) -> Option<(Rating, u8)> {
        let (mut rating, mut kin) = (Rating::default(), Rating::default());
        let mut kinds = [false; 2];
        for (number, a) in self.takes.iter().enumerate() {
            let kind = self.alike[a.alike].traits.kind;
            kinds[usize::from(kind == Some(Kind::Gpu))] = true;
            let devices = &self.alike[a.alike].devices;
            if let (true, [first, second, ..]) = (a.count > 1, devices.as_slice()) {
                kin.add(self.layout.nearness(*first, *second), 1);
            }
            for b in &self.takes[number + 1..] {
                let other = &self.alike[b.alike];
                let nearness = self.layout.nearness(devices[0], other.first());
                if other.traits.kind == kind {
                    kin.add(nearness, 1);
                } else {
                    rating.add(nearness, a.count * b.count);
                }
            }
        }
        // Pairs of one kind are not rated: looking for near ones first would miss what is as good.
        let mixed = kinds == [true, true];
        let (worst, limit) =
            if mixed { (rating.worst, self.limit) } else { (kin.worst, self.required) };
        (worst <= limit.rank()).then_some((rating, worst))
    }
}

fn meets(within: &Within, worst: u8) -> bool {
    within.preferred.is_some_and(|preferred| worst <= preferred.rank())
}
