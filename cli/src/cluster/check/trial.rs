//! A dry allocation: would a claim for one unit of each class fit now, by the core of the controller.

use std::collections::BTreeMap;

use anyhow::Context;
use k8s_openapi::api::resource::v1::ResourceClaim;
use lanemate_api::names;
use lanemate_driver::allocation::{
    Candidate, Decision, DeviceId, Evaluations, SEARCH_BUDGET, decide,
};
use lanemate_driver::claim::Claim;
use serde_json::json;

use super::found::Found;
use super::{Check, listed, named};
use crate::args::Mode;
use crate::cluster::status;
use crate::plan::scene::Scene;
use crate::plan::scene_of_cluster;
use crate::words::cut;

/// Characters of a reason; `lanemate explain` tells all of it, of a claim that waits.
const REASON: usize = 160;

/// How a trial ended.
#[derive(PartialEq, Eq)]
enum End {
    Fits,
    /// It would if nothing was held.
    InUse,
    /// Why not even then.
    Refused(String),
}

/// Tries one unit of each class, and one GPU or, where there is none, one NIC; none where nothing is offered.
pub fn trial(found: &Found, mode: Mode) -> anyhow::Result<Option<Check>> {
    let classes = classes(found, mode);
    if classes.is_empty() {
        return Ok(None);
    }
    let mut scene = scene_of_cluster(&found.seen.objects, &found.devices.held_on_nodes())?;
    let candidates = candidates(found, &scene);
    let mut ends = BTreeMap::new();
    for class in &classes {
        let fits = refusal(&mut scene, &candidates, class)?.is_none();
        ends.insert(class.as_str(), if fits { End::Fits } else { End::InUse });
    }
    // What does not fit on an empty cluster never will.
    release(&mut scene);
    for (class, end) in ends.iter_mut().filter(|(_, end)| **end == End::InUse) {
        if let Some(why) = refusal(&mut scene, &candidates, class)? {
            *end = End::Refused(why);
        }
    }
    Ok(Some(check(&ends)))
}

fn check(ends: &BTreeMap<&str, End>) -> Check {
    let (mut refused, mut in_use) = (Vec::new(), Vec::new());
    for (class, end) in ends {
        match end {
            End::Fits => {}
            End::InUse => in_use.push((*class).to_owned()),
            End::Refused(why) => refused.push(format!("{class}: {}", cut(why, REASON))),
        }
    }
    // A ResourceClass may be for machines that are still to come, as long as another one serves, and so do whole devices.
    let is_whole = |class: &str| class == names::GPU_CLASS || class == names::NIC_CLASS;
    let (whole, units): (Vec<_>, Vec<_>) = ends.iter().partition(|(class, _)| is_whole(class));
    let serves = |(_, end): &(&&str, &End)| !matches!(end, End::Refused(_));
    if !refused.is_empty() && whole.iter().all(serves) && units.iter().any(serves) {
        let todo = "a claim for one of it would wait for ever: delete the class, unless its machines are still to come";
        return Check::note("Trial", listed(&refused, "; "), todo);
    }
    if !refused.is_empty() {
        let todo = "a claim for one of it would wait for ever: mend what the reason names; `lanemate status` shows what each \
                    node has";
        return Check::failed("Trial", listed(&refused, "; "), todo);
    }
    if !in_use.is_empty() {
        let words = format!("all in use now: {}", named(&in_use));
        return Check::note(
            "Trial",
            words,
            "nothing is wrong: `lanemate status` shows who holds what",
        );
    }
    let names: Vec<String> = ends.keys().map(|name| (*name).to_owned()).collect();
    Check::ok("Trial", format!("one of each fits now: {}", named(&names)))
}

/// Names of the classes to try; of ResourceClasses those that are ready, as the others are told of elsewhere.
fn classes(found: &Found, mode: Mode) -> Vec<String> {
    let offers = |kind: &str| {
        let mut facts = found.devices.iter().map(|(_, facts)| facts);
        facts.any(|facts| facts.node.is_some() && facts.kind.as_deref() == Some(kind))
    };
    let whole = match (offers("gpu"), offers("nic")) {
        (true, _) => names::GPU_CLASS,
        (false, true) => names::NIC_CLASS,
        (false, false) => return Vec::new(),
    };
    let units = found.seen.objects.resource_classes.iter().filter(|_| mode == Mode::Controller);
    let units = units.filter(|class| super::is_ready(class));
    let units = units.filter_map(|class| class.metadata.name.clone());
    [whole.to_owned()].into_iter().chain(units).collect()
}

/// All nodes, without those on which pods are not started.
fn candidates(found: &Found, scene: &Scene) -> Vec<Candidate> {
    let nodes = found.nodes();
    let candidate = |name: &String| {
        let conditions = nodes.get(name.as_str()).map(|node| status::conditions(node));
        let unfit = conditions.filter(|words| !words.is_empty()).map(|words| words.join(", "));
        Candidate { name: name.clone(), unfit }
    };
    scene.nodes.keys().map(candidate).collect()
}

/// Why a claim for one of a class does not fit; none where it does.
fn refusal(
    scene: &mut Scene,
    candidates: &[Candidate],
    class: &str,
) -> anyhow::Result<Option<String>> {
    // As a label: a request has no dots in its name.
    let request = class.split('.').next().unwrap_or(class);
    let object: ResourceClaim = serde_json::from_value(json!({
        "metadata": { "name": "lanemate-check", "namespace": "lanemate-check" },
        "spec": { "devices": { "requests": [{
            "name": request, "exactly": { "deviceClassName": class },
        }] } },
    }))
    .context("write a claim to try")?;
    let claim = match Claim::parse(&object, &mut scene.classes) {
        Ok(claim) => claim,
        Err(error) => return Ok(Some(error.to_string())),
    };
    let mut evaluations = Evaluations::default();
    let decided: Decision =
        decide(&scene.cluster, &mut evaluations, &[&claim], candidates, SEARCH_BUDGET)?;
    Ok(decided.chosen.is_none().then(|| decided.summary(&scene.cluster)))
}

/// Frees everything.
fn release(scene: &mut Scene) {
    let held: Vec<(DeviceId, String)> =
        scene.cluster.held().map(|(device, holder)| (device.clone(), holder.to_owned())).collect();
    for (device, holder) in held {
        scene.cluster.release(&holder, &[device]);
    }
}
