//! An allocation of our devices that somebody else wrote. It counts like any other; people are told, and it is taken back
//! once nobody uses it.

use super::Rule;
use super::scene::Scene;
use crate::plan::{About, timing};

/// An allocation that is not ours.
const REASON: &str = "ForeignAllocation";

pub(super) fn look(scene: &mut Scene<'_>) {
    for (claim, _) in scene.held().filter(|(_, grant)| grant.by_us == Some(false)) {
        scene.counts().foreign += 1;
        let note = "devices of lanemate.dev were allocated to this claim by somebody else than its controller, unseen \
                    by what the controller was deciding; check that the admission policies are in place, and delete the \
                    claim and its pods if this was not meant";
        scene.warn(Rule::Foreign, About::Claim(claim.id.clone()), REASON, note.to_owned());
        if scene.is_unused(claim)
            && scene.has_lasted(Rule::Foreign, &claim.id.uid, timing::UNRESERVED)
        {
            scene.clear(claim, "somebody else allocated it, and nobody uses it".to_owned());
        }
    }
}
