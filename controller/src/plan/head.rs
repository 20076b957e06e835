//! The head of the queue: the first pod that has waited long keeps later ones off its best node, so that small pods that
//! pass it do not starve it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use lanemate_driver::allocation::evaluation::Acceptance;
use lanemate_driver::allocation::{Problem, SEARCH_BUDGET, State, solve};
use lanemate_driver::claim::Filter;
use lanemate_driver::pool::DeviceSet;

use super::decide::{Memories, Nodes};
use super::timing::{self, HEAD_KEEPS};
use crate::id::Uid;
use crate::index::PodFacts;

/// The node that is kept, and for which pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The pod.
    pub pod: Uid,
    /// The node; absent where no node would do even with all devices free.
    pub node: Option<String>,
    /// When it is judged anew.
    pub until: Timestamp,
}

/// When a pod may become the head; none for one without a creation time.
pub fn due(pod: &PodFacts, waits: SignedDuration) -> Option<Timestamp> {
    pod.created.map(|created| timing::after(created, waits))
}

/// Keeps the node that the pod fits and where its claims would fit if all devices were free, and where the fewest of
/// those devices are held. Among equals the first by name.
pub fn keep(problem: &Problem, memories: &mut Memories, nodes: &Nodes<'_>) -> Kept {
    let filters: Vec<&Filter> = problem.filters.iter().map(|wanted| &wanted.filter).collect();
    let reads_identity = filters.iter().any(|filter| filter.reads_identity());
    let mut known: BTreeMap<(usize, DeviceSet), Option<usize>> = BTreeMap::new();
    let mut best: Option<(usize, &str)> = None;
    for (name, node) in nodes.index.cluster().nodes() {
        let all: DeviceSet = (0..node.layout.len()).collect();
        let held = all.without(node.free);
        let key = (node.layout_id, held);
        let missing = match known.get(&key).filter(|_| !reads_identity) {
            Some(missing) => *missing,
            None => {
                let Acceptance { accepted_by, .. } = memories.ours.accept(&filters, node);
                // Held devices rank behind free ones, as those do that rest.
                let (layout, accepted_by) = (&*node.layout, accepted_by.as_slice());
                let state = State { layout, accepted_by, free: all, resting: held };
                let grant = solve(problem, state, SEARCH_BUDGET).ok();
                let missing = grant.map(|grant| {
                    let devices = grant.sets.iter().flatten().flatten().flatten().copied();
                    devices.collect::<DeviceSet>().and(held).len()
                });
                known.insert(key, missing);
                missing
            }
        };
        let Some(missing) = missing else { continue };
        let is_better = best.is_none_or(|(fewest, _)| missing < fewest);
        if is_better && nodes.unfit_in_itself(name, &mut memories.others).is_none() {
            best = Some((missing, name));
        }
    }
    Kept {
        pod: nodes.pod.id.uid.clone(),
        node: best.map(|(_, name)| name.to_owned()),
        until: timing::after(nodes.now, HEAD_KEEPS),
    }
}
