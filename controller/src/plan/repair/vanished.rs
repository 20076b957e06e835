//! An allocation of a device that is gone: its slice for a minute, or its node.
//!
//! ```text
//! gone for less than a minute      nothing: a kubelet that restarts takes its slices along for a moment
//! a pod is bound there             people are told; it may run on, and its end frees the claim
//! a pod is pinned there            the rule of pins
//! else                             taken back: pods without a pin get other devices
//! ```

use super::scene::{Scene, names, our_grant};
use super::{Rule, pinned};
use crate::id::Uid;
use crate::index::{ClaimFacts, Grant, Presence};
use crate::plan::{About, timing};

/// An allocation of devices that are not there.
const REASON: &str = "DevicesGone";

pub(super) fn look(scene: &mut Scene<'_>) {
    for (claim, grant) in scene.held() {
        if !is_gone(scene, &claim.id.uid, grant) {
            continue;
        }
        scene.counts().vanished += 1;
        let where_from = grant.node.as_deref().unwrap_or("its node");
        let bound = scene.bound_users(claim);
        if !bound.is_empty() {
            let note = format!(
                "devices of this claim are no longer published by {where_from}, but used by {}; they are not given to \
                 others before the claim is free",
                names(&bound)
            );
            scene.warn(Rule::Vanished, About::Claim(claim.id.clone()), REASON, note);
            continue;
        }
        let is_pinned =
            scene.index.users(&claim.id.key).any(|pod| pinned::pin(scene, pod).is_some());
        // What somebody else wrote is the business of the rule for that.
        if !is_pinned && grant.by_us != Some(false) {
            let note = format!(
                "devices of this claim are no longer published by {where_from}: the allocation is taken back"
            );
            scene.warn(Rule::Vanished, About::Claim(claim.id.clone()), REASON, note);
            scene.clear(claim, "its devices are gone".to_owned());
        }
    }
}

/// Whether devices of a claim have been unpublished for a minute.
pub(super) fn is_lost(scene: &Scene<'_>, claim: &ClaimFacts) -> bool {
    let due = our_grant(claim).and_then(|grant| first_due(scene, grant));
    due.is_some_and(|due| scene.now >= due)
}

fn is_gone(scene: &mut Scene<'_>, claim: &Uid, grant: &Grant) -> bool {
    let node = grant.node.as_deref();
    let no_node = node.is_some_and(|node| scene.index.node(node).is_none());
    // The index does not say since when a node is gone. Both waits run, so that neither starts late.
    let node_gone = no_node && scene.has_lasted(Rule::NodeGone, claim, timing::VANISHED);
    let lost = first_due(scene, grant).is_some_and(|due| scene.is_past(due));
    node_gone || lost
}

/// When the first device to vanish counts as gone.
fn first_due(scene: &Scene<'_>, grant: &Grant) -> Option<jiff::Timestamp> {
    let since = grant.devices.iter().filter_map(|device| match scene.index.presence(device) {
        Presence::Present => None,
        Presence::GoneSince(since) => Some(timing::after(since, timing::VANISHED)),
    });
    since.min()
}
