//! A pod that is pinned to a node where it cannot run: a pin cannot be changed, so the pod has to be made anew.
//!
//! ```text
//! pinned, without a node of its own, claims allocated by us
//!   node gone | cordoned | NotReady | devices gone | kube-scheduler: does not suit      for 30 s
//!     +-- its owner makes it anew: delete it (UID); kube-controller-manager frees the claims that it leaves
//!     +-- nobody does: take back the claims that are for it alone, and say what to do
//! ```

use super::scene::{Scene, our_grant};
use super::{Rule, vanished, words};
use crate::index::{ClaimFacts, PodFacts, Stage};
use crate::plan::{About, timing};

/// A pod that cannot run where it is pinned to.
const REASON: &str = "PinnedInVain";

/// Why a pod cannot run on its node.
enum Fault {
    /// It is plain from the objects.
    Seen(String),
    /// kube-scheduler says so.
    Said(String),
}

pub(super) fn look(scene: &mut Scene<'_>) {
    for pod in scene.index.pods() {
        let Some((node, claims)) = pin(scene, pod) else { continue };
        let Some(fault) = fault(scene, pod, node, &claims) else { continue };
        scene.counts().mispinned += 1;
        if scene.has_lasted(Rule::Pinned, &pod.id.uid, timing::PINNED_UNBOUND) {
            mend(scene, pod, node, &claims, fault);
        }
    }
}

/// The node of a pod that waits to be bound there, and its claims with devices of ours there.
pub(super) fn pin<'a, 'p>(
    scene: &Scene<'a>,
    pod: &'p PodFacts,
) -> Option<(&'p str, Vec<&'a ClaimFacts>)> {
    let node = pod.pinned_to.as_deref()?;
    if pod.stage != Stage::Waiting || pod.deleting || !pod.gates.is_empty() {
        return None;
    }
    let mut claims = scene.claims_of(pod);
    claims.retain(|claim| our_grant(claim).is_some());
    let all_ours = claims
        .iter()
        .filter_map(|claim| our_grant(claim))
        .all(|grant| grant.by_us == Some(true) && grant.node.as_deref() == Some(node));
    (!claims.is_empty() && all_ours).then_some((node, claims))
}

fn fault(scene: &Scene<'_>, pod: &PodFacts, node: &str, claims: &[&ClaimFacts]) -> Option<Fault> {
    let seen = |what: &str| Some(Fault::Seen(format!("node {node} {what}")));
    let Some(facts) = scene.index.node(node) else { return seen("is gone") };
    if facts.view.unschedulable {
        return seen("is cordoned");
    }
    if !facts.ready {
        return seen("is not ready");
    }
    if claims.iter().any(|claim| vanished::is_lost(scene, claim)) {
        return seen("no longer publishes the devices");
    }
    let said = pod.unscheduled.as_ref().filter(|said| said.reason == "Unschedulable")?;
    let words = words::fault(&said.message)?;
    Some(Fault::Said(format!("node {node} does not suit the pod, says kube-scheduler: {words}")))
}

fn mend(scene: &mut Scene<'_>, pod: &PodFacts, node: &str, claims: &[&ClaimFacts], fault: Fault) {
    let (why, workload) = match fault {
        Fault::Seen(why) => (why, None),
        Fault::Said(why) => (why, Some(workload(pod))),
    };
    let about = About::Pod(pod.id.clone());
    if !pod.is_owned {
        let note = format!(
            "pinned to node {node} in vain: {why}; a pin cannot be changed: delete the pod and create it again"
        );
        scene.warn(Rule::Pinned, about, REASON, note);
        for claim in claims.iter().filter(|claim| is_for_alone(claim, pod)) {
            scene.clear(claim, format!("pod {} is pinned in vain: {why}", pod.id));
        }
        return;
    }
    if workload.as_ref().is_some_and(|workload| !scene.is_rested(workload)) {
        return;
    }
    let note = format!(
        "pinned to node {node} in vain: {why}; the pod is deleted, so that its owner makes it anew elsewhere"
    );
    scene.warn(Rule::Pinned, about, REASON, note);
    scene.delete(pod, workload, why);
}

/// The pod is the only user of a claim.
fn is_for_alone(claim: &ClaimFacts, pod: &PodFacts) -> bool {
    claim.reserved_for.iter().all(|user| user.uid == pod.id.uid)
}

/// What a pod and those that take its place have in common in their names: all but the last part.
fn workload(pod: &PodFacts) -> String {
    let name = &pod.id.key.name;
    let stem = name.rsplit_once('-').map_or(name.as_str(), |(stem, _)| stem);
    format!("{}/{stem}", pod.id.key.namespace)
}
