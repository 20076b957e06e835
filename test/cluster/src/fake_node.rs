//! Nodes without a kubelet: Ready, with the devices of a captured machine.
//!
//! kube-scheduler binds pods to them, and there they stay Pending: a test says itself that they run or
//! have ended ([`crate::TestNamespace::set_phase`]). Nothing deletes such pods but a grace period of 0.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use anyhow::Context;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::api::resource::v1::ResourceSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use lanemate_api::node_state::{HeldClaim, NodeState, NodeStateStatus};
use lanemate_driver::inventory::Policy;
use lanemate_driver::machine::Machine;
use lanemate_driver::resource_slice::{Mode, RenderOptions, render};
use lanemate_driver::testing::facts;
use serde_json::{Value, json};

use crate::wait::until;

/// Puts the labels of a test on its nodes, and lets its pods ask for them.
pub const TEST_LABEL: &str = "lanemate-test/namespace";

/// What a node has room for, and how it is marked.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    pub cpu: String,
    pub memory: String,
    pub pods: u32,
    /// Beside `kubernetes.io/hostname` and `kubernetes.io/os`.
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
}

impl Default for NodeOptions {
    /// Room for whatever a test puts there.
    fn default() -> NodeOptions {
        NodeOptions {
            cpu: "64".to_owned(),
            memory: "512Gi".to_owned(),
            pods: 1000,
            labels: BTreeMap::new(),
            taints: Vec::new(),
        }
    }
}

impl NodeOptions {
    /// With a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> NodeOptions {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }
}

/// A node, deleted when dropped; its slices and its NodeState go with it.
pub struct FakeNode {
    client: Client,
    node: Node,
    generation: i64,
    kept: bool,
}

impl FakeNode {
    /// Creates it, and returns when kube-scheduler may use it.
    pub async fn create(
        client: Client,
        name: &str,
        options: &NodeOptions,
    ) -> anyhow::Result<FakeNode> {
        let nodes: Api<Node> = Api::all(client.clone());
        let node: Node = serde_json::from_value(object(name, options))?;
        let created = nodes.create(&PostParams::default(), &node).await;
        let node = created.with_context(|| format!("create node {name}"))?;
        let mut fake = FakeNode { client, node, generation: 0, kept: false };
        // Admission has marked it as not ready, and the node controller lifts that within seconds.
        let taints = json!({"spec": {"taints": options.taints}});
        nodes.patch(name, &PatchParams::default(), &Patch::Merge(taints)).await?;
        fake.node = until(&format!("node {name} to be free of marks"), async || {
            let node = nodes.get(name).await?;
            let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
            let marks: Vec<String> = taints
                .filter(|taint| taint.key.starts_with("node.kubernetes.io/"))
                .map(|taint| taint.key.clone())
                .collect();
            Ok(if marks.is_empty() { Ok(node) } else { Err(marks.join(", ")) })
        })
        .await?;
        Ok(fake)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.node.metadata.name.as_deref().unwrap_or_default()
    }

    /// Publishes the devices of a captured machine of `test/hosts`, as its plugin would, in place of
    /// what was published before.
    pub async fn publish(&mut self, host: &str, mode: Mode) -> anyhow::Result<Vec<ResourceSlice>> {
        let machine = Machine::from_facts(self.name(), facts(host), None, &Policy::default());
        let slices = render(&machine.inventory, RenderOptions { mode, generation: 0 });
        self.publish_slices(slices).await
    }

    /// Publishes slices in place of what was published before, in a new generation of their pool.
    /// They are changed as the plugin would: first those that are new or different, then those that
    /// are no more.
    pub async fn publish_slices(
        &mut self,
        slices: Vec<ResourceSlice>,
    ) -> anyhow::Result<Vec<ResourceSlice>> {
        self.generation += 1;
        let api: Api<ResourceSlice> = Api::all(self.client.clone());
        let of_node = ListParams::default().fields(&format!("spec.nodeName={}", self.name()));
        let before = api.list(&of_node).await.context("list the slices of a node")?.items;
        let mut published = Vec::new();
        for mut slice in slices {
            let name = slice.name_any();
            slice.spec.pool.generation = self.generation;
            slice.metadata.owner_references = Some(vec![self.owner()]);
            let old = before.iter().find(|old| old.name_any() == name);
            slice.metadata.resource_version = old.and_then(|old| old.resource_version());
            let params = PostParams::default();
            let written = match old {
                None => api.create(&params, &slice).await,
                Some(_) => api.replace(&name, &params, &slice).await,
            };
            published.push(written.with_context(|| format!("write slice {name}"))?);
        }
        let is_gone =
            |old: &&ResourceSlice| published.iter().all(|slice| slice.name_any() != old.name_any());
        for old in before.iter().filter(is_gone) {
            let deleted = api.delete(&old.name_any(), &DeleteParams::default()).await;
            deleted.with_context(|| format!("delete slice {}", old.name_any()))?;
        }
        Ok(published)
    }

    /// Publishes what the node holds, as its plugin would.
    pub async fn hold(&self, held: Vec<HeldClaim>) -> anyhow::Result<NodeState> {
        let api: Api<NodeState> = Api::all(self.client.clone());
        let mut state = NodeState::new(self.name(), NodeStateStatus { held });
        state.metadata.owner_references = Some(vec![self.owner()]);
        let before = api.get_opt(self.name()).await.context("read a NodeState")?;
        let params = PostParams::default();
        let written = match before {
            None => api.create(&params, &state).await,
            Some(before) => {
                state.metadata.resource_version = before.resource_version();
                api.replace(self.name(), &params, &state).await
            }
        };
        written.context("write a NodeState")
    }

    /// Leaves the node in the cluster.
    pub fn keep(mut self) {
        self.kept = true;
    }

    /// What makes an object go with the node.
    pub fn owner(&self) -> OwnerReference {
        self.node.owner_ref(&()).unwrap_or_default()
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // Its pods are collected with it.
        let deleted = Command::new("kubectl")
            .args(["delete", "node", self.name(), "--wait=false", "--ignore-not-found"])
            .stdout(Stdio::null())
            .status();
        if !deleted.as_ref().is_ok_and(std::process::ExitStatus::success) {
            eprintln!("delete node {}: {deleted:?}", self.name());
        }
    }
}

/// A node as kubelet registers it. Its heartbeat is never renewed: the controller manager of test
/// clusters waits a day for the next.
fn object(name: &str, options: &NodeOptions) -> Value {
    let room =
        json!({"cpu": options.cpu, "memory": options.memory, "pods": options.pods.to_string()});
    let mut labels = options.labels.clone();
    labels.insert("kubernetes.io/hostname".to_owned(), name.to_owned());
    labels.insert("kubernetes.io/os".to_owned(), "linux".to_owned());
    let ready =
        json!({"type": "Ready", "status": "True", "reason": "Fake", "message": "no kubelet"});
    json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": options.taints},
        "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
    })
}
