//! Between a process with the controller's rights and a real API server.

use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher;
use kube::{Api, Client, Config};
use lanemate_test_cluster::{Allocation, claim, until};
use lanemate_test_proxy::{ApiProxy, Matcher};

use super::ground::{CONTROLLER, GPU, Ground, ONE_GPU, allocated};

async fn through(ground: &Ground) -> anyhow::Result<(ApiProxy, Client)> {
    let access = ground.cluster.access()?;
    let proxy = ApiProxy::start(&access.server, Some(&access.authority)).await?;
    let kubeconfig = proxy.kubeconfig(&ground.cluster.token(CONTROLLER, None).await?);
    let options = KubeConfigOptions::default();
    let kubeconfig = Kubeconfig::from_yaml(&kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok((proxy, Client::try_from(config)?))
}

#[tokio::test]
async fn a_write_that_was_given_up_can_still_commit() -> anyhow::Result<()> {
    let ground = Ground::new("given-up").await?;
    let (proxy, client) = through(&ground).await?;
    ground.namespace.create_object(&claim("late", &GPU)?).await?;
    let rule = proxy.hold(Matcher::new("PUT", "/resourceclaims/late/status"));
    let grant = Allocation::on(ground.node.name()).grant("gpu", ONE_GPU);
    let write = ground.namespace.allocate_as(client, "late", &grant);
    tokio::select! {
        written = write => panic!("not held: {written:?}"),
        caught = rule.until_caught(1) => caught?,
    }
    // The client is gone with its future.
    assert!(!allocated(&ground.claims().get("late").await?));
    rule.release();
    ground.until_allocated("late", true).await
}

#[tokio::test]
async fn a_watch_shows_nothing_while_it_is_stalled() -> anyhow::Result<()> {
    use futures::StreamExt as _;
    let ground = Ground::new("stalled").await?;
    let (proxy, client) = through(&ground).await?;
    let claims: Api<ResourceClaim> = Api::namespaced(client, ground.namespace.name());
    let stream = watcher::watcher(claims, watcher::Config::default());
    let shown = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let names = std::sync::Arc::clone(&shown);
    let watching = tokio::spawn(stream.for_each(move |event| {
        if let Ok(watcher::Event::Apply(claim)) = event {
            names.lock().unwrap().push(claim.metadata.name.unwrap());
        }
        std::future::ready(())
    }));
    let until_shown = async |expected: &[&str]| {
        until(&format!("{expected:?} to be shown"), async || {
            let shown = shown.lock().unwrap().clone();
            Ok(if shown == expected { Ok(()) } else { Err(format!("{shown:?}")) })
        })
        .await
    };
    until("the watch to run", async || {
        let watches = proxy.count(&Matcher::new("WATCH", "/resourceclaims"));
        Ok(if watches > 0 { Ok(()) } else { Err("no watch".to_owned()) })
    })
    .await?;
    ground.namespace.create_object(&claim("first", &GPU)?).await?;
    until_shown(&["first"]).await?;

    let rule = proxy.stall(Matcher::new("WATCH", "/resourceclaims"));
    ground.namespace.create_object(&claim("second", &GPU)?).await?;
    rule.until_caught(1).await?;
    until_shown(&["first"]).await?;
    rule.release();
    until_shown(&["first", "second"]).await?;
    watching.abort();
    Ok(())
}
