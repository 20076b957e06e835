//! Admission policies: those in the cluster say what the shipped ones say.

use anyhow::Context;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use lanemate_runtime::call::call;
use serde_json::Value;

use lanemate_api::names;

use super::{Check, named};
use crate::args::Mode;
use crate::cluster::read::list;
use crate::words::counted;

const FENCE: &str = include_str!("../../../../deploy/admission/fence.yaml");
const NODE_FENCE: &str = include_str!("../../../../deploy/admission/node-fence.yaml");
const GATE: &str = include_str!("../../../../deploy/admission/gate.yaml");

/// The namespace of the shipped manifests.
const SHIPPED_FOR: &str = "lanemate-system";

/// A shipped manifest for another namespace.
pub fn in_namespace(text: &str, system: &str) -> String {
    text.replace(SHIPPED_FOR, system)
}

/// How to apply shipped files.
pub fn apply(files: &[&str], system: &str) -> String {
    if system == SHIPPED_FOR {
        let files: Vec<String> = files.iter().map(|file| format!("-f {file}")).collect();
        return format!("kubectl apply {}", files.join(" "));
    }
    format!("sed -s 's/{SHIPPED_FOR}/{system}/' {} | kubectl apply -f -", files.join(" "))
}

/// How a shipped object is in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It says the same.
    Same,
    /// It is not there.
    Missing,
    /// It says something else; the first field that does.
    Differs(String),
}

/// The objects of a manifest.
pub fn objects(text: &str) -> anyhow::Result<Vec<Value>> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text).context("read a shipped manifest")?;
    Ok(all.into_iter().filter(|object| !object.is_null()).collect())
}

/// The fence: who may write allocations, and which node a plugin may write of.
pub async fn fence(client: &Client, system: &str, mode: Mode) -> anyhow::Result<Check> {
    let of_claims = compared(client, &in_namespace(FENCE, system)).await?;
    let of_nodes = compared(client, &in_namespace(NODE_FENCE, system)).await?;
    Ok(match mode {
        Mode::Controller => fence_check(system, &[of_claims, of_nodes].concat()),
        Mode::Scheduler => no_fence_check(system, &of_claims, &of_nodes),
    })
}

pub(super) fn fence_check(system: &str, all: &[Compared]) -> Check {
    let wrong = wrong(all);
    if wrong.is_empty() {
        return Check::ok("Fence", format!("{} policies and bindings as shipped", all.len()));
    }
    let files = ["deploy/admission/fence.yaml", "deploy/admission/node-fence.yaml"];
    Check::failed("Fence", named(&wrong), apply(&files, system))
}

/// Where kube-scheduler allocates, the fence would keep it from that; the part about nodes is good in both modes.
pub(super) fn no_fence_check(system: &str, of_claims: &[Compared], of_nodes: &[Compared]) -> Check {
    let present: Vec<String> = present(of_claims);
    if !present.is_empty() {
        let found = format!("kube-scheduler is kept from allocating by {}", named(&present));
        return Check::failed("Fence", found, "kubectl delete -f deploy/admission/fence.yaml");
    }
    let wrong = wrong(of_nodes);
    if wrong.is_empty() {
        let found =
            "mode scheduler: kube-scheduler may allocate, and plugins write of their node alone";
        return Check::ok("Fence", found);
    }
    let found = format!("mode scheduler: kube-scheduler may allocate; {}", named(&wrong));
    let todo = apply(&["deploy/admission/node-fence.yaml"], system);
    Check::note("Fence", found, &format!("{todo}; without it the token of one node writes of all"))
}

/// The gate: pods wait for the controller.
pub async fn gate(client: &Client, system: &str, mode: Mode) -> anyhow::Result<Check> {
    let namespaces = list(&Api::<Namespace>::all(client.clone()), "Namespaces", "").await?;
    let is_labelled = |namespace: &&Namespace| {
        let labels = namespace.metadata.labels.as_ref();
        labels
            .and_then(|labels| labels.get(names::PLACEMENT_LABEL))
            .is_some_and(|value| value == "enabled")
    };
    let labelled = namespaces.iter().filter(is_labelled).count();
    let gate = compared(client, &in_namespace(GATE, system)).await?;
    Ok(match mode {
        Mode::Controller => gate_check(labelled, &wrong(&gate), system),
        Mode::Scheduler => no_gate_check(labelled, &present(&gate)),
    })
}

pub(super) fn gate_check(labelled: usize, wrong: &[String], system: &str) -> Check {
    let todo = apply(&["deploy/admission/gate.yaml"], system);
    match (labelled, wrong) {
        (0, []) => Check::note(
            "Gate",
            "as shipped, but no namespace is under it",
            "kubectl label namespace NAME lanemate.dev/placement=enabled; without the gate pods \
             are not pinned, and may wait longer",
        ),
        (_, []) => {
            Check::ok("Gate", format!("as shipped, over {}", counted(labelled, "namespace")))
        }
        (0, _) => Check::note("Gate", named(wrong), &todo),
        (_, _) => Check::failed("Gate", named(wrong), todo),
    }
}

/// Where no controller is, nobody lets the pods go that the gate holds.
pub(super) fn no_gate_check(labelled: usize, present: &[String]) -> Check {
    if labelled == 0 || present.is_empty() {
        return Check::ok("Gate", "mode scheduler: no pod waits at it");
    }
    let found =
        format!("pods of {} wait for a controller for ever", counted(labelled, "namespace"));
    Check::failed("Gate", found, "kubectl delete -f deploy/admission/gate.yaml")
}

/// A shipped object, and how it is in the cluster.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Kind and name.
    pub object: String,
    /// How it is.
    pub standing: Standing,
}

/// What is wrong with those that do not say the same.
fn wrong(all: &[Compared]) -> Vec<String> {
    let words = all.iter().filter_map(|Compared { object, standing }| match standing {
        Standing::Same => None,
        Standing::Missing => Some(format!("{object} is not there")),
        Standing::Differs(field) => {
            Some(format!("{object} differs from the shipped one at {field}"))
        }
    });
    words.collect()
}

/// Those that are there.
fn present(all: &[Compared]) -> Vec<String> {
    let present = all.iter().filter(|compared| compared.standing != Standing::Missing);
    present.map(|compared| compared.object.clone()).collect()
}

async fn compared(client: &Client, manifest: &str) -> anyhow::Result<Vec<Compared>> {
    let mut all = Vec::new();
    for shipped in objects(manifest)? {
        let text = |pointer: &str| {
            shipped.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
        let (group, version) = version.split_once('/').unwrap_or(("", &version));
        let kinds = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
        let api = Api::<DynamicObject>::all_with(client.clone(), &kinds);
        let found = call(|| format!("get {kind} {name}"), api.get_opt(&name)).await?;
        let standing = standing(&shipped, found.map(|object| object.data).as_ref());
        all.push(Compared { object: format!("{kind} {name}"), standing });
    }
    Ok(all)
}

/// Compares the specifications: every shipped field has to be there. What the server adds is not compared, except in
/// lists: an entry more is another policy.
pub fn standing(shipped: &Value, found: Option<&Value>) -> Standing {
    let Some(found) = found else { return Standing::Missing };
    let (shipped, found) = (&shipped["spec"], &found["spec"]);
    match difference("spec", shipped, found) {
        Some(field) => Standing::Differs(field),
        None => Standing::Same,
    }
}

/// The path of the first field that is not as shipped.
fn difference(path: &str, shipped: &Value, found: &Value) -> Option<String> {
    match (shipped, found) {
        (Value::Object(shipped), Value::Object(found)) => {
            shipped.iter().find_map(|(name, value)| {
                let path = format!("{path}.{name}");
                match found.get(name) {
                    Some(found) => difference(&path, value, found),
                    None => Some(path),
                }
            })
        }
        (Value::Array(shipped), Value::Array(found)) if shipped.len() == found.len() => {
            let mut pairs = shipped.iter().zip(found).enumerate();
            pairs.find_map(|(index, (shipped, found))| {
                difference(&format!("{path}[{index}]"), shipped, found)
            })
        }
        // The server trims nothing, but YAML's folded texts may end in a line feed.
        (Value::String(shipped), Value::String(found)) if shipped.trim() == found.trim() => None,
        (shipped, found) if shipped == found => None,
        _ => Some(path.to_owned()),
    }
}
