//! Pods with claims that are allocated by hand, and what is waited for with them.

use k8s_openapi::api::core::v1::Pod;
pub use lanemate_test_cluster::WAITS;
pub use lanemate_test_cluster::node::{until_no_files, until_none_is_held};
use lanemate_test_cluster::{Allocation, TestNamespace, claim, pod};

/// Of a claim for a GPU and a NIC.
pub const REQUESTS: [(&str, &str); 2] = [("gpu", "gpu.lanemate.dev"), ("nic", "nic.lanemate.dev")];

/// A pod with a claim for a GPU and a NIC, which are granted to it by hand.
pub async fn create_pod(
    namespace: &TestNamespace,
    name: &str,
    (gpu, nic): (&str, &str),
) -> anyhow::Result<()> {
    namespace.create_object(&claim(name, &REQUESTS)?).await?;
    let pod = namespace.create_object(&pod(name, WAITS, &[name])?).await?;
    let grant = Allocation::default().grant("gpu", gpu).grant("nic", nic).reserved_for(&pod);
    namespace.allocate(name, &grant).await?;
    Ok(())
}

/// The same, and it runs.
pub async fn run_pod(
    namespace: &TestNamespace,
    name: &str,
    pair: (&str, &str),
) -> anyhow::Result<Pod> {
    create_pod(namespace, name, pair).await?;
    namespace.pod_running(name).await
}

/// Fails unless the pod is still to start.
pub async fn assert_waits(namespace: &TestNamespace, name: &str) -> anyhow::Result<()> {
    let pod = namespace.api::<Pod>().get(name).await?;
    assert_eq!(pod.status.unwrap_or_default().phase.as_deref(), Some("Pending"), "{name}");
    Ok(())
}

/// UID of a claim, as the files of the node have it.
pub async fn uid(namespace: &TestNamespace, claim: &str) -> anyhow::Result<String> {
    let claims = namespace.api::<k8s_openapi::api::resource::v1::ResourceClaim>();
    Ok(claims.get(claim).await?.metadata.uid.unwrap())
}
