//! kube-scheduler's words about a pod that is pinned to one node: whether time mends what they say.
//!
//! ```text
//! 0/9 nodes are available: 1 Insufficient cpu, 8 node(s) didn't satisfy plugin(s) [NodeAffinity]. preemption: ...
//!                          ^ this node         ^ all others: that is the pin
//! ```
//!
//! Whatever is not understood is taken for something that time mends: a pod is not ended for a word.

/// What stands before the list of reasons.
const LIST: &str = "nodes are available: ";

/// How kube-scheduler says that a node is not the one that the pod is pinned to.
const ELSEWHERE: [&str; 2] = [
    "node(s) didn't match Pod's node affinity/selector",
    "node(s) didn't satisfy plugin(s) [NodeAffinity]",
];

/// Reasons of a node that end when other pods do.
const SCARCE: [&str; 4] = [
    "node(s) didn't have free ports",
    "node(s) exceed max volume count",
    "node(s) did not have enough free storage",
    "node(s) didn't match pod topology spread constraints",
];

/// The reason for which the pod can never run on its node; none where it lacks what other pods may free, or where the
/// words are not understood.
pub(super) fn fault(message: &str) -> Option<&str> {
    let (head, rest) = message.split_once(LIST)?;
    let nodes: u64 = head.trim().strip_prefix("0/")?.parse().ok()?;
    let list = rest.split_once(". ").map_or(rest, |(list, _)| list).trim_end_matches('.');
    let mut elsewhere = 0_u64;
    let mut found = None;
    for entry in list.split(", ") {
        let (count, reason) = entry.split_once(' ')?;
        let count: u64 = count.parse().ok()?;
        if ELSEWHERE.contains(&reason) {
            elsewhere = elsewhere.saturating_add(count);
            found = found.or(Some((reason, true)));
        } else if !reason.starts_with("node(s) ") || SCARCE.iter().any(|s| reason.starts_with(s)) {
            return None;
        } else if !matches!(found, Some((_, false))) {
            found = Some((reason, false));
        }
    }
    match found {
        // The pin is met by one node unless that one is not the pod's any more.
        Some((reason, true)) => (elsewhere >= nodes).then_some(reason),
        Some((reason, false)) => Some(reason),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_pods_may_free_is_no_fault() {
        for message in [
            "0/9 nodes are available: 1 Insufficient cpu, 8 node(s) didn't satisfy plugin(s) [NodeAffinity]. preemption: \
             0/9 nodes are available: 1 No preemption victims found for incoming pod, 8 Preemption is not helpful for \
             scheduling.",
            "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory. preemption: not eligible due to \
             preemptionPolicy=Never.",
            "0/2 nodes are available: 1 Too many pods, 1 node(s) didn't match Pod's node affinity/selector.",
            "0/2 nodes are available: 1 cannot allocate all claims, 1 node(s) didn't match Pod's node affinity/selector. \
             still not schedulable, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
            "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.",
        ] {
            assert_eq!(fault(message), None, "{message}");
        }
    }

    #[test]
    fn what_is_not_understood_is_no_fault() {
        for message in [
            "",
            "waiting for ephemeral volume controller to create the persistentvolumeclaim \"x\"",
            "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
            "nodes are available: 1 node(s) were unschedulable",
            "0/x nodes are available: 1 node(s) were unschedulable",
            "0/1 nodes are available: ",
            "0/1 nodes are available: 1 something new",
            "running Bind plugin \"DefaultBinder\": Operation cannot be fulfilled on pods/binding",
        ] {
            assert_eq!(fault(message), None, "{message}");
        }
    }

    #[test]
    fn a_node_that_does_not_suit_the_pod_is_a_fault() {
        for (message, reason) in [
            (
                "0/9 nodes are available: 1 node(s) were unschedulable, 8 node(s) didn't satisfy plugin(s) \
                 [NodeAffinity]. preemption: 0/9 nodes are available: 9 Preemption is not helpful for scheduling.",
                "node(s) were unschedulable",
            ),
            (
                "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated \
                 taint {node.kubernetes.io/unreachable: }.",
                "node(s) had untolerated taint {node.kubernetes.io/unreachable: }",
            ),
            (
                "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. no new claims to \
                 deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
                "node(s) didn't match Pod's node affinity/selector",
            ),
        ] {
            assert_eq!(fault(message), Some(reason), "{message}");
        }
    }

    #[test]
    fn a_pin_that_other_nodes_do_not_meet_is_no_fault_by_itself() {
        let message =
            "0/3 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.";
        assert_eq!(fault(message), None);
    }
}
