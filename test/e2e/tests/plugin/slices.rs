//! The API server takes the slices of every captured machine as they are.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use lanemate_driver::inventory::Policy;
use lanemate_driver::machine::Machine;
use lanemate_driver::resource_slice::{Mode, RenderOptions, render};
use lanemate_driver::testing::{HOSTS, facts};
use lanemate_kubelet_plugin::kubernetes::slices::publisher::{self, Published, Publisher};
use lanemate_kubelet_plugin::telemetry::metrics::Metrics;
use lanemate_runtime::client::connect;
use lanemate_test_cluster::Cluster;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::installed::{apply_rights, kubectl, server, write_kubeconfig};

/// Longer than any write takes on a busy machine.
const WITHIN: Duration = Duration::from_secs(60);

/// A Node without a kubelet, deleted when dropped.
struct NodeObject(String);

impl NodeObject {
    async fn create(cluster: &Cluster) -> anyhow::Result<Self> {
        let node: Node = serde_json::from_value(json!({
            "metadata": {"generateName": "captured-"},
            // Pods of other tests have no business here.
            "spec": {"unschedulable": true},
        }))?;
        let nodes: Api<Node> = Api::all(cluster.client());
        let created = nodes.create(&PostParams::default(), &node).await.context("create a node")?;
        Ok(Self(created.name_any()))
    }
}

impl Drop for NodeObject {
    fn drop(&mut self) {
        // Its slices go with it.
        if let Err(error) = kubectl(&["delete", "node", &self.0, "--wait=false"]) {
            eprintln!("{error:#}");
        }
    }
}

/// All that a slice says, without its generation and the times at which the API server saw taints.
fn said(slice: &ResourceSlice) -> anyhow::Result<Value> {
    let mut spec = slice.spec.clone();
    spec.pool.generation = 0;
    for device in spec.devices.iter_mut().flatten() {
        for taint in device.taints.iter_mut().flatten() {
            taint.time_added = None;
        }
    }
    Ok(serde_json::to_value(spec)?)
}

#[tokio::test]
async fn slices_of_every_captured_machine_come_back_as_they_were_sent() -> anyhow::Result<()> {
    let cluster = Cluster::current().await?;
    let _turn = cluster.namespace("captured-machines").await?;
    let node = NodeObject::create(&cluster).await?;
    let directory = tempfile::tempdir()?;
    let kubeconfig = directory.path().join("kubeconfig");
    apply_rights()?;
    write_kubeconfig(&kubeconfig, &server()?, &node.0)?;
    let machine =
        |host: &str| Arc::new(Machine::from_facts(&node.0, facts(host), None, &Policy::default()));
    let (machines, machine_now) = watch::channel(machine(HOSTS[0]));
    let (modes, mode_now) = watch::channel(Mode::Controller);
    let (told, mut published) = watch::channel(Published::default());
    let (end, ending) = watch::channel(false);
    let publisher = Publisher {
        client: connect(Some(&kubeconfig)).await?.client,
        node: node.0.clone(),
        machine: machine_now,
        mode: mode_now,
        published: told,
        metrics: Metrics::new(&mut Registry::default()),
        watch_seconds: publisher::WATCH_SECONDS,
    };
    let publishing = tokio::spawn(publisher::run(publisher, ending));

    let slices: Api<ResourceSlice> = Api::all(cluster.client());
    let of_node = ListParams::default().fields(&format!("spec.nodeName={}", node.0));
    let mut generation = 0;
    for mode in [Mode::Controller, Mode::Scheduler] {
        modes.send_replace(mode);
        for host in HOSTS {
            let machine = machine(host);
            let sent = render(&machine.inventory, RenderOptions { mode, generation: 0 });
            machines.send_replace(machine);
            // Each host in each mode is another content, and gets another generation.
            let is_new = |now: &Published| now.is_complete && now.generation > generation;
            let now = tokio::time::timeout(WITHIN, published.wait_for(is_new)).await;
            let now = now.with_context(|| format!("{host} {mode:?} is not published"))??.clone();
            generation = now.generation;
            assert_eq!(now.differences, Vec::<String>::new(), "{host} {mode:?}");
            let stored = slices.list(&of_node).await?.items;
            let stored: Vec<Value> = stored.iter().map(said).collect::<anyhow::Result<_>>()?;
            let sent: Vec<Value> = sent.iter().map(said).collect::<anyhow::Result<_>>()?;
            assert_eq!(stored, sent, "{host} {mode:?}");
        }
    }
    end.send_replace(true);
    publishing.await??;
    Ok(())
}
