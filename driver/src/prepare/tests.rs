//! Plans for small machines made by hand.

use lanemate_api::{AllocatedUnit, DeviceRef, Environment, PathClass};
use serde_json::Value;

use crate::attribute::AttributeValue;
use crate::claim::allocated::{AllocatedResult, EnvironmentFor};
use crate::discovery::facts::{DeviceNode, NvmlFacts, NvmlGpu, PciFunction, RdmaDevice, RdmaPort};
use crate::inventory::{LeftOut, OfferedDevice, Reason, ReasonCode};
use crate::topology::fixtures;

use super::*;

const GPU: &str = "gpu-0000-1b-00-0";
const NIC: &str = "nic-0000-18-00-0";
const NIC_2: &str = "nic-0000-40-00-0";
const UUID: &str = "GPU-775ffb96-16ca-c4b5-2b0c-3c72d741447e";

/// One NVIDIA and one AMD GPU, a NIC with two RDMA devices of which one has two ports, and a plain NIC.
struct Machine {
    facts: Facts,
    inventory: Inventory,
    options: PrepareOptions,
}

fn machine() -> Machine {
    let mut machine = Machine {
        facts: Facts::default(),
        inventory: Inventory { node: "n1".to_owned(), ..Inventory::default() },
        options: PrepareOptions { metadata_dir: "/var/lib/m".to_owned(), ..Default::default() },
    };
    machine.add(Kind::Gpu, "0000:1b:00.0", |function| function.vendor = Some(0x10de));
    machine.add(Kind::Gpu, "0000:43:00.0", |function| {
        function.vendor = Some(0x1002);
        function.drm = ["card1", "renderD129"].map(str::to_owned).to_vec();
    });
    machine.add(Kind::Nic, "0000:18:00.0", |function| {
        let mut dual = ibdev("mlx5_0", 0, &["ACTIVE", "DOWN"]);
        dual.mad = ["umad0", "issm0"].map(str::to_owned).to_vec();
        let mut plane = ibdev("smi1", 9, &["ACTIVE"]);
        plane.uverbs.clear();
        function.rdma = vec![dual, ibdev("mlx5_1", 1, &["ACTIVE"]), plane];
    });
    machine.add(Kind::Nic, "0000:40:00.0", |function| {
        function.rdma = vec![ibdev("mlx5_10", 10, &["INIT"])];
    });
    let gpu = NvmlGpu { uuid: Some(UUID.to_owned()), minor: Some(3), ..NvmlGpu::default() };
    let gpus = BTreeMap::from([("0000:1b:00.0".parse().unwrap(), gpu)]);
    machine.facts.nvml = Some(NvmlFacts { gpus, ..NvmlFacts::default() });
    for (minor, path) in (0..).zip([
        "dri/card1",
        "dri/renderD129",
        "infiniband/issm0",
        "infiniband/rdma_cm",
        "infiniband/umad0",
        "infiniband/uverbs0",
        "infiniband/uverbs1",
        "infiniband/uverbs10",
        "infiniband/uverbs2",
        "kfd",
        "nvidia-uvm",
        "nvidia-uvm-tools",
        "nvidia0",
        "nvidia3",
        "nvidiactl",
        "sda",
    ]) {
        let node = DeviceNode { kind: 'c', major: 200, minor };
        machine.facts.device_nodes.insert(format!("dev/{path}"), node);
    }
    machine
}

fn ibdev(name: &str, verbs: u32, ports: &[&str]) -> RdmaDevice {
    let port = |state: &&str| RdmaPort { state: Some((*state).to_owned()), ..RdmaPort::default() };
    RdmaDevice {
        name: name.to_owned(),
        uverbs: vec![format!("uverbs{verbs}")],
        ports: (1..).zip(ports.iter().map(port)).collect(),
        ..RdmaDevice::default()
    }
}

impl Machine {
    fn add(&mut self, kind: Kind, address: &str, edit: impl FnOnce(&mut PciFunction)) {
        let mut function = fixtures::function(address, "pci0000:00", &[]);
        edit(&mut function);
        let address = function.address;
        self.facts.functions.insert(address, function);
        let numa = ("resource.kubernetes.io/numaNode".to_owned(), AttributeValue::Int(0));
        self.inventory.devices.push(OfferedDevice {
            name: kind.device_name(address),
            address,
            kind,
            attributes: BTreeMap::from([numa]),
            capacity: BTreeMap::new(),
            taints: Vec::new(),
        });
    }

    fn leave_out(&mut self, name: &str, code: ReasonCode) {
        let gone = self.inventory.devices.iter().position(|device| device.name == name).unwrap();
        let OfferedDevice { address, kind, .. } = self.inventory.devices.remove(gone);
        self.inventory.left_out.push(LeftOut {
            address: Some(address),
            kind,
            rdma_devices: Vec::new(),
            netdevs: Vec::new(),
            reason: Reason { code, text: "because".to_owned() },
        });
    }

    fn plan(&self, claim: &AllocatedClaim) -> Result<PreparePlan, PrepareError> {
        plan(claim, &self.facts, &self.inventory, &self.options)
    }

    fn refusal(&self, claim: &AllocatedClaim) -> String {
        self.plan(claim).unwrap_err().to_string()
    }
}

fn claim(results: &[(&str, &str)]) -> AllocatedClaim {
    AllocatedClaim {
        namespace: "ml".to_owned(),
        name: "four".to_owned(),
        uid: "uid-1".parse().unwrap(),
        pod_claim_name: None,
        results: results.iter().map(|(request, device)| result(request, device)).collect(),
        environment: Vec::new(),
        units: Vec::new(),
    }
}

fn result(request: &str, device: &str) -> AllocatedResult {
    AllocatedResult {
        request: request.parse().unwrap(),
        pool: "n1".to_owned(),
        device: device.to_owned(),
        admin_access: false,
    }
}

fn asking(
    mut claim: AllocatedClaim,
    requests: &[&str],
    environment: Environment,
) -> AllocatedClaim {
    let requests = requests.iter().map(|name| (*name).to_owned()).collect();
    claim.environment.push(EnvironmentFor { requests, environment });
    claim
}

/// Device nodes of one CDI device, without `/dev/`.
fn nodes_of(plan: &PreparePlan, index: usize) -> Vec<&str> {
    let nodes = &plan.spec.devices[index].container_edits.device_nodes;
    nodes.iter().map(|node| node.path.strip_prefix("/dev/").unwrap()).collect()
}

fn env_of(plan: &PreparePlan, index: usize) -> Vec<&str> {
    plan.spec.devices[index].container_edits.env.iter().map(String::as_str).collect()
}

#[test]
fn a_pair_gets_its_own_nodes_and_no_others() {
    let plan = machine().plan(&claim(&[("pair", GPU), ("pair", NIC)])).unwrap();
    assert_eq!(nodes_of(&plan, 0), ["nvidia3", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"]);
    let nic = ["infiniband/uverbs0", "infiniband/uverbs1", "infiniband/rdma_cm"];
    assert_eq!(nodes_of(&plan, 1), nic);
    assert_eq!(plan.spec.container_edits.env, ["NVIDIA_VISIBLE_DEVICES=void"]);
    assert_eq!((env_of(&plan, 0), env_of(&plan, 1)), (vec![], vec![]));
    let node = &plan.spec.devices[0].container_edits.device_nodes[0];
    assert_eq!((&*node.kind, node.major, node.minor, &*node.permissions), ("c", 200, 13, "rw"));
}

#[test]
fn kubelet_gets_base_requests_and_names_that_count_within_the_request() {
    let claim = claim(&[("nic/any", NIC), ("gpu", GPU), ("nic/any", NIC_2)]);
    let plan = machine().plan(&claim).unwrap();
    let shown: Vec<String> = plan
        .devices
        .iter()
        .map(|d| format!("{} {} {} {}", d.request, d.pool, d.device, d.cdi_device_ids.join(" ")))
        .collect();
    assert_eq!(
        shown,
        [
            format!("nic n1 {NIC} lanemate.dev/claim=uid-1.nic.any.0"),
            format!("gpu n1 {GPU} lanemate.dev/claim=uid-1.gpu.0"),
            format!("nic n1 {NIC_2} lanemate.dev/claim=uid-1.nic.any.1"),
        ]
    );
}

#[test]
fn the_device_of_a_vendor_spec_takes_the_place_of_our_own_edits_of_a_gpu() {
    let mut machine = machine();
    let id = format!("nvidia.com/gpu={UUID}");
    let nodes = ["/dev/nvidiactl", "/run/nvidia/driver/dev/nvidia3", "/dev/dri/card2"];
    machine.options.vendor_cdi = VendorCdi::from_devices([(&*id, &nodes[..])]);
    let gdrcopy = Environment { cuda_device_order: true, ..Environment::default() };
    let plan = machine.plan(&asking(claim(&[("gpu", GPU)]), &[], gdrcopy)).unwrap();
    let own = "lanemate.dev/claim=uid-1.gpu.0".to_owned();
    assert_eq!(plan.devices[0].cdi_device_ids, [id, own]);
    assert_eq!(nodes_of(&plan, 0), [""; 0]);
    assert_eq!(env_of(&plan, 0), ["CUDA_DEVICE_ORDER=PCI_BUS_ID"]);
}

#[test]
fn a_vendor_spec_that_opens_another_gpu_is_not_used() {
    let mut machine = machine();
    let id = format!("nvidia.com/gpu={UUID}");
    let nodes = ["/dev/nvidia3", "/dev/nvidia0", "/dev/nvidiactl"];
    machine.options.vendor_cdi = VendorCdi::from_devices([(&*id, &nodes[..])]);
    let plan = machine.plan(&claim(&[("gpu", GPU)])).unwrap();
    assert_eq!(plan.devices[0].cdi_device_ids, ["lanemate.dev/claim=uid-1.gpu.0"]);
    assert_eq!(nodes_of(&plan, 0)[0], "nvidia3");
    assert!(plan.notes[0].contains("opens /dev/nvidia0, but the GPU is /dev/nvidia3"));
}

#[test]
fn nodes_and_libraries_are_found_below_the_device_root() {
    let root = tempfile::tempdir().unwrap();
    let library = root.path().join("usr/lib64/libcuda.so.580.1");
    crate::files::write_atomically(&library, 0o755, b"ELF", crate::files::Durability::Volatile)
        .unwrap();
    let host = crate::discovery::LiveHost::new(root.path().to_owned());
    let mut machine = machine();
    machine.options.nvidia_libraries = NvidiaLibraries::read(&host, "", "580.1");
    machine.options.device_root = "/tmp/fake".to_owned();
    let plan = machine.plan(&claim(&[("pair", GPU), ("pair", NIC)])).unwrap();
    let [gpu, nic] = [0, 1].map(|index| &plan.spec.devices[index].container_edits);
    for node in gpu.device_nodes.iter().chain(&nic.device_nodes) {
        assert_eq!(node.host_path, Some(format!("/tmp/fake{}", node.path)));
    }
    assert_eq!(gpu.mounts[0].host_path, "/tmp/fake/usr/lib64/libcuda.so.580.1");
    assert_eq!(gpu.mounts[0].container_path, "/usr/lib64/libcuda.so.580.1");
    assert!(nic.mounts[0].host_path.starts_with("/var/lib/m/"));
    let file: Value = serde_json::from_slice(&plan.files.last().unwrap().bytes).unwrap();
    assert_eq!(
        file.pointer("/devices/1/containerEdits/deviceNodes/0/hostPath"),
        Some(&Value::from("/tmp/fake/dev/infiniband/uverbs0"))
    );
    machine.options.device_root = String::new();
    let plan = machine.plan(&claim(&[("pair", NIC)])).unwrap();
    assert!(!String::from_utf8_lossy(&plan.files.last().unwrap().bytes).contains("/tmp/fake"));
    machine.options.device_root = "fake".to_owned();
    let refusal = machine.refusal(&claim(&[("pair", NIC)]));
    assert_eq!(refusal, "device root directory \"fake\" is not an absolute path");
}

#[test]
fn an_amd_gpu_gets_the_compute_node_and_its_own_drm_nodes() {
    let plan = machine().plan(&claim(&[("gpu", "gpu-0000-43-00-0")])).unwrap();
    assert_eq!(nodes_of(&plan, 0), ["kfd", "dri/card1", "dri/renderD129"]);
}

#[test]
fn a_nic_without_a_connection_manager_is_prepared_with_a_note() {
    let mut machine = machine();
    machine.remove("dev/infiniband/rdma_cm");
    let plan = machine.plan(&claim(&[("a", NIC), ("b", NIC_2)])).unwrap();
    assert_eq!(nodes_of(&plan, 1), ["infiniband/uverbs10"]);
    assert_eq!(plan.notes.len(), 1);
    assert!(plan.notes[0].starts_with("/dev/infiniband/rdma_cm does not exist"));
}

#[test]
fn management_nodes_are_given_only_when_asked_for() {
    let umad = Environment { umad: true, ..Environment::default() };
    let asked = asking(claim(&[("a", NIC), ("b", NIC_2)]), &["a"], umad);
    let plan = machine().plan(&asked).unwrap();
    let with =
        ["uverbs0", "uverbs1", "rdma_cm", "umad0", "issm0"].map(|n| format!("infiniband/{n}"));
    assert_eq!(nodes_of(&plan, 0), with);
    assert_eq!(nodes_of(&plan, 1), ["infiniband/uverbs10", "infiniband/rdma_cm"]);
}

#[test]
fn variables_name_all_nics_of_the_requests_that_ask_and_stand_on_each_of_them() {
    let both = Environment { nccl: true, ucx: true, ..Environment::default() };
    let results = [("gpu", GPU), ("a", NIC), ("b", NIC_2)];
    let plan = machine().plan(&asking(claim(&results), &[], both.clone())).unwrap();
    // mlx5_0 has a port that is down; the port of mlx5_10 may come up; smi1 cannot be opened.
    let expect =
        ["NCCL_IB_HCA==mlx5_0:1,mlx5_1,mlx5_10", "UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1,mlx5_10:1"];
    assert_eq!(env_of(&plan, 0), [""; 0]);
    assert_eq!(env_of(&plan, 1), expect);
    assert_eq!(env_of(&plan, 2), expect);
    let plan = machine().plan(&asking(claim(&results), &["b"], both)).unwrap();
    assert_eq!(env_of(&plan, 1), [""; 0]);
    assert_eq!(env_of(&plan, 2), ["NCCL_IB_HCA==mlx5_10", "UCX_NET_DEVICES=mlx5_10:1"]);
}

#[test]
fn a_variable_that_can_name_nothing_is_left_out_with_a_note() {
    let nccl = Environment { nccl: true, ..Environment::default() };
    let plan = machine().plan(&asking(claim(&[("gpu", GPU)]), &[], nccl)).unwrap();
    assert_eq!(env_of(&plan, 0), [""; 0]);
    assert!(plan.notes.iter().any(|note| note.contains("NCCL_IB_HCA")), "{:?}", plan.notes);
}

#[test]
fn the_topology_file_is_written_and_mounted_where_the_node_has_an_override() {
    let mut machine = machine();
    let asked = Environment { topology_file: true, ..Environment::default() };
    let claim = asking(claim(&[("pair", GPU), ("pair", NIC)]), &[], asked);
    let plan = machine.plan(&claim).unwrap();
    assert_eq!(env_of(&plan, 0), [""; 0]);
    assert!(plan.notes.iter().any(|note| note.contains("NCCL_TOPO_FILE")));
    machine.options.topology_override = Some("<system/>".to_owned());
    let plan = machine.plan(&claim).unwrap();
    let file = plan.files.iter().find(|f| f.path.path == "uid-1/nccl-topology.xml").unwrap();
    assert_eq!((file.path.base, &*file.bytes), (Base::Metadata, &b"<system/>"[..]));
    for index in 0..2 {
        let edits = &plan.spec.devices[index].container_edits;
        assert_eq!(edits.env, ["NCCL_TOPO_FILE=/var/run/lanemate.dev/nccl-topology.xml"]);
        let mount = &edits.mounts[0];
        assert_eq!(mount.host_path, "/var/lib/m/uid-1/nccl-topology.xml");
        assert_eq!(mount.container_path, "/var/run/lanemate.dev/nccl-topology.xml");
    }
}

#[test]
fn gdrcopy_is_given_to_gpus_or_refused_when_its_driver_is_missing() {
    let mut machine = machine();
    let asked = Environment { gdrcopy: true, ..Environment::default() };
    let claim = asking(claim(&[("pair", GPU), ("pair", NIC)]), &[], asked);
    assert_eq!(
        machine.refusal(&claim),
        "device gpu-0000-1b-00-0 needs /dev/gdrdrv, which does not exist: gdrcopy is asked for; is \
         gdrdrv loaded?"
    );
    let node = DeviceNode { kind: 'c', major: 505, minor: 0 };
    machine.facts.device_nodes.insert("dev/gdrdrv".to_owned(), node);
    let plan = machine.plan(&claim).unwrap();
    assert!(nodes_of(&plan, 0).contains(&"gdrdrv"));
    assert!(!nodes_of(&plan, 1).contains(&"gdrdrv"));
}

#[test]
fn what_cannot_be_prepared_is_refused_with_the_missing_thing() {
    type Row = (fn(&mut Machine), &'static [(&'static str, &'static str)], &'static str);
    let rows: [Row; 10] = [
        (|_| {}, &[("a", "gpu-0000-ff-00-0")], "device gpu-0000-ff-00-0 does not exist on node n1"),
        (|m| m.facts.functions.clear(), &[("a", NIC)], "does not exist on node n1"),
        (|_| {}, &[("a", NIC), ("b", NIC)], "device nic-0000-18-00-0 is granted twice"),
        (
            |m| m.inventory.node = "n2".to_owned(),
            &[("a", NIC)],
            "claim ml/four has no device of lanemate.dev in pool n2: its devices are in pool n1",
        ),
        (|m| m.facts.nvml = None, &[("a", GPU)], "gives no minor number"),
        (|m| m.remove("dev/nvidia3"), &[("a", GPU)], "needs /dev/nvidia3, which does not exist"),
        (|m| m.remove("dev/infiniband/uverbs1"), &[("a", NIC)], "needs /dev/infiniband/uverbs1"),
        (|m| m.function(NIC_2).rdma.clear(), &[("a", NIC_2)], "no RDMA device with a uverbs node"),
        (|m| m.facts.rdma_netns_exclusive = Some(true), &[("a", NIC)], "netns exclusive"),
        (|m| m.function(GPU).vendor = None, &[("a", GPU)], "neither an NVIDIA nor an AMD GPU"),
    ];
    for (edit, results, expect) in rows {
        let mut machine = machine();
        edit(&mut machine);
        let message = machine.refusal(&claim(results));
        assert!(message.contains(expect), "{message}");
    }
    let mut machine = machine();
    machine.options.metadata_dir = "metadata".to_owned();
    assert!(machine.refusal(&claim(&[("a", NIC)])).contains("not an absolute path"));
}

impl Machine {
    fn remove(&mut self, path: &str) {
        self.facts.device_nodes.remove(path).unwrap();
    }

    fn function(&mut self, device: &str) -> &mut PciFunction {
        let offered = self.inventory.devices.iter().find(|offered| offered.name == device);
        self.facts.functions.get_mut(&offered.unwrap().address).unwrap()
    }
}

#[test]
fn administrators_may_name_a_device_twice_and_it_stands_in_a_variable_once() {
    let mut claim = claim(&[("own", NIC), ("look", NIC)]);
    claim.results[1].admin_access = true;
    let nccl = Environment { nccl: true, ..Environment::default() };
    let plan = machine().plan(&asking(claim, &[], nccl)).unwrap();
    assert_eq!(env_of(&plan, 1), ["NCCL_IB_HCA==mlx5_0:1,mlx5_1"]);
    assert_eq!(plan.spec.annotations[cdi::HELD_DEVICES], NIC);
}

#[test]
fn results_in_other_pools_are_skipped_with_a_note() {
    let mut claim = claim(&[("a", NIC), ("a", "nic-0000-99-00-0")]);
    claim.results[1].pool = "n2".to_owned();
    let plan = machine().plan(&claim).unwrap();
    assert_eq!(plan.devices.len(), 1);
    assert_eq!(plan.notes, ["nic-0000-99-00-0 is in pool n2: skipped"]);
}

#[test]
fn a_device_that_is_no_longer_offered_can_still_be_prepared() {
    let mut machine = machine();
    machine.leave_out(NIC, ReasonCode::Policy);
    let plan = machine.plan(&claim(&[("a", NIC)])).unwrap();
    assert_eq!(plan.spec.devices.len(), 1);
    assert!(plan.notes[0].contains("no longer offered: policy: because"), "{:?}", plan.notes);
}

#[test]
fn a_gpu_in_mig_mode_and_a_nic_that_manages_switches_are_refused() {
    for (device, code) in [(GPU, ReasonCode::Mig), (NIC, ReasonCode::SwitchManagement)] {
        let mut machine = machine();
        machine.leave_out(device, code);
        assert_eq!(
            machine.refusal(&claim(&[("a", device)])),
            format!("device {device} must not be granted: {}: because", code.as_str())
        );
    }
}

#[test]
fn the_spec_comes_last_and_names_the_claim() {
    let plan = machine().plan(&claim(&[("pair", GPU), ("pair", NIC)])).unwrap();
    let paths: Vec<(Base, &str)> =
        plan.files.iter().map(|file| (file.path.base, &*file.path.path)).collect();
    let metadata = (Base::Metadata, "uid-1/pair.metadata");
    assert_eq!(paths, [metadata, (Base::Cdi, "lanemate.dev-claim_uid-1.json")]);
    let spec: Value = serde_json::from_slice(&plan.files[1].bytes).unwrap();
    assert_eq!(spec["cdiVersion"], "0.6.0");
    assert_eq!(spec["kind"], "lanemate.dev/claim");
    assert_eq!(spec["annotations"]["lanemate.dev/claim-namespace"], "ml");
    assert_eq!(spec["annotations"]["lanemate.dev/claim-name"], "four");
    assert_eq!(spec["annotations"]["lanemate.dev/devices"], format!("{GPU},{NIC}"));
    assert_eq!(cdi::claim_of_file(&plan.files[1].path.path), Some(claim(&[]).uid));
}

#[test]
fn metadata_tells_which_nic_belongs_to_which_gpu() {
    let mut claim = claim(&[("gpu", GPU), ("nic/any", NIC), ("nic/any", NIC_2)]);
    claim.pod_claim_name = Some("pair".to_owned());
    let member = |device: &str| DeviceRef {
        driver: "lanemate.dev".to_owned(),
        pool: "n1".to_owned(),
        device: device.to_owned(),
    };
    claim.units.push(AllocatedUnit {
        devices: vec![member(GPU), member(NIC_2)],
        class: Some(PathClass::Pxb),
        via: Some("0000:16:00.0".to_owned()),
    });
    let plan = machine().plan(&claim).unwrap();
    assert_eq!(plan.files[1].path.path, "uid-1/nic.metadata");
    let mount = plan.spec.devices[1].container_edits.mounts.last().unwrap();
    assert_eq!(mount.host_path, "/var/lib/m/uid-1/nic.metadata");
    assert_eq!(
        mount.container_path,
        "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/pair/nic/lanemate.dev-metadata.json"
    );
    let text = std::str::from_utf8(&plan.files[1].bytes).unwrap();
    let documents: Vec<Value> =
        serde_json::Deserializer::from_str(text).into_iter().map(Result::unwrap).collect();
    let versions: Vec<&Value> = documents.iter().map(|document| &document["apiVersion"]).collect();
    let group = "metadata.resource.k8s.io";
    assert_eq!(versions, [&*format!("{group}/v1beta1"), &*format!("{group}/v1alpha1")]);
    let first = &documents[0];
    assert_eq!(first["metadata"]["generation"], 1);
    assert_eq!(first["podClaimName"], "pair");
    assert_eq!(first["requests"][0]["name"], "nic/any");
    let devices = &first["requests"][0]["devices"];
    assert_eq!(devices[0]["attributes"].get("unit"), None);
    assert_eq!(devices[1]["attributes"]["unit"]["int"], 0);
    assert_eq!(devices[1]["attributes"]["type"]["string"], "nic");
    let bus = &devices[1]["attributes"]["resource.kubernetes.io/pciBusID"];
    assert_eq!(bus["string"], "0000:40:00.0");
    assert_eq!(devices[1]["attributes"]["resource.kubernetes.io/numaNode"]["int"], 0);
    let units = first["metadata"]["annotations"]["lanemate.dev/units"].as_str().unwrap();
    let units: Value = serde_json::from_str(units).unwrap();
    assert_eq!(units[0]["class"], "PXB");
    assert_eq!(units[0]["via"], "0000:16:00.0");
    assert_eq!(units[0]["devices"][0]["pciBusID"], "0000:1b:00.0");
    assert_eq!(units[0]["devices"][1]["device"], NIC_2);
}
