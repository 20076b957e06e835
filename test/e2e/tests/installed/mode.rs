//! The release is upgraded to mode scheduler, and back.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use lanemate_test_cluster::node::slices;
use lanemate_test_cluster::{WAITS, claim, pod, until};
use serde_json::json;

use crate::scene::{PLUGIN, SYSTEM, Scene, are_pairs};

/// As a user upgrades.
fn upgrade(mode: &str) -> anyhow::Result<()> {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/helm/lanemate");
    let output = Command::new("helm")
        .args(["upgrade", "lanemate"])
        .arg(chart)
        .args(["--namespace", SYSTEM, "--reuse-values", "--set", &format!("mode={mode}")])
        .output()
        .context("run helm")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "helm upgrade to mode {mode}: {complaint}");
    Ok(())
}

/// Waits until the slices say who allocates.
async fn until_tainted(scene: &Scene, tainted: bool) -> anyhow::Result<()> {
    scene.rolled_out(PLUGIN).await?;
    until("the slices of another mode", async || {
        let slices = slices(scene.cluster.client()).await?;
        let mut devices = slices.iter().flat_map(|slice| slice.spec.devices.iter().flatten());
        let is_so = !slices.is_empty() && devices.all(|device| device.taints.is_some() == tainted);
        Ok(if is_so { Ok(()) } else { Err(format!("{slices:?}")) })
    })
    .await
}

#[tokio::test]
async fn upgraded_to_mode_scheduler_kube_scheduler_gives_a_gpu_with_the_nic_of_its_switch()
-> anyhow::Result<()> {
    let scene = Scene::new("mode").await?;
    upgrade("scheduler")?;
    until_tainted(&scene, false).await?;
    let mut matched =
        claim("matched", &[("gpu", "gpu.lanemate.dev"), ("nic", "nic.lanemate.dev")])?;
    let constraint =
        json!([{"requests": ["gpu", "nic"], "matchAttribute": "lanemate.dev/pcieSwitch"}]);
    let devices = matched.spec.as_mut().unwrap().devices.as_mut().unwrap();
    devices.constraints = Some(serde_json::from_value(constraint)?);
    scene.namespace.create_object(&matched).await?;
    scene.namespace.create_object(&pod("matched", WAITS, &["matched"])?).await?;
    scene.namespace.pod_running("matched").await?;
    let granted = scene.devices("matched").await?;
    assert!(are_pairs(&granted, 1), "{granted:?}");
    scene.end(&["matched"]).await?;

    upgrade("controller")?;
    until_tainted(&scene, true).await?;
    scene.run("pair", 1).await?;
    scene.end(&["pair"]).await
}
