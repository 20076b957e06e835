//! Controller and plugin together, under the real kubelet.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use lanemate_api::ResourceClass;
use lanemate_test_cluster::{Cluster, NODE, TestNamespace, pod, until};
use serde_json::json;
use tempfile::TempDir;

use crate::plugin::installed::Plugin;
use lanemate_test_cluster::controller::{Controller, Start, kubeconfig, logged};

const CLASS: &str = "gpu-rdma-pair";

/// Both programs at work on the node, while no other test runs.
struct Together {
    _controller: Controller,
    _plugin: Plugin,
    namespace: TestNamespace,
    cluster: Cluster,
    _directory: TempDir,
}

impl Together {
    async fn new(test: &str) -> anyhow::Result<Together> {
        let cluster = Cluster::current().await?;
        let namespace = cluster.namespace_alone(test).await?;
        let plugin = Plugin::start(&cluster).await?;
        let directory = tempfile::tempdir()?;
        let start = Start {
            lease: namespace.name().to_owned(),
            lease_seconds: 15,
            kubeconfig: kubeconfig(&cluster, directory.path()).await?,
        };
        let class: ResourceClass = serde_json::from_value(json!({
            "apiVersion": "lanemate.dev/v1alpha1", "kind": "ResourceClass",
            "metadata": {"name": CLASS},
            "spec": {"members": [
                {"name": "gpu", "deviceClassName": "gpu.lanemate.dev"},
                {"name": "nic", "deviceClassName": "nic.lanemate.dev"},
            ]},
        }))?;
        let classes: Api<ResourceClass> = Api::all(cluster.client());
        match classes.create(&Default::default(), &class).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            created => drop(created?),
        }
        let since = logged(&cluster, test);
        let mut controller = Controller::spawn(&cluster, test, &start)?;
        controller.until_working(since).await?;
        let compiled: Api<DeviceClass> = Api::all(cluster.client());
        until("the class to be compiled", async || {
            Ok(compiled.get_opt(CLASS).await?.map(drop).ok_or_else(|| "absent".to_owned()))
        })
        .await?;
        Ok(Together {
            _controller: controller,
            _plugin: plugin,
            namespace,
            cluster,
            _directory: directory,
        })
    }

    /// A pod that waits behind the gate for a claim of its own with so many pairs.
    async fn pod_with_pairs(&self, name: &str, pairs: u32) -> anyhow::Result<()> {
        let claim: ResourceClaim = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"devices": {"requests": [
                {"name": "pair", "exactly": {"deviceClassName": CLASS, "count": pairs}},
            ]}},
        }))?;
        self.namespace.create_object(&claim).await?;
        let mut waiting = pod(name, "trap 'exit 0' TERM; sleep 1000 & wait", &[name])?;
        let gates = json!([{"name": "lanemate.dev/placement"}]);
        let spec = waiting.spec.get_or_insert_default();
        spec.scheduling_gates = Some(serde_json::from_value(gates)?);
        self.namespace.create_object(&waiting).await.map(drop)
    }

    /// Notes of warnings about an object.
    async fn warnings(&self, object: &str) -> anyhow::Result<Vec<String>> {
        let events: Api<Event> = self.namespace.api();
        let found = events.list(&ListParams::default()).await?.items.into_iter().filter(|event| {
            let about = event.regarding.as_ref().and_then(|about| about.name.as_deref());
            about == Some(object) && event.type_.as_deref() == Some("Warning")
        });
        Ok(found.filter_map(|event| event.note).collect())
    }
}

/// Interleaving 14.
#[tokio::test]
async fn a_pod_gets_its_pairs_runs_on_over_a_restart_of_kubelet_and_gives_them_back() {
    let together = Together::new("restarted").await.unwrap();
    together.pod_with_pairs("first", 8).await.unwrap();
    let running = together.namespace.pod_running("first").await.unwrap();
    assert_eq!(running.spec.unwrap().node_name.as_deref(), Some(NODE));
    assert!(running.metadata.annotations.unwrap().contains_key("lanemate.dev/device-assignment"));
    together.pod_with_pairs("second", 8).await.unwrap();
    together.cluster.restart_kubelet().await.unwrap();
    together.namespace.delete_pod("first").await.unwrap();
    together.namespace.pod_running("second").await.unwrap();
    together.namespace.delete_pod("second").await.unwrap();
}

/// Interleaving 15: the API server forgets the pod at once, its node does not. The next pod gets the devices when the node
/// has let go of them, so that no Prepare is refused.
#[tokio::test]
async fn devices_of_a_pod_that_was_deleted_by_force_are_granted_when_its_node_has_let_go() {
    let together = Together::new("forced").await.unwrap();
    together.pod_with_pairs("first", 8).await.unwrap();
    together.namespace.pod_running("first").await.unwrap();
    together.pod_with_pairs("second", 8).await.unwrap();
    let pods: Api<Pod> = together.namespace.api();
    pods.delete("first", &DeleteParams::default().grace_period(0)).await.unwrap();
    let second = together.namespace.pod_running("second").await.unwrap();
    let warnings = together.warnings(&second.name_any()).await.unwrap();
    let refused = |note: &&String| note.contains("held") || note.contains("prepare");
    assert_eq!(warnings.iter().find(refused), None);
    together.namespace.delete_pod("second").await.unwrap();
}
