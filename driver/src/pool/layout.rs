//! The devices of a node without what is unique to it, so that nodes that are alike share one
//! [`Layout`]: paths, groups and selector results are computed once for all of them.

use std::collections::BTreeMap;

use lanemate_api::{PathClass, attribute, names};

use crate::attribute::{AttributeValue, Attributes, QualifiedName};
use crate::ids::{Kind, NumaNode};
use crate::pool::device::is_allocator_taint;
use crate::pool::{Device, NodePools};
use crate::topology::{Path, Place, path_between};

/// Devices that one node may offer: what a [`DeviceSet`] holds.
pub const MAX_DEVICES: usize = 256;

/// A set of devices of one node, by published position.
///
/// Of two sets of one size the greater one holds the earlier positions: the sorted positions of `a` come before those
/// of `b` if and only if `a > b`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceSet([u64; MAX_DEVICES / 64]);

impl DeviceSet {
    /// Every position.
    pub const ALL: Self = Self([u64::MAX; MAX_DEVICES / 64]);

    /// Adds a position below [`MAX_DEVICES`]; others are ignored.
    pub fn insert(&mut self, position: usize) {
        if let Some(word) = self.0.get_mut(position / 64) {
            *word |= 1 << (63 - position % 64);
        }
    }

    /// Takes a position out.
    pub fn remove(&mut self, position: usize) {
        if let Some(word) = self.0.get_mut(position / 64) {
            *word &= !(1 << (63 - position % 64));
        }
    }

    /// Whether a position is in the set.
    pub fn contains(&self, position: usize) -> bool {
        self.0.get(position / 64).is_some_and(|word| word & (1 << (63 - position % 64)) != 0)
    }

    /// Number of positions.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// No position at all.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Positions in both sets.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.combine(other, |a, b| a & b)
    }

    /// Positions in either set.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        self.combine(other, |a, b| a | b)
    }

    /// Positions in this set and not in the other.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        self.combine(other, |a, b| a & !b)
    }

    fn combine(mut self, other: Self, op: impl Fn(u64, u64) -> u64) -> Self {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word = op(*word, other);
        }
        self
    }

    /// Positions in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        self.0.into_iter().enumerate().flat_map(|(index, mut word)| {
            std::iter::from_fn(move || {
                let bit = word.leading_zeros();
                word &= !(1_u64 << 63).checked_shr(bit)?;
                Some(index * 64 + bit as usize)
            })
        })
    }
}

impl FromIterator<usize> for DeviceSet {
    fn from_iter<I: IntoIterator<Item = usize>>(positions: I) -> Self {
        let mut set = Self::default();
        positions.into_iter().for_each(|position| set.insert(position));
        set
    }
}

/// Rank and hops of a path, small enough for a table of all pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nearness {
    /// Rank of the class, 0 for PIX to 4 for SYS.
    pub rank: u8,
    /// `switchHops`; 0 where the path has none.
    pub hops: u8,
}

/// The devices of nodes that are alike.
#[derive(Debug)]
pub struct Layout {
    /// In published order, with the pool taken out, and an index of its value in place of an identity attribute.
    pub devices: Vec<Device>,
    /// Index of each device's pool among the pools of its node.
    pub pools: Vec<u16>,
    /// What each device is to the matcher.
    pub kinds: Vec<Option<Kind>>,
    /// NUMA node of each device as an index; unknown nodes share one.
    pub numa: Vec<u8>,
    /// NVLink island of each device as an index; a GPU without one counts by its NUMA node.
    pub islands: Vec<u8>,
    /// Group of each device: those at least as near as PXB, or as the best G-N class of the node.
    pub groups: Vec<u16>,
    /// Members of each group.
    pub members: Vec<DeviceSet>,
    /// All GPUs.
    pub gpus: DeviceSet,
    /// All NICs.
    pub nics: DeviceSet,
    /// Devices with a taint that is not the allocator's own.
    pub tainted: DeviceSet,
    places: Vec<Option<Place>>,
    nearness: Vec<Nearness>,
}

/// What is unique to a node.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// Names of its pools.
    pub pools: Vec<String>,
    /// Identity attributes of each device.
    pub attributes: Vec<Attributes>,
}

/// Devices that make no layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// More devices than a [`DeviceSet`] holds.
    #[error("{0} devices on one node: at most {MAX_DEVICES} are supported")]
    TooManyDevices(usize),
}

/// Attributes that differ between nodes that are alike.
fn is_identity(name: &QualifiedName) -> bool {
    name.domain == names::DRIVER && IDENTITY_ATTRIBUTES.contains(&name.id.as_str())
}

/// Ids of the identity attributes, in the driver's domain.
pub const IDENTITY_ATTRIBUTES: [&str; 2] = [attribute::UUID, attribute::NODE_GUID];

impl Layout {
    /// The layout of a node's devices, and what was taken out of them.
    pub fn new(seen: NodePools) -> Result<(Self, Identity), LayoutError> {
        let mut devices = seen.devices;
        if devices.len() > MAX_DEVICES {
            return Err(LayoutError::TooManyDevices(devices.len()));
        }
        let mut identity = Identity::default();
        let mut pools = Vec::with_capacity(devices.len());
        let mut unique = Vec::new();
        for device in &mut devices {
            let pool = std::mem::take(&mut device.pool);
            if identity.pools.last() != Some(&pool) {
                identity.pools.push(pool);
            }
            pools.push(u16::try_from(identity.pools.len() - 1).unwrap_or(u16::MAX));
            identity.attributes.push(take_identity(&mut device.attributes, &mut unique));
        }
        Ok((Self::compute(devices, pools), identity))
    }

    fn compute(devices: Vec<Device>, pools: Vec<u16>) -> Self {
        let kinds: Vec<_> = devices.iter().map(Device::kind).collect();
        let places: Vec<_> = devices.iter().map(Device::place).collect();
        let numa_nodes: Vec<_> = devices.iter().map(Device::numa_node).collect();
        let nearness = all_paths(&places, &numa_nodes);
        let groups = groups(&kinds, &nearness);
        let of_kind = |kind| {
            let positions = kinds.iter().enumerate().filter(move |(_, k)| **k == Some(kind));
            positions.map(|(position, _)| position).collect()
        };
        let tainted = |device: &Device| device.taints.iter().any(|t| !is_allocator_taint(t));
        Self {
            numa: indices(numa_nodes.iter().copied()),
            islands: indices(devices.iter().zip(&numa_nodes).map(|(device, numa)| {
                let island = device.nvlink_domain().map(str::to_owned);
                (island.is_none().then_some(*numa), island)
            })),
            members: members(&groups),
            gpus: of_kind(Kind::Gpu),
            nics: of_kind(Kind::Nic),
            tainted: (0..devices.len()).filter(|p| tainted(&devices[*p])).collect(),
            devices,
            pools,
            kinds,
            groups,
            places,
            nearness,
        }
    }

    /// Number of devices.
    pub fn len(&self) -> usize {
        self.devices.len()
    }

    /// No device at all.
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// How near two devices are; positions from this layout.
    pub fn nearness(&self, a: usize, b: usize) -> Nearness {
        self.nearness[a * self.devices.len() + b]
    }

    /// Whether two devices are in one known place.
    pub fn same_place(&self, a: usize, b: usize) -> bool {
        self.places[a].is_some() && self.places[a] == self.places[b]
    }

    /// The path between two devices, with the switch that they share.
    pub fn path(&self, a: usize, b: usize) -> Path {
        let end =
            |position: usize| (self.places[position].as_ref(), self.devices[position].numa_node());
        path_between(end(a), end(b))
    }

    /// Whether two layouts are of nodes that are alike.
    pub fn is_like(&self, other: &Self) -> bool {
        self.devices == other.devices && self.pools == other.pools
    }
}

/// Takes the identity attributes out and leaves the index of each value among those of the node: which devices
/// have one value matters to constraints, the value does not.
fn take_identity(attributes: &mut Attributes, unique: &mut Vec<AttributeValue>) -> Attributes {
    let mut taken = Attributes::new();
    let own = attributes.iter_mut().filter(|(name, value)| is_identity(name) && !value.is_list());
    for (name, value) in own {
        let index = unique.iter().position(|other| other == value).unwrap_or_else(|| {
            unique.push(value.clone());
            unique.len() - 1
        });
        let index = AttributeValue::Int(i64::try_from(index).unwrap_or(i64::MAX));
        taken.insert(name.clone(), std::mem::replace(value, index));
    }
    taken
}

fn all_paths(places: &[Option<Place>], numa: &[Option<NumaNode>]) -> Vec<Nearness> {
    let ends: Vec<_> = places.iter().map(Option::as_ref).zip(numa.iter().copied()).collect();
    let pairs = ends.iter().flat_map(|a| ends.iter().map(move |b| path_between(*a, *b)));
    pairs
        .map(|path| Nearness {
            rank: path.class.rank(),
            hops: path.switch_hops.map_or(0, |hops| u8::try_from(hops).unwrap_or(u8::MAX)),
        })
        .collect()
}

/// Groups by the transitive closure of "at least as near as PXB or the best G-N class". The relation is transitive
/// on every machine known; the closure keeps groups disjoint on one where it is not.
fn groups(kinds: &[Option<Kind>], nearness: &[Nearness]) -> Vec<u16> {
    let n = kinds.len();
    let is_pair = |a: usize, b: usize| kinds[a] == Some(Kind::Gpu) && kinds[b] == Some(Kind::Nic);
    let pairs = (0..n).flat_map(|a| (0..n).map(move |b| (a, b))).filter(|(a, b)| is_pair(*a, *b));
    let best = pairs.map(|(a, b)| nearness[a * n + b].rank).min().unwrap_or(0);
    let limit = best.max(PathClass::Pxb.rank());
    let mut group = vec![u16::MAX; n];
    let mut next = 0;
    for start in 0..n {
        if group[start] != u16::MAX {
            continue;
        }
        let mut open = vec![start];
        group[start] = next;
        while let Some(a) = open.pop() {
            for b in 0..n {
                let joined = kinds[a].is_some() && kinds[b].is_some();
                if joined && group[b] == u16::MAX && nearness[a * n + b].rank <= limit {
                    group[b] = next;
                    open.push(b);
                }
            }
        }
        next += 1;
    }
    group
}

fn members(groups: &[u16]) -> Vec<DeviceSet> {
    let count = groups.iter().max().map_or(0, |last| usize::from(*last) + 1);
    let mut members = vec![DeviceSet::default(); count];
    for (position, group) in groups.iter().enumerate() {
        members[usize::from(*group)].insert(position);
    }
    members
}

/// Dense indices of values, in order of first appearance.
fn indices<T: Ord>(values: impl Iterator<Item = T>) -> Vec<u8> {
    let mut known = BTreeMap::new();
    values
        .map(|value| {
            let next = known.len();
            u8::try_from(*known.entry(value).or_insert(next)).unwrap_or(u8::MAX)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greater_set_holds_earlier_positions() {
        let set = |positions: &[usize]| positions.iter().copied().collect::<DeviceSet>();
        assert!(set(&[0, 5]) > set(&[1, 2]));
        assert!(set(&[0, 70]) > set(&[0, 71]));
        assert!(set(&[3, 200]) < set(&[3, 199]));
        assert_eq!(set(&[200, 3, 64]).iter().collect::<Vec<_>>(), [3, 64, 200]);
        assert_eq!(set(&[200, 3, 64]).len(), 3);
    }
}
