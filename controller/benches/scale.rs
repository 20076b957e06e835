//! A large cluster in the process: memory of the index, the time of the first lists, and of a decision.
//!
//! `cargo bench --package lanemate-controller --bench scale`; `LANEMATE_BENCH_NODES` asks for another size than 5,000.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceSlice};
use lanemate_api::builtin_device_classes;
use lanemate_controller::change::{Change, Generations, Outcome, Place, Report, Write};
use lanemate_controller::id::Version;
use lanemate_controller::index::{Index, Kind, Object, Update};
use lanemate_controller::plan::Planner;
use lanemate_driver::inventory::Policy;
use lanemate_driver::machine::Machine;
use lanemate_driver::resource_slice::{Mode, RenderOptions, render};
use lanemate_driver::testing::facts;
use serde_json::{Value, json};

/// The GPUs of the captured DGX H100, each with the NIC of its switch.
const PAIRS: [(&str, &str); 8] = [
    ("gpu-0000-1b-00-0", "nic-0000-18-00-0"),
    ("gpu-0000-43-00-0", "nic-0000-40-00-0"),
    ("gpu-0000-52-00-0", "nic-0000-4f-00-0"),
    ("gpu-0000-61-00-0", "nic-0000-5e-00-0"),
    ("gpu-0000-9d-00-0", "nic-0000-9a-00-0"),
    ("gpu-0000-c3-00-0", "nic-0000-c0-00-0"),
    ("gpu-0000-d1-00-0", "nic-0000-ce-00-0"),
    ("gpu-0000-df-00-0", "nic-0000-dc-00-0"),
];
/// Pods that are placed one after another.
const DECISIONS: usize = 5000;

fn main() {
    let variable = std::env::var("LANEMATE_BENCH_NODES").ok();
    let nodes: usize = variable.and_then(|text| text.parse().ok()).unwrap_or(5000);
    let claims = nodes * 4;
    let before = resident();
    let mut cluster = Cluster::new();
    let slices: Duration = cluster.nodes(nodes);
    let listed = cluster.claims(claims, nodes);
    let after = resident();
    println!("{nodes} nodes x (8 GPUs + 10 NICs), {claims} claims, {claims} pods");
    println!("memory: {} MiB, of which {} MiB for the objects", after, after - before);
    println!("lists taken in: nodes and slices {slices:.1?}, claims and pods {listed:.1?}");
    let mut times: Vec<Duration> = (0..DECISIONS).map(|number| cluster.decide(number)).collect();
    let first = times[0];
    times.sort();
    let at = |part: usize| times[times.len() * part / 100];
    println!(
        "a round that places one pod: median {:.0?}, p99 {:.0?}, the first {first:.1?}",
        at(50),
        at(99)
    );
}

/// The controller's view, and the API server's versions.
struct Cluster {
    index: Index,
    planner: Planner,
    version: u64,
    now: Timestamp,
}

impl Cluster {
    fn new() -> Self {
        let mut cluster = Self {
            index: Index::new(Generations::default()),
            planner: Planner::default(),
            version: 1000,
            now: Timestamp::UNIX_EPOCH,
        };
        let classes =
            builtin_device_classes().into_iter().map(|class| Object::DeviceClass(Box::new(class)));
        for kind in Kind::NEEDED {
            cluster.index.apply(Update::Listed(kind, BTreeSet::new()), cluster.now);
        }
        classes.for_each(|class| cluster.apply(class));
        cluster
    }

    fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    /// Objects come one by one, as a watch hands them on.
    fn nodes(&mut self, count: usize) -> Duration {
        let machine = facts("dgx-h100");
        let mut took = Duration::ZERO;
        for number in 0..count {
            let name = format!("node-{number}");
            let seen = Machine::from_facts(&name, machine.clone(), None, &Policy::default());
            let options = RenderOptions { mode: Mode::Controller, generation: 1 };
            let slices: Vec<ResourceSlice> = render(&seen.inventory, options);
            let node = node(number);
            let begun = Instant::now();
            self.apply(Object::Node(Box::new(node)));
            slices.into_iter().for_each(|slice| self.apply(Object::Slice(Box::new(slice))));
            took += begun.elapsed();
        }
        took
    }

    /// Each node gets as many pairs as there are claims for it.
    fn claims(&mut self, count: usize, nodes: usize) -> Duration {
        let mut took = Duration::ZERO;
        for number in 0..count {
            let (node, pair) = (format!("node-{}", number % nodes), PAIRS[number / nodes % 8]);
            let name = format!("held-{number}");
            let claim = claim(&name, "1", Some((&node, pair)));
            let pod = pod(&name, "1", Some(&node), &[]);
            let begun = Instant::now();
            self.apply(Object::Claim(Box::new(claim)));
            self.apply(Object::Pod(Box::new(pod)));
            took += begun.elapsed();
        }
        took
    }

    /// A pod comes, is placed, is seen to be placed, and ends. The time of the round that places it.
    fn decide(&mut self, number: usize) -> Duration {
        let name = format!("new-{number}");
        let version = self.next_version();
        self.apply(Object::Claim(Box::new(claim(&name, &version, None))));
        self.apply(Object::Pod(Box::new(pod(&name, &version, None, &["lanemate.dev/placement"]))));
        let begun = Instant::now();
        let planned = self.planner.plan(&mut self.index, self.now, 256);
        let took = begun.elapsed();
        let [change @ Change::Place(place)] = planned.changes.as_slice() else {
            panic!("expected a place for {name}, got {planned:?}");
        };
        let written = self.next_version();
        let ids = place.claims.iter().map(|write| write.claim.clone()).chain([place.pod.clone()]);
        let report = Report {
            change: change.clone(),
            written: ids.map(|id| (id, Version(written.clone()))).collect(),
            outcome: Outcome::Done,
        };
        self.index.finish(&report, self.now);
        let seen = allocated(place, &name, &written);
        self.apply(Object::Claim(Box::new(seen)));
        let gone = lanemate_controller::id::Key { namespace: "ns".to_owned(), name: name.clone() };
        self.index.apply(Update::Delete(Kind::Pod, gone.clone()), self.now);
        self.index.apply(Update::Delete(Kind::Claim, gone), self.now);
        took
    }

    fn apply(&mut self, object: Object) {
        self.index.apply(Update::Apply(object), self.now);
    }
}

fn allocated(place: &Place, name: &str, version: &str) -> ResourceClaim {
    let mut seen = claim(name, version, None);
    for write in &place.claims {
        if let Write::Allocate { allocation, .. } = &write.write {
            seen.status.get_or_insert_default().allocation = Some((**allocation).clone());
        }
    }
    seen
}

fn node(number: usize) -> Node {
    let name = format!("node-{number}");
    let room = json!({"cpu": "128", "memory": "2Ti", "pods": "110"});
    read(json!({
        "metadata": {"name": name, "uid": name, "resourceVersion": "1", "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
            "topology.kubernetes.io/zone": format!("z{}", number % 3),
        }},
        "status": {"capacity": room, "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True"}]},
    }))
}

fn claim(name: &str, version: &str, held: Option<(&str, (&str, &str))>) -> ResourceClaim {
    let status = held.map(|(node, (gpu, nic))| {
        let result = |request: &str, device: &str| {
            json!({"request": request, "driver": "lanemate.dev", "pool": node, "device": device})
        };
        let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        json!({
            "allocation": {
                "devices": {"results": [result("gpu", gpu), result("nic", nic)]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
            },
            "reservedFor": [{"resource": "pods", "name": name, "uid": format!("pod-{name}")}],
        })
    });
    read(json!({
        "metadata": {"namespace": "ns", "name": name, "uid": format!("claim-{name}"), "resourceVersion": version},
        "spec": {"devices": {
            "requests": [
                {"name": "gpu", "exactly": {"deviceClassName": "gpu.lanemate.dev"}},
                {"name": "nic", "exactly": {"deviceClassName": "nic.lanemate.dev"}},
            ],
            "constraints": [{"matchAttribute": "lanemate.dev/pcieSwitch"}],
        }},
        "status": status,
    }))
}

fn pod(name: &str, version: &str, node: Option<&str>, gates: &[&str]) -> Pod {
    let gates: Vec<Value> = gates.iter().map(|gate| json!({"name": gate})).collect();
    read(json!({
        "metadata": {"namespace": "ns", "name": name, "uid": format!("pod-{name}"), "resourceVersion": version,
            "labels": {"app": "trainer"}},
        "spec": {
            "nodeName": node, "schedulingGates": gates,
            "resourceClaims": [{"name": "devices", "resourceClaimName": name}],
            "containers": [{"name": "main", "image": "trainer:1", "resources": {
                "requests": {"cpu": "8", "memory": "64Gi"}, "claims": [{"name": "devices"}],
            }}],
        },
    }))
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    match serde_json::from_value(value) {
        Ok(read) => read,
        Err(error) => panic!("an object of the benchmark: {error}"),
    }
}

/// Resident memory of this process, in MiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
