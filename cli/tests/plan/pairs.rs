//! Pairs of a GPU and a NIC on captured machines.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::program::{capture, printed};
use crate::scene::{Scene, claim, claim_with, devices, example, list, pair_class, text};

/// The PCI address in the name of one of our devices: `gpu-0000-1b-00-0` is `0000:1b:00.0`.
fn address(device: &str) -> String {
    let parts: Vec<&str> = device.split('-').collect();
    let [_, domain, bus, slot, function] = parts.as_slice() else { panic!("{device}") };
    format!("{domain}:{bus}:{slot}.{function}")
}

/// What `topology` says of the path between the devices of a unit: class and switch.
fn path_of_unit(topology: &Value, unit: &Value) -> (String, String) {
    let [gpu, nic] = list(unit, "/devices") else { panic!("{unit}") };
    let (gpu, nic) = (address(gpu.as_str().unwrap()), address(nic.as_str().unwrap()));
    let mut paths = list(topology, "/paths").iter();
    let path = paths.find(|path| text(path, "/gpu") == gpu && text(path, "/nic") == nic).unwrap();
    (text(path, "/class").to_owned(), text(path, "/via").to_owned())
}

fn check_pairs(host: &str, claims: &[String], expect: &str) {
    let scene = Scene::of(host, claims).file("roce.yaml", &roce_class()).json(0);
    let topology = printed(&["topology", "--host", &capture(host), "-o", "json"]);
    let topology: Value = serde_json::from_str(&topology).unwrap();
    let mut seen = BTreeSet::new();
    let mut switches = BTreeSet::new();
    for allocation in list(&scene, "/allocations") {
        assert_eq!(text(allocation, "/node"), host);
        assert_eq!(allocation["optimal"], true);
        for device in devices(allocation) {
            assert!(seen.insert(device.to_owned()), "{device} is granted twice");
        }
        for unit in list(allocation, "/units") {
            assert_eq!(text(unit, "/class"), expect, "{unit}");
            let (class, via) = (text(unit, "/class"), text(unit, "/via"));
            assert_eq!((class.to_owned(), via.to_owned()), path_of_unit(&topology, unit));
            switches.insert(via.to_owned());
        }
    }
    let units = list(&scene, "/allocations").iter().map(|a| list(a, "/units").len()).sum::<usize>();
    assert_eq!((seen.len(), switches.len()), (2 * units, units), "each pair has its own switch");
    assert!(units > 0 && list(&scene, "/refused").is_empty());
}

fn roce_class() -> String {
    let class = pair_class().replace("gpu-rdma-pair", "gpu-roce-pair");
    class.replace("\"InfiniBand\"", "\"Ethernet\"")
}

#[test]
fn pairs_on_a_dgx_h100_share_the_switch_that_they_have() {
    for count in [1, 2, 4, 8] {
        check_pairs("dgx-h100", &[claim("c", "gpu-rdma-pair", count)], "PXB");
    }
}

#[test]
fn the_four_pairs_of_the_documentation_are_placed() {
    check_pairs("dgx-h100", &[format!("---\n{}", example("four-pairs.yaml"))], "PXB");
}

#[test]
fn ethernet_pairs_on_an_xe9680_share_the_innermost_switch() {
    for count in [1, 2, 4, 8] {
        check_pairs("dell-xe9680-h200", &[claim("c", "gpu-roce-pair", count)], "PIX");
    }
}

#[test]
fn several_claims_never_share_a_device() {
    let claims = [("a", 1), ("b", 2), ("c", 4), ("d", 1)];
    let claims = claims.map(|(name, count)| claim(name, "gpu-rdma-pair", count));
    check_pairs("dgx-h100", &claims, "PXB");
}

#[test]
fn the_refusal_of_a_ninth_pair_names_what_is_missing_and_who_holds_it() {
    let claims = [("eight", 8), ("ninth", 1)].map(|(name, n)| claim(name, "gpu-rdma-pair", n));
    let answer = Scene::of("dgx-h100", &claims).json(3);
    assert_eq!(list(&answer, "/allocations").len(), 1);
    let [refused] = list(&answer, "/refused") else { panic!("{answer}") };
    assert_eq!((text(refused, "/claim"), text(refused, "/kind")), ("default/ninth", "noFit"));
    let reason = text(refused, "/reason");
    for part in ["dgx-h100", "needs 1 GPU", "0 are free", "gpu-0000-1b-00-0", "default/eight"] {
        assert!(reason.contains(part), "{part:?} is not in: {reason}");
    }
    let [node] = list(refused, "/nodes") else { panic!("{refused}") };
    assert_eq!(text(node, "/node"), "dgx-h100");
    assert!(
        text(node, "/reason").contains("is held by") || text(node, "/reason").contains("are held")
    );
}

#[test]
fn a_free_gpu_whose_nic_is_taken_is_named_with_the_holder() {
    let selector = "device.attributes[\"lanemate.dev\"].rdmaDevice == \"mlx5_0\"";
    let nic = format!(", selectors: [{{cel: {{expression: '{selector}'}}}}]");
    let claims =
        [claim_with("a-nic", "nic.lanemate.dev", 1, &nic), claim("pairs", "gpu-rdma-pair", 8)];
    let answer = Scene::of("dgx-h100", &claims).json(3);
    let reason = text(&answer, "/refused/0/reason");
    for part in ["7 left", "gpu-0000-1b-00-0", "nic-0000-18-00-0 is held by default/a-nic"] {
        assert!(reason.contains(part), "{part:?} is not in: {reason}");
    }
}

#[test]
fn a_claim_goes_where_it_is_nearest() {
    let roce = claim("r", "gpu-roce-pair", 2);
    let scene = Scene::of("dgx-h100", &[roce, claim("s", "gpu-rdma-pair", 2)]);
    let answer = scene.file("roce.yaml", &roce_class()).host_as("dell", "dell-xe9680-h200").json(0);
    assert_eq!(text(&answer, "/allocations/0/node"), "dell");
    assert_eq!(text(&answer, "/allocations/1/node"), "dgx-h100");
}
