//! The cluster itself: what the other tests build on.

use std::env;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use lanemate_test_cluster::{Allocation, Cluster, NODE, claim, pod, until};
use serde_json::json;

/// Runs until it is told to end.
const WAITS: &str = "trap 'exit 0' TERM; while true; do sleep 1; done";

/// The container's id, when it started and how often it was started again.
fn life(pod: &Pod) -> (String, String, i32) {
    let container = &pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
    let running = container.state.as_ref().unwrap().running.as_ref().unwrap();
    let started = serde_json::to_string(&running.started_at).unwrap();
    (container.container_id.clone().unwrap(), started, container.restart_count)
}

#[tokio::test]
async fn a_pod_reaches_the_api_server_at_the_service_address() -> anyhow::Result<()> {
    let cluster = Cluster::current().await?;
    let namespace = cluster.namespace("service-address").await?;
    let mut client = pod("client", WAITS, &[])?;
    let spec = client.spec.as_mut().unwrap();
    let programs = env::var("LANEMATE_CLUSTER_BIN")?;
    spec.volumes =
        Some(serde_json::from_value(json!([{"name": "bin", "hostPath": {"path": programs}}]))?);
    spec.containers[0].volume_mounts =
        Some(serde_json::from_value(json!([{"name": "bin", "mountPath": "/programs"}]))?);
    namespace.create_object(&client).await?;
    namespace.pod_running("client").await?;

    let address = namespace.exec("client", &["sh", "-c", "echo $KUBERNETES_SERVICE_HOST"]).await?;
    assert_eq!(address.stdout, "10.96.0.1\n", "{address}");
    // Without a kubeconfig, kubectl takes the pod's token and the cluster's authority.
    let who = ["/programs/kubectl", "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"];
    let who = namespace.exec("client", &who).await?;
    let account = format!("system:serviceaccount:{}:default", namespace.name());
    assert_eq!(who.stdout, account, "{who}");
    Ok(())
}

#[tokio::test]
async fn a_pod_lives_through_a_restart_of_kubelet() -> anyhow::Result<()> {
    let cluster = Cluster::current().await?;
    let namespace = cluster.namespace_alone("kubelet-restart").await?;
    namespace.create_object(&pod("lasting", WAITS, &[])?).await?;
    let before = namespace.pod_running("lasting").await?;

    cluster.restart_kubelet().await?;

    let after = namespace.pod_running("lasting").await?;
    assert_eq!(life(&before), life(&after));
    let output = namespace.exec("lasting", &["echo", "here"]).await?;
    assert_eq!(output.stdout, "here\n", "{output}");
    namespace.delete_pod("lasting").await
}

/// No plugin is registered for the driver, so the pod comes to the node and waits there.
#[tokio::test]
async fn a_claim_allocated_by_hand_takes_its_pod_to_the_node() -> anyhow::Result<()> {
    let cluster = Cluster::current().await?;
    let namespace = cluster.namespace("allocated-by-hand").await?;
    namespace.create_object(&claim("gpus", &[("gpu", "gpu.lanemate.dev")])?).await?;
    let waiting = namespace.create_object(&pod("trainer", WAITS, &["gpus"])?).await?;
    let environment = json!({"apiVersion": "lanemate.dev/v1alpha1", "kind": "Environment"});
    let allocation = Allocation::default()
        .grant("gpu", "gpu-0")
        .config("FromClaim", &["gpu"], environment)
        .reserved_for(&waiting);
    let written = namespace.allocate("gpus", &allocation).await?;
    let kept = namespace.api::<ResourceClaim>().get("gpus").await?.status.unwrap();
    assert_eq!(Some(&kept.allocation), written.status.as_ref().map(|status| &status.allocation));
    let devices = kept.allocation.unwrap().devices.unwrap();
    assert_eq!(devices.results.unwrap()[0].device, "gpu-0");
    assert_eq!(devices.config.unwrap().len(), 1);
    assert_eq!(kept.reserved_for.unwrap()[0].uid, waiting.metadata.uid.unwrap());

    let pods = namespace.api::<Pod>();
    let node = until("the pod to be bound", async || {
        let spec = pods.get("trainer").await?.spec.unwrap();
        Ok(spec.node_name.ok_or_else(|| "unbound".to_owned()))
    });
    assert_eq!(node.await?, NODE);
    Ok(())
}
