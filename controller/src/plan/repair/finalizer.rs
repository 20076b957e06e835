//! An allocated claim of ours without the finalizer that keeps it while pods use it: with none, deleting the claim frees
//! devices under a running pod.

use super::Rule;
use super::scene::Scene;
use crate::change::{Change, Protect};
use crate::plan::About;

/// A finalizer that somebody took off.
const REASON: &str = "ProtectionRemoved";

pub(super) fn look(scene: &mut Scene<'_>) {
    for (claim, _) in scene.held().filter(|(_, grant)| grant.by_us == Some(true)) {
        if claim.is_protected || scene.is_busy(&claim.id.uid) {
            continue;
        }
        let note = "somebody took the finalizer resource.kubernetes.io/delete-protection off this allocated claim: it is \
                    put back; without it, devices could be given to others while a pod uses them";
        scene.warn(Rule::Finalizer, About::Claim(claim.id.clone()), REASON, note.to_owned());
        let version = claim.version.clone();
        let change = Protect { claim: claim.id.clone(), version: version.clone() };
        scene.want(&claim.id, version, None, Change::Protect(change));
    }
}
