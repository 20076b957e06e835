//! Results of selectors on layouts, each computed once: decisions that follow find them here.

use std::collections::BTreeMap;

use crate::allocation::Node;
use crate::allocation::choose::Rankings;
use crate::claim::filter::{Filter, FilterError, Step};
use crate::pool::DeviceSet;

/// Results by layout and selector, and answers by shape of problem: of one cluster, and of claims that were parsed with
/// one [`Classes`](crate::claim::Classes).
#[derive(Debug, Default)]
pub struct Evaluations {
    known: BTreeMap<(usize, usize), StepResults>,
    /// Answers of nodes by shape of problem.
    pub(super) rankings: Rankings,
}

/// Entries kept; beyond them the results are computed anew. One takes some hundred bytes.
const MAX_ENTRIES: usize = 65_536;

/// Results of one selector on the devices of one layout.
#[derive(Debug, Default)]
struct StepResults {
    evaluated: DeviceSet,
    matched: DeviceSet,
    errors: BTreeMap<usize, FilterError>,
}

/// Which filters accept which devices of a node.
#[derive(Clone, Debug, Default)]
pub struct Acceptance {
    /// For each device, one bit for each filter.
    pub accepted_by: Vec<u128>,
    /// Selectors that failed, by device: it is of no use to that filter.
    pub errors: Vec<(usize, FilterError)>,
}

impl Evaluations {
    /// Evaluates the filters on the devices of a node.
    pub fn accept(&mut self, filters: &[&Filter], node: &Node) -> Acceptance {
        if self.known.len() > MAX_ENTRIES {
            self.known.clear();
        }
        let layout = &node.layout;
        let mut acceptance = Acceptance { accepted_by: vec![0; layout.len()], errors: Vec::new() };
        for (number, filter) in filters.iter().enumerate() {
            let mut selected: DeviceSet = (0..layout.len()).collect();
            for step in &filter.steps {
                selected = self.step(step, node, selected, &mut acceptance.errors);
            }
            for position in selected.iter() {
                if filter.tolerates(&layout.devices[position]) {
                    acceptance.accepted_by[position] |= 1 << number;
                }
            }
        }
        acceptance
    }

    /// Those of some devices that a selector matches.
    fn step(
        &mut self,
        step: &Step,
        node: &Node,
        devices: DeviceSet,
        errors: &mut Vec<(usize, FilterError)>,
    ) -> DeviceSet {
        let mut own = StepResults::default();
        let results = if step.reads_identity {
            &mut own
        } else {
            self.known.entry((node.layout_id, step.id)).or_default()
        };
        for position in devices.without(results.evaluated).iter() {
            results.evaluated.insert(position);
            match node.matches(step, position) {
                Ok(true) => results.matched.insert(position),
                Ok(false) => {}
                Err(error) => {
                    results.errors.insert(position, error);
                }
            }
        }
        let failed = results.errors.iter().filter(|(position, _)| devices.contains(**position));
        errors.extend(failed.map(|(position, error)| (*position, error.clone())));
        devices.and(results.matched)
    }
}
