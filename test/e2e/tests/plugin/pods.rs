//! Pods with claims that are allocated by hand, and what is waited for with them.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use lanemate_api::node_state::NodeState;
use lanemate_test_cluster::{Allocation, Cluster, NODE, TestNamespace, claim, pod, until};

use super::installed::{in_cdi, recorded};

/// Runs until it is told to end.
pub const WAITS: &str = "trap 'exit 0' TERM; while true; do sleep 1; done";
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

/// Identity of the pod's container: it changes when the container is started again.
pub fn container(pod: &Pod) -> String {
    let statuses = pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap();
    statuses[0].container_id.clone().unwrap()
}

/// Has the container started again, as when its program crashes, and waits for that.
pub async fn restart_container(namespace: &TestNamespace, name: &str) -> anyhow::Result<()> {
    let before = container(&namespace.pod_running(name).await?);
    // The shell ends with its first process, and kubelet starts the container again.
    namespace.exec(name, &["kill", "-TERM", "1"]).await?;
    until("another container", async || {
        let now = container(&namespace.pod_running(name).await?);
        Ok(if now == before { Err(now) } else { Ok(()) })
    })
    .await
}

/// Waits for an event that says all these words.
pub async fn until_told(
    namespace: &TestNamespace,
    (kind, name): (&str, &str),
    reason: &str,
    words: &[&str],
) -> anyhow::Result<()> {
    let events: Api<Event> = namespace.api();
    let what = format!("{reason} on {kind} {name} with {words:?}");
    until(&what, async || {
        let events = events.list(&ListParams::default()).await?.items;
        let notes = events.into_iter().filter(|event| {
            let about = event.regarding.clone().unwrap_or_default();
            about.kind.as_deref() == Some(kind)
                && about.name.as_deref() == Some(name)
                && event.reason.as_deref() == Some(reason)
        });
        let notes: Vec<String> = notes.filter_map(|event| event.note).collect();
        let has_all = |note: &String| words.iter().all(|word| note.contains(word));
        Ok(if notes.iter().any(has_all) { Ok(()) } else { Err(format!("{notes:#?}")) })
    })
    .await
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

/// Waits until the node has no record and no file of a claim.
pub async fn until_no_files() -> anyhow::Result<()> {
    until("no files of claims", async || {
        let left = format!("recorded {:?}, in CDI {:?}", recorded(), in_cdi());
        let nothing = recorded().is_empty() && in_cdi().is_empty();
        Ok(if nothing { Ok(()) } else { Err(left) })
    })
    .await
}

/// Waits until the node holds nothing, and says so in the cluster.
pub async fn until_none_is_held(cluster: &Cluster) -> anyhow::Result<()> {
    until_no_files().await?;
    let states: Api<NodeState> = Api::all(cluster.client());
    until("nothing to be held", async || {
        let held = states.get(NODE).await?.status.held;
        Ok(if held.is_empty() { Ok(()) } else { Err(format!("{held:?}")) })
    })
    .await
}
