//! Admission policies: those in the cluster say what the shipped ones say.

use anyhow::Context;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use lanemate_runtime::call::call;
use serde_json::Value;

use lanemate_api::names;

use super::{Check, named};
use crate::cluster::read::list;
use crate::words::counted;

const FENCE: &str = include_str!("../../../../deploy/admission/fence.yaml");
const NODE_FENCE: &str = include_str!("../../../../deploy/admission/node-fence.yaml");
const GATE: &str = include_str!("../../../../deploy/admission/gate.yaml");

/// How a shipped object is in the cluster.
#[derive(Debug, PartialEq, Eq)]
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

/// The fence: who may write allocations.
pub async fn fence(client: &Client) -> anyhow::Result<Check> {
    let shipped = [objects(FENCE)?, objects(NODE_FENCE)?].concat();
    let mut wrong = Vec::new();
    for object in &shipped {
        wrong.extend(standing_in_words(client, object).await?);
    }
    if wrong.is_empty() {
        let found = format!("{} policies and bindings as shipped", shipped.len());
        return Ok(Check::ok("Fence", found));
    }
    let todo = "kubectl apply -f deploy/admission/fence.yaml -f deploy/admission/node-fence.yaml";
    Ok(Check::failed("Fence", named(&wrong), todo))
}

/// The gate: pods wait for the controller.
pub async fn gate(client: &Client) -> anyhow::Result<Check> {
    let namespaces = list(&Api::<Namespace>::all(client.clone()), "Namespaces", "").await?;
    let is_labelled = |namespace: &&Namespace| {
        let labels = namespace.metadata.labels.as_ref();
        labels
            .and_then(|labels| labels.get(names::PLACEMENT_LABEL))
            .is_some_and(|value| value == "enabled")
    };
    let labelled = namespaces.iter().filter(is_labelled).count();
    let mut wrong = Vec::new();
    for object in objects(GATE)? {
        wrong.extend(standing_in_words(client, &object).await?);
    }
    Ok(gate_check(labelled, &wrong))
}

pub(super) fn gate_check(labelled: usize, wrong: &[String]) -> Check {
    let todo = "kubectl apply -f deploy/admission/gate.yaml";
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
        (0, _) => Check::note("Gate", named(wrong), todo),
        (_, _) => Check::failed("Gate", named(wrong), todo),
    }
}

/// What is wrong with an object in the cluster; none where it says the same.
async fn standing_in_words(client: &Client, shipped: &Value) -> anyhow::Result<Option<String>> {
    let text = |pointer: &str| {
        shipped.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let (version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let kinds = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    let api = Api::<DynamicObject>::all_with(client.clone(), &kinds);
    let found = call(|| format!("get {kind} {name}"), api.get_opt(&name)).await?;
    let found = found.map(|object| object.data);
    let words = match standing(shipped, found.as_ref()) {
        Standing::Same => return Ok(None),
        Standing::Missing => "is not there".to_owned(),
        Standing::Differs(field) => format!("differs from the shipped one at {field}"),
    };
    Ok(Some(format!("{kind} {name} {words}")))
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
