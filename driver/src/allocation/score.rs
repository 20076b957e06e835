//! The objective: what makes one grant better than another on a node, in order of weight.

use std::cmp::Reverse;

use crate::pool::DeviceSet;
use crate::pool::layout::Nearness;

/// Rating of G-N pairs: the worst rank, the sum of ranks, the sum of `switchHops`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rating {
    /// Worst rank, 0 for PIX to 4 for SYS; 0 without a pair.
    pub worst: u8,
    /// Sum of the ranks.
    pub sum: u32,
    /// Sum of the hops of PIX and PXB pairs.
    pub hops: u32,
}

impl Rating {
    /// Adds some pairs of one nearness.
    pub fn add(&mut self, nearness: Nearness, pairs: u32) {
        if pairs > 0 {
            self.worst = self.worst.max(nearness.rank);
            self.sum += u32::from(nearness.rank) * pairs;
            self.hops += u32::from(nearness.hops) * pairs;
        }
    }

    /// The least of each term: a lower bound of both.
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        Self {
            worst: self.worst.min(other.worst),
            sum: self.sum.min(other.sum),
            hops: self.hops.min(other.hops),
        }
    }

    /// This rating and several times another.
    #[must_use]
    pub fn plus(self, other: Self, times: u32) -> Self {
        if times == 0 {
            return self;
        }
        Self {
            worst: self.worst.max(other.worst),
            sum: self.sum + other.sum * times,
            hops: self.hops + other.hops * times,
        }
    }
}

/// Wishes met: units that meet `within.preferred`, then pairs of units that meet `across.preferred`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wishes {
    /// Units.
    pub within: u32,
    /// Unordered pairs of units.
    pub across: u32,
}

/// The objective; the smaller score wins. The order of the fields is the order of weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Score {
    /// Wishes met: more is better.
    pub wishes: Reverse<Wishes>,
    /// Rated pairs.
    pub rating: Rating,
    /// NVLink islands that the GPUs are in.
    pub islands: u32,
    /// G-N pairs inside groups that the node can no longer give afterwards, beside those that were not there before.
    pub pairs_lost: u32,
    /// NUMA nodes that the devices are on.
    pub numa_nodes: u32,
    /// Whole fours of pairs left per NUMA node: more is better.
    pub fours_left: Reverse<u32>,
    /// Whole twos of pairs left per NUMA node: more is better.
    pub twos_left: Reverse<u32>,
    /// Groups that a device is taken from.
    pub groups_touched: u32,
    /// Free devices left in those groups: best fit.
    pub left_in_touched: u32,
    /// Devices that rest.
    pub resting: u32,
    /// Published positions: earlier is better.
    pub positions: Reverse<DeviceSet>,
}
