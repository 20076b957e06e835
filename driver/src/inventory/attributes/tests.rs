//! One attribute at a time, on hand-made functions.

use super::*;
use crate::discovery::facts::NvmlGpu;
use crate::topology::fixtures::{facts, gpu, nic};

fn published(function: PciFunction, kind: Kind, library: Option<NvmlFacts>) -> OfferedDevice {
    let mut facts = facts([function.clone()]);
    facts.nvml = library;
    let topology = Topology::build(&facts, None);
    device(&function, kind, &facts, &topology).0
}

fn show(device: &OfferedDevice, name: &str) -> String {
    match device.attributes.get(name) {
        None => device.capacity.get(name).map_or("-".to_owned(), ToString::to_string),
        Some(AttributeValue::String(text) | AttributeValue::Version(text)) => text.clone(),
        Some(AttributeValue::Int(number)) => number.to_string(),
        Some(AttributeValue::Bool(value)) => value.to_string(),
        Some(other) => format!("{other:?}"),
    }
}

fn check_nic(change: impl Fn(&mut PciFunction), expect: &[(&str, &str)]) {
    let mut function = nic("0000:18:00.0", "pci0000:15", &["0000:15:01.0"]);
    change(&mut function);
    let device = published(function, Kind::Nic, None);
    for (name, value) in expect {
        assert_eq!(show(&device, name), *value, "{name}");
    }
}

#[test]
fn a_nic_publishes_what_is_known_of_its_first_device() {
    check_nic(
        |nic| nic.netdevs = vec!["ibp24s0".to_owned(), "x".to_owned()],
        &[
            ("type", "nic"),
            ("vendor", "mellanox"),
            ("resource.kubernetes.io/pciBusID", "0000:18:00.0"),
            ("resource.kubernetes.io/pcieRoot", "pci0000:15"),
            ("resource.kubernetes.io/numaNode", "-"),
            ("pciePath", "pci0000:15/01.0"),
            ("rdmaDevice", "mlx5_18"),
            ("netdev", "ibp24s0"),
            ("linkLayer", "InfiniBand"),
            ("portState", "Active"),
            ("bandwidth", "400G"),
            ("roceV2", "false"),
            ("virtualFunction", "false"),
            ("gpudirectRdma", "-"),
            ("firmwareVersion", "-"),
        ],
    );
}

#[test]
fn a_link_without_lanes_publishes_neither_width_nor_generation() {
    let link = |width: Option<u8>, expect: [&str; 2]| {
        let [generation, lanes] = expect;
        check_nic(
            |nic| (nic.link_generation, nic.link_width) = (Some(5), width),
            &[("pcieLinkGeneration", generation), ("pcieLinkWidth", lanes)],
        );
    };
    link(Some(16), ["5", "16"]);
    link(Some(0), ["-", "-"]);
    link(None, ["-", "-"]);
}

#[test]
fn the_best_port_speaks_for_the_nic() {
    let port = |state: &str, rate, layer: &str| RdmaPort {
        state: Some(state.to_owned()),
        rate: Some(rate),
        link_layer: Some(layer.to_owned()),
        ..RdmaPort::default()
    };
    check_nic(
        |nic| {
            let ports = &mut nic.rdma[0].ports;
            ports.insert(1, port("DOWN", 800, "InfiniBand"));
            ports.insert(2, port("ACTIVE", 100, "Ethernet"));
            ports.insert(3, port("ACTIVE", 200, "Unspecified"));
        },
        &[("portState", "Active"), ("bandwidth", "200"), ("linkLayer", "-")],
    );
}

fn check_taint(states: &[Option<&str>], expect: bool) {
    let mut function = nic("0000:18:00.0", "pci0000:15", &[]);
    let port =
        |state: &Option<&str>| RdmaPort { state: state.map(str::to_owned), ..Default::default() };
    function.rdma[0].ports = (1..).zip(states.iter().map(port)).collect();
    let device = published(function, Kind::Nic, None);
    assert_eq!(!device.taints.is_empty(), expect, "{states:?}");
}

#[test]
fn a_nic_without_a_port_that_is_up_is_tainted() {
    check_taint(&[Some("DOWN")], true);
    check_taint(&[Some("DOWN"), Some("INIT")], true);
    check_taint(&[Some("DOWN"), Some("ACTIVE")], false);
    check_taint(&[None], false);
    check_taint(&[], false);
}

fn library(links: &[(&str, &[NvLinkRemote])]) -> NvmlFacts {
    let gpus = links.iter().map(|(address, links)| {
        let gpu = NvmlGpu {
            uuid: Some(format!("GPU-{address}")),
            compute_capability: Some((9, 0)),
            memory_bytes: Some(85_520_809_984),
            nvlinks: links.to_vec(),
            ..NvmlGpu::default()
        };
        (address.parse().unwrap(), gpu)
    });
    NvmlFacts {
        driver_version: Some("580.82.07".to_owned()),
        cuda_driver_version: Some(13000),
        gpus: gpus.collect(),
        problems: Vec::new(),
    }
}

#[test]
fn a_gpu_publishes_what_the_library_knows() {
    let library = library(&[("0000:1b:00.0", &[])]);
    let device = published(gpu("0000:1b:00.0", "pci0000:15", &[]), Kind::Gpu, Some(library));
    for (name, value) in [
        ("type", "gpu"),
        ("vendor", "nvidia"),
        ("uuid", "GPU-0000:1b:00.0"),
        ("cudaComputeCapability", "9.0.0"),
        ("driverVersion", "580.82.7"),
        ("cudaDriverVersion", "13.0.0"),
        ("memory", "85520809984"),
        ("nvlinkDomain", "-"),
        ("brand", "-"),
    ] {
        assert_eq!(show(&device, name), value, "{name}");
    }
}

#[test]
fn an_nvlink_island_is_named_after_its_lowest_gpu() {
    let at = |text: &str| -> PciAddress { text.parse().unwrap() };
    let [a, b, c, d] = ["0000:01:00.0", "0000:02:00.0", "0000:03:00.0", "0000:04:00.0"];
    let island = |library: &NvmlFacts, address: &str| {
        nvlink_island(at(address), library).map(|lowest| lowest.to_string())
    };
    let bridged = library(&[
        (a, &[NvLinkRemote::Gpu(at(c))]),
        (b, &[]),
        (c, &[NvLinkRemote::Gpu(at(a)), NvLinkRemote::Gpu(at(d))]),
        (d, &[NvLinkRemote::Gpu(at(c))]),
    ]);
    assert_eq!(island(&bridged, d).as_deref(), Some(a));
    assert_eq!(island(&bridged, b), None);
    let switched = library(&[(b, &[NvLinkRemote::Switch]), (d, &[NvLinkRemote::Switch])]);
    assert_eq!(island(&switched, d).as_deref(), Some(b));
}

#[test]
fn a_place_that_is_too_long_is_cut_with_a_problem() {
    let chain: Vec<String> = (1..=17).map(|bus| format!("0000:{bus:02x}:00.0")).collect();
    let chain: Vec<&str> = chain.iter().map(String::as_str).collect();
    let function = gpu("0000:1b:00.0", "pci0000:00", &chain);
    let facts = facts([function.clone()]);
    let topology = Topology::build(&facts, None);
    let (device, problems) = device(&function, Kind::Gpu, &facts, &topology);
    assert_eq!(show(&device, "pciePath").len(), 63);
    assert_eq!(problems.len(), 1, "{problems:?}");
}
