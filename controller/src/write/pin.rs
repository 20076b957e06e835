//! What lets a pod go: the patch that takes our gate off, and binds the pod to the node of its devices.

use k8s_openapi::api::core::v1::{NodeSelectorTerm, Pod};
use lanemate_api::names;
use serde_json::{Value, json};

use crate::id::{Id, Version};

/// The scheduling gate of pods that wait for a place.
pub const GATE: &str = names::PLACEMENT_GATE;
/// The annotation that says what a pod has got.
pub const ASSIGNMENT: &str = names::DEVICE_ASSIGNMENT_ANNOTATION;
/// The only field that a term can match by `matchFields` (core/v1, NodeSelectorTerm).
const NAME_FIELD: &str = "metadata.name";

/// Why there is no patch.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// Nothing to take off.
    #[error("pod {pod} has no gate {GATE}: expected it to wait for a place")]
    NoGate {
        /// Namespace and name.
        pod: String,
    },
    /// It matches no node, and terms can neither be added nor filled.
    #[error("pod {pod} requires node affinity with empty terms alone, which match no node")]
    NoTerm {
        /// Namespace and name.
        pod: String,
    },
}

/// The strategic merge patch that takes our gate off a placed pod, and with a node pins it there.
///
/// # Errors
/// When the pod has no gate of ours, or no node can be right for it.
pub fn release(
    pod: &Pod,
    id: &Id,
    node: Option<&str>,
    assignment: &str,
) -> Result<Value, PinError> {
    if !has_gate(pod) {
        return Err(PinError::NoGate { pod: id.to_string() });
    }
    let mut patch = ungate(id, &Version::of(&pod.metadata));
    patch["metadata"]["annotations"] = json!({ ASSIGNMENT: assignment });
    if let Some(node) = node {
        let terms = pinned(&terms(pod), node);
        let terms = terms.ok_or_else(|| PinError::NoTerm { pod: id.to_string() })?;
        let required = json!({ "nodeSelectorTerms": terms });
        let affinity = json!({ "requiredDuringSchedulingIgnoredDuringExecution": required });
        patch["spec"]["affinity"] = json!({ "nodeAffinity": affinity });
    }
    Ok(patch)
}

/// The strategic merge patch that takes our gate off and leaves those of others: a null would take all.
pub fn ungate(pod: &Id, version: &Version) -> Value {
    json!({
        "metadata": { "uid": pod.uid.0, "resourceVersion": version.0 },
        "spec": { "schedulingGates": [{ "$patch": "delete", "name": GATE }] },
    })
}

/// True for a pod that waits for us.
pub fn has_gate(pod: &Pod) -> bool {
    let gates = pod.spec.iter().flat_map(|spec| spec.scheduling_gates.iter().flatten());
    gates.into_iter().any(|gate| gate.name == GATE)
}

/// The terms of the required node affinity, of which one must match.
fn terms(pod: &Pod) -> Vec<NodeSelectorTerm> {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let affinity = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
    let required =
        affinity.and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
    required.map(|required| required.node_selector_terms.clone()).unwrap_or_default()
}

/// All terms again, since the list is replaced as a whole, and its length may not change: each that can match a node
/// then matches none but this. An empty term matches none already, and may not be filled.
fn pinned(terms: &[NodeSelectorTerm], node: &str) -> Option<Vec<Value>> {
    let requirement = json!({ "key": NAME_FIELD, "operator": "In", "values": [node] });
    if terms.is_empty() {
        return Some(vec![json!({ "matchFields": [requirement] })]);
    }
    let is_empty = |term: &NodeSelectorTerm| {
        term.match_expressions.iter().flatten().next().is_none()
            && term.match_fields.iter().flatten().next().is_none()
    };
    if terms.iter().all(is_empty) {
        return None;
    }
    let pinned = |term: &NodeSelectorTerm| {
        let mut expressions =
            json!({ "matchFields": term.match_fields.clone().unwrap_or_default() });
        if let Some(list) = term.match_expressions.as_ref().filter(|list| !list.is_empty()) {
            expressions["matchExpressions"] = json!(list);
        }
        if let Value::Array(fields) = &mut expressions["matchFields"]
            && !fields.contains(&requirement)
        {
            fields.push(requirement.clone());
        }
        expressions
    };
    Some(terms.iter().map(|term| if is_empty(term) { json!({}) } else { pinned(term) }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(spec: Value) -> (Pod, Id) {
        let metadata =
            json!({"namespace": "ml", "name": "p", "uid": "u-1", "resourceVersion": "7"});
        let pod: Pod =
            serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap();
        let id = Id::of(&pod.metadata).unwrap();
        (pod, id)
    }

    fn gated(terms: Option<Value>) -> Value {
        let mut spec =
            json!({"containers": [], "schedulingGates": [{"name": "other"}, {"name": GATE}]});
        if let Some(terms) = terms {
            spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                json!({ "nodeSelectorTerms": terms });
        }
        spec
    }

    /// The terms that a pod with these is pinned by.
    fn check(terms: Option<Value>, expect: Value) {
        let (pod, id) = pod(gated(terms));
        let patch = release(&pod, &id, Some("n1"), "[]").unwrap();
        let path = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
        assert_eq!(patch.pointer(path).unwrap()["nodeSelectorTerms"], expect);
    }

    fn name_is(name: &str) -> Value {
        json!({"key": "metadata.name", "operator": "In", "values": [name]})
    }

    #[test]
    fn every_term_that_matches_a_node_matches_ours_alone() {
        let zone = json!({"key": "zone", "operator": "In", "values": ["a"]});
        let disk = json!({"key": "disk", "operator": "Exists"});
        check(None, json!([{"matchFields": [name_is("n1")]}]));
        check(
            Some(json!([{"matchExpressions": [zone]}, {"matchExpressions": [disk]}])),
            json!([
                {"matchFields": [name_is("n1")], "matchExpressions": [zone]},
                {"matchFields": [name_is("n1")], "matchExpressions": [disk]},
            ]),
        );
        // An empty one stays: it matches nothing, and the API server refuses to see it filled.
        check(
            Some(json!([{}, {"matchExpressions": [zone]}])),
            json!([{}, {"matchFields": [name_is("n1")], "matchExpressions": [zone]}]),
        );
        let others = name_is("n2");
        check(
            Some(json!([{"matchFields": [others]}, {"matchFields": [name_is("n1")]}])),
            json!([{"matchFields": [others, name_is("n1")]}, {"matchFields": [name_is("n1")]}]),
        );
    }

    #[test]
    fn our_gate_goes_by_name_and_the_patch_is_for_one_version_of_one_pod() {
        let (pod, id) = pod(gated(None));
        let patch = release(&pod, &id, None, "[\"a\"]").unwrap();
        let expect = json!({
            "metadata": {"uid": "u-1", "resourceVersion": "7",
                "annotations": {"lanemate.dev/device-assignment": "[\"a\"]"}},
            "spec": {"schedulingGates": [{"$patch": "delete", "name": "lanemate.dev/placement"}]},
        });
        assert_eq!(patch, expect);
    }

    #[test]
    fn a_pod_without_our_gate_or_with_empty_terms_alone_has_no_patch() {
        let (ungated, id) = pod(json!({"containers": [], "schedulingGates": [{"name": "other"}]}));
        let error = release(&ungated, &id, Some("n1"), "").unwrap_err();
        assert_eq!(error, PinError::NoGate { pod: "ml/p".to_owned() });
        let (empty, id) = pod(gated(Some(json!([{}, {}]))));
        let error = release(&empty, &id, Some("n1"), "").unwrap_err();
        assert_eq!(error, PinError::NoTerm { pod: "ml/p".to_owned() });
        assert!(release(&empty, &id, None, "").is_ok());
    }
}
