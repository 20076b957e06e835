//! Each right of `deploy/rbac/kubelet-plugin.yaml` is needed: a plugin that lacks one says which, at the deed.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceSlice};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use lanemate_api::node_state::NodeState;
use lanemate_test_cluster::{Allocation, Cluster, NODE, Right, Rights, TestNamespace, pod, until};
use serde_json::json;

use super::installed::{PAIR, Plugin, kubectl, slices};
use super::pods::{WAITS, create_pod, run_pod, until_none_is_held};

const ACCOUNT: (&str, &str) = ("lanemate-system", "lanemate-kubelet-plugin");
/// Devices that no machine has.
const ABSENT: (&str, &str) = ("gpu-0000-ff-00-0", "nic-0000-fe-00-0");

/// One right is gone, and a plugin runs without it.
struct Trial<'a> {
    cluster: &'a Cluster,
    namespace: &'a TestNamespace,
    plugin: Plugin,
    right: &'a Right,
    /// Length of the plugin's log before.
    since: usize,
    name: String,
}

#[tokio::test]
async fn every_right_of_the_plugin_is_needed_and_named_where_it_is_missing() -> anyhow::Result<()> {
    let cluster = Cluster::current().await?;
    let namespace = cluster.namespace_alone("needed").await?;
    let rights = Rights::apply(&cluster, "kubelet-plugin.yaml", ACCOUNT).await?;
    assert!(rights.all().len() > 10, "{:?}", rights.all());
    for (number, right) in rights.all().iter().enumerate() {
        let begun = std::time::Instant::now();
        // With the rights whole, so that there is something to change.
        let mut plugin = Plugin::start(&cluster).await?;
        until_published(&cluster).await?;
        plugin.kill()?;
        let taken = rights.take(right).await?;
        let since = plugin.log()?.len();
        let name = format!("needed-{number}");
        let (cluster, namespace) = (&cluster, &namespace);
        let mut trial = Trial { cluster, namespace, plugin, right, since, name };
        trial.run().await?;
        taken.give_back().await?;
        // Its plugin has the rights now that kubelet needs to be done with the pods.
        for pod in namespace.api::<Pod>().list(&ListParams::default()).await? {
            namespace.delete_pod(&pod.name_any()).await?;
        }
        println!("{right}: {:?}", begun.elapsed());
    }
    let _plugin = Plugin::start(&cluster).await?;
    until_none_is_held(&cluster).await
}

impl Trial<'_> {
    /// Does what needs the right, and waits until the plugin says that it lacks it.
    async fn run(&mut self) -> anyhow::Result<()> {
        match (self.right.verb.as_str(), self.right.resource.as_str()) {
            ("get", "resourceclaims") => {
                self.plugin.run().await?;
                create_pod(self.namespace, &self.name, PAIR).await?;
                self.told_of_the_pod(&self.name).await
            }
            ("get", "pods") => self.prepare_again().await,
            (_, "events") => {
                self.plugin.run().await?;
                create_pod(self.namespace, &self.name, ABSENT).await?;
                // kubelet tries again, and an equal event is counted.
                self.refused().await
            }
            ("create", resource @ ("resourceslices" | "nodestates")) => {
                kubectl(&["delete", resource, "--all"])?;
                self.plugin.spawn()?;
                self.refused().await
            }
            ("update", "resourceslices") => {
                let slices: Api<ResourceSlice> = Api::all(self.cluster.client());
                let name = self.a_slice().await?.name_any();
                let change = Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
                slices.patch(&name, &PatchParams::default(), &change).await?;
                self.plugin.spawn()?;
                self.refused().await
            }
            ("delete", "resourceslices") => {
                let slices: Api<ResourceSlice> = Api::all(self.cluster.client());
                let mut more = self.a_slice().await?;
                let owners = more.metadata.owner_references.take();
                more.metadata = Default::default();
                more.metadata.name = Some("no-longer-published".to_owned());
                more.metadata.owner_references = owners;
                slices.create(&PostParams::default(), &more).await?;
                self.plugin.spawn()?;
                self.refused().await
            }
            ("update", "nodestates") => {
                let states: Api<NodeState> = Api::all(self.cluster.client());
                let held = json!([{"claim": {"uid": "a"}, "state": "Prepared"}]);
                let change = Patch::Merge(json!({"status": {"held": held}}));
                states.patch(NODE, &PatchParams::default(), &change).await?;
                self.plugin.spawn()?;
                self.refused().await
            }
            _ => {
                self.plugin.spawn()?;
                self.refused().await
            }
        }
    }

    async fn a_slice(&self) -> anyhow::Result<ResourceSlice> {
        Ok(slices(self.cluster.client()).await?.remove(0))
    }

    async fn refused(&self) -> anyhow::Result<()> {
        let words = self.right.to_string();
        until(&format!("{words} in the log of the plugin"), async || {
            let log = self.plugin.log()?;
            // The quotes are quoted once or twice.
            let news = log[self.since..].replace('\\', "");
            let last = news.lines().last().unwrap_or_default().to_owned();
            Ok(if news.contains(&words) { Ok(()) } else { Err(last) })
        })
        .await
    }

    async fn told_of_the_pod(&self, pod: &str) -> anyhow::Result<()> {
        let words = self.right.to_string();
        let pod = ("Pod", pod);
        self.namespace.until_told(pod, "FailedPrepareDynamicResources", &[&words]).await
    }

    /// Who prepares a claim anew that was unprepared has to know whether its pod lives.
    async fn prepare_again(&mut self) -> anyhow::Result<()> {
        self.plugin.run().await?;
        run_pod(self.namespace, &self.name, PAIR).await?;
        self.namespace.delete_pod(&self.name).await?;
        let claims: Api<ResourceClaim> = self.namespace.api();
        until("the claim to be free", async || {
            let status = claims.get(&self.name).await?.status.unwrap_or_default();
            Ok(if status.allocation.is_none() { Ok(()) } else { Err("allocated".to_owned()) })
        })
        .await?;
        let next = format!("{}-next", self.name);
        let next = self.namespace.create_object(&pod(&next, WAITS, &[&self.name])?).await?;
        let grant = Allocation::default().grant("gpu", PAIR.0).grant("nic", PAIR.1);
        self.namespace.allocate(&self.name, &grant.reserved_for(&next)).await?;
        self.told_of_the_pod(&next.name_any()).await
    }
}

/// Waits until the node's slices and its NodeState are there, and nothing is left of an earlier trial.
async fn until_published(cluster: &Cluster) -> anyhow::Result<()> {
    let states: Api<NodeState> = Api::all(cluster.client());
    until("slices and NodeState of the node", async || {
        let found = slices(cluster.client()).await?;
        let names: Vec<String> = found.iter().map(ResourceExt::name_any).collect();
        let has_state = states.get_opt(NODE).await?.is_some();
        let is_whole = !names.is_empty() && !names.contains(&"no-longer-published".to_owned());
        Ok(if is_whole && has_state { Ok(()) } else { Err(format!("{names:?} {has_state}")) })
    })
    .await
}
