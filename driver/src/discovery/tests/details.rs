//! What single parts of a machine become, on small made-up machines and on captured ones.

use super::super::config::tests::bridge;
use super::super::facts::{NvLinkRemote, NvmlFacts, PciFunction, PortType};
use super::super::*;
use crate::ids::{NumaNode, PciAddress};
use crate::testing::facts;

/// Real directory of a function below a root port.
const FUNCTION: &str = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0";

/// A machine with files and links, and no more problems than the missing routes.
fn machine(files: &[(&str, &str)], links: &[(&str, &str)]) -> HostCapture {
    let mut capture = HostCapture::new("made-up");
    let header =
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";
    capture.files.insert("proc/net/route".into(), header.into());
    for (path, content) in files {
        capture.files.insert((*path).to_owned(), content.as_bytes().to_vec());
    }
    for (path, target) in links {
        capture.links.insert((*path).to_owned(), (*target).to_owned());
    }
    capture
}

/// Adds a function of a class at a real directory, linked from the bus.
fn add_function(capture: &mut HostCapture, directory: &str, class: &str) {
    for (file, content) in [("vendor", "0x15b3"), ("device", "0x1021"), ("class", class)] {
        let content = format!("{content}\n").into_bytes();
        capture.files.insert(format!("{directory}/{file}"), content);
    }
    let name = directory.rsplit('/').next().unwrap();
    let target = format!("../../../../{directory}");
    capture.links.insert(format!("sys/bus/pci/devices/{name}"), target);
}

fn found(capture: &HostCapture) -> Facts {
    discover(&capture.host(), capture)
}

fn at(address: &str) -> PciAddress {
    address.parse().unwrap()
}

fn function<'a>(facts: &'a Facts, address: &str) -> &'a PciFunction {
    &facts.functions[&at(address)]
}

fn problems(facts: &Facts) -> Vec<String> {
    facts.problems.iter().map(|p| format!("{}: {}", p.path, p.message)).collect()
}

#[test]
fn a_function_behind_a_volume_management_device_has_the_inner_host_bridge() {
    let mut capture = machine(&[], &[]);
    let inner = "sys/devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:01.0/10000:e1:00.0";
    add_function(&mut capture, inner, "0x020000");
    let facts = found(&capture);
    let function = function(&facts, "10000:e1:00.0");
    assert_eq!(function.host_bridge.as_deref(), Some("pci10000:e0"));
    let bridges: Vec<String> = function.bridges.iter().map(|b| b.address.to_string()).collect();
    assert_eq!(bridges, ["10000:e0:01.0"]);
    assert_eq!(facts.problems, []);
}

#[test]
fn a_path_without_host_bridge_or_that_does_not_end_is_a_problem_of_that_function_alone() {
    let mut capture = machine(&[], &[("sys/bus/pci/devices/0000:05:00.0", "0000:05:00.0")]);
    add_function(&mut capture, FUNCTION, "0x020000");
    add_function(&mut capture, "sys/devices/platform/0000:02:00.0", "0x020000");
    add_function(&mut capture, "sys/devices/pci0000:00/odd/0000:03:00.0", "0x020000");
    capture.files.insert("sys/bus/pci/devices/odd/vendor".into(), b"0x15b3\n".to_vec());
    let facts = found(&capture);
    assert_eq!(
        problems(&facts),
        [
            "sys/bus/pci/devices/0000:02:00.0: expected a path below pciDDDD:BB that ends in \
             0000:02:00.0, found sys/devices/platform/0000:02:00.0",
            "sys/bus/pci/devices/0000:03:00.0: expected bridges between host bridge and function, \
             found odd",
            "sys/bus/pci/devices/0000:05:00.0: more than 40 links on the way",
            "sys/bus/pci/devices/odd: expected a PCI address as name",
        ]
    );
    assert_eq!(function(&facts, "0000:02:00.0").host_bridge, None);
    assert_eq!(function(&facts, "0000:01:00.0").host_bridge.as_deref(), Some("pci0000:00"));
}

#[test]
fn an_unknown_numa_node_is_zero_only_where_zero_is_the_only_node() {
    let check = |nodes: &[&str], content: Option<&str>, expect: Option<u32>, broken: usize| {
        let mut capture = machine(&[], &[]);
        add_function(&mut capture, FUNCTION, "0x020000");
        for node in nodes {
            let path = format!("sys/devices/system/node/{node}/distance");
            capture.files.insert(path, b"10\n".to_vec());
        }
        if let Some(content) = content {
            capture.files.insert(format!("{FUNCTION}/numa_node"), content.into());
        }
        let facts = found(&capture);
        assert_eq!(function(&facts, "0000:01:00.0").numa_node, expect.map(NumaNode));
        assert_eq!(facts.problems.len(), broken, "{:?}", facts.problems);
    };
    check(&["node0"], Some("-1\n"), Some(0), 0);
    check(&["node0"], None, None, 0);
    check(&["node1"], Some("-1\n"), None, 0);
    check(&["node0", "node1"], Some("-1\n"), None, 0);
    check(&["node0", "node1"], Some("1\n"), Some(1), 0);
    check(&[], Some("-1\n"), None, 0);
    check(&["node0"], Some(""), None, 1);
    check(&["node0"], Some("-2\n"), None, 1);
}

/// A function below root port, upstream and downstream port, with the downstream port's `config`.
fn below_switch(config: Option<Vec<u8>>) -> (Option<bool>, Vec<Option<PortType>>) {
    let mut capture = machine(&[], &[]);
    let ports = ["0000:00:01.0", "0000:01:00.0", "0000:02:00.0"];
    let mut directory = "sys/devices/pci0000:00".to_owned();
    let configs = [Some(bridge(4, Some(0x1d))), Some(bridge(5, None)), config];
    for (port, config) in ports.into_iter().zip(configs) {
        directory = format!("{directory}/{port}");
        add_function(&mut capture, &directory, "0x060400");
        capture.files.extend(config.map(|config| (format!("{directory}/config"), config)));
    }
    add_function(&mut capture, &format!("{directory}/0000:03:00.0"), "0x030200");
    let facts = found(&capture);
    let function = function(&facts, "0000:03:00.0");
    assert_eq!(facts.problems, []);
    (function.acs_redirect, function.bridges.iter().map(|bridge| bridge.port).collect())
}

#[test]
fn only_switch_ports_redirect_and_only_where_their_registers_can_be_read() {
    use PortType::{Downstream, Root, Upstream};
    let all = vec![Some(Root), Some(Upstream), Some(Downstream)];
    assert_eq!(below_switch(Some(bridge(6, Some(0x1d)))), (Some(true), all.clone()));
    assert_eq!(below_switch(Some(bridge(6, Some(0)))), (Some(false), all.clone()));
    assert_eq!(below_switch(Some(bridge(6, Some(0x1d))[..256].to_vec())), (None, all));
    let unread = vec![Some(Root), Some(Upstream), None];
    assert_eq!(below_switch(Some(bridge(6, Some(0x1d))[..64].to_vec())), (None, unread.clone()));
    assert_eq!(below_switch(None), (None, unread));
    // Without a bridge there is nothing to read.
    let facts = facts("flat-kvm-h200");
    assert!(facts.functions.values().all(|function| function.acs_redirect.is_none()));
}

#[test]
fn a_function_may_have_several_rdma_devices_with_or_without_their_class() {
    let device = |name: &str| format!("{FUNCTION}/infiniband/{name}");
    let mut capture = machine(
        &[("sys/class/infiniband_verbs/abi_version", "6\n")],
        &[("sys/class/infiniband/mlx5_0", &format!("../../../{}", device("mlx5_0")))],
    );
    add_function(&mut capture, FUNCTION, "0x020700");
    for name in ["mlx5_0", "smi1"] {
        for (file, content) in [("state", "4: ACTIVE\n"), ("link_layer", "InfiniBand\n")] {
            let path = format!("{}/ports/1/{file}", device(name));
            capture.files.insert(path, content.into());
        }
    }
    for (entry, ibdev) in [("umad10", "mlx5_0"), ("umad9", "mlx5_0"), ("issm3", "mlx5_0")] {
        let path = format!("sys/class/infiniband_mad/{entry}/ibdev");
        capture.files.insert(path, format!("{ibdev}\n").into());
    }
    let facts = found(&capture);
    let rdma = &function(&facts, "0000:01:00.0").rdma;
    let names: Vec<&str> = rdma.iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names, ["mlx5_0", "smi1"]);
    assert_eq!(rdma[0].mad, ["umad9", "umad10", "issm3"]);
    assert_eq!(rdma[0].ports[&1].state.as_deref(), Some("ACTIVE"));
    assert_eq!((rdma[0].node_guid.as_deref(), &rdma[1].mad), (None, &Vec::new()));
    assert_eq!(facts.problems, []);
}

#[test]
fn a_port_of_a_captured_machine_is_read_in_full() {
    let facts = facts("dell-xe9680-h200");
    let devices = || facts.functions.values().flat_map(|f| &f.rdma);
    assert!(devices().all(|device| device.uverbs.len() == 1 && device.mad.len() == 2));
    let mut rates = Vec::new();
    for port in devices().filter_map(|device| device.ports.get(&1)) {
        assert_eq!(port.link_layer.as_deref(), Some("Ethernet"));
        assert_eq!(port.state.as_deref(), Some("ACTIVE"));
        assert_eq!(port.physical_state.as_deref(), Some("LinkUp"));
        assert!(port.roce_v2);
        rates.push(port.rate.unwrap() / 1_000_000_000);
    }
    rates.sort();
    assert_eq!(rates, [200, 400, 400, 400, 400, 400, 400, 400, 400]);
}

#[test]
fn interfaces_are_those_of_functions_of_virtio_and_of_neither() {
    let facts = facts("azure-ndv5-h100");
    let eth0 = &facts.network.interfaces["eth0"];
    assert_eq!((eth0.function, eth0.lower.as_slice()), (None, &["enP62889s1".to_owned()][..]));
    let below = &facts.network.interfaces["enP62889s1"];
    assert_eq!((below.function, &below.upper), (Some(at("f5a9:00:02.0")), &vec!["eth0".into()]));
    assert_eq!(function(&facts, "f5a9:00:02.0").netdevs, ["enP62889s1"]);
    let facts = crate::testing::facts("flat-kvm-h200");
    let virtio = facts.network.interfaces["enp1s0"].function.unwrap();
    assert_eq!(facts.functions[&virtio].netdevs, ["enp1s0"]);
    let facts = crate::testing::facts("dgx-h100");
    let bond = &facts.network.interfaces["bond0"];
    assert_eq!(bond.lower, ["enp170s0f1np1", "enp41s0f1np1"]);
}

#[test]
fn routes_are_those_of_process_one_where_they_can_be_read() {
    let route = "eth7\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n";
    let mut capture = machine(&[("proc/1/net/route", route)], &[]);
    assert_eq!(found(&capture).network.default_v4, ["eth7"]);
    capture.files.insert("proc/1/net/route".into(), b"eth7\tx\n".to_vec());
    assert_eq!(
        problems(&found(&capture)),
        ["proc/1/net/route: line 1: expected a route, found \"eth7\\tx\""]
    );
    // As on a live machine, where `net` leads to the reader's own process.
    capture.files.clear();
    capture.files.insert("proc/77/net/route".into(), route.into());
    capture.links.insert("proc/net".into(), "self/net".into());
    capture.links.insert("proc/self".into(), "77".into());
    assert_eq!(found(&capture).network.default_v4, ["eth7"]);
}

#[test]
fn virtual_functions_are_known_from_either_end() {
    let facts = facts("no-gpu-2nic");
    let functions = [at("0000:17:00.2"), at("0000:17:00.3")];
    assert_eq!(function(&facts, "0000:17:00.0").virtual_functions, functions);
    assert_eq!(function(&facts, "0000:17:00.3").physical_function, Some(at("0000:17:00.0")));
    let mut capture = crate::testing::host("no-gpu-2nic");
    capture.links.retain(|path, _| !path.contains("/virtfn"));
    assert_eq!(found(&capture), facts);
    let mut capture = crate::testing::host("no-gpu-2nic");
    capture.links.retain(|path, _| !path.ends_with("/physfn"));
    assert_eq!(found(&capture), facts);
}

#[test]
fn an_amd_gpu_tells_its_memory_identity_name_and_nodes() {
    let file = |name: &str| format!("{FUNCTION}/{name}");
    let mut capture = machine(&[], &[]);
    add_function(&mut capture, FUNCTION, "0x120000");
    for (name, content) in [
        ("vendor", "0x1002\n"),
        ("mem_info_vram_total", "206141652992\n"),
        ("unique_id", "d8a1b2c3d4e5f607\n"),
        ("product_name", "\n"),
        ("drm/card1/dev", "226:1\n"),
        ("drm/renderD129/dev", "226:129\n"),
        ("drm/card1-DP-1/status", "disconnected\n"),
    ] {
        capture.files.insert(file(name), content.into());
    }
    let facts = found(&capture);
    let gpu = function(&facts, "0000:01:00.0");
    assert_eq!((gpu.vram_bytes, gpu.product_name.as_deref()), (Some(206_141_652_992), None));
    assert_eq!(gpu.unique_id.as_deref(), Some("d8a1b2c3d4e5f607"));
    assert_eq!(gpu.drm, ["card1", "renderD129"]);
    assert_eq!(facts.problems, []);
}

#[test]
fn gpudirect_needs_a_peer_memory_module_or_dma_buf_on_both_sides() {
    let open = ("proc/driver/nvidia/version", "NVRM: NVIDIA UNIX Open Kernel Module  580\n");
    let closed = ("proc/driver/nvidia/version", "NVRM: NVIDIA UNIX x86_64 Kernel Module  535\n");
    let kernel = |release| ("proc/sys/kernel/osrelease", release);
    let peer = ("sys/module/nvidia_peermem/initstate", "live\n");
    let client = ("sys/kernel/mm/memory_peers/amdkfd/version", "1.0\n");
    let check = |files: &[(&str, &str)], expect| {
        assert_eq!(found(&machine(files, &[])).gpudirect_rdma, expect, "{files:?}");
    };
    check(&[open, kernel("6.8.0-79-generic\n")], Some(true));
    check(&[open, kernel("5.4.0\n")], Some(false));
    check(&[open], None);
    check(&[closed, kernel("6.8.0\n")], Some(false));
    check(&[closed, peer], Some(true));
    check(&[client], Some(true));
    check(&[kernel("6.8.0\n")], None);
}

#[test]
fn the_namespace_mode_of_rdma_devices_is_the_modules_parameter() {
    let check = |content: &str, expect, broken| {
        let path = "sys/module/ib_core/parameters/netns_mode";
        let facts = found(&machine(&[(path, content)], &[]));
        assert_eq!((facts.rdma_netns_exclusive, facts.problems.len()), (expect, broken));
    };
    check("Y\n", Some(false), 0);
    check("N\n", Some(true), 0);
    check("?\n", None, 1);
}

#[test]
fn the_library_tells_of_each_gpu_what_sysfs_cannot() {
    let facts = facts("dgx-h100");
    let nvml = facts.nvml.as_ref().unwrap();
    assert_eq!(nvml.driver_version.as_deref(), Some("580.82.07"));
    assert_eq!(nvml.cuda_driver_version, Some(13000));
    let gpu = &nvml.gpus[&at("0000:1b:00.0")];
    assert_eq!(gpu.name.as_deref(), Some("NVIDIA H100 80GB HBM3"));
    assert_eq!((gpu.compute_capability, gpu.minor), (Some((9, 0)), Some(0)));
    assert_eq!((gpu.memory_bytes, gpu.mig_enabled), (Some(85_520_809_984), Some(false)));
    assert_eq!(gpu.nvlinks, [NvLinkRemote::Switch; 18]);
}

/// A library that fails as a whole, or for one GPU.
struct Failing(Result<Option<NvmlFacts>, GpuLibraryError>);

impl GpuLibrary for Failing {
    fn read(&self) -> Result<Option<NvmlFacts>, GpuLibraryError> {
        self.0.clone()
    }
}

#[test]
fn a_library_that_fails_is_a_problem_beside_what_sysfs_says() {
    let capture = crate::testing::host("dgx-h100");
    let whole = Failing(Err(GpuLibraryError("driver/library version mismatch".into())));
    let facts = discover(&capture.host(), &whole);
    assert_eq!((facts.nvml.is_none(), facts.functions.len()), (true, 88));
    assert_eq!(problems(&facts).len(), 1);
    let lost = facts::Problem { path: LIBRARY.into(), message: "read GPU 3: lost".into() };
    let part = NvmlFacts { problems: vec![lost.clone()], ..NvmlFacts::default() };
    let facts = discover(&capture.host(), &Failing(Ok(Some(part))));
    assert_eq!((facts.problems, facts.nvml), (vec![lost], Some(NvmlFacts::default())));
}
