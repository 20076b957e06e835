//! Pods: which wait for devices, what they need, and where they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeSelectorTerm, Pod, PodResourceClaim, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use lanemate_driver::node_fit::{HOSTNAME_LABEL, PodNeeds};

use crate::id::{Id, Key, Version};

/// What is known of a pod.
#[derive(Clone, Debug)]
pub struct PodFacts {
    /// Namespace, name and UID.
    pub id: Id,
    /// Its version.
    pub version: Version,
    /// `spec.priority`, 0 where absent.
    pub priority: i32,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// How far it is.
    pub stage: Stage,
    /// It is being deleted.
    pub deleting: bool,
    /// Names of its scheduling gates.
    pub gates: Vec<String>,
    /// Entries of `spec.resourceClaims`.
    pub claims: Vec<PodClaim>,
    /// A controller owns it, which makes it anew when it is deleted.
    pub is_owned: bool,
    /// The node that its required node affinity (`metadata.name`) or its hostname selector pins it to.
    pub pinned_to: Option<String>,
    /// What it needs of its node.
    pub needs: Arc<PodNeeds>,
    /// Why kube-scheduler cannot place it: the condition `PodScheduled` where it is false.
    pub unscheduled: Option<Unscheduled>,
    /// The pod without what no patch needs; only for a pod that has claims and no node yet.
    pub object: Option<Arc<Pod>>,
}

/// How far a pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It has no node yet.
    Waiting,
    /// `spec.nodeName`.
    Bound(String),
    /// It has succeeded or failed: it uses nothing any more.
    Finished,
}

/// One entry of `spec.resourceClaims`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodClaim {
    /// Its name within the pod.
    pub entry: String,
    /// The claim that it stands for.
    pub claim: ClaimName,
}

/// The claim of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimName {
    /// A claim that somebody made, by name in the pod's namespace.
    Named(String),
    /// The claim that kube-controller-manager made from a template for this pod alone.
    Made(String),
    /// It is still to be made from a template.
    ToBeMade,
    /// None was necessary, as the pod's status says.
    Unneeded,
}

/// Why a pod is not scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unscheduled {
    /// `Unschedulable`, `SchedulingGated`, `SchedulerError`.
    pub reason: String,
    /// kube-scheduler's words.
    pub message: String,
    /// Since when.
    pub since: Option<Timestamp>,
}

impl PodFacts {
    /// Reads a pod; none without name or UID.
    pub fn of(pod: &Pod) -> Option<Self> {
        let id = Id::of(&pod.metadata)?;
        let spec = pod.spec.as_ref();
        let stage = stage(pod);
        let claims = claims(pod);
        let is_kept = stage == Stage::Waiting && (!claims.is_empty() || has_gates(pod));
        Some(Self {
            version: Version::of(&pod.metadata),
            priority: spec.and_then(|spec| spec.priority).unwrap_or(0),
            created: pod.metadata.creation_timestamp.as_ref().map(|time| time.0),
            deleting: pod.metadata.deletion_timestamp.is_some(),
            gates: gates(pod),
            is_owned: owned(pod),
            pinned_to: spec.and_then(pinned_to),
            unscheduled: unscheduled(pod),
            needs: Arc::new(PodNeeds::of(pod)),
            object: is_kept.then(|| Arc::new(trimmed(pod))),
            stage,
            claims,
            id,
        })
    }

    /// The claims that it names and that were made.
    pub fn claim_keys(&self) -> impl Iterator<Item = Key> {
        let namespace = &self.id.key.namespace;
        self.claims.iter().filter_map(move |entry| match &entry.claim {
            ClaimName::Named(name) | ClaimName::Made(name) => {
                Some(Key { namespace: namespace.clone(), name: name.clone() })
            }
            ClaimName::ToBeMade | ClaimName::Unneeded => None,
        })
    }
}

fn stage(pod: &Pod) -> Stage {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return Stage::Finished;
    }
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    node.filter(|node| !node.is_empty()).map_or(Stage::Waiting, Stage::Bound)
}

fn gates(pod: &Pod) -> Vec<String> {
    let gates = pod.spec.iter().flat_map(|spec| spec.scheduling_gates.iter().flatten());
    gates.map(|gate| gate.name.clone()).collect()
}

fn has_gates(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.scheduling_gates.iter().flatten().next().is_some())
}

fn owned(pod: &Pod) -> bool {
    pod.metadata.owner_references.iter().flatten().any(|owner| owner.controller == Some(true))
}

fn claims(pod: &Pod) -> Vec<PodClaim> {
    let statuses =
        pod.status.iter().flat_map(|status| status.resource_claim_statuses.iter().flatten());
    let made: BTreeMap<&str, Option<&str>> =
        statuses.map(|made| (made.name.as_str(), made.resource_claim_name.as_deref())).collect();
    let entries = pod.spec.iter().flat_map(|spec| spec.resource_claims.iter().flatten());
    let name = |entry: &PodResourceClaim| match &entry.resource_claim_name {
        Some(name) => ClaimName::Named(name.clone()),
        None => match made.get(entry.name.as_str()) {
            Some(Some(name)) => ClaimName::Made((*name).to_owned()),
            Some(None) => ClaimName::Unneeded,
            None => ClaimName::ToBeMade,
        },
    };
    entries.map(|entry| PodClaim { entry: entry.name.clone(), claim: name(entry) }).collect()
}

/// A field `metadata.name` that every term demands, or else the hostname that the node selector does.
fn pinned_to(spec: &PodSpec) -> Option<String> {
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required =
        affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    let terms =
        required.map(|required| required.node_selector_terms.as_slice()).unwrap_or_default();
    let mut names = terms.iter().map(named_node);
    if let Some(Some(first)) = names.next()
        && names.all(|name| name == Some(first))
    {
        return Some(first.to_owned());
    }
    spec.node_selector.as_ref().and_then(|labels| labels.get(HOSTNAME_LABEL)).cloned()
}

fn named_node(term: &NodeSelectorTerm) -> Option<&str> {
    let fields = term.match_fields.iter().flatten();
    let mut named = fields.filter(|field| field.key == "metadata.name" && field.operator == "In");
    match named.next()?.values.as_deref()? {
        [only] => Some(only),
        _ => None,
    }
}

fn unscheduled(pod: &Pod) -> Option<Unscheduled> {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut scheduled = conditions.filter(|it| it.type_ == "PodScheduled" && it.status == "False");
    let condition = scheduled.next()?;
    Some(Unscheduled {
        reason: condition.reason.clone().unwrap_or_default(),
        message: condition.message.clone().unwrap_or_default(),
        since: condition.last_transition_time.as_ref().map(|time| time.0),
    })
}

/// What a patch of gate and affinity needs to see.
fn trimmed(pod: &Pod) -> Pod {
    let spec = pod.spec.as_ref().map(|spec| PodSpec {
        affinity: spec.affinity.clone(),
        node_selector: spec.node_selector.clone(),
        scheduling_gates: spec.scheduling_gates.clone(),
        ..PodSpec::default()
    });
    let metadata = ObjectMeta {
        name: pod.metadata.name.clone(),
        namespace: pod.metadata.namespace.clone(),
        uid: pod.metadata.uid.clone(),
        resource_version: pod.metadata.resource_version.clone(),
        ..ObjectMeta::default()
    };
    Pod { metadata, spec, status: None }
}
