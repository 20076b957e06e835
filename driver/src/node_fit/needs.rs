//! What a pod needs of a node, read once.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, NodeSelector, Pod, PodSpec, Toleration, TopologySpreadConstraint, Volume,
};

use super::load::HostPort;
use super::requests::{self, Amounts};
use super::rules::{Labels, Spread, Term};
use super::{NodeWishes, Volumes};

/// The address that stands for all.
const EVERY_ADDRESS: &str = "0.0.0.0";

/// The scheduler whose rules are modelled.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// What a pod needs of a node, and what it is to other pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodNeeds {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.labels`.
    pub labels: Labels,
    /// It has a deletion timestamp.
    pub terminating: bool,
    /// Resources, rounded as kube-scheduler rounds; none is 0.
    pub requests: Amounts,
    /// Ports of the node.
    pub ports: Vec<HostPort>,
    /// Node that it is bound to.
    pub node_name: Option<String>,
    /// `spec.nodeSelector`.
    pub node_selector: BTreeMap<String, String>,
    /// Required node affinity.
    pub node_affinity: Option<NodeSelector>,
    /// `spec.tolerations`.
    pub tolerations: Vec<Toleration>,
    /// Required affinity to pods.
    pub affinity: Vec<Term>,
    /// Required anti-affinity to pods.
    pub anti_affinity: Vec<Term>,
    /// Spreading with DoNotSchedule.
    pub spread: Vec<Spread>,
    /// PersistentVolumeClaims that its volumes name.
    pub volume_claims: Vec<String>,
    /// A constraint in its spec that is not modelled.
    foreign: Option<String>,
}

impl PodNeeds {
    /// Reads a pod.
    pub fn of(pod: &Pod) -> Self {
        let meta = &pod.metadata;
        let mut needs = Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            labels: meta.labels.clone().unwrap_or_default(),
            terminating: meta.deletion_timestamp.is_some(),
            requests: requests::of_pod(pod),
            ..Self::default()
        };
        if let Some(spec) = &pod.spec {
            needs.read(spec);
        }
        needs
    }

    fn read(&mut self, spec: &PodSpec) {
        self.ports = host_ports(spec);
        self.node_name = spec.node_name.clone().filter(|name| !name.is_empty());
        self.node_selector = spec.node_selector.clone().unwrap_or_default();
        self.tolerations = spec.tolerations.clone().unwrap_or_default();
        if let Some(affinity) = &spec.affinity {
            self.node_affinity = affinity
                .node_affinity
                .as_ref()
                .and_then(|node| node.required_during_scheduling_ignored_during_execution.clone());
            let near = affinity.pod_affinity.iter().flat_map(|it| {
                it.required_during_scheduling_ignored_during_execution.iter().flatten()
            });
            self.affinity = near.map(|term| Term::of(term, &self.namespace)).collect();
            let far = affinity.pod_anti_affinity.iter().flat_map(|it| {
                it.required_during_scheduling_ignored_during_execution.iter().flatten()
            });
            self.anti_affinity = far.map(|term| Term::of(term, &self.namespace)).collect();
        }
        let constraints = spec.topology_spread_constraints.iter().flatten();
        let hard = |it: &TopologySpreadConstraint| Spread::of(it, &self.labels);
        self.spread = constraints.filter_map(hard).collect();
        let volumes = || spec.volumes.iter().flatten();
        let claims = volumes().filter_map(|volume| volume.persistent_volume_claim.as_ref());
        self.volume_claims = claims.map(|claim| claim.claim_name.clone()).collect();
        self.foreign = foreign(spec).or_else(|| volumes().find_map(foreign_volume));
    }

    /// The first constraint of the pod that is not modelled, for people: such a pod is not to be pinned. Limits of
    /// attached volumes per node are not looked at, and are no reason here.
    pub fn unmodelled(&self, volumes: &Volumes) -> Option<String> {
        self.foreign.clone().or_else(|| {
            self.volume_claims.iter().find_map(|claim| match volumes.get(&self.namespace, claim) {
                None => Some(format!("PersistentVolumeClaim {claim} is not bound to a volume")),
                Some(volume) if volume.read_write_once_pod => {
                    Some(format!("the volume of PersistentVolumeClaim {claim} is ReadWriteOncePod"))
                }
                Some(_) => None,
            })
        })
    }

    pub(super) fn node_wishes(&self) -> NodeWishes<'_> {
        NodeWishes {
            bound_to: self.node_name.as_deref(),
            selector: Some(&self.node_selector),
            affinity: self.node_affinity.as_ref(),
            tolerations: &self.tolerations,
        }
    }
}

/// Ports of containers and sidecars; a port of an init container that ends is not held.
fn host_ports(spec: &PodSpec) -> Vec<HostPort> {
    let sidecars = spec.init_containers.iter().flatten().filter(|it| requests::is_sidecar(it));
    let containers = spec.containers.iter().chain(sidecars);
    let ports = containers.flat_map(|container: &Container| container.ports.iter().flatten());
    let mut held: Vec<HostPort> = ports
        .filter_map(|port| {
            let number = port.host_port.filter(|number| *number > 0)?;
            let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
            Some(HostPort {
                port: number,
                protocol: filled(&port.protocol).unwrap_or_else(|| "TCP".to_owned()),
                ip: filled(&port.host_ip).filter(|ip| ip != EVERY_ADDRESS),
            })
        })
        .collect();
    held.sort();
    held.dedup();
    held
}

/// A constraint of the spec that is not modelled.
fn foreign(spec: &PodSpec) -> Option<String> {
    if let Some(other) = spec.scheduler_name.as_ref().filter(|name| *name != DEFAULT_SCHEDULER)
        && !other.is_empty()
    {
        return Some(format!("the pod is scheduled by {other}"));
    }
    spec.scheduling_group.as_ref().map(|_| "the pod is scheduled with a group".to_owned())
}

/// Volumes that make claims of their own, and disks that two pods of one node cannot share.
fn foreign_volume(volume: &Volume) -> Option<String> {
    let what = if volume.ephemeral.is_some() {
        "is made with the pod"
    } else if volume.gce_persistent_disk.is_some()
        || volume.aws_elastic_block_store.is_some()
        || volume.iscsi.is_some()
        || volume.rbd.is_some()
    {
        "is a disk that pods cannot share"
    } else {
        return None;
    };
    Some(format!("volume {} {what}", volume.name))
}
