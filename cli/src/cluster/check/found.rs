//! What the checks of objects look at: the cluster as decisions see it, and what was installed to make them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::{Api, Client};
use lanemate_api::names;
use lanemate_runtime::call::call;

use crate::cluster::devices::Devices;
use crate::cluster::leader::Leader;
use crate::cluster::read::{self, Seen, list};

/// Name of the DaemonSet of the kubelet plugin.
pub const PLUGIN: &str = "lanemate-kubelet-plugin";
/// Name of the Deployment of the controller.
pub const CONTROLLER: &str = "lanemate-controller";

/// What was read.
#[derive(Debug)]
pub struct Found {
    /// What decisions are about.
    pub seen: Seen,
    /// Our devices.
    pub devices: Devices,
    /// Slices of other drivers.
    pub foreign: Vec<ResourceSlice>,
    /// The DaemonSet of the kubelet plugin.
    pub plugin: Option<DaemonSet>,
    /// The Deployment of the controller.
    pub controller: Option<Deployment>,
    /// Who leads.
    pub leader: Leader,
    /// The namespace in which they are.
    pub system: String,
}

/// Reads it. Every list is bounded, and read in pages.
pub async fn found(client: &Client, system: &str, now: Timestamp) -> anyhow::Result<Found> {
    let slices = Api::<ResourceSlice>::all(client.clone());
    let of_others = format!("spec.driver!={}", names::DRIVER);
    let foreign = list(&slices, "ResourceSlices of other drivers", &of_others).await?;
    let sets = Api::<DaemonSet>::namespaced(client.clone(), system);
    let plugin = call(|| format!("get DaemonSet {system}/{PLUGIN}"), sets.get_opt(PLUGIN)).await?;
    let deployments = Api::<Deployment>::namespaced(client.clone(), system);
    let deed = || format!("get Deployment {system}/{CONTROLLER}");
    let controller = call(deed, deployments.get_opt(CONTROLLER)).await?;
    let seen = read::seen(client, system).await?;
    Ok(Found {
        devices: Devices::of(&seen),
        leader: Leader::of(seen.lease.as_ref(), now),
        seen,
        foreign,
        plugin,
        controller,
        system: system.to_owned(),
    })
}

impl Found {
    /// Our slices that are of one node, by node.
    pub fn slices_by_node(&self) -> BTreeMap<&str, Vec<&ResourceSlice>> {
        let mut by_node = BTreeMap::<&str, Vec<&ResourceSlice>>::new();
        for slice in &self.seen.objects.slices {
            if let Some(node) = &slice.spec.node_name {
                by_node.entry(node).or_default().push(slice);
            }
        }
        by_node
    }

    /// The nodes, by name.
    pub fn nodes(&self) -> BTreeMap<&str, &Node> {
        let nodes = self.seen.objects.nodes.iter();
        nodes.filter_map(|node| Some((node.metadata.name.as_deref()?, node))).collect()
    }

    /// Pods of the kubelet plugin that are not on their way out.
    pub fn plugin_pods(&self) -> Vec<&Pod> {
        self.pods_of("DaemonSet", |owner| owner == PLUGIN)
    }

    /// Pods of the controller that are not on their way out.
    pub fn controller_pods(&self) -> Vec<&Pod> {
        let is_ours =
            |owner: &str| owner.strip_prefix(CONTROLLER).is_some_and(|rest| rest.starts_with('-'));
        self.pods_of("ReplicaSet", is_ours)
    }

    /// Nodes that have a slice of ours or a pod of the plugin.
    pub fn nodes_with_plugin(&self) -> BTreeSet<&str> {
        let pods = self.plugin_pods().into_iter().filter_map(node_of);
        self.slices_by_node().into_keys().chain(pods).collect()
    }

    fn pods_of(&self, kind: &str, is_owner: impl Fn(&str) -> bool) -> Vec<&Pod> {
        let is_theirs = |pod: &&Pod| {
            let owners = pod.metadata.owner_references.iter().flatten();
            let mut owners = owners.filter(|owner| owner.kind == kind && is_owner(&owner.name));
            pod.metadata.namespace.as_deref() == Some(&self.system)
                && pod.metadata.deletion_timestamp.is_none()
                && owners.next().is_some()
        };
        self.seen.objects.pods.iter().filter(is_theirs).collect()
    }
}

/// The node that a pod was given.
pub fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}
