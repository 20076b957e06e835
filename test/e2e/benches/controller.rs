//! Pods per second to bound: kube-scheduler allocating by one `matchAttribute` beside our controller, on one control
//! plane, in one run. `hack/bench-controller` starts what it needs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceSlice};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use lanemate_driver::inventory::Policy;
use lanemate_driver::machine::Machine;
use lanemate_driver::resource_slice::{Mode, RenderOptions, render};
use lanemate_driver::testing::facts;
use lanemate_test_cluster::controller::{Controller, Start, kubeconfig, logged};
use lanemate_test_cluster::{Cluster, Component, Deed, FakeNode, NodeOptions, TestNamespace};
use serde_json::json;

/// Objects that are created at the same time.
const CREATORS: usize = 16;
/// What is not bound by then is not going to be.
const LONGEST: Duration = Duration::from_secs(300);
/// Clock ticks of `/proc/PID/stat` in a second, on Linux.
const TICKS: f64 = 100.0;

/// Programs of the control plane of which the CPU time is told.
const PROGRAMS: [&str; 3] = ["kube-scheduler", "kube-apiserver", "etcd"];

/// One way in which pods come to their devices.
struct Row {
    name: &'static str,
    way: Way,
    /// Pods and claims are there before the one who allocates them: what creating them costs is not measured.
    is_backlog: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    NoClaims,
    Scheduler,
    Gated,
    Ungated,
}

const ROWS: [Row; 6] = [
    Row { name: "pods without claims", way: Way::NoClaims, is_backlog: false },
    Row { name: "(a) kube-scheduler allocates", way: Way::Scheduler, is_backlog: false },
    Row { name: "(b) controller, gated", way: Way::Gated, is_backlog: false },
    Row { name: "(c) controller, no gate", way: Way::Ungated, is_backlog: false },
    Row { name: "(a) of a backlog", way: Way::Scheduler, is_backlog: true },
    Row { name: "(b) of a backlog", way: Way::Gated, is_backlog: true },
];

/// What was measured.
struct Measured {
    name: &'static str,
    pods_per_second: f64,
    allocations_per_second: Option<f64>,
    /// Of [`PROGRAMS`], of the controller if there is one, and of this process, which creates the pods: ms per pod.
    programs: [f64; PROGRAMS.len()],
    controller: Option<f64>,
    creating: f64,
}

impl Way {
    fn mode(self) -> Mode {
        if self == Way::Scheduler { Mode::Scheduler } else { Mode::Controller }
    }

    fn has_controller(self) -> bool {
        matches!(self, Way::Gated | Way::Ungated)
    }
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
        publish(&mut fakes, row.way.mode()).await?;
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
    stream::iter(0..count).map(create).buffer_unordered(CREATORS).try_collect().await
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
    stream::iter(publish).buffer_unordered(CREATORS).try_collect::<Vec<_>>().await?;
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
    let fence = (row.way == Way::Scheduler).then(|| cluster.open_fence());
    let directory = tempfile::tempdir()?;
    let watch = row.way.has_controller().then(|| Allocations::watch(namespace, pods));
    let create = stream::iter(0..pods).map(|number| create_pod(namespace, row.way, number));
    let create = create.buffer_unordered(CREATORS).try_collect::<()>();
    let (controller, before, begun);
    if row.is_backlog {
        let paused = cluster.disturb(Component::Scheduler, Deed::Pause).await?;
        create.await?;
        if row.way.has_controller() {
            paused.end().await?;
            (before, begun) = (cpu_times(None)?, Instant::now());
            controller = Some(start(cluster, namespace, directory.path()).await?);
        } else {
            (before, begun) = (cpu_times(None)?, Instant::now());
            paused.end().await?;
            controller = None;
        }
    } else {
        controller = match row.way.has_controller() {
            true => Some(start(cluster, namespace, directory.path()).await?),
            false => None,
        };
        tokio::time::sleep(Duration::from_secs(2)).await;
        (before, begun) = (cpu_times(controller.as_ref())?, Instant::now());
        create.await?;
    }
    until_bound(namespace, pods).await?;
    let took = begun.elapsed().as_secs_f64();
    let after = cpu_times(controller.as_ref())?;
    let allocations_per_second = match watch {
        Some(watch) => Some(watch.rate().await?),
        None => None,
    };
    clean(namespace).await?;
    drop(controller);
    if let Some(fence) = fence {
        fence.close(cluster, namespace).await?;
        let claims: Api<ResourceClaim> = namespace.api();
        claims.delete("fence", &DeleteParams::default()).await?;
    }
    let per_pod = |after: f64, before: f64| (after - before) / pods as f64;
    Ok(Measured {
        name: row.name,
        pods_per_second: pods as f64 / took,
        allocations_per_second,
        programs: std::array::from_fn(|at| per_pod(after.programs[at], before.programs[at])),
        controller: after.controller.map(|now| per_pod(now, before.controller.unwrap_or(0.0))),
        creating: per_pod(after.creating, before.creating),
    })
}

/// A watch of the claims, which counts those that become allocated.
struct Allocations {
    task: tokio::task::JoinHandle<anyhow::Result<f64>>,
}

impl Allocations {
    fn watch(namespace: &TestNamespace, count: usize) -> Self {
        let claims = namespace.api::<ResourceClaim>();
        let task = tokio::spawn(async move {
            let events = watcher(claims, watcher::Config::default()).applied_objects();
            let mut events = std::pin::pin!(events);
            let mut seen = BTreeSet::new();
            let mut first = None;
            while seen.len() < count {
                let claim = events.next().await.context("the watch of claims has ended")??;
                if claim.status.is_some_and(|status| status.allocation.is_some()) {
                    first.get_or_insert_with(Instant::now);
                    seen.insert(claim.metadata.uid);
                }
            }
            let first = first.context("no claim was asked for")?;
            Ok((count - 1) as f64 / first.elapsed().as_secs_f64())
        });
        Self { task }
    }

    /// Claims per second, from the first that was seen to be allocated to the last.
    async fn rate(self) -> anyhow::Result<f64> {
        tokio::time::timeout(LONGEST, self.task).await.context("watch claims")??
    }
}

/// CPU time used until now, in ms.
struct CpuTimes {
    programs: [f64; PROGRAMS.len()],
    controller: Option<f64>,
    creating: f64,
}

fn cpu_times(controller: Option<&Controller>) -> anyhow::Result<CpuTimes> {
    let mut programs = [0.0; PROGRAMS.len()];
    for (time, name) in programs.iter_mut().zip(PROGRAMS) {
        *time = cpu(find(name)?)?;
    }
    let controller = controller.map(|it| cpu(it.id())).transpose()?;
    Ok(CpuTimes { programs, controller, creating: cpu(std::process::id())? })
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

async fn create_pod(namespace: &TestNamespace, way: Way, number: usize) -> anyhow::Result<()> {
    let name = format!("p{number}");
    let mut spec = json!({
        "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
        "containers": [{"name": "main", "image": "localhost/pause:1",
            "resources": {"requests": {"cpu": "10m"}}}],
    });
    if way != Way::NoClaims {
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
    if way == Way::Gated {
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
        "{nodes} nodes x (8 GPUs + 8 NICs), {pods} pods, one claim of a GPU and the NIC of its switch each; CPU in ms per pod"
    );
    println!("| | pods/s | allocations/s | {} | controller | creating |", PROGRAMS.join(" | "));
    println!("|---|---|---|---|---|---|---|---|");
    let optional = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    for row in measured {
        println!(
            "| {} | {:.1} | {} | {} | {} | {:.1} |",
            row.name,
            row.pods_per_second,
            optional(row.allocations_per_second),
            row.programs.map(|time| format!("{time:.1}")).join(" | "),
            optional(row.controller),
            row.creating,
        );
    }
    for (a, b) in [(1, 2), (4, 5)] {
        let (a, b) = (&measured[a], &measured[b]);
        println!(
            "{} / {}: {:.2} times the pods per second, {:.2} times kube-scheduler's CPU",
            b.name,
            a.name,
            b.pods_per_second / a.pods_per_second,
            b.programs[0] / a.programs[0]
        );
    }
}
