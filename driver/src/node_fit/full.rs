//! The whole judgement: everything about a pod and a node that kube-scheduler filters by, as far as it is modelled.

use super::{Around, NodeLoad, NodeView, PodNeeds, Unfit, Volumes, unfit};

/// Says whether the pod may run on the node beside what runs there, or the first reason why not. `around` is that of
/// the pod ([`super::Surroundings::around`]), and the pod itself is in none of the sums.
///
/// A pod that is bound already is in the sums, and judged as [`super::fits`] does.
/// Stricter than kube-scheduler in one thing: a node that reports itself not ready is refused before its taint comes.
/// What [`PodNeeds::unmodelled`] names is not judged.
pub fn fits_fully(
    pod: &PodNeeds,
    node: &NodeView,
    load: &NodeLoad,
    around: &Around,
    volumes: &Volumes,
) -> Result<(), Unfit> {
    pod.node_wishes().met_by(node)?;
    if pod.node_name.is_some() {
        return Ok(());
    }
    if node.ready == Some(false) {
        return Err(unfit("the node is not ready".to_owned()));
    }
    load.leaves_room(pod, node)?;
    volumes.reachable(pod, node)?;
    around.allows(pod, node)
}

#[cfg(test)]
mod tests;
