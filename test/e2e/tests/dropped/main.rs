//! An API server that drops fields without a word (interleaving 11): `hack/e2e` runs this where the feature gate
//! DRADeviceTaints is off.
#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::Api;
use lanemate_driver::resource_slice::Mode;
use lanemate_test_cluster::controller::{Controller, Start, kubeconfig, logged};
use lanemate_test_cluster::{Cluster, FakeNode, NodeOptions, claim, pod};
use serde_json::json;

/// Many times what a pod waits for its devices where they are granted.
const QUIET: Duration = Duration::from_secs(3);

#[tokio::test]
async fn where_taints_are_dropped_the_controller_says_so_and_grants_nothing() {
    let cluster = Cluster::current().await.unwrap();
    let namespace = cluster.namespace_alone("dropped").await.unwrap();
    let options = NodeOptions::default();
    let mut node = FakeNode::create(cluster.client(), namespace.name(), &options).await.unwrap();
    let published = node.publish("dgx-h100", Mode::Controller).await.unwrap();
    let devices = published.iter().flat_map(|slice| slice.spec.devices.iter().flatten());
    assert!(devices.into_iter().all(|device| device.taints.is_none()), "the gate is off");
    let directory = tempfile::tempdir().unwrap();
    let start = Start {
        lease: namespace.name().to_owned(),
        lease_seconds: 15,
        kubeconfig: kubeconfig(&cluster, directory.path()).await.unwrap(),
    };
    let since = logged(&cluster, "dropped");
    let mut controller = Controller::spawn(&cluster, "dropped", &start).unwrap();
    controller.until_logged(since, "offers devices without the taint").await.unwrap();
    let wanted = claim("one", &[("gpu", "gpu.lanemate.dev")]).unwrap();
    namespace.create_object(&wanted).await.unwrap();
    let mut waiting = pod("user", "true", &["one"]).unwrap();
    let gates = json!([{"name": "lanemate.dev/placement"}]);
    let spec = waiting.spec.get_or_insert_default();
    spec.scheduling_gates = Some(serde_json::from_value(gates).unwrap());
    spec.termination_grace_period_seconds = Some(0);
    namespace.create_object(&waiting).await.unwrap();
    tokio::time::sleep(QUIET).await;
    let claims: Api<ResourceClaim> = namespace.api();
    let found = claims.get("one").await.unwrap();
    assert!(found.status.is_none_or(|status| status.allocation.is_none()));
    let pods: Api<Pod> = namespace.api();
    let found = pods.get("user").await.unwrap();
    assert!(found.spec.unwrap().scheduling_gates.is_some_and(|gates| !gates.is_empty()));
    assert!(!controller.has_ended());
}
