//! Prepare plans of captured machines, written to disk and judged by the CDI reference implementation:
//! a container gets exactly the granted device nodes.
// A test fails by panicking, its helpers too.
#![allow(clippy::unwrap_used)]

mod cdi_check;

use std::path::Path;

use lanemate_driver::claim::allocated::AllocatedClaim;
use lanemate_driver::discovery::Facts;
use lanemate_driver::discovery::host::LiveHost;
use lanemate_driver::files::{Durability, Roots, apply, write_atomically};
use lanemate_driver::ids::Kind;
use lanemate_driver::inventory::{Inventory, Policy};
use lanemate_driver::prepare::{PrepareOptions, PreparePlan, plan};
use lanemate_driver::testing::facts;
use lanemate_driver::topology::Topology;
use serde_json::{Value, json};

/// A captured machine, pairs of addresses (GPU, NIC), the device nodes that belong to each pair and
/// those that every container with a GPU gets, without `/dev/`.
struct Case {
    host: &'static str,
    pairs: [(&'static str, &'static str); 2],
    nodes: [&'static [&'static str]; 2],
    control: &'static [&'static str],
}

const NVIDIA_CONTROL: &[&str] = &["nvidia-uvm", "nvidia-uvm-tools", "nvidiactl"];

const CASES: [Case; 4] = [
    Case {
        host: "dgx-h100",
        pairs: [("0000:1b:00.0", "0000:18:00.0"), ("0000:d1:00.0", "0000:ce:00.0")],
        nodes: [&["nvidia0", "infiniband/uverbs0"], &["nvidia6", "infiniband/uverbs10"]],
        control: NVIDIA_CONTROL,
    },
    Case {
        host: "dell-xe9680-h200",
        pairs: [("0000:19:00.0", "0000:1a:00.0"), ("0000:9b:00.0", "0000:9c:00.0")],
        nodes: [&["nvidia0", "infiniband/uverbs1"], &["nvidia4", "infiniband/uverbs5"]],
        control: NVIDIA_CONTROL,
    },
    Case {
        host: "azure-ndv5-h100",
        pairs: [("0001:00:00.0", "0101:00:00.0"), ("000c:00:00.0", "0108:00:00.0")],
        nodes: [&["nvidia0", "infiniband/uverbs0"], &["nvidia7", "infiniband/uverbs7"]],
        control: NVIDIA_CONTROL,
    },
    Case {
        host: "mi355x-bm",
        pairs: [("0000:08:00.0", "0000:03:00.0"), ("0000:f9:00.0", "0000:f3:00.0")],
        nodes: [
            &["dri/card0", "dri/renderD128", "infiniband/uverbs0"],
            &["dri/card7", "dri/renderD135", "infiniband/uverbs7"],
        ],
        control: &["kfd"],
    },
];

/// A node whose CDI directory is on disk.
struct Node {
    facts: Facts,
    inventory: Inventory,
    root: tempfile::TempDir,
}

impl Node {
    fn new(case: &Case) -> Self {
        let facts = facts(case.host);
        let topology = Topology::build(&facts, None);
        let inventory = Inventory::build(case.host, &facts, &topology, &Policy::default());
        Self { facts, inventory, root: tempfile::tempdir().unwrap() }
    }

    fn roots(&self) -> Roots {
        let cdi = self.root.path().join("var/run/cdi");
        Roots { metadata: cdi.join("metadata"), cdi }
    }

    /// Plans and writes.
    fn prepare(&self, claim: &Value) -> PreparePlan {
        self.prepare_below("", claim)
    }

    /// The same for a runtime that finds the machine's files below a directory.
    fn prepare_below(&self, device_root: &str, claim: &Value) -> PreparePlan {
        let claim = serde_json::from_value(claim.clone()).unwrap();
        let claim = AllocatedClaim::parse(&claim).unwrap();
        let metadata = self.roots().metadata.display().to_string();
        let host = LiveHost::new(self.root.path().to_owned());
        let (mut options, problems) = PrepareOptions::read(&host, &self.facts, "", metadata);
        assert_eq!(problems, []);
        options.device_root = device_root.to_owned();
        let plan = plan(&claim, &self.facts, &self.inventory, &options).unwrap();
        apply(&plan.files, &self.roots(), Durability::Volatile).unwrap();
        plan
    }

    /// A spec as NVIDIA's toolkit writes it, with all GPUs of the node.
    fn add_toolkit_spec(&self) {
        let gpus = self.facts.nvml.iter().flat_map(|nvml| nvml.gpus.values());
        let node = |name: &str, minor: u32| json!({"path": format!("/dev/{name}"), "type": "c", "major": 195, "minor": minor});
        let devices: Vec<Value> = gpus
            .map(|gpu| {
                let node = node(&format!("nvidia{}", gpu.minor.unwrap()), gpu.minor.unwrap());
                json!({"name": gpu.uuid, "containerEdits": {"deviceNodes": [node]}})
            })
            .collect();
        let control = [node("nvidiactl", 255), node("nvidia-uvm", 0), node("nvidia-uvm-tools", 1)];
        let spec = json!({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": devices,
            "containerEdits": {"env": ["NVIDIA_VISIBLE_DEVICES=void"], "deviceNodes": control}});
        let path = self.roots().cdi.join("nvidia.yaml");
        write_atomically(&path, 0o644, spec.to_string().as_bytes(), Durability::Volatile).unwrap();
    }
}

/// A claim that holds both pairs, one request each.
fn claim(case: &Case, config: &Value) -> Value {
    let result = |(request, address, kind): (&str, &str, Kind)| {
        let name = kind.device_name(address.parse().unwrap());
        json!({"request": request, "driver": "lanemate.dev", "pool": case.host, "device": name})
    };
    let [first, second] = case.pairs;
    let results = [
        ("a", first.0, Kind::Gpu),
        ("a", first.1, Kind::Nic),
        ("b", second.0, Kind::Gpu),
        ("b", second.1, Kind::Nic),
    ];
    json!({
        "metadata": {"namespace": "ml", "name": "two", "uid": "3f1c8a54-0b3f-4d6e-9d0e-6d1f0d0b9a11"},
        "status": {"allocation": {"devices": {"results": results.map(result), "config": config}}},
    })
}

fn ids(plan: &PreparePlan, requests: &[&str]) -> Vec<String> {
    let devices = plan.devices.iter().filter(|device| requests.contains(&&*device.request));
    devices.flat_map(|device| device.cdi_device_ids.clone()).collect()
}

fn check(node: &Node, case: &Case, plan: &PreparePlan, requests: &[&str]) {
    let container = cdi_check::container(&node.roots().cdi, &ids(plan, requests)).unwrap();
    let mut expect: Vec<String> = case.control.iter().map(|name| format!("/dev/{name}")).collect();
    expect.push("/dev/infiniband/rdma_cm".to_owned());
    for (request, nodes) in ["a", "b"].iter().zip(case.nodes) {
        if requests.contains(request) {
            expect.extend(nodes.iter().map(|name| format!("/dev/{name}")));
        }
    }
    expect.sort();
    assert_eq!(container.devices, expect, "{}", case.host);
    let void = "NVIDIA_VISIBLE_DEVICES=void".to_owned();
    assert!(container.env.contains(&void), "{:?}", container.env);
    check_metadata(node, &container, requests);
}

fn check_metadata(node: &Node, container: &cdi_check::Container, requests: &[&str]) {
    let base = "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/two";
    let metadata: Vec<&(String, String)> =
        container.mounts.iter().filter(|(path, _)| path.starts_with(base)).collect();
    let mut destinations: Vec<&str> = metadata.iter().map(|(path, _)| &**path).collect();
    destinations.sort_unstable();
    let expect: Vec<String> =
        requests.iter().map(|r| format!("{base}/{r}/lanemate.dev-metadata.json")).collect();
    assert_eq!(destinations, expect);
    for (_, source) in metadata {
        assert!(Path::new(source).starts_with(node.roots().metadata), "{source}");
        assert!(Path::new(source).is_file(), "{source}");
    }
}

#[test]
fn a_container_gets_exactly_the_nodes_of_the_requests_that_it_takes() {
    for case in &CASES {
        let node = Node::new(case);
        let plan = node.prepare(&claim(case, &json!([])));
        for requests in [&["a"][..], &["b"], &["a", "b"]] {
            check(&node, case, &plan, requests);
        }
    }
}

#[test]
fn a_device_root_changes_nothing_in_the_container() {
    for case in &CASES {
        let node = Node::new(case);
        let plan = node.prepare_below("/tmp/fake", &claim(case, &json!([])));
        check(&node, case, &plan, &["a", "b"]);
    }
}

#[test]
fn beside_a_toolkit_spec_the_container_gets_the_same_nodes_through_the_toolkits_devices() {
    for case in CASES.iter().filter(|case| case.control == NVIDIA_CONTROL) {
        let node = Node::new(case);
        node.add_toolkit_spec();
        let plan = node.prepare(&claim(case, &json!([])));
        let all = ids(&plan, &["a", "b"]);
        let of_toolkit = all.iter().filter(|id| id.starts_with("nvidia.com/gpu=GPU-")).count();
        assert_eq!(of_toolkit, 2, "{}", case.host);
        for requests in [&["a"][..], &["b"], &["a", "b"]] {
            check(&node, case, &plan, requests);
        }
    }
}

#[test]
fn the_drivers_libraries_are_mounted_once_under_each_of_their_names() {
    let case = &CASES[0];
    let node = Node::new(case);
    let library = "usr/lib64/libcuda.so.580.82.07";
    write_atomically(&node.root.path().join(library), 0o755, b"ELF", Durability::Volatile).unwrap();
    let plan = node.prepare(&claim(case, &json!([])));
    let container = cdi_check::container(&node.roots().cdi, &ids(&plan, &["a", "b"])).unwrap();
    let source = format!("/{library}");
    let mounts = container.mounts.iter().filter(|(_, from)| *from == source);
    let mut destinations: Vec<&str> = mounts.map(|(to, _)| &**to).collect();
    destinations.sort_unstable();
    let names = ["libcuda.so", "libcuda.so.1", "libcuda.so.580.82.07"];
    let expect: Vec<String> = ["/usr/lib64", "/usr/local/nvidia/lib64"]
        .iter()
        .flat_map(|directory| names.map(|name| format!("{directory}/{name}")))
        .collect();
    assert_eq!(destinations, expect);
}

#[test]
fn variables_agree_with_the_grant() {
    let case = &CASES[0];
    let node = Node::new(case);
    let config = json!([{"source": "FromClaim", "opaque": {"driver": "lanemate.dev", "parameters": {
        "apiVersion": "lanemate.dev/v1alpha1", "kind": "Environment",
        "nccl": true, "ucx": true, "cudaDeviceOrder": true}}}]);
    let plan = node.prepare(&claim(case, &config));
    let container = cdi_check::container(&node.roots().cdi, &ids(&plan, &["a", "b"])).unwrap();
    for expect in [
        "NCCL_IB_HCA==mlx5_0,mlx5_10",
        "UCX_NET_DEVICES=mlx5_0:1,mlx5_10:1",
        "CUDA_DEVICE_ORDER=PCI_BUS_ID",
    ] {
        let name = expect.split('=').next().unwrap();
        let found: Vec<&String> =
            container.env.iter().filter(|var| var.starts_with(name)).collect();
        assert_eq!(found, [expect]);
    }
}

#[test]
fn several_claims_and_repeated_preparation_leave_a_valid_directory() {
    let case = &CASES[0];
    let node = Node::new(case);
    let first = claim(case, &json!([]));
    let mut second = first.clone();
    second["metadata"]["uid"] = json!("second");
    node.prepare(&first);
    node.prepare(&second);
    let plan = node.prepare(&first);
    check(&node, case, &plan, &["a", "b"]);
}

#[test]
fn the_checker_refuses_what_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let spec = |version: &str, node: &str| {
        json!({"cdiVersion": version, "kind": "lanemate.dev/claim",
            "devices": [{"name": "u.a.0", "containerEdits": {"deviceNodes":
                [{"path": node, "type": "c", "major": 1, "minor": 3}]}}]})
    };
    let check = |spec: &Value, id: &str| {
        write_atomically(
            &directory.path().join("x.json"),
            0o644,
            spec.to_string().as_bytes(),
            Durability::Volatile,
        )
        .unwrap();
        cdi_check::container(directory.path(), &[format!("lanemate.dev/claim={id}")]).map(|_| ())
    };
    let good = spec("0.3.0", "/dev/null");
    assert_eq!(check(&good, "u.a.0"), Ok(()));
    let mut empty = good.clone();
    empty["devices"][0]["containerEdits"] = json!({});
    for (spec, id, expect) in [
        (&good, "u.a.1", "unresolvable CDI devices"),
        (&spec("0.6.0", "/dev/null"), "u.a.0", "\"0.3.0\" would do"),
        (&spec("0.3.0", "dev/null"), "u.a.0", "is not absolute"),
        (&spec("7.0.0", "/dev/null"), "u.a.0", "invalid version"),
        (&empty, "u.a.0", "empty device edits"),
    ] {
        let message = check(spec, id).unwrap_err();
        assert!(message.contains(expect), "{message}");
    }
}
