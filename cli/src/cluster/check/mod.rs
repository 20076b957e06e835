//! `check`: is the cluster set up right, and if not, what to do.

mod found;
mod mode;
mod policies;
mod pools;
mod probes;
mod programs;
mod rights;
mod rivals;
pub mod table;
mod trial;
mod versions;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use anyhow::anyhow;
use jiff::Timestamp;
use k8s_openapi::api::resource::v1::DeviceClass;
use kube::Client;
use lanemate_api::{ResourceClass, names};
use lanemate_runtime::call::CallError;
use serde::Serialize;

use self::found::Found;
use super::args::CheckArgs;
use super::read;
use crate::args::Mode;

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
        let (found, todo) = match error.downcast_ref() {
            Some(CallError::Forbidden { message, .. }) => {
                (message.clone(), "ask with the rights of an administrator")
            }
            _ => (format!("{error:#}"), "mend the connection, or ask again"),
        };
        Check::failed(name, format!("cannot be told: {found}"), todo)
    })
}

/// Looks at everything, from causes to consequences. The first is whether the cluster answers at all, and whether it is
/// one in which anything of ours works.
pub async fn checks(args: &CheckArgs, now: Timestamp) -> anyhow::Result<Vec<Check>> {
    let client = read::client(&args.cluster).await?;
    let (version, words) = probes::version(&client)
        .await
        .map_err(|error| anyhow!("{error:#}; nothing else was looked at"))?;
    let Some(version) = version.filter(|version| *version >= versions::FIRST) else {
        return Ok(vec![versions::too_old(&words), rest()]);
    };
    let api = told("API", probes::api(&client).await);
    if api.is_failed() {
        return Ok(vec![Check::ok("Kubernetes", words), api, rest()]);
    }
    let system = &args.cluster.system_namespace;
    let found = found::found(&client, system, now).await;
    let (mode, of_mode) = match &found {
        Ok(found) => mode::mode(args.mode, found, version),
        Err(_) => mode::unread(args.mode, version),
    };
    let mut checks = vec![versions::server(version, &words, mode), api, of_mode];
    checks.extend(of_server(&client, system, mode).await);
    match found {
        Ok(found) => checks.extend(of(&found, mode)),
        Err(error) => checks.push(told("Objects", Err(error))),
    }
    Ok(checks)
}

/// Stands for the checks that are pointless after one that failed.
fn rest() -> Check {
    Check::note("Others", "not looked at", "mend this first, then check again")
}

/// What the API server is asked.
async fn of_server(client: &Client, system: &str, mode: Mode) -> Vec<Check> {
    let mut checks = vec![told("Definitions", probes::definitions(client, mode).await)];
    if mode == Mode::Controller {
        checks.push(told("Taints", probes::taints(client).await));
    }
    checks.push(told("Fence", policies::fence(client, system, mode).await));
    checks.push(told("Gate", policies::gate(client, system, mode).await));
    let mut accounts = vec![&rights::PLUGIN];
    if mode == Mode::Controller {
        checks.push(told("Releases", probes::releases(client).await));
        accounts.insert(0, &rights::CONTROLLER);
    }
    for account in accounts {
        checks.push(told(account.check, rights::of_account(client, account, system).await));
    }
    checks
}

/// What the objects say. Without any slice there is nothing to say of slices.
fn of(found: &Found, mode: Mode) -> Vec<Check> {
    let has_slices = !found.seen.objects.slices.is_empty();
    let of_slices = |check: fn(&Found) -> Check| has_slices.then(|| check(found));
    let checks = [
        Some(device_classes(&found.seen.objects.device_classes)),
        versions::shipped(found),
        versions::kubelets(found),
        Some(programs::plugin(found)),
        Some(pools::machines(found)),
        of_slices(pools::pools),
        Some(pools::devices(found)),
        of_slices(node_states),
        of_slices(rivals::drivers),
        of_slices(rivals::device_plugins),
        Some(programs::controller(found, mode)),
        Some(classes(found, mode)),
        Some(contested(found)),
        trial::trial(found, mode).unwrap_or_else(|error| Some(told("Trial", Err(error)))),
    ];
    checks.into_iter().flatten().collect()
}

/// The classes that claims for a GPU or a NIC name.
fn device_classes(all: &[DeviceClass]) -> Check {
    let is_there =
        |name: &&str| all.iter().any(|class| class.metadata.name.as_deref() == Some(name));
    let missing: Vec<String> = [names::GPU_CLASS, names::NIC_CLASS]
        .iter()
        .filter(|name| !is_there(name))
        .map(|name| (*name).to_owned())
        .collect();
    if missing.is_empty() {
        let found = format!("{} and {} are there", names::GPU_CLASS, names::NIC_CLASS);
        return Check::ok("DeviceClasses", found);
    }
    let found = format!("not there: {}", named(&missing));
    Check::failed("DeviceClasses", found, "kubectl apply -f deploy/deviceclasses.yaml")
}

/// A node of which nobody knows what it holds.
fn node_states(found: &Found) -> Check {
    let Some(states) = &found.seen.node_states else {
        let todo = "apply deploy/crds/nodestates.lanemate.dev.yaml";
        return Check::failed("NodeStates", "the kind is not served", todo);
    };
    let states: BTreeSet<&str> =
        states.iter().filter_map(|state| state.metadata.name.as_deref()).collect();
    let nodes = found.slices_by_node();
    let missing: Vec<String> = nodes
        .keys()
        .filter(|node| !states.contains(*node))
        .map(|node| (*node).to_owned())
        .collect();
    if missing.is_empty() {
        return Check::ok("NodeStates", format!("published by {} of {0} nodes", nodes.len()));
    }
    let words = format!("none of {}", named(&missing));
    Check::failed("NodeStates", words, "look into the log of the kubelet plugin there")
}

/// Devices that two have.
fn contested(found: &Found) -> Check {
    let contested = found.devices.iter().filter(|(_, facts)| facts.claims.len() > 1);
    let words: Vec<String> = contested
        .map(|((_, pool, device), facts)| format!("{pool}/{device} ({})", facts.claims.join(", ")))
        .collect();
    if words.is_empty() {
        return Check::ok("Grants", "no device is in two claims");
    }
    let words = format!("in two claims: {}", named(&words));
    Check::failed("Grants", words, "see `lanemate explain` of the claims, and the controller's log")
}

/// Classes whose claims cannot be served.
fn classes(found: &Found, mode: Mode) -> Check {
    let name = |class: &ResourceClass| class.metadata.name.clone().unwrap_or_default();
    let all = &found.seen.objects.resource_classes;
    if mode == Mode::Scheduler {
        return match all.as_slice() {
            [] => Check::ok("ResourceClasses", "mode scheduler: none is needed"),
            all => Check::note(
                "ResourceClasses",
                format!(
                    "{} that nobody serves: {}",
                    all.len(),
                    named(&all.iter().map(name).collect::<Vec<_>>())
                ),
                "claims for them never fit in mode scheduler: run the controller, or delete them",
            ),
        };
    }
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
    let words = format!("not ready: {}", named(&broken));
    Check::failed("ResourceClasses", words, "`kubectl describe resourceclass` tells what to mend")
}

/// The controller has compiled the class as it is now.
fn is_ready(class: &ResourceClass) -> bool {
    class.ready().is_some_and(|ready| {
        ready.status == "True" && ready.observed_generation == class.metadata.generation
    })
}

/// The first few of a list.
fn named(list: &[String]) -> String {
    listed(list, ", ")
}

/// The first few of a list, with what stands between them.
fn listed(list: &[String], between: &str) -> String {
    let first: Vec<&str> = list.iter().take(NAMED).map(String::as_str).collect();
    let more = list.len() - first.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", first.join(between))
}
