//! Refusals in words: the reason of each node, and that of the nearest one for the whole.

use crate::allocation::node::{Answer, Decision};
use crate::allocation::reason::Explanation;
use crate::allocation::{Cluster, Problem, Shortage};

impl Decision {
    /// Why a candidate was not chosen; absent for one where the claims fit.
    pub fn reason(&self, cluster: &Cluster, name: &str, answer: &Answer) -> Option<String> {
        of_answer(&self.problem, cluster, name, answer)
    }

    /// The refusal as a whole: the reason of the candidate that comes nearest, and how many there were.
    pub fn summary(&self, cluster: &Cluster) -> String {
        let Some((name, answer)) = self.answers.iter().min_by_key(|(_, answer)| distance(answer))
        else {
            return no_node();
        };
        let reason = self.reason(cluster, name, answer).unwrap_or_default();
        in_short(name, &reason, self.answers.len())
    }

    /// Nothing fits, and some candidate failed on an error.
    pub fn failed(&self) -> bool {
        self.chosen.is_none() && self.answers.iter().any(|(_, a)| matches!(a, Answer::Failed(_)))
    }
}

/// Why a candidate was not chosen; absent for one where the claims fit.
pub(super) fn of_answer(
    problem: &Problem,
    cluster: &Cluster,
    name: &str,
    answer: &Answer,
) -> Option<String> {
    let node = cluster.node(name);
    let reason = match (answer, node) {
        (Answer::Fits(_), _) => return None,
        (Answer::Unfit(reason), _) => format!("the pod cannot run here: {reason}"),
        (Answer::Failed(errors), _) => match errors.first() {
            Some(error) if errors.len() > 1 => {
                format!("{error} (and {} more errors)", errors.len() - 1)
            }
            Some(error) => error.to_string(),
            None => "a selector failed".to_owned(),
        },
        (Answer::Short(shortage), Some(node)) => Explanation { problem, node }.shortage(shortage),
        (Answer::Empty | Answer::Short(_), _) => "offers no devices".to_owned(),
    };
    let unusable = node.map(|node| node.unusable.as_slice()).unwrap_or_default();
    let pools = unusable.iter().map(|pool| format!("; pool {}: {}", pool.pool, pool.reason));
    Some(pools.fold(reason, |reason, pool| reason + &pool))
}

/// The reason of the nearest of some nodes.
pub(super) fn in_short(name: &str, reason: &str, nodes: usize) -> String {
    match nodes {
        1 => format!("node {name}: {reason}"),
        nodes => format!("none of {nodes} nodes fits; nearest is {name}: {reason}"),
    }
}

/// The refusal where there is no candidate at all.
pub(super) fn no_node() -> String {
    "there is no node".to_owned()
}

/// The smaller, the nearer.
pub(super) type Distance = (u8, std::cmp::Reverse<u32>);

/// How far from fitting an answer is: errors first, since they have to be mended first.
pub(super) fn distance(answer: &Answer) -> Distance {
    let reached = |n| std::cmp::Reverse(n);
    match answer {
        Answer::Fits(_) => (0, reached(0)),
        Answer::Failed(_) => (1, reached(0)),
        Answer::Short(shortage) => match **shortage {
            Shortage::Together | Shortage::Budget => (2, reached(0)),
            Shortage::Sets { reached: sets, .. } => (3, reached(sets)),
            Shortage::Devices { .. } => (4, reached(0)),
        },
        Answer::Unfit(_) => (5, reached(0)),
        Answer::Empty => (6, reached(0)),
    }
}
