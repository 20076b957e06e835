//! `explain`: why a claim waits, or where it sits.

mod facts;
mod subject;
pub mod table;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use lanemate_api::PathClass;
use serde::Serialize;

use self::subject::Subject;
pub use self::subject::entries;
use super::args::ExplainArgs;
use super::leader::Leader;
use super::{age, read};
use crate::plan::decided_in_cluster;

/// Claims of which events are read: each takes a request.
const WITH_EVENTS: usize = 20;
/// Events that are told of one claim: the last ones say what is now.
const EVENTS: usize = 3;

/// What is told.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explained {
    /// Who decides.
    pub controller: Leader,
    /// Claims in the order of namespace and name.
    pub claims: Vec<Explanation>,
}

/// One claim.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `namespace/name`.
    pub claim: String,
    /// How far it is.
    pub state: State,
    /// Where its devices are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Why it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why not on each node; nodes with one reason together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodesReason>,
    /// What it holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceReport>,
    /// Which of them belong together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<UnitReport>,
    /// Unfinished pods that name it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<PodReport>,
    /// `status.reservedFor`, `resource/name`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reserved_for: Vec<String>,
    /// The last events about it and its pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventReport>,
    /// UIDs of the objects that events may be about, with their namespace.
    #[serde(skip)]
    subjects: Vec<(String, String)>,
}

/// How far a claim is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// It has no devices yet.
    #[default]
    Waiting,
    /// It has its devices.
    Allocated,
    /// It is still to be made from a template.
    NotMade,
    /// It goes, and gets nothing any more.
    Deleting,
}

/// Nodes on which a claim does not fit, for one reason.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodesReason {
    /// Why.
    pub reason: String,
    /// Their names, sorted.
    pub nodes: Vec<String>,
}

/// A granted device.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceReport {
    /// The request.
    pub request: String,
    /// The pool.
    pub pool: String,
    /// Its name.
    pub device: String,
    /// PCI address.
    #[serde(rename = "pciBusID", skip_serializing_if = "Option::is_none")]
    pub pci: Option<String>,
    /// How far its node is with it: `Prepared`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_node: Option<&'static str>,
    /// Others that have it too: one of them cannot run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also_held_by: Vec<String>,
    /// No slice offers it any more.
    #[serde(skip_serializing_if = "is_false")]
    pub is_gone: bool,
}

/// Devices that belong together.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnitReport {
    /// Their names.
    pub devices: Vec<String>,
    /// Path class of the farthest pair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<PathClass>,
    /// The switch that they share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
}

/// A pod that names the claim.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodReport {
    /// Its name.
    pub name: String,
    /// `status.phase`.
    pub phase: String,
    /// Its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Its scheduling gates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<String>,
    /// kube-scheduler's words where it cannot place the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unscheduled: Option<String>,
}

/// An event.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventReport {
    /// One word.
    pub reason: String,
    /// A sentence.
    pub note: String,
    /// How often.
    pub count: i32,
    /// How long ago, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // As serde calls it.
fn is_false(value: &bool) -> bool {
    !value
}

/// Reads the cluster and explains.
pub async fn explained(args: &ExplainArgs, now: Timestamp) -> anyhow::Result<Explained> {
    let client = read::client(&args.cluster).await?;
    let namespace = args.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    let subject = Subject::parse(args.subject.as_deref(), &namespace)?;
    let seen = read::seen(&client, &args.cluster.system_namespace).await?;
    let mut explained = of(&seen, &subject, now)?;
    for explanation in explained.claims.iter_mut().take(WITH_EVENTS) {
        let mut events = Vec::new();
        for (namespace, uid) in &explanation.subjects {
            events.extend(read::events(&client, namespace, uid).await?);
        }
        events.sort_by_key(age::last);
        let last = events.iter().skip(events.len().saturating_sub(EVENTS));
        explanation.events = last.map(|event| event_report(event, now)).collect();
    }
    Ok(explained)
}

/// Explains, from what was read.
pub fn of(seen: &read::Seen, subject: &Subject, now: Timestamp) -> anyhow::Result<Explained> {
    let devices = super::devices::Devices::of(seen);
    let targets = subject.targets(&seen.objects)?;
    let names = targets.iter().map(|target| target.claim.clone()).collect();
    let is_waiting = targets.iter().any(|target| target.is_waiting(&seen.objects));
    // Deciding is for what waits.
    let outcome = match is_waiting {
        true => decided_in_cluster(&seen.objects, &devices.held_on_nodes(), names)?,
        false => crate::plan::outcome::Outcome::default(),
    };
    let controller = Leader::of(seen.lease.as_ref(), now);
    let facts =
        facts::Facts { seen, devices: &devices, outcome: &outcome, controller: &controller };
    let claims = targets.iter().map(|target| facts.explain(target)).collect();
    Ok(Explained { claims, controller })
}

fn event_report(event: &Event, now: Timestamp) -> EventReport {
    EventReport {
        reason: event.reason.clone().unwrap_or_default(),
        note: event.note.clone().unwrap_or_default(),
        count: age::count(event),
        age: age::last(event).map(|last| age::words(last, now)),
    }
}
