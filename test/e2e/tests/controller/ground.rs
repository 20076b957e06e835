//! A namespace with a fake node of its own, and pods that can go there alone.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceSlice};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use lanemate_driver::resource_slice::Mode;
pub use lanemate_test_cluster::controller::CONTROLLER;
use lanemate_test_cluster::{
    Cluster, FakeNode, NodeOptions, TEST_LABEL, TestNamespace, pod, until,
};
use serde_json::json;

/// A claim for a GPU.
pub const GPU: [(&str, &str); 1] = [("gpu", "gpu.lanemate.dev")];
/// The machine of the fake node.
pub const HOST: &str = "dgx-h100";
/// A GPU of that machine.
pub const ONE_GPU: &str = "gpu-0000-1b-00-0";

/// Where one test stands. Other tests run beside it, on nodes of their own.
pub struct Ground {
    pub cluster: Cluster,
    pub namespace: TestNamespace,
    pub node: FakeNode,
}

impl Ground {
    /// With the devices of [`HOST`], in mode controller.
    pub async fn new(test: &str) -> anyhow::Result<Ground> {
        let cluster = Cluster::current().await?;
        let namespace = cluster.namespace(test).await?;
        Ground::of(cluster, namespace, Mode::Controller).await
    }

    /// The same while no other test runs.
    pub async fn alone(test: &str, mode: Mode) -> anyhow::Result<Ground> {
        let cluster = Cluster::current().await?;
        let namespace = cluster.namespace_alone(test).await?;
        Ground::of(cluster, namespace, mode).await
    }

    async fn of(cluster: Cluster, namespace: TestNamespace, mode: Mode) -> anyhow::Result<Ground> {
        let options = NodeOptions::default().label(TEST_LABEL, namespace.name());
        let mut node = FakeNode::create(cluster.client(), namespace.name(), &options).await?;
        node.publish(HOST, mode).await?;
        Ok(Ground { cluster, namespace, node })
    }

    /// A pod that goes to the node of this test or nowhere.
    pub fn pod(&self, name: &str, claims: &[&str]) -> anyhow::Result<Pod> {
        let mut pod = pod(name, "true", claims)?;
        let spec = pod.spec.as_mut().unwrap();
        spec.termination_grace_period_seconds = Some(0);
        let label = (TEST_LABEL.to_owned(), self.namespace.name().to_owned());
        spec.node_selector = Some([label].into());
        Ok(pod)
    }

    /// Creates it.
    pub async fn create_pod(&self, name: &str, claims: &[&str]) -> anyhow::Result<Pod> {
        self.namespace.create_object(&self.pod(name, claims)?).await
    }

    /// The claims of the namespace.
    pub fn claims(&self) -> Api<ResourceClaim> {
        self.namespace.api()
    }

    /// Waits until the claim has, or has not, an allocation.
    pub async fn until_allocated(&self, claim: &str, expected: bool) -> anyhow::Result<()> {
        until(&format!("claim {claim} to be allocated: {expected}"), async || {
            let found = self.claims().get(claim).await?;
            let is_allocated = allocated(&found);
            Ok(if is_allocated == expected { Ok(()) } else { Err(format!("{is_allocated}")) })
        })
        .await
    }

    /// Waits for an event about a pod that says these words.
    pub async fn until_told(&self, pod: &str, reason: &str, words: &str) -> anyhow::Result<()> {
        let events: Api<Event> = self.namespace.api();
        until(&format!("{reason} on pod {pod} with {words:?}"), async || {
            let events = events.list(&ListParams::default()).await?.items;
            let notes = events.into_iter().filter(|event| {
                let about = event.regarding.as_ref().and_then(|about| about.name.as_deref());
                about == Some(pod) && event.reason.as_deref() == Some(reason)
            });
            let notes: Vec<String> = notes.filter_map(|event| event.note).collect();
            let is_told = notes.iter().any(|note| note.contains(words));
            Ok(if is_told { Ok(()) } else { Err(format!("{notes:#?}")) })
        })
        .await
    }

    /// Publishes a device of another driver on the node, with a DeviceClass of the namespace's name.
    pub async fn add_other_driver(&self) -> anyhow::Result<OtherDriver> {
        let name = self.namespace.name();
        let driver = format!("{name}.example.com");
        let class = serde_json::from_value(json!({
            "metadata": {"name": driver},
            "spec": {"selectors": [{"cel": {"expression": format!("device.driver == '{driver}'")}}]},
        }))?;
        let slice = serde_json::from_value(json!({
            "metadata": {"name": driver},
            "spec": {
                "driver": driver, "nodeName": self.node.name(), "devices": [{"name": "a"}],
                "pool": {"name": self.node.name(), "generation": 1, "resourceSliceCount": 1},
            },
        }))?;
        let (classes, slices) = (Api::all(self.cluster.client()), Api::all(self.cluster.client()));
        let created = OtherDriver(driver);
        let _: k8s_openapi::api::resource::v1::DeviceClass =
            classes.create(&Default::default(), &class).await?;
        let _: ResourceSlice = slices.create(&Default::default(), &slice).await?;
        Ok(created)
    }
}

/// A driver that is not ours, and the DeviceClass of its name; both go when this is dropped.
pub struct OtherDriver(pub String);

impl Drop for OtherDriver {
    fn drop(&mut self) {
        for kind in ["deviceclass", "resourceslice"] {
            kubectl(&["delete", kind, &self.0, "--wait=false"]);
        }
    }
}

/// Runs kubectl where nothing can be awaited; complains when it fails.
pub fn kubectl(words: &[&str]) {
    let ended = std::process::Command::new("kubectl").args(words).output();
    if !ended.as_ref().is_ok_and(|output| output.status.success()) {
        eprintln!("kubectl {words:?}: {ended:?}");
    }
}

/// Whether a claim is allocated.
pub fn allocated(claim: &ResourceClaim) -> bool {
    claim.status.as_ref().is_some_and(|status| status.allocation.is_some())
}

/// Fails unless the API server refused with these words.
#[track_caller]
pub fn assert_refused<T>(outcome: Result<T, impl Into<anyhow::Error>>, words: &str) {
    match outcome {
        Ok(_) => panic!("not refused; expected {words:?}"),
        Err(error) => {
            let error = format!("{:#}", error.into());
            assert!(error.contains(words), "expected {words:?} in {error}");
        }
    }
}

/// The names of a pod's scheduling gates.
pub fn gates(pod: &Pod) -> Vec<String> {
    let gates = pod.spec.iter().flat_map(|spec| spec.scheduling_gates.iter().flatten());
    gates.map(|gate| gate.name.clone()).collect()
}

/// A slice of a captured machine under another name, to be offered for a node.
pub fn renamed(slice: &ResourceSlice, name: &str) -> ResourceSlice {
    let mut slice = slice.clone();
    let name = format!("{}-{name}", slice.name_any());
    slice.metadata = Default::default();
    slice.metadata.name = Some(name);
    slice
}
