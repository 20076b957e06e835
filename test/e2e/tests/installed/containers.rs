//! Containers open what they were granted, and are told what it is.

use std::collections::BTreeSet;

use lanemate_test_cluster::node::{PAIRS, recorded};
use lanemate_test_cluster::{WAITS, claim, pod};
use serde_json::{Value, json};

use crate::scene::{Scene, are_pairs, pairs_claim};

/// Where KEP-5304 has the metadata of devices.
const METADATA: &str = "/var/run/kubernetes.io/dra-device-attributes/resourceclaims";

fn set(paths: &[&str]) -> BTreeSet<String> {
    paths.iter().map(|&path| path.to_owned()).collect()
}

#[tokio::test]
async fn a_pod_with_a_pair_opens_its_devices_and_no_others() -> anyhow::Result<()> {
    let scene = Scene::new("pair").await?;
    let running = scene.run("trainer", 1).await?;
    assert_eq!(scene.devices("trainer").await?, [PAIRS[0].0, PAIRS[0].1]);
    let annotations = running.metadata.annotations.unwrap_or_default();
    assert!(annotations["lanemate.dev/device-assignment"].contains(PAIRS[0].1), "{annotations:?}");

    let expected = set(&[
        "/dev/infiniband/rdma_cm",
        "/dev/infiniband/uverbs0",
        "/dev/nvidia-uvm",
        "/dev/nvidia-uvm-tools",
        "/dev/nvidia0",
        "/dev/nvidiactl",
    ]);
    assert_eq!(scene.nodes("trainer", "main").await?, expected);
    scene.assert_opens("trainer").await?;
    // No driver is behind the GPU's, and the container may open it.
    let opened = scene.namespace.open("trainer", "/dev/nvidia0").await?;
    assert!(opened.contains("No such device or address"), "{opened}");
    // A node of its own making does not help: the device cgroup refuses.
    for other in [(10, 232), (231, 193), (195, 1)] {
        let refused = scene.namespace.open_by_number("trainer", other).await?;
        assert!(refused.contains("Operation not permitted"), "{other:?}: {refused}");
    }
    scene.end(&["trainer"]).await
}

#[tokio::test]
async fn a_pod_with_four_pairs_has_four_gpus_each_with_the_nic_of_its_switch() -> anyhow::Result<()>
{
    let scene = Scene::new("four-pairs").await?;
    scene.run("trainer", 4).await?;
    let devices = scene.devices("trainer").await?;
    assert!(are_pairs(&devices, 4), "{devices:?}");
    let nodes = scene.nodes("trainer", "main").await?;
    let verbs = nodes.iter().filter(|path| path.contains("uverbs")).count();
    let is_gpu = |path: &&String| {
        path.strip_prefix("/dev/nvidia").is_some_and(|rest| rest.parse::<u32>().is_ok())
    };
    assert_eq!((verbs, nodes.iter().filter(is_gpu).count()), (4, 4), "{nodes:?}");
    scene.end(&["trainer"]).await
}

#[tokio::test]
async fn a_placement_gives_one_container_the_gpu_and_the_other_its_nic() -> anyhow::Result<()> {
    let scene = Scene::new("placement").await?;
    let mut placed = claim("pair", &[("gpu", "gpu.lanemate.dev"), ("nic", "nic.lanemate.dev")])?;
    let placement = json!([{"opaque": {"driver": "lanemate.dev", "parameters": {
        "apiVersion": "lanemate.dev/v1alpha1", "kind": "Placement",
        "unit": [{"request": "gpu", "count": 1}, {"request": "nic", "count": 1}],
        "within": {"required": "PXB"},
    }}}]);
    let devices = placed.spec.as_mut().unwrap().devices.as_mut().unwrap();
    devices.config = Some(serde_json::from_value(placement)?);
    scene.namespace.create_object(&placed).await?;
    let mut both = pod("both", WAITS, &["pair"])?;
    let containers = &mut both.spec.as_mut().unwrap().containers;
    let mut other = containers[0].clone();
    for (container, name, request) in
        [(&mut containers[0], "main", "nic"), (&mut other, "sidecar", "gpu")]
    {
        container.name = name.to_owned();
        let claims = json!({"claims": [{"name": "pair", "request": request}]});
        container.resources = Some(serde_json::from_value(claims)?);
    }
    containers.push(other);
    scene.namespace.create_object(&both).await?;
    scene.namespace.pod_running("both").await?;

    let granted = scene.devices("pair").await?;
    assert!(are_pairs(&granted, 1), "{granted:?}");
    let of_nic = set(&["/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0"]);
    assert_eq!(scene.nodes("both", "main").await?, of_nic);
    scene.assert_opens("both").await?;
    let of_gpu = scene.nodes("both", "sidecar").await?;
    assert!(of_gpu.contains("/dev/nvidia0") && of_gpu.is_disjoint(&of_nic), "{of_gpu:?}");
    let refused = scene.namespace.open_by_number("both", (195, 0)).await?;
    assert!(refused.contains("Operation not permitted"), "{refused}");
    scene.end(&["both"]).await
}

#[tokio::test]
async fn a_container_reads_which_nic_belongs_to_which_gpu() -> anyhow::Result<()> {
    let scene = Scene::new("metadata").await?;
    scene.run("trainer", 2).await?;
    let file = format!("{METADATA}/trainer/pair/lanemate.dev-metadata.json");
    let read = scene.namespace.exec("trainer", &["cat", &file]).await?;
    let versions = serde_json::Deserializer::from_str(&read.stdout).into_iter::<Value>();
    let versions: Vec<Value> = versions.collect::<Result<_, _>>()?;
    let api_versions: Vec<&Value> = versions.iter().map(|version| &version["apiVersion"]).collect();
    let group = "metadata.resource.k8s.io";
    assert_eq!(
        api_versions,
        [&json!(format!("{group}/v1beta1")), &json!(format!("{group}/v1alpha1"))]
    );
    for name in scene.devices("trainer").await? {
        assert!(versions.iter().all(|version| version.to_string().contains(&name)), "{name}");
    }
    let units = versions[0]["metadata"]["annotations"]["lanemate.dev/units"].as_str();
    let units: Value = serde_json::from_str(units.unwrap_or_default())?;
    let classes: Vec<&Value> =
        units.as_array().into_iter().flatten().map(|u| &u["class"]).collect();
    assert_eq!(classes, [&json!("PXB"), &json!("PXB")], "{units}");
    scene.end(&["trainer"]).await
}

#[tokio::test]
async fn libraries_are_told_of_the_nics_where_the_claim_asks_for_it() -> anyhow::Result<()> {
    let scene = Scene::new("environment").await?;
    let environment = json!({
        "apiVersion": "lanemate.dev/v1alpha1", "kind": "Environment",
        "nccl": true, "ucx": true, "cudaDeviceOrder": true,
    });
    scene.namespace.create_object(&pairs_claim("told", 1, environment)?).await?;
    scene.namespace.create_object(&pod("told", WAITS, &["told"])?).await?;
    scene.namespace.pod_running("told").await?;
    scene.run("untold", 1).await?;

    let variables = scene.namespace.exec("told", &["env"]).await?.stdout;
    let expected =
        ["NCCL_IB_HCA==mlx5_0", "UCX_NET_DEVICES=mlx5_0:1", "CUDA_DEVICE_ORDER=PCI_BUS_ID"];
    for variable in expected {
        assert!(variables.lines().any(|line| line == variable), "{variable}: {variables}");
    }
    let variables = scene.namespace.exec("untold", &["env"]).await?.stdout;
    assert!(variables.contains("NVIDIA_VISIBLE_DEVICES=void"), "{variables}");
    for name in ["NCCL_", "UCX_", "CUDA_"] {
        assert!(!variables.contains(name), "{variables}");
    }
    assert_eq!(recorded().len(), 2);
    scene.end(&["told", "untold"]).await
}
