//! What is missing on a node, found by the cheap proofs that come before any search.

use crate::allocation::problem::Problem;
use crate::allocation::solve::State;
use crate::pool::DeviceSet;

/// Why a node has no grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Some filters together need more free devices than they accept (Hall's condition).
    Devices {
        /// The filters.
        filters: Vec<usize>,
        /// Devices that they need.
        needed: u32,
    },
    /// Fewer sets of an item can be made than are wanted.
    Sets {
        /// The item.
        item: usize,
        /// Sets that can be made at most.
        reached: u32,
    },
    /// Every item can be served by itself, but not all together.
    Together,
    /// The search budget was spent before a grant was found.
    Budget,
}

/// Devices that each filter needs.
fn demand(problem: &Problem) -> Vec<u32> {
    let mut demand = vec![0; problem.filters.len()];
    for item in &problem.items {
        for (filter, count) in &item.parts {
            demand[*filter] += count * item.count;
        }
    }
    demand
}

/// A shortage of devices that is plain from counting, whatever their places are.
pub fn count(problem: &Problem, state: State<'_>) -> Option<Shortage> {
    let demand = demand(problem);
    let accepted = |filter: usize| -> DeviceSet {
        let accepts = |position: &usize| state.accepted_by[*position] & (1 << filter) != 0;
        state.free.iter().filter(accepts).collect()
    };
    let accepted: Vec<DeviceSet> = (0..demand.len()).map(accepted).collect();
    for (filter, needed) in demand.iter().enumerate() {
        if accepted[filter].len() < *needed as usize {
            return Some(Shortage::Devices { filters: vec![filter], needed: *needed });
        }
    }
    let overlap = accepted
        .iter()
        .enumerate()
        .any(|(index, set)| accepted[..index].iter().any(|other| !other.and(*set).is_empty()));
    if !overlap {
        return None;
    }
    let filters = Matching::new(&accepted, state.layout.len()).violator(&demand)?;
    let needed = filters.iter().map(|filter| demand[*filter]).sum();
    Some(Shortage::Devices { filters, needed })
}

/// The shortage when a search that was not cut short found nothing.
pub fn sets(wanted: &[u32], reached: &[u32]) -> Shortage {
    let short = wanted.iter().zip(reached).position(|(wanted, reached)| reached < wanted);
    short.map_or(Shortage::Together, |item| Shortage::Sets { item, reached: reached[item] })
}

/// A matching of filters to devices that grows by augmenting paths.
struct Matching<'a> {
    accepted: &'a [DeviceSet],
    filter_of: Vec<Option<usize>>,
}

impl<'a> Matching<'a> {
    fn new(accepted: &'a [DeviceSet], devices: usize) -> Self {
        Self { accepted, filter_of: vec![None; devices] }
    }

    /// Filters that together need more devices than they accept.
    fn violator(mut self, demand: &[u32]) -> Option<Vec<usize>> {
        for (filter, needed) in demand.iter().enumerate() {
            for _ in 0..*needed {
                if let Err(reached) = self.augment(filter) {
                    return Some(reached);
                }
            }
        }
        None
    }

    /// Gives a filter one more device, moving others to other devices; the filters reached when that fails.
    fn augment(&mut self, filter: usize) -> Result<(), Vec<usize>> {
        // How each filter reached after the first was reached: from which filter, by which device.
        let mut came_by: Vec<Option<(usize, usize)>> = vec![None; self.accepted.len()];
        let mut reached = vec![filter];
        let mut next = 0;
        while next < reached.len() {
            let current = reached[next];
            for device in self.accepted[current].iter() {
                match self.filter_of[device] {
                    None => {
                        self.shift(current, device, &came_by);
                        return Ok(());
                    }
                    Some(other) if !reached.contains(&other) => {
                        came_by[other] = Some((current, device));
                        reached.push(other);
                    }
                    Some(_) => {}
                }
            }
            next += 1;
        }
        reached.sort_unstable();
        Err(reached)
    }

    /// Gives a free device to the filter at the end of a path; each filter on it hands the device that led to it to the
    /// filter before.
    fn shift(&mut self, last: usize, free: usize, came_by: &[Option<(usize, usize)>]) {
        let (mut filter, mut device) = (last, free);
        loop {
            self.filter_of[device] = Some(filter);
            let Some((before, handed)) = came_by[filter] else { return };
            (filter, device) = (before, handed);
        }
    }
}
