//! Whatever starts again, pods run on, and others start.

use std::fs;

use lanemate_test_cluster::{CDI_DIR, container_id};

use crate::scene::{CONTROLLER, PLUGIN, Scene};

/// A running pod runs on over a deed, opens its device again when its container starts again, and another pod
/// starts.
async fn check_running_on(
    test: &str,
    deed: impl AsyncFnOnce(&Scene) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let scene = Scene::new(test).await?;
    let before = scene.run("lasting", 1).await?;
    deed(&scene).await?;

    let after = scene.namespace.pod_running("lasting").await?;
    assert_eq!(container_id(&before)?, container_id(&after)?);
    scene.assert_opens("lasting").await?;
    scene.run("new", 1).await?;
    scene.namespace.restart_container("lasting").await?;
    scene.assert_opens("lasting").await?;
    scene.end(&["lasting", "new"]).await
}

#[tokio::test]
async fn a_pod_runs_on_and_another_starts_over_a_restart_of_kubelet() -> anyhow::Result<()> {
    check_running_on("kubelet", async |scene| scene.cluster.restart_kubelet().await).await
}

#[tokio::test]
async fn a_pod_runs_on_and_another_starts_over_a_rolling_update_of_the_plugin() -> anyhow::Result<()>
{
    check_running_on("plugin", async |scene| {
        scene.system(&["rollout", "restart", PLUGIN]).await?;
        scene.rolled_out(PLUGIN).await
    })
    .await
}

#[tokio::test]
async fn a_pod_runs_on_and_another_starts_over_a_restart_of_the_controller() -> anyhow::Result<()> {
    check_running_on("controller", async |scene| {
        scene.system(&["rollout", "restart", CONTROLLER]).await?;
        scene.rolled_out(CONTROLLER).await
    })
    .await
}

#[tokio::test]
async fn a_pod_runs_on_and_another_starts_when_the_cdi_directory_was_wiped() -> anyhow::Result<()> {
    check_running_on("cdi", async |_| {
        for entry in fs::read_dir(CDI_DIR)? {
            fs::remove_file(entry?.path())?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn after_a_reboot_of_the_node_a_pod_runs_again_on_its_devices_and_another_starts()
-> anyhow::Result<()> {
    let scene = Scene::new("reboot").await?;
    let before = scene.run("lasting", 1).await?;
    let devices = scene.devices("lasting").await?;

    scene.cluster.reboot().await?;

    scene.rolled_out(PLUGIN).await?;
    let after = scene.namespace.another_container("lasting", &before).await?;
    assert_eq!(before.metadata.uid, after.metadata.uid);
    assert_eq!(scene.devices("lasting").await?, devices);
    scene.assert_opens("lasting").await?;
    scene.run("new", 1).await?;
    scene.end(&["lasting", "new"]).await
}
