//! The plugin takes over what an older one has recorded.

use std::fs;

use anyhow::Context;
use lanemate_kubelet_plugin::state::record::Record;
use lanemate_test_cluster::node::{PLUGIN_DIR, recorded};
use lanemate_test_cluster::{container_id, until};

use crate::scene::{PLUGIN, Scene};

/// There is one version of records so far. This is one as an older plugin of that version may have left it:
/// without what is optional, which is the boot and the identity of the devices.
fn as_an_older_plugin_wrote_it(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut record = Record::decode(bytes)?;
    record.writer = "lanemate-kubelet-plugin 0.0.1".to_owned();
    record.boot_id = None;
    for device in &mut record.devices {
        device.identity = Default::default();
    }
    record.encode().context("write a record")
}

/// No plugin runs on the node while it is labelled in vain.
async fn stop_plugin(scene: &Scene) -> anyhow::Result<()> {
    select(scene, "\"nowhere\"").await?;
    until("the plugin to be gone", async || {
        let desired = scene
            .system(&["get", PLUGIN, "-o", "jsonpath={.status.currentNumberScheduled}"])
            .await?;
        Ok(if desired.stdout == "0" { Ok(()) } else { Err(desired.stdout) })
    })
    .await
}

async fn select(scene: &Scene, value: &str) -> anyhow::Result<()> {
    let selector = format!(
        "{{\"spec\": {{\"template\": {{\"spec\": {{\"nodeSelector\": {{\"lanemate-test/plugin\": {value}}}}}}}}}}}"
    );
    scene.system(&["patch", PLUGIN, "--type", "merge", "--patch", &selector]).await.map(drop)
}

#[tokio::test]
async fn a_pod_runs_on_when_a_plugin_takes_over_the_record_of_an_older_one() -> anyhow::Result<()> {
    let scene = Scene::new("record").await?;
    let before = scene.run("lasting", 1).await?;
    let uid = recorded().pop().context("a record of the running pod")?;
    stop_plugin(&scene).await?;
    let file = format!("{PLUGIN_DIR}/state/claims/{uid}.json");
    let older = as_an_older_plugin_wrote_it(&fs::read(&file)?)?;
    fs::write(&file, &older)?;

    select(&scene, "null").await?;
    scene.rolled_out(PLUGIN).await?;

    let after = scene.namespace.pod_running("lasting").await?;
    assert_eq!(container_id(&before)?, container_id(&after)?);
    // It is as it was left, not set aside.
    assert_eq!(recorded(), [uid]);
    scene.run("new", 1).await?;
    assert_ne!(scene.devices("new").await?, scene.devices("lasting").await?);
    scene.namespace.restart_container("lasting").await?;
    scene.assert_opens("lasting").await?;
    scene.end(&["lasting", "new"]).await
}
