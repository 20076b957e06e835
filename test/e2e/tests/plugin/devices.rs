//! Containers open what they were granted, and nothing else.

use kube::Api;
use lanemate_api::node_state::NodeState;
use lanemate_test_cluster::{Allocation, Cluster, NODE, claim, pod};
use serde_json::json;

use super::installed::{PAIR, Plugin, in_cdi, recorded};
use super::pods::{REQUESTS, WAITS, run_pod, until_none_is_held};

#[tokio::test]
async fn a_pod_opens_the_devices_of_its_claim_and_no_others() -> anyhow::Result<()> {
    let cluster = Cluster::current().await?;
    let namespace = cluster.namespace_alone("devices").await?;
    let _plugin = Plugin::start(&cluster).await?;
    run_pod(&namespace, "trainer", PAIR).await?;

    // The NIC's node has the number of a device that exists.
    let opened = namespace.open("trainer", "/dev/infiniband/uverbs0").await?;
    assert!(opened.contains("exit status: 0"), "{opened}");
    // No driver is behind the GPU's, and the container may open it.
    let opened = namespace.open("trainer", "/dev/nvidia0").await?;
    assert!(opened.contains("No such device or address"), "{opened}");
    // A node of its own making does not help: the device cgroup refuses.
    for other in [(10, 232), (231, 193), (195, 1)] {
        let refused = namespace.open_by_number("trainer", other).await?;
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
async fn two_containers_of_a_pod_open_the_devices_of_their_own_requests() -> anyhow::Result<()> {
    let cluster = Cluster::current().await?;
    let namespace = cluster.namespace_alone("two-containers").await?;
    let _plugin = Plugin::start(&cluster).await?;
    namespace.create_object(&claim("pair", &REQUESTS)?).await?;
    let mut both = pod("both", WAITS, &["pair"])?;
    let containers = &mut both.spec.as_mut().unwrap().containers;
    let mut other = containers[0].clone();
    for (container, name, request) in
        [(&mut containers[0], "main", "gpu"), (&mut other, "sidecar", "nic")]
    {
        container.name = name.to_owned();
        let claims = json!({"claims": [{"name": "pair", "request": request}]});
        container.resources = Some(serde_json::from_value(claims)?);
    }
    containers.push(other);
    let both = namespace.create_object(&both).await?;
    let grant = Allocation::default().grant("gpu", PAIR.0).grant("nic", PAIR.1);
    namespace.allocate("pair", &grant.reserved_for(&both)).await?;
    namespace.pod_running("both").await?;

    let open = async |container: &str, (major, minor): (u32, u32)| {
        let script = format!(
            "rm -f /tmp/node && mknod /tmp/node c {major} {minor} && dd if=/tmp/node of=/dev/null count=0"
        );
        let words = ["exec", "both", "--container", container, "--", "sh", "-c", &script];
        anyhow::Ok(namespace.kubectl(&words, None).await?.to_string())
    };
    // The GPU has a number without a driver, the NIC that of a device that exists.
    let (gpu, nic) = ((195, 0), (10, 229));
    for (container, device, expected) in [
        ("main", gpu, "No such device or address"),
        ("main", nic, "Operation not permitted"),
        ("sidecar", gpu, "Operation not permitted"),
        ("sidecar", nic, "exit status: 0"),
    ] {
        let opened = open(container, device).await?;
        assert!(opened.contains(expected), "{container} {device:?}: {opened}");
    }
    for (container, its, others) in
        [("main", "nvidia0", "infiniband"), ("sidecar", "infiniband", "nvidia0")]
    {
        let words = ["exec", "both", "--container", container, "--", "ls", "/dev"];
        let nodes = namespace.kubectl(&words, None).await?.stdout;
        assert!(nodes.contains(its) && !nodes.contains(others), "{container}: {nodes}");
    }
    namespace.delete_pod("both").await?;
    until_none_is_held(&cluster).await
}
