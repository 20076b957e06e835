//! How long the controller waits for what, with the reason of each number.

use jiff::{SignedDuration, Timestamp};

/// A pod that is pinned and unbound: kube-scheduler binds within 40 ms where it can, so that after this time the node is
/// at fault.
pub const PINNED_UNBOUND: SignedDuration = SignedDuration::from_secs(30);

/// A pod without our gate that kube-scheduler calls unschedulable although its claims are allocated: kube-scheduler looks
/// again within 34 ms of the write.
pub const UNGATED_UNSCHEDULABLE: SignedDuration = SignedDuration::from_secs(5);

/// A claim that a pod of this age names and that was not seen: claims and pods are watched apart. Creation times are whole
/// seconds.
pub const UNSEEN_CLAIM: SignedDuration = SignedDuration::from_secs(2);

/// A device in two claims: the repair looks once a second, and takes one back.
pub const CONTESTED: SignedDuration = SignedDuration::from_secs(1);

/// A waiting pod older than this keeps later ones off its best node.
pub const HEAD_WAITS: SignedDuration = SignedDuration::from_secs(10 * 60);

/// A node that a head has reserved is judged anew after this time, so that one that empties faster can take its place.
pub const HEAD_KEEPS: SignedDuration = SignedDuration::from_secs(60);

/// Slices that vanished: those of a restarted kubelet are back within seconds, a stopped plugin's after 30 s.
pub const VANISHED: SignedDuration = SignedDuration::from_secs(60);

/// An allocation that nobody has reserved: we reserve in the same write, so that it is somebody else's or left over.
pub const UNRESERVED: SignedDuration = SignedDuration::from_secs(30);

/// The first back-off of a node for a pod that kube-scheduler could not place there, and the longest.
pub const BACK_OFF: (SignedDuration, SignedDuration) =
    (SignedDuration::from_secs(10), SignedDuration::from_secs(5 * 60));

/// A pod that no node fitted is judged again after this time, whatever was seen to change: time itself may have mattered
/// to a rule that is not modelled.
pub const JUDGE_AGAIN: SignedDuration = SignedDuration::from_secs(60);

/// Between two events with the same words about one pod.
pub const SAME_WORDS: SignedDuration = SignedDuration::from_secs(5 * 60);

/// Between two events with different words about one pod.
pub const OTHER_WORDS: SignedDuration = SignedDuration::from_secs(10);

/// Some time later; at the end of time, the end.
pub fn after(time: Timestamp, wait: SignedDuration) -> Timestamp {
    time.checked_add(wait).unwrap_or(Timestamp::MAX)
}

/// The earlier of two times, where one may be absent.
pub fn earlier(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, None) | (None, one) => one,
    }
}
