//! The plugin under a real kubelet and containerd: claims are allocated by hand, pods run.

mod installed;

use std::fs;
use std::time::Instant;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{Device, ResourceSlice};
use kube::Api;
use kube::api::DeleteParams;
use lanemate_api::node_state::NodeState;
use lanemate_test_cluster::{Allocation, CDI_DIR, Cluster, NODE, TestNamespace, claim, pod, until};

use installed::{OTHER, PAIR, Plugin, in_cdi, open, open_by_number, recorded, slices};

/// Runs until it is told to end.
const WAITS: &str = "trap 'exit 0' TERM; while true; do sleep 1; done";
const REQUESTS: [(&str, &str); 2] = [("gpu", "gpu.lanemate.dev"), ("nic", "nic.lanemate.dev")];

/// A pod with a claim for a GPU and a NIC, which are granted to it by hand.
async fn run_pod(
    namespace: &TestNamespace,
    name: &str,
    (gpu, nic): (&str, &str),
) -> anyhow::Result<Pod> {
    namespace.create_object(&claim(name, &REQUESTS)?).await?;
    let pod = namespace.create_object(&pod(name, WAITS, &[name])?).await?;
    let grant = Allocation::default().grant("gpu", gpu).grant("nic", nic).reserved_for(&pod);
    namespace.allocate(name, &grant).await?;
    namespace.pod_running(name).await
}

/// Identity of the pod's container: it changes when the container is started again.
fn container(pod: &Pod) -> String {
    let statuses = pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap();
    statuses[0].container_id.clone().unwrap()
}

/// The devices of a slice, without the times at which the API server saw their taints.
fn without_times(slice: &ResourceSlice) -> Vec<Device> {
    let mut devices = slice.spec.devices.clone().unwrap();
    for taint in devices.iter_mut().flat_map(|device| device.taints.iter_mut().flatten()) {
        taint.time_added = None;
    }
    devices
}

async fn until_none_is_held(cluster: &Cluster) -> anyhow::Result<()> {
    let states: Api<NodeState> = Api::all(cluster.client());
    until("nothing to be held", async || {
        let held = states.get(NODE).await?.status.held;
        let left = format!("held {held:?}, recorded {:?}, in CDI {:?}", recorded(), in_cdi());
        let nothing = held.is_empty() && recorded().is_empty() && in_cdi().is_empty();
        Ok(if nothing { Ok(()) } else { Err(left) })
    })
    .await
}

#[tokio::test]
async fn a_pod_opens_the_devices_of_its_claim_and_no_others() -> anyhow::Result<()> {
    let cluster = Cluster::current().await?;
    let namespace = cluster.namespace_alone("devices").await?;
    let _plugin = Plugin::start(&cluster).await?;
    run_pod(&namespace, "trainer", PAIR).await?;

    // The NIC's node has the number of a device that exists.
    let opened = open(&namespace, "trainer", "/dev/infiniband/uverbs0").await?;
    assert!(opened.contains("exit status: 0"), "{opened}");
    // No driver is behind the GPU's, and the container may open it.
    let opened = open(&namespace, "trainer", "/dev/nvidia0").await?;
    assert!(opened.contains("No such device or address"), "{opened}");
    // A node of its own making does not help: the device cgroup refuses.
    for other in [(10, 232), (231, 193), (195, 1)] {
        let refused = open_by_number(&namespace, "trainer", other).await?;
        assert!(refused.contains("Operation not permitted"), "{other:?}: {refused}");
    }
    let nodes = namespace.exec("trainer", &["ls", "/dev/infiniband"]).await?;
    assert_eq!(nodes.stdout, "rdma_cm\nuverbs0\n", "{nodes}");
    let environment = namespace.exec("trainer", &["env"]).await?;
    assert!(environment.stdout.contains("NVIDIA_VISIBLE_DEVICES=void"), "{environment}");

    let directory = "/var/run/kubernetes.io/dra-device-attributes";
    let file = format!("cat {directory}/resourceclaims/trainer/nic/*");
    let metadata = namespace.exec("trainer", &["sh", "-c", &file]).await?;
    assert!(metadata.stdout.contains(PAIR.1), "{metadata}");

    let states: Api<NodeState> = Api::all(cluster.client());
    let held = states.get(NODE).await?.status.held;
    assert_eq!((held.len(), &held[0].devices), (1, &vec![PAIR.0.to_owned(), PAIR.1.to_owned()]));
    namespace.delete_pod("trainer").await?;
    until_none_is_held(&cluster).await
}

#[tokio::test]
async fn a_device_that_another_claim_holds_is_refused_with_an_event() -> anyhow::Result<()> {
    let cluster = Cluster::current().await?;
    let namespace = cluster.namespace_alone("held-twice").await?;
    let _plugin = Plugin::start(&cluster).await?;
    run_pod(&namespace, "first", PAIR).await?;

    namespace.create_object(&claim("second", &REQUESTS)?).await?;
    let second = namespace.create_object(&pod("second", WAITS, &["second"])?).await?;
    let grant = Allocation::default().grant("gpu", PAIR.0).grant("nic", OTHER.1);
    namespace.allocate("second", &grant.reserved_for(&second)).await?;
    until("an event on the claim", async || {
        let events = namespace.kubectl(&["get", "events.events.k8s.io"], None).await?;
        let told = events
            .stdout
            .lines()
            .any(|line| line.contains("resourceclaim/second") && line.contains("PrepareFailed"));
        Ok(if told { Ok(()) } else { Err(events.stdout) })
    })
    .await?;
    assert_eq!(recorded().len(), 1);

    // kubelet tries again by itself.
    namespace.delete_pod("first").await?;
    namespace.pod_running("second").await?;
    namespace.delete_pod("second").await?;
    until_none_is_held(&cluster).await
}

#[tokio::test]
async fn a_named_claim_serves_one_pod_after_the_other() -> anyhow::Result<()> {
    let cluster = Cluster::current().await?;
    let namespace = cluster.namespace_alone("named-claim").await?;
    let _plugin = Plugin::start(&cluster).await?;
    namespace.create_object(&claim("shared", &REQUESTS)?).await?;
    for name in ["one", "two", "three"] {
        let pod = namespace.create_object(&pod(name, WAITS, &["shared"])?).await?;
        let grant = Allocation::default().grant("gpu", PAIR.0).grant("nic", PAIR.1);
        namespace.allocate("shared", &grant.reserved_for(&pod)).await?;
        namespace.pod_running(name).await?;
        assert_eq!((recorded().len(), in_cdi().len()), (1, 1));
        namespace.delete_pod(name).await?;
        until_none_is_held(&cluster).await?;
    }
    Ok(())
}

#[tokio::test]
async fn slices_are_back_and_pods_run_on_after_a_restart_of_kubelet() -> anyhow::Result<()> {
    let cluster = Cluster::current().await?;
    let namespace = cluster.namespace_alone("kubelet").await?;
    let _plugin = Plugin::start(&cluster).await?;
    let before = run_pod(&namespace, "lasting", PAIR).await?;
    let published = slices(cluster.client()).await?;
    assert!(!published.is_empty());

    cluster.restart_kubelet().await?;

    // kubelet deletes the slices some time after its start: they get another UID.
    let old = published[0].metadata.uid.clone();
    let api: Api<ResourceSlice> = Api::all(cluster.client());
    let name = published[0].metadata.name.clone().unwrap();
    let mut gone: Option<Instant> = None;
    let again = until("kubelet to delete the slices and the plugin to publish them", async || {
        let found = api.get_opt(&name).await?;
        if found.is_none() {
            gone.get_or_insert_with(Instant::now);
        }
        Ok(match found {
            Some(slice) if slice.metadata.uid != old => Ok(slice),
            found => Err(format!("{found:?}")),
        })
    })
    .await?;
    let missing =
        gone.map_or("less than one look".to_owned(), |gone| format!("{:?}", gone.elapsed()));
    println!("the slices were missing for {missing}");
    assert_eq!(without_times(&again), without_times(&published[0]));

    let after = namespace.pod_running("lasting").await?;
    assert_eq!(container(&before), container(&after));
    run_pod(&namespace, "new", OTHER).await?;
    namespace.delete_pod("lasting").await?;
    namespace.delete_pod("new").await?;
    until_none_is_held(&cluster).await
}

#[tokio::test]
async fn pods_run_on_when_the_plugin_is_killed_and_started_again() -> anyhow::Result<()> {
    let cluster = Cluster::current().await?;
    let namespace = cluster.namespace_alone("plugin").await?;
    let mut plugin = Plugin::start(&cluster).await?;
    let before = run_pod(&namespace, "lasting", PAIR).await?;

    plugin.kill()?;
    let running = namespace.pod_running("lasting").await?;
    assert_eq!(container(&before), container(&running));
    plugin.run().await?;

    assert_eq!((recorded().len(), in_cdi().len()), (1, 1));
    run_pod(&namespace, "new", OTHER).await?;
    let after = namespace.pod_running("lasting").await?;
    assert_eq!(container(&before), container(&after));
    namespace.delete_pod("lasting").await?;
    namespace.delete_pod("new").await?;
    until_none_is_held(&cluster).await
}

#[tokio::test]
async fn a_pod_that_ends_while_the_plugin_is_down_gives_its_devices_back() -> anyhow::Result<()> {
    let cluster = Cluster::current().await?;
    let namespace = cluster.namespace_alone("plugin-down").await?;
    let mut plugin = Plugin::start(&cluster).await?;
    run_pod(&namespace, "ending", PAIR).await?;

    plugin.kill()?;
    let pods: Api<Pod> = namespace.api();
    pods.delete("ending", &DeleteParams::default()).await?;
    plugin.run().await?;

    until_none_is_held(&cluster).await?;
    run_pod(&namespace, "next", PAIR).await?;
    namespace.delete_pod("next").await?;
    until_none_is_held(&cluster).await
}

#[tokio::test]
async fn a_container_starts_again_after_its_cdi_files_were_wiped() -> anyhow::Result<()> {
    let cluster = Cluster::current().await?;
    let namespace = cluster.namespace_alone("cdi").await?;
    let _plugin = Plugin::start(&cluster).await?;
    let before = run_pod(&namespace, "lasting", PAIR).await?;

    for entry in fs::read_dir(CDI_DIR)? {
        fs::remove_file(entry?.path())?;
    }
    // The shell ends with its first process, and kubelet starts the container again.
    namespace.exec("lasting", &["kill", "-TERM", "1"]).await?;

    until("another container", async || {
        let pod = namespace.pod_running("lasting").await?;
        Ok(if container(&pod) == container(&before) { Err(container(&pod)) } else { Ok(()) })
    })
    .await?;
    let opened = open(&namespace, "lasting", "/dev/infiniband/uverbs0").await?;
    assert!(opened.contains("exit status: 0"), "{opened}");
    namespace.delete_pod("lasting").await?;
    until_none_is_held(&cluster).await
}
