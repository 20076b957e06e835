//! `lanemate check`: all is right in a cluster that is set up, and each thing that is broken is named, alone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use lanemate_driver::resource_slice::Mode;
use lanemate_test_cluster::{TEST_LABEL, until};
use serde_json::{Value, json};

use crate::ground::kubectl;
use crate::scene::Scene;

/// Where controller and plugin are installed.
const SYSTEM: &str = "lanemate-system";
const PLUGIN: &str = "lanemate-kubelet-plugin";
/// The lease that a controller holds by default, and the check looks at.
const LEASE: &str = "lanemate-controller";

/// Puts back what a test takes away, when it is dropped: before its scene is, which lets the next test begin.
struct Mended;

impl Drop for Mended {
    fn drop(&mut self) {
        kubectl(&["delete", "daemonset", PLUGIN, "-n", SYSTEM, "--ignore-not-found"]);
        kubectl(&["delete", "lease", LEASE, "-n", SYSTEM, "--ignore-not-found"]);
        kubectl(&["delete", "resourceslice", "other-driver", "--ignore-not-found"]);
        for file in ["deviceclasses.yaml", "rbac", "admission"] {
            apply(file);
        }
    }
}

fn apply(file: &str) {
    kubectl(&["apply", "-f", &deployed(file)]);
}

fn deployed(file: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    root.join(file).display().to_string()
}

/// Names of the checks that have not ended `ok`, with what was found; the exit status has to agree.
fn wrong(flags: &[&str]) -> anyhow::Result<Vec<(String, String, String)>> {
    let program = std::env::var_os("LANEMATE_CLI").map(PathBuf::from);
    let program = program.context("LANEMATE_CLI is not set: run hack/e2e")?;
    let ended = Command::new(&program).args(["check", "-o", "json"]).args(flags).output()?;
    let checks: Vec<Value> = serde_json::from_slice(&ended.stdout)
        .with_context(|| String::from_utf8_lossy(&ended.stderr).into_owned())?;
    let text = |check: &Value, field: &str| check[field].as_str().unwrap_or_default().to_owned();
    let wrong: Vec<_> = checks
        .iter()
        .filter(|check| check["result"] != "ok")
        .map(|check| (text(check, "result"), text(check, "name"), text(check, "found")))
        .collect();
    let is_failed = wrong.iter().any(|(result, ..)| result == "failed");
    anyhow::ensure!(
        ended.status.code() == Some(i32::from(is_failed)),
        "{:?}: {wrong:?}",
        ended.status
    );
    Ok(wrong)
}

/// Waits until these checks and no others have failed: admission and rights follow a change a moment later.
async fn until_failed(flags: &[&str], expect: &[&str]) -> anyhow::Result<()> {
    let expected: BTreeSet<&str> = expect.iter().copied().collect();
    until(&format!("the failed checks to be {expect:?}"), async || {
        let wrong = wrong(flags)?;
        let failed = wrong.iter().filter(|(result, ..)| result == "failed");
        let failed: BTreeSet<&str> = failed.map(|(_, name, _)| name.as_str()).collect();
        Ok(if failed == expected { Ok(()) } else { Err(format!("{wrong:?}")) })
    })
    .await
}

/// A DaemonSet that puts the plugin on the node of the test; nobody starts its pod there.
async fn install_plugin(scene: &Scene) -> anyhow::Result<()> {
    let labels = json!({"app": PLUGIN});
    let set = serde_json::from_value(json!({
        "metadata": {"name": PLUGIN, "namespace": SYSTEM},
        "spec": {"selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {
                "nodeSelector": {TEST_LABEL: scene.namespace.name()},
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "plugin", "image": "localhost/plugin",
                    "args": ["--mode", "controller"]}],
            },
        }},
    }))?;
    let sets: Api<DaemonSet> = Api::namespaced(scene.cluster.client(), SYSTEM);
    sets.create(&PostParams::default(), &set).await.context("create the DaemonSet")?;
    Ok(())
}

/// Says of the plugin's pod what kubelet would.
async fn say_of_plugin(scene: &Scene, is_ready: bool, state: Value) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::namespaced(scene.cluster.client(), SYSTEM);
    let of_set = ListParams::default().labels(&format!("app={PLUGIN}"));
    let name = until("the pod of the plugin to have a node", async || {
        let pod = pods.list(&of_set).await?.items.into_iter().next();
        let pod = pod.filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()));
        Ok(pod.map(|pod| pod.name_any()).ok_or_else(|| "none".to_owned()))
    })
    .await?;
    let ready = if is_ready { "True" } else { "False" };
    let status = json!({"status": {
        "phase": "Running", "conditions": [{"type": "Ready", "status": ready}],
        "containerStatuses": [{"name": "plugin", "image": "a", "imageID": "a", "ready": is_ready,
            "restartCount": 0, "state": state}],
    }});
    pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}

/// A cluster with one node that is set up as it ought to be.
async fn set_up(scene: &mut Scene) -> anyhow::Result<()> {
    let label = scene.namespace.name().to_owned();
    let options = lanemate_test_cluster::NodeOptions::default().label(TEST_LABEL, &label);
    scene.add_node("dgx-h100", Mode::Controller, &options).await?;
    scene.nodes[0].hold(Vec::new()).await?;
    scene.namespace.label("lanemate.dev/placement", "enabled").await?;
    scene.start.lease = LEASE.to_owned();
    scene.start_controller().await?;
    install_plugin(scene).await?;
    say_of_plugin(scene, true, json!({"running": {}})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_thing_that_is_broken_is_named_alone() -> anyhow::Result<()> {
    let mut scene = Scene::without_controller("check", &[], Mode::Controller).await?;
    let _mended = Mended;
    set_up(&mut scene).await?;
    until("all to be right", async || {
        let wrong = wrong(&[])?;
        Ok(if wrong.is_empty() { Ok(()) } else { Err(format!("{wrong:?}")) })
    })
    .await?;

    // Rights, policies and classes.
    for (kind, name, file, checks) in [
        ("clusterrolebinding", PLUGIN, "rbac", &["Plugin rights"][..]),
        ("clusterrolebinding", "lanemate-controller", "rbac", &["Rights"]),
        ("validatingadmissionpolicybinding", "lanemate-node", "admission", &["Fence"]),
        ("mutatingadmissionpolicybinding", "lanemate-placement-gate", "admission", &["Gate"]),
        (
            "deviceclass",
            "nic.lanemate.dev",
            "deviceclasses.yaml",
            &["DeviceClasses", "ResourceClasses"],
        ),
    ] {
        kubectl(&["delete", kind, name]);
        until_failed(&[], checks).await?;
        apply(file);
    }
    until_failed(&[], &[]).await?;

    // The plugin.
    let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}});
    say_of_plugin(&scene, false, waiting).await?;
    until_failed(&[], &["Plugin"]).await?;
    let words = wrong(&[])?.into_iter().map(|(.., found)| found).collect::<String>();
    assert!(words.contains(scene.nodes[0].name()), "{words}");
    assert!(words.contains("ImagePullBackOff: no such image"), "{words}");
    say_of_plugin(&scene, true, json!({"running": {}})).await?;
    until_failed(&[], &[]).await?;

    slices(&mut scene).await?;
    others(&scene).await?;

    // Last, as its lease stays.
    let controller = scene.controller.as_mut().context("the controller runs")?;
    assert!(controller.terminate().await?.success());
    until_failed(&[], &["Controller"]).await
}

/// What a plugin may publish wrongly.
async fn slices(scene: &mut Scene) -> anyhow::Result<()> {
    let name = scene.nodes[0].name().to_owned();
    let published = scene.nodes[0].publish("dgx-h100", Mode::Scheduler).await?;
    until_failed(&[], &["Mode"]).await?;
    let mut short = published;
    for slice in &mut short {
        slice.spec.pool.resource_slice_count += 1;
        for device in slice.spec.devices.iter_mut().flatten() {
            let taint = json!([{"key": "lanemate.dev/allocator", "value": "controller",
                "effect": "NoSchedule"}]);
            device.taints = Some(serde_json::from_value(taint)?);
        }
    }
    scene.nodes[0].publish_slices(short).await?;
    until_failed(&[], &["Pools", "Trial"]).await?;
    scene.nodes[0].publish("dgx-h100", Mode::Controller).await?;
    until_failed(&[], &[]).await?;
    kubectl(&["delete", "nodestate", &name]);
    until_failed(&[], &["NodeStates"]).await?;
    scene.nodes[0].hold(Vec::new()).await?;
    kubectl(&["cordon", &name]);
    until_failed(&[], &["Trial"]).await?;
    kubectl(&["uncordon", &name]);
    until_failed(&[], &[]).await
}

/// Others that give the devices of the node away.
async fn others(scene: &Scene) -> anyhow::Result<()> {
    let name = scene.nodes[0].name();
    let slice = serde_json::from_value(json!({
        "metadata": {"name": "other-driver"},
        "spec": {
            "driver": "gpu.nvidia.com", "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "attributes":
                {"resource.kubernetes.io/pciBusID": {"string": "0000:1b:00.0"}}}],
        },
    }))?;
    let slices: Api<ResourceSlice> = Api::all(scene.cluster.client());
    slices.create(&PostParams::default(), &slice).await.context("create a slice")?;
    until_failed(&[], &["Other drivers"]).await?;
    kubectl(&["delete", "resourceslice", "other-driver"]);
    let nodes: Api<Node> = Api::all(scene.cluster.client());
    for (count, expect) in [("8", &["Device plugins"][..]), ("0", &[][..])] {
        let counted = json!({"nvidia.com/gpu": count});
        let status = json!({"status": {"allocatable": counted, "capacity": counted}});
        nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
        until_failed(&[], expect).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn in_mode_scheduler_the_fence_is_in_the_way_and_no_controller_is_missed()
-> anyhow::Result<()> {
    let scene =
        Scene::without_controller("check-scheduler", &["dgx-h100"], Mode::Scheduler).await?;
    let _mended = Mended;
    scene.nodes[0].hold(Vec::new()).await?;
    until_failed(&[], &["Fence"]).await?;
    // Whether the class is compiled depends on the controllers of other tests.
    let told = wrong(&["--mode", "controller"])?;
    for name in ["Mode", "Controller"] {
        let is_failed = told.iter().any(|(result, of, _)| result == "failed" && of == name);
        assert!(is_failed, "{name}: {told:?}");
    }
    let fence = scene.cluster.open_fence();
    kubectl(&["delete", "-f", &deployed("admission/fence.yaml"), "--ignore-not-found"]);
    until_failed(&[], &[]).await?;
    until_failed(&["--mode", "scheduler"], &[]).await?;
    fence.close(&scene.cluster, &scene.namespace).await
}
