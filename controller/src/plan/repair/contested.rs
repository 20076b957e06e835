//! One device in two claims: nobody but us looks, and the second pod is refused on its node.
//!
//! ```text
//! a claim is in use:  a bound pod names it, or its node holds it
//!   one in use, or none    the others, or all but the oldest, are taken back
//!   two in use             the node knows: pods of claims that it does not hold are deleted if made anew, else told of
//! ```
//!
//! Never all of them: at least one claim keeps the device.

use std::collections::BTreeSet;

use lanemate_driver::allocation::DeviceId;

use super::Rule;
use super::scene::{Scene, names, our_grant};
use crate::index::{ClaimFacts, Holder};
use crate::plan::About;

/// A device that two claims hold.
const REASON: &str = "DeviceContested";

pub(super) fn look(scene: &mut Scene<'_>) {
    let devices: BTreeSet<DeviceId> = scene.index.contested().cloned().collect();
    scene.counts().contested = devices.len();
    for device in devices {
        let mut claims = claims(scene, &device);
        for claim in &claims {
            tell(scene, claim, &claims, &device);
        }
        // What is taken back for another device, or is with the writer, will be gone or known at the next look.
        claims.retain(|claim| !scene.is_busy(&claim.id.uid));
        if claims.len() > 1 {
            mend(scene, &claims, &device);
        }
    }
}

/// The claims that hold a device, the oldest allocation first.
fn claims<'a>(scene: &Scene<'a>, device: &DeviceId) -> Vec<&'a ClaimFacts> {
    let claim = |holder: Holder| match holder {
        Holder::Claim(uid) => scene.index.claim_by_uid(&uid),
        Holder::Node(_) => None,
    };
    let mut claims: Vec<_> = scene.index.holders(device).into_iter().filter_map(claim).collect();
    claims.sort_by_key(|claim| (our_grant(claim).and_then(|grant| grant.at), &claim.id));
    claims
}

fn tell(scene: &mut Scene<'_>, claim: &ClaimFacts, all: &[&ClaimFacts], device: &DeviceId) {
    let others = all.iter().filter(|other| other.id.uid != claim.id.uid);
    let others: Vec<String> = others
        .map(|other| match names(&scene.bound_users(other)).as_str() {
            "" => other.id.to_string(),
            pods => format!("{} (used by {pods})", other.id),
        })
        .collect();
    let (_, pool, name) = device;
    let note = format!(
        "device {name} of pool {pool} is allocated to this claim and to {}; look for who else writes allocations of \
         this driver, and whether the admission policies are in place",
        others.join(", ")
    );
    scene.warn(Rule::Contested, About::Claim(claim.id.clone()), REASON, note);
}

fn mend(scene: &mut Scene<'_>, claims: &[&ClaimFacts], device: &DeviceId) {
    let in_use =
        |claim: &&ClaimFacts| !scene.bound_users(claim).is_empty() || is_held(scene, claim);
    let (used, unused): (Vec<&ClaimFacts>, Vec<&ClaimFacts>) =
        claims.iter().copied().partition(in_use);
    let kept = usize::from(used.is_empty());
    for claim in unused.iter().skip(kept).filter(|claim| !claim.deleting) {
        scene.clear(claim, format!("device {} is in another claim too", device.2));
    }
    if used.len() < 2 {
        return;
    }
    let (held, not_held): (Vec<&ClaimFacts>, Vec<&ClaimFacts>) =
        used.into_iter().partition(|claim| is_held(scene, claim));
    // Where the node does not say which one it holds, whoever is deleted may be the one that runs.
    if held.is_empty() {
        return;
    }
    for claim in not_held {
        for pod in scene.bound_users(claim) {
            if pod.is_owned && !pod.deleting {
                let why = format!("its node has given device {} to another claim", device.2);
                let note = format!("{why}; the pod is deleted, so that its owner makes it anew");
                scene.warn(Rule::Contested, About::Pod(pod.id.clone()), REASON, note);
                scene.delete(pod, None, why);
            } else if !pod.deleting {
                let note = format!(
                    "its node has given device {} to another claim, so that this pod cannot start: delete it and \
                     create it again",
                    device.2
                );
                scene.warn(Rule::Contested, About::Pod(pod.id.clone()), REASON, note);
            }
        }
    }
}

/// Whether the node of a claim says that it holds it.
fn is_held(scene: &Scene<'_>, claim: &ClaimFacts) -> bool {
    let node = our_grant(claim).and_then(|grant| grant.node.as_deref());
    let state = node.and_then(|node| scene.index.node_state(node));
    state.is_some_and(|state| state.status.held.iter().any(|held| held.claim.uid == claim.id.uid.0))
}
