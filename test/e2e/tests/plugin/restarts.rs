//! Kubelet, the plugin and containers start again under running pods.

use std::fs;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::api::{DeleteParams, ListParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use lanemate_test_cluster::node::devices_of;
use lanemate_test_cluster::{CDI_DIR, Cluster, container_id, until};

use super::installed::{OTHER, PAIR, Plugin, in_cdi, of_node, recorded, slices};
use super::pods::{run_pod, until_none_is_held};

/// kubelet deletes slices within seconds of its start.
const WITHIN: Duration = Duration::from_secs(60);
/// Many times what it takes, for a busy machine; yet less than the 29 s of others.
const LONGEST_GAP: Duration = Duration::from_secs(5);

/// How long the slices of the node are missing, from the first deletion to the next creation, as a
/// watch tells it.
async fn absence(client: Client) -> anyhow::Result<Duration> {
    let api: Api<ResourceSlice> = Api::all(client);
    let listed = api.list(&ListParams::default().fields(&of_node())).await?;
    let since = listed.metadata.resource_version.context("a list has a version")?;
    let events = api.watch(&WatchParams::default().fields(&of_node()), &since).await?;
    let mut events = pin!(events);
    let mut gone: Option<Instant> = None;
    while let Some(event) = events.try_next().await? {
        match (event, gone) {
            (WatchEvent::Deleted(_), None) => gone = Some(Instant::now()),
            (WatchEvent::Added(_), Some(gone)) => return Ok(gone.elapsed()),
            _ => {}
        }
    }
    anyhow::bail!("the watch of slices has ended")
}

#[tokio::test]
async fn slices_are_back_and_pods_run_on_after_a_restart_of_kubelet() -> anyhow::Result<()> {
    let cluster = Cluster::current().await?;
    let namespace = cluster.namespace_alone("kubelet").await?;
    let _plugin = Plugin::start(&cluster).await?;
    let before = run_pod(&namespace, "lasting", PAIR).await?;
    let published = slices(cluster.client()).await?;
    assert!(!published.is_empty());

    let watching = tokio::spawn(absence(cluster.client()));

    cluster.restart_kubelet().await?;

    // kubelet deletes the slices some time after its start.
    let missing =
        tokio::time::timeout(WITHIN, watching).await.context("no slice was deleted")???;
    println!("slices deleted by kubelet were back after {} ms", missing.as_millis());
    assert!(missing < LONGEST_GAP, "slices deleted by kubelet were back after {missing:?}");
    let again = until("the slices", async || {
        let again = slices(cluster.client()).await?;
        Ok(if again.len() == published.len() { Ok(again) } else { Err(format!("{again:?}")) })
    })
    .await?;
    assert_ne!(again[0].metadata.uid, published[0].metadata.uid);
    assert_eq!(devices_of(&again[0]), devices_of(&published[0]));

    let after = namespace.pod_running("lasting").await?;
    assert_eq!(container_id(&before)?, container_id(&after)?);
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
    assert_eq!(container_id(&before)?, container_id(&running)?);
    plugin.run().await?;

    assert_eq!((recorded().len(), in_cdi().len()), (1, 1));
    run_pod(&namespace, "new", OTHER).await?;
    let after = namespace.pod_running("lasting").await?;
    assert_eq!(container_id(&before)?, container_id(&after)?);
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
    run_pod(&namespace, "lasting", PAIR).await?;

    for entry in fs::read_dir(CDI_DIR)? {
        fs::remove_file(entry?.path())?;
    }
    namespace.restart_container("lasting").await?;

    let opened = namespace.open("lasting", "/dev/infiniband/uverbs0").await?;
    assert!(opened.contains("exit status: 0"), "{opened}");
    namespace.delete_pod("lasting").await?;
    until_none_is_held(&cluster).await
}
