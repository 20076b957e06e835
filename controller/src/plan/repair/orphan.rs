//! An allocation of ours that nobody uses: reserved for nobody and named by no pod, it would be held for ever, since
//! kube-controller-manager frees a claim only when its last user goes.
//!
//! One that is reserved only for pods that are gone is kube-controller-manager's to free; where it does not, people are
//! told.

use jiff::SignedDuration;

use super::Rule;
use super::scene::Scene;
use crate::index::ClaimFacts;
use crate::plan::{About, timing};

/// An allocation that should have been freed.
const REASON: &str = "AllocationAbandoned";

/// kube-controller-manager frees within 40 ms, and takes a minute or two to be elected anew.
const ABANDONED: SignedDuration = SignedDuration::from_secs(5 * 60);

pub(super) fn look(scene: &mut Scene<'_>) {
    for (claim, _) in scene.held().filter(|(_, grant)| grant.by_us != Some(false)) {
        if scene.is_unused(claim) {
            scene.counts().orphans += 1;
            if scene.has_lasted(Rule::Orphan, &claim.id.uid, timing::UNRESERVED) {
                scene.clear(claim, "no pod uses it, and it is reserved for none".to_owned());
            }
        } else if is_abandoned(scene, claim)
            && scene.has_lasted(Rule::Abandoned, &claim.id.uid, ABANDONED)
        {
            let note = "this claim is reserved only for pods that no longer exist: kube-controller-manager frees such \
                        claims; check that it runs and that the admission policies let it";
            scene.warn(Rule::Abandoned, About::Claim(claim.id.clone()), REASON, note.to_owned());
        }
    }
}

fn is_abandoned(scene: &Scene<'_>, claim: &ClaimFacts) -> bool {
    let is_gone = |uid| scene.index.pod(uid).is_none();
    !claim.reserved_for.is_empty()
        && claim.reserved_for.iter().all(|user| user.is_pod && is_gone(&user.uid))
}
