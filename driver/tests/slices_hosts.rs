//! The ResourceSlices of every captured host: golden files in `test/hosts/slices`, and the API's
//! limits. `UPDATE_GOLDEN=1 cargo test -p lanemate-driver --test slices_hosts` rewrites the files;
//! the difference is to be reviewed.
#![allow(clippy::disallowed_methods, reason = "golden files are read and written")]
#![allow(clippy::unwrap_used, reason = "a broken fixture fails the test")]

mod hosts;
mod limits;

use std::path::PathBuf;

use hosts::Expected;
use k8s_openapi::api::resource::v1::ResourceSlice;
use lanemate_driver::attribute::AttributeValue;
use lanemate_driver::discovery::facts::Problem;
use lanemate_driver::ids::{Kind, PciAddress};
use lanemate_driver::inventory::{Inventory, OfferedDevice, Policy, Taint};
use lanemate_driver::machine::Machine;
use lanemate_driver::resource_slice::{Mode, RenderOptions, render};

const OPTIONS: RenderOptions = RenderOptions { mode: Mode::Controller, generation: 1 };

fn yaml(slices: &[ResourceSlice]) -> String {
    let documents = slices.iter().map(|slice| {
        // Through JSON, which keeps the order of fields that k8s-openapi writes.
        let value = serde_json::to_value(slice).unwrap();
        serde_saphyr::to_string(&value).unwrap()
    });
    documents.collect::<Vec<_>>().join("---\n")
}

fn check_golden(file: &str, found: &str) {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../test/hosts/slices");
    let path = directory.join(file);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(&path, found).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(golden == found, "{file} differs: run with UPDATE_GOLDEN=1 and review the difference");
}

#[test]
fn slices_are_the_golden_ones() {
    for expected in Expected::all() {
        for machine in expected.machines(&expected.policy()) {
            let overridden = machine.topology.has_override();
            let suffix = if overridden { "-override" } else { "" };
            let found = yaml(&render(&machine.inventory, OPTIONS));
            check_golden(&format!("{}{suffix}.yaml", expected.name), &found);
        }
    }
}

#[test]
fn golden_slices_are_read_back_as_they_were() {
    for expected in Expected::all() {
        for slice in render(&expected.machine().inventory, OPTIONS) {
            let text = yaml(std::slice::from_ref(&slice));
            assert_eq!(serde_saphyr::from_str::<ResourceSlice>(&text).unwrap(), slice);
        }
    }
}

#[test]
fn slices_of_the_hosts_keep_the_limits_of_the_api() {
    for expected in Expected::all() {
        for machine in expected.machines(&Policy::default()) {
            for mode in [Mode::Controller, Mode::Scheduler] {
                let slices = render(&machine.inventory, RenderOptions { mode, generation: 1 });
                assert_eq!(limits::violations(&slices), [""; 0], "{}", expected.name);
            }
            let dropped = |problem: &&Problem| problem.path.starts_with("sys/bus/pci/devices/");
            assert_eq!(machine.inventory.problems.iter().find(dropped), None, "{}", expected.name);
        }
    }
}

/// `gpus` GPUs and as many NICs, each pair below a switch of its own, with names that are too long.
fn large_machine(gpus: u32) -> Machine {
    let mut facts = lanemate_driver::testing::facts("dgx-h100");
    let gpu: PciAddress = "0000:1b:00.0".parse().unwrap();
    let nic: PciAddress = "0000:18:00.0".parse().unwrap();
    for domain in 1..gpus {
        for address in [gpu, nic] {
            let mut copy = facts.functions[&address].clone();
            copy.address = PciAddress { domain, ..address };
            copy.host_bridge = Some(format!("pci{domain:04x}:15"));
            copy.product_name = Some("ö".repeat(100));
            if let Some(rdma) = copy.rdma.first_mut() {
                rdma.name = "x".repeat(100);
                rdma.board_id = Some("a\u{0}b".to_owned());
            }
            copy.vpd.insert("ID".to_owned(), format!("x{}", "ö".repeat(100)));
            facts.functions.insert(copy.address, copy);
        }
    }
    if let Some(nvml) = &mut facts.nvml {
        nvml.driver_version = Some("not a version".to_owned());
        let known = nvml.gpus[&gpu].clone();
        for domain in 1..gpus {
            nvml.gpus.insert(PciAddress { domain, ..gpu }, known.clone());
        }
    }
    Machine::from_facts("n1", facts, None, &Policy::default())
}

#[test]
fn slices_of_a_large_machine_with_odd_names_keep_the_limits_and_lose_no_device() {
    let machine = large_machine(150);
    for (mode, slices_wanted) in [(Mode::Scheduler, 3), (Mode::Controller, 5)] {
        let slices = render(&machine.inventory, RenderOptions { mode, generation: 1 });
        assert_eq!(limits::violations(&slices), [""; 0]);
        assert_eq!(slices.len(), slices_wanted);
        let devices: usize =
            slices.iter().filter_map(|s| s.spec.devices.as_ref()).map(Vec::len).sum();
        assert_eq!(devices, 8 + 10 + 2 * 149);
    }
    let dropped = |part: &str| {
        machine.inventory.problems.iter().filter(|problem| problem.message.contains(part)).count()
    };
    assert_eq!((dropped("attribute rdmaDevice"), dropped("attribute boardID")), (149, 149));
}

#[test]
fn the_checker_finds_what_the_api_refuses() {
    let address: PciAddress = "0000:01:00.0".parse().unwrap();
    let device = |name: &str| OfferedDevice {
        name: name.to_owned(),
        address,
        kind: Kind::Nic,
        attributes: Default::default(),
        capacity: Default::default(),
        taints: Vec::new(),
    };
    let check = |node: &str, device: OfferedDevice, expect: &str| {
        let inventory =
            Inventory { node: node.to_owned(), devices: vec![device], ..Inventory::default() };
        let found = limits::violations(&render(&inventory, OPTIONS)).join("; ");
        assert!(found.contains(expect), "{found:?} lacks {expect:?}");
    };
    check("Node_1", device("a"), "pool name");
    check("n1", device("Upper"), "device name");
    let with = |name: &str, value: AttributeValue| {
        let mut device = device("a");
        device.attributes.insert(name.to_owned(), value);
        device
    };
    let text = |text: &str| AttributeValue::String(text.to_owned());
    check("n1", with("a", text(&"x".repeat(65))), "64 bytes");
    check("n1", with("a-b", text("x")), "name a-b");
    check("n1", with(&format!("{}.dev/x", "a".repeat(60)), text("x")), "name aaa");
    check("n1", with("v", AttributeValue::Version("1.02.0".to_owned())), "version");
    let mut many = device("a");
    many.attributes.extend((0..33).map(|n| (format!("a{n}"), AttributeValue::Int(n))));
    check("n1", many, "33 attributes and capacities");
    let mut tainted = device("a");
    let taint =
        |key: &str| Taint { key: key.to_owned(), value: None, effect: "NoSchedule".to_owned() };
    tainted.taints = vec![taint("x"); 16];
    check("n1", tainted, "17 taints");
    let mut tainted = device("a");
    tainted.taints = vec![taint("a b")];
    check("n1", tainted, "taint key");
}
