//! A cluster of fake nodes for one test that runs alone, with a controller, and words for what happens there.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::resource::v1::{AllocationResult, ResourceClaim, ResourceClaimTemplate};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use lanemate_api::ResourceClass;
use lanemate_driver::resource_slice::Mode;
use lanemate_test_cluster::{Cluster, FakeNode, NodeOptions, TestNamespace, until};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::ground::allocated;
use lanemate_test_cluster::controller::{Controller, Start, kubeconfig, logged};

/// Our scheduling gate.
pub const GATE: &str = "lanemate.dev/placement";
/// The finalizer of allocated claims.
pub const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// A unit of a GPU and an RDMA NIC.
pub const PAIR: &str = "gpu-rdma-pair";

/// Where one test stands, while no other runs.
pub struct Scene {
    /// First, so that it ends before what it works on.
    pub controller: Option<Controller>,
    pub start: Start,
    kills: usize,
    pub nodes: Vec<FakeNode>,
    pub namespace: TestNamespace,
    pub cluster: Cluster,
    _directory: TempDir,
}

/// What a pod has got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    pub node: String,
    /// Devices by claim.
    pub devices: BTreeMap<String, Vec<String>>,
}

impl Scene {
    /// Nodes with the devices of captured machines, one per name, and a controller at work.
    pub async fn new(test: &str, hosts: &[&str]) -> anyhow::Result<Scene> {
        let mut scene = Scene::without_controller(test, hosts, Mode::Controller).await?;
        scene.start_controller().await?;
        Ok(scene)
    }

    /// The same before any controller is started.
    pub async fn without_controller(
        test: &str,
        hosts: &[&str],
        mode: Mode,
    ) -> anyhow::Result<Scene> {
        let cluster = Cluster::current().await?;
        let namespace = cluster.namespace_alone(test).await?;
        let directory = tempfile::tempdir()?;
        let start = Start {
            lease: namespace.name().to_owned(),
            lease_seconds: 15,
            kubeconfig: kubeconfig(&cluster, directory.path()).await?,
        };
        let mut scene = Scene {
            controller: None,
            start,
            kills: 0,
            nodes: Vec::new(),
            namespace,
            cluster,
            _directory: directory,
        };
        scene.apply_class().await?;
        for host in hosts {
            scene.add_node(host, mode, &NodeOptions::default()).await?;
        }
        Ok(scene)
    }

    /// Adds a node; its name.
    pub async fn add_node(
        &mut self,
        host: &str,
        mode: Mode,
        options: &NodeOptions,
    ) -> anyhow::Result<String> {
        let name = format!("{}-{}", self.namespace.name(), self.nodes.len());
        self.add_named_node(&name, host, mode, options).await?;
        Ok(name)
    }

    /// Adds a node of a name.
    pub async fn add_named_node(
        &mut self,
        name: &str,
        host: &str,
        mode: Mode,
        options: &NodeOptions,
    ) -> anyhow::Result<()> {
        let mut node = FakeNode::create(self.cluster.client(), name, options).await?;
        node.publish(host, mode).await?;
        self.nodes.push(node);
        Ok(())
    }

    /// Starts a controller, and returns when it plans.
    pub async fn start_controller(&mut self) -> anyhow::Result<()> {
        let name = self.namespace.name().to_owned();
        let since = logged(&self.cluster, &name);
        let mut controller = Controller::spawn(&self.cluster, &name, &self.start)?;
        controller.until_working(since).await?;
        self.controller = Some(controller);
        // Claims of the class are refused before it is compiled.
        self.until_compiled().await
    }

    /// Kills the controller. The next one has a lease of its own, and need not wait.
    pub fn kill_controller(&mut self) {
        self.controller = None;
        self.kills += 1;
        self.start.lease = format!("{}-{}", self.namespace.name(), self.kills);
    }

    /// The class stays for other tests: it is the same for all.
    async fn apply_class(&self) -> anyhow::Result<()> {
        let class: ResourceClass = serde_json::from_value(json!({
            "apiVersion": "lanemate.dev/v1alpha1", "kind": "ResourceClass",
            "metadata": {"name": PAIR},
            "spec": {"members": [
                {"name": "gpu", "deviceClassName": "gpu.lanemate.dev"},
                {"name": "nic", "deviceClassName": "nic.lanemate.dev"},
            ]},
        }))?;
        let api: Api<ResourceClass> = Api::all(self.cluster.client());
        match api.create(&PostParams::default(), &class).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            created => created.map(drop).context("create the class"),
        }
    }

    async fn until_compiled(&self) -> anyhow::Result<()> {
        let classes: Api<k8s_openapi::api::resource::v1::DeviceClass> =
            Api::all(self.cluster.client());
        until("the class to be compiled", async || {
            Ok(classes.get_opt(PAIR).await?.map(drop).ok_or_else(|| "absent".to_owned()))
        })
        .await
    }

    /// Creates a claim of some requests.
    pub async fn claim(&self, name: &str, requests: Value) -> anyhow::Result<ResourceClaim> {
        self.claim_with(name, json!({"requests": requests})).await
    }

    /// Creates a claim of `spec.devices`.
    pub async fn claim_with(&self, name: &str, devices: Value) -> anyhow::Result<ResourceClaim> {
        let claim = json!({"metadata": {"name": name}, "spec": {"devices": devices}});
        self.namespace.create_object(&serde_json::from_value::<ResourceClaim>(claim)?).await
    }

    /// Creates a template of claims.
    pub async fn template(&self, name: &str, requests: Value) -> anyhow::Result<()> {
        let template = json!({
            "metadata": {"name": name}, "spec": {"spec": {"devices": {"requests": requests}}},
        });
        let template: ResourceClaimTemplate = serde_json::from_value(template)?;
        self.namespace.create_object(&template).await.map(drop)
    }

    /// Creates a pod with our gate.
    pub async fn pod(&self, name: &str, claims: &[&str]) -> anyhow::Result<Pod> {
        self.pod_with(name, claims, json!({"schedulingGates": [{"name": GATE}]})).await
    }

    /// Creates a pod with these fields of its `spec`. A claim that begins with `@` is made from that template.
    pub async fn pod_with(&self, name: &str, claims: &[&str], spec: Value) -> anyhow::Result<Pod> {
        self.namespace.create_object(&pod_with(name, claims, spec)?).await
    }

    /// The claims of the namespace.
    pub fn claims(&self) -> Api<ResourceClaim> {
        self.namespace.api()
    }

    /// The pods of the namespace.
    pub fn pods(&self) -> Api<Pod> {
        self.namespace.api()
    }

    /// Waits until a pod is bound; what it has got, each claim for the node of the pod.
    pub async fn placed(&self, pod: &str) -> anyhow::Result<Placed> {
        let node = self.namespace.pod_bound(pod).await?;
        let pod = self.pods().get(pod).await?;
        let mut devices = BTreeMap::new();
        for claim in claim_names(&pod) {
            let found = self.claims().get(&claim).await?;
            let allocation = allocation(&found).with_context(|| format!("{claim}: allocated"))?;
            anyhow::ensure!(node_of(allocation) == Some(&node), "{claim} is not for node {node}");
            devices.insert(claim, devices_of(allocation));
        }
        Ok(Placed { node, devices })
    }

    /// Waits until a claim has an allocation.
    pub async fn granted(&self, claim: &str) -> anyhow::Result<ResourceClaim> {
        until(&format!("claim {claim} to be allocated"), async || {
            let found = self.claims().get(claim).await?;
            Ok(if allocated(&found) { Ok(found) } else { Err("it is not".to_owned()) })
        })
        .await
    }

    /// Waits until a claim has none.
    pub async fn freed(&self, claim: &str) -> anyhow::Result<()> {
        until(&format!("claim {claim} to be free"), async || {
            let found = self.claims().get_opt(claim).await?;
            Ok(match found {
                Some(found) if allocated(&found) => Err(format!("{:?}", found.status)),
                _ => Ok(()),
            })
        })
        .await
    }

    /// Waits for an event about an object that says these words.
    pub async fn told(&self, object: &str, words: &str) -> anyhow::Result<()> {
        let events: Api<Event> = self.namespace.api();
        until(&format!("an event on {object} with {words:?}"), async || {
            let found = events.list(&ListParams::default()).await?.items;
            let about = found.into_iter().filter(|event| {
                event.regarding.as_ref().and_then(|about| about.name.as_deref()) == Some(object)
            });
            let notes: Vec<String> = about.filter_map(|event| event.note).collect();
            let is_told = notes.iter().any(|note| note.contains(words));
            Ok(if is_told { Ok(()) } else { Err(format!("{notes:#?}")) })
        })
        .await
    }

    /// Deletes a pod at once.
    pub async fn delete_pod(&self, pod: &str) -> anyhow::Result<()> {
        let now = DeleteParams::default().grace_period(0);
        self.pods().delete(pod, &now).await.map(drop).with_context(|| format!("delete pod {pod}"))
    }

    /// Cordons a node, or lifts that.
    pub async fn cordon(&self, node: &str, unschedulable: bool) -> anyhow::Result<()> {
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(self.cluster.client());
        let patch = Patch::Merge(json!({"spec": {"unschedulable": unschedulable}}));
        nodes.patch(node, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Waits until no device is in two claims. Meanwhile none may be of two pods that are bound.
    pub async fn until_sound(&self) -> anyhow::Result<()> {
        until("no device to be in two claims", async || {
            self.used_once().await?;
            Ok(self.sound().await.map_err(|error| error.to_string()))
        })
        .await
    }

    /// Fails if two bound pods use a device.
    pub async fn used_once(&self) -> anyhow::Result<()> {
        let pods = self.pods().list(&ListParams::default()).await?.items;
        let bound = pods
            .iter()
            .filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()));
        let names: BTreeSet<String> = bound.flat_map(claim_names).collect();
        let claims = self.claims().list(&ListParams::default()).await?.items;
        let mut users = BTreeMap::new();
        for claim in claims.iter().filter(|claim| names.contains(&claim.name_any())) {
            let Some(allocation) = allocation(claim) else { continue };
            for device in devices_of(allocation) {
                let place = (node_of(allocation).cloned(), device);
                if let Some(other) = users.insert(place.clone(), claim.name_any()) {
                    anyhow::bail!("{place:?} is used by {other} and by {}", claim.name_any());
                }
            }
        }
        Ok(())
    }

    /// Fails if a device is in two claims of any namespace.
    pub async fn sound(&self) -> anyhow::Result<()> {
        let claims: Api<ResourceClaim> = Api::all(self.cluster.client());
        let mut holders = BTreeMap::new();
        for claim in claims.list(&ListParams::default()).await?.items {
            let Some(allocation) = allocation(&claim) else { continue };
            let node = node_of(allocation).cloned().unwrap_or_default();
            for device in devices_of(allocation) {
                if let Some(other) =
                    holders.insert((node.clone(), device.clone()), claim.name_any())
                {
                    anyhow::bail!("{device} of {node} is in {other} and in {}", claim.name_any());
                }
            }
        }
        Ok(())
    }
}

/// A pod of our gate or not, that ends when it is told to.
pub fn pod_with(name: &str, claims: &[&str], spec: Value) -> anyhow::Result<Pod> {
    let entry = |claim: &&str| match claim.strip_prefix('@') {
        Some(template) => json!({"name": template, "resourceClaimTemplateName": template}),
        None => json!({"name": claim, "resourceClaimName": claim}),
    };
    let names: Vec<Value> =
        claims.iter().map(|claim| json!({"name": claim.trim_start_matches('@')})).collect();
    let mut whole = json!({
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": false,
        "resourceClaims": claims.iter().map(entry).collect::<Vec<_>>(),
        "containers": [{
            "name": "main", "image": "localhost/pause:1",
            "resources": {"claims": names, "requests": {"cpu": "10m"}},
        }],
    });
    let fields = whole.as_object_mut().context("a pod has fields")?;
    fields.extend(spec.as_object().cloned().unwrap_or_default());
    Ok(serde_json::from_value(json!({"metadata": {"name": name}, "spec": whole}))?)
}

/// A request for some units of [`PAIR`].
pub fn pairs(count: u32) -> Value {
    json!([{"name": "pair", "exactly": {"deviceClassName": PAIR, "count": count}}])
}

/// A request for some GPUs.
pub fn gpus(count: u32) -> Value {
    json!([{"name": "gpu", "exactly": {"deviceClassName": "gpu.lanemate.dev", "count": count}}])
}

/// Names of the claims of a pod, those made for it among them.
pub fn claim_names(pod: &Pod) -> Vec<String> {
    let made: BTreeMap<&str, &str> = pod
        .status
        .iter()
        .flat_map(|status| status.resource_claim_statuses.iter().flatten())
        .filter_map(|made| Some((made.name.as_str(), made.resource_claim_name.as_deref()?)))
        .collect();
    let entries = pod.spec.iter().flat_map(|spec| spec.resource_claims.iter().flatten());
    entries
        .filter_map(|entry| {
            entry
                .resource_claim_name
                .clone()
                .or_else(|| made.get(entry.name.as_str()).map(|name| (*name).to_owned()))
        })
        .collect()
}

/// `status.allocation`.
pub fn allocation(claim: &ResourceClaim) -> Option<&AllocationResult> {
    claim.status.as_ref()?.allocation.as_ref()
}

/// The node that an allocation is for.
pub fn node_of(allocation: &AllocationResult) -> Option<&String> {
    let term = allocation.node_selector.as_ref()?.node_selector_terms.first()?;
    term.match_fields.as_ref()?.first()?.values.as_ref()?.first()
}

/// Names of the devices of ours that are taken from others.
pub fn devices_of(allocation: &AllocationResult) -> Vec<String> {
    let results = allocation.devices.iter().flat_map(|devices| devices.results.iter().flatten());
    results
        .filter(|result| result.driver == "lanemate.dev" && result.admin_access != Some(true))
        .map(|result| result.device.clone())
        .collect()
}
