//! `check`: is the cluster set up right, and if not, what to do.

mod policies;
mod probes;
mod rights;
pub mod table;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde::Serialize;

use super::args::CheckArgs;
use super::leader::Leader;
use super::read::{self, Seen};

/// Devices, nodes or classes that a line names before it says how many more there are.
const NAMED: usize = 3;

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// What.
    pub name: &'static str,
    /// How it is.
    pub result: Outcome,
    /// What was found.
    pub found: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub todo: Option<String>,
}

/// How a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// Right.
    Ok,
    /// Nothing is wrong, but somebody may have expected something else.
    Note,
    /// Wrong, or it cannot be told.
    Failed,
}

impl Check {
    /// Right.
    pub fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, result: Outcome::Ok, found: found.into(), todo: None }
    }

    /// Worth knowing.
    pub fn note(name: &'static str, found: impl Into<String>, todo: &str) -> Self {
        let todo = Some(todo.to_owned());
        Self { name, result: Outcome::Note, found: found.into(), todo }
    }

    /// Wrong.
    pub fn failed(name: &'static str, found: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { name, result: Outcome::Failed, found: found.into(), todo: Some(todo.into()) }
    }

    /// It was found wrong, or could not be told.
    pub fn is_failed(&self) -> bool {
        self.result == Outcome::Failed
    }
}

/// What could not be found out is a failed check: nobody may take it for a good one.
fn told(name: &'static str, checked: anyhow::Result<Check>) -> Check {
    checked.unwrap_or_else(|error| {
        let todo = "ask with the rights of an administrator, or mend the connection";
        Check::failed(name, format!("cannot be told: {error:#}"), todo)
    })
}

/// Looks at everything, one thing after the other; the first is whether the cluster answers at all.
pub async fn checks(args: &CheckArgs, now: Timestamp) -> anyhow::Result<Vec<Check>> {
    let client = read::client(&args.cluster).await?;
    let version = probes::version(&client).await?;
    let mut checks = vec![version];
    checks.push(told("API", probes::api(&client).await));
    checks.push(told("Definitions", probes::definitions(&client).await));
    checks.push(told("Taints", probes::taints(&client).await));
    checks.push(told("Fence", policies::fence(&client).await));
    checks.push(told("Gate", policies::gate(&client).await));
    checks.push(told("Releases", probes::releases(&client).await));
    checks.push(told("Rights", rights::controller(&client).await));
    match read::seen(&client, &args.cluster.system_namespace).await {
        Ok(seen) => checks.extend(of(&seen, now)),
        Err(error) => checks.push(told("Objects", Err(error))),
    }
    Ok(checks)
}

/// What the objects say.
fn of(seen: &Seen, now: Timestamp) -> Vec<Check> {
    vec![controller(seen, now), slices(seen), node_states(seen), contested(seen), classes(seen)]
}

fn controller(seen: &Seen, now: Timestamp) -> Check {
    let leader = Leader::of(seen.lease.as_ref(), now);
    if leader.is_fresh {
        return Check::ok("Controller", leader.words());
    }
    let todo = "start lanemate-controller, or look into its log; --system-namespace says where";
    Check::failed("Controller", leader.words(), todo)
}

/// Without the taint kube-scheduler gives the devices away beside the controller.
fn slices(seen: &Seen) -> Check {
    let devices = super::devices::Devices::of(seen);
    let offered: Vec<_> = devices.iter().filter(|(_, facts)| facts.node.is_some()).collect();
    let bare: Vec<String> = offered
        .iter()
        .filter(|(_, facts)| !facts.is_fenced)
        .map(|((_, pool, device), _)| format!("{pool}/{device}"))
        .collect();
    if offered.is_empty() {
        let todo = "start the kubelet plugin on the nodes with GPUs, or look into its log";
        return Check::failed("Devices", "no slice of lanemate.dev offers any", todo);
    }
    if bare.is_empty() {
        let found = format!("{} offered, all with the controller's taint", offered.len());
        return Check::ok("Devices", found);
    }
    let found = format!("without the controller's taint: {}", named(&bare));
    Check::failed("Devices", found, "start the kubelet plugin with --mode controller everywhere")
}

/// A node of which nobody knows what it holds.
fn node_states(seen: &Seen) -> Check {
    let Some(states) = &seen.node_states else {
        let todo = "apply deploy/crds/nodestates.lanemate.dev.yaml";
        return Check::failed("NodeStates", "the kind is not served", todo);
    };
    let slices = seen.objects.slices.iter();
    let nodes: std::collections::BTreeSet<&str> =
        slices.filter_map(|slice| slice.spec.node_name.as_deref()).collect();
    let has = |node: &str| states.iter().any(|state| state.metadata.name.as_deref() == Some(node));
    let missing: Vec<String> =
        nodes.iter().filter(|node| !has(node)).map(|node| (*node).to_owned()).collect();
    if missing.is_empty() {
        return Check::ok("NodeStates", format!("published by {} of {0} nodes", nodes.len()));
    }
    let found = format!("none of {}", named(&missing));
    Check::failed("NodeStates", found, "look into the log of the kubelet plugin there")
}

/// Devices that two have.
fn contested(seen: &Seen) -> Check {
    let devices = super::devices::Devices::of(seen);
    let contested = devices.iter().filter(|(_, facts)| facts.claims.len() > 1);
    let words: Vec<String> = contested
        .map(|((_, pool, device), facts)| format!("{pool}/{device} ({})", facts.claims.join(", ")))
        .collect();
    if words.is_empty() {
        return Check::ok("Grants", "no device is in two claims");
    }
    let found = format!("in two claims: {}", named(&words));
    Check::failed("Grants", found, "see `lanemate explain` of the claims, and the controller's log")
}

/// Classes whose claims cannot be served.
fn classes(seen: &Seen) -> Check {
    let name =
        |class: &lanemate_api::ResourceClass| class.metadata.name.clone().unwrap_or_default();
    let is_ready = |class: &&lanemate_api::ResourceClass| {
        class.ready().is_some_and(|ready| {
            ready.status == "True" && ready.observed_generation == class.metadata.generation
        })
    };
    let all = &seen.objects.resource_classes;
    let broken: Vec<String> = all
        .iter()
        .filter(|class| !is_ready(class))
        .map(|class| match class.ready() {
            Some(ready) => format!("{} ({})", name(class), ready.reason),
            None => format!("{} (no condition yet)", name(class)),
        })
        .collect();
    if broken.is_empty() {
        return Check::ok("ResourceClasses", format!("{} of {0} ready", all.len()));
    }
    let found = format!("not ready: {}", named(&broken));
    Check::failed("ResourceClasses", found, "`kubectl describe resourceclass` tells what to mend")
}

/// The first few of a list.
fn named(list: &[String]) -> String {
    let first: Vec<&str> = list.iter().take(NAMED).map(String::as_str).collect();
    let more = list.len() - first.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", first.join(", "))
}
