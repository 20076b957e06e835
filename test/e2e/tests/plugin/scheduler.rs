//! Who allocates: kube-scheduler in mode scheduler, and not kube-scheduler in mode controller.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::ResourceClaim;
use lanemate_test_cluster::{Cluster, TestNamespace, claim, pod};
use serde_json::json;

use super::installed::{PAIRS, Plugin, recorded, slices};
use super::pods::{REQUESTS, WAITS, assert_waits, until_none_is_held};

/// A GPU and a NIC under one PCIe switch, with what the requests tolerate.
fn matched(name: &str, tolerates_us: bool) -> anyhow::Result<ResourceClaim> {
    let mut claim = claim(name, &REQUESTS)?;
    let devices = claim.spec.as_mut().unwrap().devices.as_mut().unwrap();
    let constraint =
        json!([{"requests": ["gpu", "nic"], "matchAttribute": "lanemate.dev/pcieSwitch"}]);
    devices.constraints = Some(serde_json::from_value(constraint)?);
    if tolerates_us {
        let toleration = json!([{"key": "lanemate.dev/allocator", "operator": "Exists"}]);
        for request in devices.requests.iter_mut().flatten() {
            let exactly = request.exactly.as_mut().unwrap();
            exactly.tolerations = Some(serde_json::from_value(toleration.clone())?);
        }
    }
    Ok(claim)
}

/// The devices that were granted to a claim, by request.
async fn granted(
    namespace: &TestNamespace,
    name: &str,
) -> anyhow::Result<BTreeMap<String, String>> {
    let found = namespace.api::<ResourceClaim>().get(name).await?;
    let allocation = found.status.and_then(|status| status.allocation).unwrap_or_default();
    let results = allocation.devices.and_then(|devices| devices.results).unwrap_or_default();
    Ok(results.into_iter().map(|result| (result.request, result.device)).collect())
}

/// Allocates, and runs the pod, with a GPU and a NIC of one pair.
async fn assert_runs_with_a_pair(namespace: &TestNamespace, name: &str) -> anyhow::Result<()> {
    namespace.pod_running(name).await?;
    let granted = granted(namespace, name).await?;
    let pair = (granted["gpu"].as_str(), granted["nic"].as_str());
    assert!(PAIRS.contains(&pair), "{granted:?}");
    let script = "ls -d /dev/nvidia[0-9]* /dev/infiniband/uverbs*";
    let nodes = namespace.exec(name, &["sh", "-c", script]).await?;
    assert_eq!(nodes.stdout.lines().count(), 2, "{nodes}");
    Ok(())
}

#[tokio::test]
async fn in_mode_scheduler_a_pod_gets_a_gpu_and_the_nic_of_its_switch() -> anyhow::Result<()> {
    let cluster = Cluster::current().await?;
    let namespace = cluster.namespace_alone("mode-scheduler").await?;
    let fence = cluster.open_fence();
    let _plugin = Plugin::start_with(&cluster, &["--mode", "scheduler"]).await?;
    let offered = slices(cluster.client()).await?;
    let devices = offered.iter().flat_map(|slice| slice.spec.devices.iter().flatten());
    let tainted: Vec<_> = devices.filter(|device| device.taints.is_some()).collect();
    assert!(tainted.is_empty(), "{tainted:?}");

    for name in ["one", "two"] {
        namespace.create_object(&matched(name, false)?).await?;
        namespace.create_object(&pod(name, WAITS, &[name])?).await?;
        assert_runs_with_a_pair(&namespace, name).await?;
    }
    assert_ne!(granted(&namespace, "one").await?, granted(&namespace, "two").await?);
    namespace.delete_pod("one").await?;
    namespace.delete_pod("two").await?;
    until_none_is_held(&cluster).await?;
    fence.close(&cluster, &namespace).await
}

#[tokio::test]
async fn in_mode_controller_kube_scheduler_leaves_the_devices_alone() -> anyhow::Result<()> {
    let cluster = Cluster::current().await?;
    let namespace = cluster.namespace_alone("mode-controller").await?;
    let _plugin = Plugin::start(&cluster).await?;
    namespace.create_object(&matched("waiting", false)?).await?;
    namespace.create_object(&pod("waiting", WAITS, &["waiting"])?).await?;
    let words = ["cannot allocate all claims"];
    namespace.until_told(("Pod", "waiting"), "FailedScheduling", &words).await?;

    // It is the taint that keeps kube-scheduler away, not that it would not know of the devices; and
    // where a claim tolerates the taint, the fence does.
    namespace.create_object(&matched("tolerant", true)?).await?;
    namespace.create_object(&pod("tolerant", WAITS, &["tolerant"])?).await?;
    let words = ["only the Lanemate controller may allocate"];
    namespace.until_told(("Pod", "tolerant"), "FailedScheduling", &words).await?;
    for name in ["waiting", "tolerant"] {
        assert_eq!(granted(&namespace, name).await?, BTreeMap::new(), "{name}");
        assert_waits(&namespace, name).await?;
        namespace.delete_pod(name).await?;
    }
    assert!(recorded().is_empty());
    until_none_is_held(&cluster).await
}
