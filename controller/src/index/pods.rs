//! Pods: which wait for devices, what they need, and where they are.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use crate::id::{Id, Version};

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
