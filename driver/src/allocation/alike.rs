//! Free devices of a node that nothing in a problem can tell apart, so that the search counts them instead of
//! permuting them.

use crate::allocation::problem::{Item, Problem, Rule};
use crate::attribute::{AttributeValue, QualifiedName};
use crate::ids::Kind;
use crate::pool::{DeviceSet, Layout};

/// Devices that can stand for each other.
#[derive(Clone, Debug)]
pub struct Alike {
    /// Published positions, ascending.
    pub devices: Vec<usize>,
    /// What they have in common.
    pub traits: Traits,
}

/// All that a problem can tell about a device, its paths apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Traits {
    /// GPU or NIC.
    pub kind: Option<Kind>,
    /// Filters that accept it, one bit each.
    pub accepted_by: u128,
    /// Objective group.
    pub group: u16,
    /// NUMA node.
    pub numa: u8,
    /// NVLink island.
    pub island: u8,
    /// Has a tolerated taint.
    pub tainted: bool,
    /// Was freed a short while ago.
    pub resting: bool,
    /// Value of each tied attribute, as an index; absent when the device has none.
    pub values: Vec<Option<usize>>,
}

impl Alike {
    /// The device that stands for all.
    pub fn first(&self) -> usize {
        self.devices.first().copied().unwrap_or(0)
    }

    /// Number of devices.
    pub fn count(&self) -> u32 {
        u32::try_from(self.devices.len()).unwrap_or(u32::MAX)
    }

    /// Whether a filter accepts them.
    pub fn accepted_by(&self, filter: usize) -> bool {
        self.traits.accepted_by & (1 << filter) != 0
    }
}

/// Groups the free devices that some filter accepts.
pub fn collapse(
    problem: &Problem,
    layout: &Layout,
    accepted_by: &[u128],
    free: DeviceSet,
    resting: DeviceSet,
) -> Vec<Alike> {
    let mut values = Values::default();
    let mut by_traits: Vec<Alike> = Vec::new();
    let usable = free.iter().filter(|position| accepted_by[*position] != 0);
    let usable: Vec<usize> = usable.collect();
    let strict = problem.items.iter().any(|item| tells_kin_apart(item, accepted_by, layout));
    for &position in &usable {
        let traits = Traits {
            kind: layout.kinds[position],
            accepted_by: accepted_by[position],
            group: layout.groups[position],
            numa: layout.numa[position],
            island: layout.islands[position],
            tainted: layout.tainted.contains(position),
            resting: resting.contains(position),
            values: problem.tied.iter().map(|name| values.index(layout, position, name)).collect(),
        };
        let same = by_traits.iter_mut().find(|alike| {
            alike.traits == traits && are_twins(layout, &usable, strict, alike.first(), position)
        });
        match same {
            Some(alike) => alike.devices.push(position),
            None => by_traits.push(Alike { devices: vec![position], traits }),
        }
    }
    by_traits
}

/// Whether paths between devices of one kind matter to an item.
fn tells_kin_apart(item: &Item, accepted_by: &[u128], layout: &Layout) -> bool {
    let Rule::Unit { .. } = item.rule else { return false };
    if item.across().is_some() {
        return true;
    }
    // A unit of one kind is near when all its devices are; one that may be of one kind counts.
    let all_parts_take = |kind: Kind| {
        item.parts.iter().all(|(filter, _)| {
            let taken = |position: usize| accepted_by[position] & (1 << filter) != 0;
            (0..layout.len()).any(|p| layout.kinds[p] == Some(kind) && taken(p))
        })
    };
    item.set_size() > 1 && (all_parts_take(Kind::Gpu) || all_parts_take(Kind::Nic))
}

/// Two devices are twins when they are equally near to every other usable device; where paths within a kind do not
/// matter, devices of another kind are enough. Twins of twins are twins, and equally near to each other.
fn are_twins(layout: &Layout, usable: &[usize], strict: bool, a: usize, b: usize) -> bool {
    // Devices in one place are equally near to everything.
    if layout.same_place(a, b) {
        return true;
    }
    let matters = |c: &&usize| {
        let kin = layout.kinds[**c] == layout.kinds[a];
        **c != a && **c != b && (strict || !kin)
    };
    let mut others = usable.iter().filter(matters);
    layout.kinds[a].is_some() && others.all(|c| layout.nearness(a, *c) == layout.nearness(b, *c))
}

/// Attribute values seen so far.
#[derive(Default)]
struct Values<'a> {
    known: Vec<&'a AttributeValue>,
    /// Lists match nothing but themselves, as with the gate for them off.
    lists: usize,
}

impl<'a> Values<'a> {
    fn index(
        &mut self,
        layout: &'a Layout,
        position: usize,
        name: &QualifiedName,
    ) -> Option<usize> {
        let value = layout.devices[position].attributes.get(name)?;
        if value.is_list() {
            self.lists += 1;
            return Some(usize::MAX - self.lists);
        }
        let found = self.known.iter().position(|known| *known == value);
        Some(found.unwrap_or_else(|| {
            self.known.push(value);
            self.known.len() - 1
        }))
    }
}
