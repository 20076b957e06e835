//! A bound pod that its allocated claim is not reserved for: kube-controller-manager would free the claim under it when
//! the claim's other users end.
//!
//! Pods without a node are reserved for as they are placed, or by kube-scheduler as it binds them.

use super::Rule;
use super::scene::{Scene, our_grant};
use crate::change::{Change, ClaimWrite, Place, Write};
use crate::index::{ClaimFacts, PodFacts, Stage};
use crate::plan::About;

/// A pod that is missing among the users of its claim.
const REASON: &str = "ReservationMissing";

/// Users that a claim may have (`ResourceClaimReservedForMaxSize`).
const MAX_USERS: usize = 256;

pub(super) fn look(scene: &mut Scene<'_>) {
    for pod in scene.index.pods().filter(|pod| !pod.claims.is_empty() && !pod.deleting) {
        let Stage::Bound(node) = &pod.stage else { continue };
        let claims = scene.claims_of(pod);
        let missing: Vec<&ClaimFacts> =
            claims.iter().copied().filter(|claim| lacks(claim, pod, node)).collect();
        let is_busy = claims.iter().any(|claim| scene.is_busy(&claim.id.uid));
        let Some(first) = missing.first().filter(|_| !is_busy) else { continue };
        // What is altered is the claim: the pod's version says nothing of whether a write was in vain.
        let version = first.version.clone();
        let names: Vec<String> = missing.iter().map(|claim| claim.id.to_string()).collect();
        let note =
            format!("not among the users of {}, which it uses: it is put back", names.join(", "));
        scene.warn(Rule::Unreserved, About::Pod(pod.id.clone()), REASON, note);
        let write =
            |claim: &&ClaimFacts| ClaimWrite { claim: claim.id.clone(), write: Write::Reserve };
        let place = Place {
            pod: pod.id.clone(),
            node: node.clone(),
            claims: missing.iter().map(write).collect(),
            release: None,
        };
        scene.want(&pod.id, version, None, Change::Place(Box::new(place)));
    }
}

/// A claim of ours, allocated for the pod's node, that is not reserved for the pod.
fn lacks(claim: &ClaimFacts, pod: &PodFacts, node: &str) -> bool {
    let Some(grant) = our_grant(claim).filter(|grant| grant.by_us == Some(true)) else {
        return false;
    };
    let is_here = grant.node.as_deref().is_none_or(|name| name == node);
    let is_reserved = claim.reserved_for.iter().any(|user| user.uid == pod.id.uid);
    is_here && !is_reserved && !claim.deleting && claim.reserved_for.len() < MAX_USERS
}
