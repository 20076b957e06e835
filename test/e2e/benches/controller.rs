//! Pods per second to bound: kube-scheduler allocating by one `matchAttribute` beside our controller, on one control
//! plane, in one run. `hack/bench-controller` starts what it needs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::stream::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceSlice};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use lanemate_driver::inventory::Policy;
use lanemate_driver::machine::Machine;
use lanemate_driver::resource_slice::{Mode, RenderOptions, render};
use lanemate_driver::testing::facts;
use lanemate_test_cluster::controller::{Controller, Start, kubeconfig, logged};
use lanemate_test_cluster::{Cluster, FakeNode, NodeOptions, TestNamespace};
use serde_json::json;

/// Objects that are created at the same time.
const CREATORS: usize = 16;
/// What is not bound by then is not going to be.
const LONGEST: Duration = Duration::from_secs(300);
/// Clock ticks of `/proc/PID/stat` in a second, on Linux.
const TICKS: f64 = 100.0;

/// One way in which pods come to their devices.
struct Row {
    name: &'static str,
    mode: Mode,
    has_claims: bool,
    is_gated: bool,
    has_controller: bool,
}

const ROWS: [Row; 4] = [
    Row {
        name: "pods without claims",
        mode: Mode::Controller,
        has_claims: false,
        is_gated: false,
        has_controller: false,
    },
    Row {
        name: "(a) kube-scheduler allocates",
        mode: Mode::Scheduler,
        has_claims: true,
        is_gated: false,
        has_controller: false,
    },
    Row {
        name: "(b) controller, gated",
        mode: Mode::Controller,
        has_claims: true,
        is_gated: true,
        has_controller: true,
    },
    Row {
        name: "(c) controller, no gate",
        mode: Mode::Controller,
        has_claims: true,
        is_gated: false,
        has_controller: true,
    },
];

/// What was measured.
struct Measured {
    name: &'static str,
    pods_per_second: f64,
    scheduler_ms: f64,
    controller_ms: Option<f64>,
    allocations_per_second: Option<f64>,
}

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (nodes, pods) = (number("LANEMATE_BENCH_NODES", 100), number("LANEMATE_BENCH_PODS", 500));
    let cluster = Cluster::current().await?;
    let namespace = cluster.namespace_alone("bench").await?;
    let mut fakes = create_nodes(&cluster, &namespace, nodes).await?;
    let mut measured = Vec::new();
    for row in &ROWS {
        publish(&mut fakes, row.mode).await?;
        measured.push(run(&cluster, &namespace, row, pods).await?);
    }
    print(&measured, nodes, pods);
    Ok(())
}

async fn create_nodes(
    cluster: &Cluster,
    namespace: &TestNamespace,
    count: usize,
) -> anyhow::Result<Vec<FakeNode>> {
    let create = |number: usize| async move {
        let name = format!("{}-{number}", namespace.name());
        FakeNode::create(cluster.client(), &name, &NodeOptions::default()).await
    };
    futures::stream::iter(0..count).map(create).buffer_unordered(CREATORS).try_collect().await
}

/// Eight GPUs, each with the NIC of its switch.
async fn publish(nodes: &mut [FakeNode], mode: Mode) -> anyhow::Result<()> {
    let machine = facts("dgx-h100");
    let publish = nodes.iter_mut().map(|node| {
        let seen = Machine::from_facts(node.name(), machine.clone(), None, &Policy::default());
        let mut slices = render(&seen.inventory, RenderOptions { mode, generation: 0 });
        slices.iter_mut().for_each(keep_pairs);
        node.publish_slices(slices)
    });
    futures::stream::iter(publish).buffer_unordered(CREATORS).try_collect::<Vec<_>>().await?;
    Ok(())
}

/// Without the NICs that have no GPU.
fn keep_pairs(slice: &mut ResourceSlice) {
    let switch = |device: &k8s_openapi::api::resource::v1::Device| {
        let attributes = device.attributes.as_ref()?;
        attributes
            .get("pcieSwitch")
            .or_else(|| attributes.get("lanemate.dev/pcieSwitch"))?
            .string
            .clone()
    };
    let mut of_switch = BTreeMap::<String, usize>::new();
    for device in slice.spec.devices.iter().flatten() {
        *of_switch.entry(switch(device).unwrap_or_default()).or_default() += 1;
    }
    if let Some(devices) = &mut slice.spec.devices {
        devices.retain(|device| of_switch[&switch(device).unwrap_or_default()] == 2);
    }
}

async fn run(
    cluster: &Cluster,
    namespace: &TestNamespace,
    row: &Row,
    pods: usize,
) -> anyhow::Result<Measured> {
    let fence = (row.mode == Mode::Scheduler).then(|| cluster.open_fence());
    let directory = tempfile::tempdir()?;
    let controller = match row.has_controller {
        true => Some(start(cluster, namespace, directory.path()).await?),
        false => None,
    };
    tokio::time::sleep(Duration::from_secs(2)).await;
    let scheduler = find("kube-scheduler")?;
    let before = (cpu(scheduler)?, controller.as_ref().map(|it| cpu(it.id())).transpose()?);
    let begun = Instant::now();
    let create = |number: usize| create_pod(namespace, row, number);
    let creating = futures::stream::iter(0..pods).map(create).buffer_unordered(CREATORS);
    creating.try_collect::<Vec<()>>().await?;
    until_bound(namespace, pods).await?;
    let took = begun.elapsed().as_secs_f64();
    let after = (cpu(scheduler)?, controller.as_ref().map(|it| cpu(it.id())).transpose()?);
    let allocations_per_second = match row.has_controller {
        true => Some(rate_of_allocations(namespace).await?),
        false => None,
    };
    clean(namespace).await?;
    drop(controller);
    if let Some(fence) = fence {
        fence.close(cluster, namespace).await?;
        let claims: Api<ResourceClaim> = namespace.api();
        claims.delete("fence", &DeleteParams::default()).await?;
    }
    let per_pod = |ms: f64| ms / pods as f64;
    Ok(Measured {
        name: row.name,
        pods_per_second: pods as f64 / took,
        scheduler_ms: per_pod(after.0 - before.0),
        controller_ms: after.1.zip(before.1).map(|(after, before)| per_pod(after - before)),
        allocations_per_second,
    })
}

async fn start(
    cluster: &Cluster,
    namespace: &TestNamespace,
    directory: &std::path::Path,
) -> anyhow::Result<Controller> {
    let name = namespace.name();
    let since = logged(cluster, name);
    let start = Start {
        // A lease of its own for each row, which waits for nobody.
        lease: format!("{name}-{since}"),
        lease_seconds: 15,
        kubeconfig: kubeconfig(cluster, directory).await?,
    };
    let mut controller = Controller::spawn(cluster, name, &start)?;
    controller.until_working(since).await?;
    Ok(controller)
}

async fn create_pod(namespace: &TestNamespace, row: &Row, number: usize) -> anyhow::Result<()> {
    let name = format!("p{number}");
    let mut spec = json!({
        "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
        "containers": [{"name": "main", "image": "localhost/pause:1",
            "resources": {"requests": {"cpu": "10m"}}}],
    });
    if row.has_claims {
        let claim: ResourceClaim = serde_json::from_value(json!({
            "metadata": {"name": name}, "spec": {"devices": {
                "requests": [
                    {"name": "gpu", "exactly": {"deviceClassName": "gpu.lanemate.dev"}},
                    {"name": "nic", "exactly": {"deviceClassName": "nic.lanemate.dev"}},
                ],
                "constraints": [{"matchAttribute": "lanemate.dev/pcieSwitch"}],
            }},
        }))?;
        namespace.create_object(&claim).await?;
        spec["resourceClaims"] = json!([{"name": "devices", "resourceClaimName": name}]);
        spec["containers"][0]["resources"]["claims"] = json!([{"name": "devices"}]);
    }
    if row.is_gated {
        spec["schedulingGates"] = json!([{"name": "lanemate.dev/placement"}]);
    }
    let pod: Pod = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec}))?;
    let pods: Api<Pod> = namespace.api();
    pods.create(&PostParams::default(), &pod).await.context("create a pod")?;
    Ok(())
}

async fn until_bound(namespace: &TestNamespace, count: usize) -> anyhow::Result<()> {
    let pods: Api<Pod> = namespace.api();
    let begun = Instant::now();
    loop {
        // A count by the API server's own index costs it little.
        let waiting = ListParams::default().fields("spec.nodeName=").limit(1);
        let waiting = pods.list_metadata(&waiting).await?;
        if waiting.items.is_empty() {
            return Ok(());
        }
        let left = waiting.metadata.remaining_item_count.unwrap_or(0) + 1;
        anyhow::ensure!(begun.elapsed() < LONGEST, "{left} of {count} pods are not bound");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Between the first and the last whole second in which claims were allocated.
async fn rate_of_allocations(namespace: &TestNamespace) -> anyhow::Result<f64> {
    let claims: Api<ResourceClaim> = namespace.api();
    let found = claims.list(&ListParams::default()).await?.items;
    let times = found.iter().filter_map(|claim| {
        let allocation = claim.status.as_ref()?.allocation.as_ref()?;
        Some(allocation.allocation_timestamp.as_ref()?.0)
    });
    let times: Vec<_> = times.collect();
    let (first, last) = (times.iter().min().context("none")?, times.iter().max().context("none")?);
    Ok(times.len() as f64 / (last.duration_since(*first).as_secs_f64() + 1.0))
}

async fn clean(namespace: &TestNamespace) -> anyhow::Result<()> {
    let pods: Api<Pod> = namespace.api();
    let claims: Api<ResourceClaim> = namespace.api();
    let now = DeleteParams::default().grace_period(0);
    let begun = Instant::now();
    loop {
        pods.delete_collection(&now, &ListParams::default()).await?;
        claims.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let left = claims.list_metadata(&ListParams::default()).await?.items.len();
        if left == 0 && pods.list_metadata(&ListParams::default()).await?.items.is_empty() {
            return Ok(());
        }
        anyhow::ensure!(begun.elapsed() < LONGEST, "{left} claims are left");
    }
}

/// The process of a name.
fn find(name: &str) -> anyhow::Result<u32> {
    for entry in std::fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let command = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if command.trim() == name {
            return Ok(pid);
        }
    }
    anyhow::bail!("no process {name}")
}

/// CPU time of a process, in ms.
fn cpu(pid: u32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').context("a stat file")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok());
    let (user, system) = ticks(11).zip(ticks(12)).context("times in a stat file")?;
    Ok((user + system) * 1000.0 / TICKS)
}

fn print(measured: &[Measured], nodes: usize, pods: usize) {
    println!(
        "{nodes} nodes x (8 GPUs + 8 NICs), {pods} pods, one claim of a GPU and the NIC of its switch each"
    );
    println!("| | pods/s | kube-scheduler ms/pod | controller ms/pod | allocations/s |");
    println!("|---|---|---|---|---|");
    let optional = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    for row in measured {
        println!(
            "| {} | {:.1} | {:.1} | {} | {} |",
            row.name,
            row.pods_per_second,
            row.scheduler_ms,
            optional(row.controller_ms),
            optional(row.allocations_per_second),
        );
    }
    if let [_, a, b, ..] = measured {
        println!(
            "(b) / (a): {:.2} times the pods per second",
            b.pods_per_second / a.pods_per_second
        );
        println!("(b) / (a): {:.2} times kube-scheduler's CPU", b.scheduler_ms / a.scheduler_ms);
    }
}
