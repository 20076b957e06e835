//! Each right of `deploy/rbac/controller.yaml` is needed: a controller that lacks one says which, at the deed.

use std::time::Duration;

use k8s_openapi::api::resource::v1::DeviceClass;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use lanemate_api::ResourceClass;
use lanemate_api::node_state::{ClaimRef, HeldClaim, HeldState};
use lanemate_driver::resource_slice::Mode;
use lanemate_test_cluster::controller::{CONTROLLER, Controller, logged};
use lanemate_test_cluster::{Allocation, Right, Rights, until};
use lanemate_test_proxy::{ApiProxy, Matcher};
use serde_json::{Value, json};

use crate::ground::ONE_GPU;
use crate::scene::{Scene, gpus, pod_with};

const CLASS_FINALIZER: &str = "lanemate.dev/class-protection";
/// Many times what a controller needs to list all kinds.
const QUIET: Duration = Duration::from_secs(1);

/// One right is gone, and a controller of its own runs without it.
struct Trial<'a> {
    scene: &'a mut Scene,
    controller: Controller,
    since: u64,
    right: &'a Right,
    name: String,
}

#[tokio::test]
async fn every_right_of_the_controller_is_needed_and_named_where_it_is_missing()
-> anyhow::Result<()> {
    let mut scene = Scene::without_controller("needed", &["dgx-h100"], Mode::Controller).await?;
    // The DeviceClasses that are changed and deleted later.
    create_class(&scene, "needed-update", &[]).await?;
    create_class(&scene, "needed-delete", &[]).await?;
    scene.start_controller().await?;
    until_compiled(&scene, "needed-update").await?;
    until_compiled(&scene, "needed-delete").await?;
    scene.kill_controller();
    let rights = Rights::apply(&scene.cluster, "controller.yaml", CONTROLLER).await?;
    assert!(rights.all().len() > 30, "{:?}", rights.all());
    for (number, right) in rights.all().iter().enumerate() {
        let begun = std::time::Instant::now();
        let taken = rights.take(right).await?;
        Trial::begin(&mut scene, right, number)?.run().await?;
        taken.give_back().await?;
        println!("{right}: {:?}", begun.elapsed());
    }
    Ok(())
}

impl<'a> Trial<'a> {
    fn begin(scene: &'a mut Scene, right: &'a Right, number: usize) -> anyhow::Result<Self> {
        let name = format!("needed-{number}");
        scene.start.lease = format!("{}-{number}", scene.namespace.name());
        scene.start.lease_seconds = 2;
        let since = logged(&scene.cluster, &name);
        let controller = Controller::spawn(&scene.cluster, &name, &scene.start)?;
        Ok(Self { scene, controller, since, right, name })
    }

    /// Does what needs the right, and waits until the controller says that it lacks it.
    async fn run(mut self) -> anyhow::Result<()> {
        match (self.right.verb.as_str(), self.right.resource.as_str()) {
            // Only pods whose affinity names namespaces by their labels need these.
            ("list", "namespaces") => self.refused().await,
            ("list", _) => {
                self.refused().await?;
                tokio::time::sleep(QUIET).await;
                let worked = self.controller.has_logged(self.since, "\"state\":\"Working\"")?;
                assert!(!worked, "it plans on a part of what there is");
                Ok(())
            }
            ("watch", _) | (_, "leases") => self.refused().await,
            ("get", "resourceclaims") => self.share_a_claim().await,
            ("get", "pods") => self.change_a_pod_meanwhile().await,
            ("delete", "pods") => self.grant_twice().await,
            (_, "resourceclaims") | ("patch", "pods") => self.place("").await,
            (_, "resourceclaims/status") => self.place("").await,
            (_, "resourceclaims/binding") => self.place("resourceclaims/binding").await,
            (_, "allocations") => self.place("only the Lanemate controller may allocate").await,
            ("create", "deviceclasses") | ("update", "resourceclasses/status") => {
                let name = self.name.clone();
                create_class(self.scene, &name, &[]).await?;
                self.refused().await
            }
            ("update", "deviceclasses") => self.change_a_device_class().await,
            ("delete", "deviceclasses") => self.delete_a_class().await,
            ("update", "resourceclasses") => {
                let name = self.name.clone();
                create_class(self.scene, &name, &[CLASS_FINALIZER]).await?;
                self.refused().await
            }
            ("create", "events") => self.ask_too_much().await,
            ("patch", "events") => self.break_a_class_twice().await,
            (verb, resource) => anyhow::bail!("no deed is known that needs {verb} {resource}"),
        }
    }

    async fn refused(&mut self) -> anyhow::Result<()> {
        self.told(&self.right.to_string().replace('"', "\\\"")).await
    }

    async fn told(&mut self, words: &str) -> anyhow::Result<()> {
        self.controller.until_logged(self.since, words).await
    }

    /// A pod behind the gate, with a claim for a GPU.
    async fn create_pod(&self) -> anyhow::Result<()> {
        self.scene.claim(&self.name, gpus(1)).await?;
        self.scene.pod(&self.name, &[&self.name]).await.map(drop)
    }

    /// It would be placed; the words are those of the API server, where they are not the usual ones.
    async fn place(&mut self, words: &str) -> anyhow::Result<()> {
        self.create_pod().await?;
        match words {
            "" => self.refused().await?,
            words => self.told(words).await?,
        }
        self.scene.delete_pod(&self.name).await
    }

    /// The second pod of a claim is reserved for on top of what is there.
    async fn share_a_claim(&mut self) -> anyhow::Result<()> {
        self.create_pod().await?;
        self.scene.namespace.pod_bound(&self.name).await?;
        let second = format!("{}-second", self.name);
        self.scene.pod(&second, &[&self.name]).await?;
        self.refused().await?;
        self.scene.delete_pod(&second).await?;
        self.scene.delete_pod(&self.name).await
    }

    /// The patch that lets a pod go meets another version.
    async fn change_a_pod_meanwhile(&mut self) -> anyhow::Result<()> {
        let access = self.scene.cluster.access()?;
        let proxy = ApiProxy::start(&access.server, Some(&access.authority)).await?;
        let directory = tempfile::tempdir()?;
        let mut start = self.scene.start.clone();
        start.kubeconfig = directory.path().join("kubeconfig");
        let token = self.scene.cluster.token(CONTROLLER, None).await?;
        std::fs::write(&start.kubeconfig, proxy.kubeconfig(&token))?;
        start.lease = format!("{}-proxied", start.lease);
        self.controller.kill();
        self.controller = Controller::spawn(&self.scene.cluster, &self.name, &start)?;
        let rule = proxy.hold(Matcher::new("PATCH", "/pods/").times(1));
        self.create_pod().await?;
        rule.until_caught(1).await?;
        let change = Patch::Merge(json!({"metadata": {"labels": {"changed": "true"}}}));
        self.scene.pods().patch(&self.name, &PatchParams::default(), &change).await?;
        rule.release();
        self.refused().await?;
        self.controller.kill();
        self.scene.delete_pod(&self.name).await
    }

    /// A device in the claims of two bound pods, of which the node holds one: the other pod is made anew.
    async fn grant_twice(&mut self) -> anyhow::Result<()> {
        let node = self.scene.nodes[0].name().to_owned();
        let mut owner = serde_json::to_value(self.scene.nodes[0].owner())?;
        owner["controller"] = json!(true);
        let mut held = Vec::new();
        for which in ["held", "other"] {
            let name = format!("{}-{which}", self.name);
            let claim = self.scene.claim(&name, gpus(1)).await?;
            let mut pod = pod_with(&name, &[&name], json!({"nodeName": node}))?;
            pod.metadata.owner_references = Some(vec![serde_json::from_value(owner.clone())?]);
            let pod = self.scene.namespace.create_object(&pod).await?;
            let grant = Allocation::on(&node).grant("gpu", ONE_GPU).reserved_for(&pod);
            self.scene.namespace.allocate(&name, &grant).await?;
            held.push(HeldClaim {
                claim: ClaimRef {
                    namespace: claim.namespace(),
                    name: Some(name),
                    uid: claim.metadata.uid.unwrap_or_default(),
                },
                devices: vec![ONE_GPU.to_owned()],
                state: HeldState::Prepared,
            });
        }
        held.truncate(1);
        self.scene.nodes[0].hold(held).await?;
        self.refused().await?;
        self.scene.nodes[0].hold(Vec::new()).await?;
        for which in ["held", "other"] {
            self.scene.delete_pod(&format!("{}-{which}", self.name)).await?;
        }
        Ok(())
    }

    async fn change_a_device_class(&mut self) -> anyhow::Result<()> {
        let classes: Api<DeviceClass> = Api::all(self.scene.cluster.client());
        let selectors = json!([{"cel": {"expression": "true"}}]);
        let change = Patch::Merge(json!({"spec": {"selectors": selectors}}));
        classes.patch("needed-update", &PatchParams::default(), &change).await?;
        self.refused().await
    }

    /// A class that is deleted while it has the finalizer takes its DeviceClass along.
    async fn delete_a_class(&mut self) -> anyhow::Result<()> {
        // Nobody takes the finalizer off before the deletion.
        self.controller.pause();
        let classes: Api<ResourceClass> = Api::all(self.scene.cluster.client());
        let change = Patch::Merge(json!({"metadata": {"finalizers": [CLASS_FINALIZER]}}));
        classes.patch("needed-delete", &PatchParams::default(), &change).await?;
        classes.delete("needed-delete", &DeleteParams::default()).await?;
        self.controller.resume();
        self.refused().await?;
        let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        classes.patch("needed-delete", &PatchParams::default(), &none).await?;
        Ok(())
    }

    /// More GPUs than the node has: people are told.
    async fn ask_too_much(&mut self) -> anyhow::Result<()> {
        self.scene.claim(&self.name, gpus(9)).await?;
        self.scene.pod(&self.name, &[&self.name]).await?;
        self.refused().await?;
        self.scene.delete_pod(&self.name).await
    }

    /// The second event is the first one, counted.
    async fn break_a_class_twice(&mut self) -> anyhow::Result<()> {
        let classes: Api<ResourceClass> = Api::all(self.scene.cluster.client());
        create_class(self.scene, &self.name, &[]).await?;
        let there = "gpu.lanemate.dev";
        for (class, is_ready) in [("absent", false), (there, true), ("absent", false)] {
            let members = json!([{"name": "gpu", "deviceClassName": class}]);
            let change = Patch::Merge(json!({"spec": {"members": members}}));
            classes.patch(&self.name, &PatchParams::default(), &change).await?;
            until(&format!("the class to be ready: {is_ready}"), async || {
                let found = classes.get(&self.name).await?;
                let generation = found.metadata.generation;
                let ready = found.ready().cloned();
                let says = ready.as_ref().is_some_and(|ready| {
                    ready.observed_generation == generation && (ready.status == "True") == is_ready
                });
                Ok(if says { Ok(()) } else { Err(format!("{ready:?}")) })
            })
            .await?;
        }
        self.refused().await
    }
}

async fn create_class(scene: &Scene, name: &str, finalizers: &[&str]) -> anyhow::Result<()> {
    let classes: Api<ResourceClass> = Api::all(scene.cluster.client());
    // It goes with the test's node.
    let owner: Value = serde_json::to_value(scene.nodes[0].owner())?;
    let class = serde_json::from_value(json!({
        "apiVersion": "lanemate.dev/v1alpha1", "kind": "ResourceClass",
        "metadata": {"name": name, "finalizers": finalizers, "ownerReferences": [owner]},
        "spec": {"members": [{"name": "gpu", "deviceClassName": "gpu.lanemate.dev"}]},
    }))?;
    classes.create(&PostParams::default(), &class).await?;
    Ok(())
}

async fn until_compiled(scene: &Scene, name: &str) -> anyhow::Result<()> {
    let classes: Api<DeviceClass> = Api::all(scene.cluster.client());
    until(&format!("class {name} to be compiled"), async || {
        Ok(classes.get_opt(name).await?.map(drop).ok_or_else(|| "absent".to_owned()))
    })
    .await
}
