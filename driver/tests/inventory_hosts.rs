//! What every captured host offers, leaves out and publishes.

#![allow(clippy::unwrap_used, reason = "a broken fixture fails the test")]

mod hosts;

use std::collections::BTreeSet;

use hosts::{Excluded, Expected};
use lanemate_api::{PathClass, attribute};
use lanemate_driver::attribute::AttributeValue;
use lanemate_driver::ids::{Kind, NumaNode};
use lanemate_driver::inventory::{OfferedDevice, Policy};
use lanemate_driver::machine::Machine;
use lanemate_driver::topology::{Place, path_between};

/// The code for the words of an expected answer: the first that applies.
fn code(row: &Excluded) -> &'static str {
    let codes = [
        ("default-route", "default-route"),
        ("cx-dma-function", "dma-function"),
        ("zero-node-guid", "zero-guid"),
        ("vfio-pci", "vfio"),
        ("no RDMA", "no-rdma"),
        ("function without ibdev", "no-rdma"),
    ];
    let found = codes.iter().find(|(words, _)| row.reason.contains(words));
    found.unwrap_or_else(|| panic!("no code for {:?}", row.reason)).1
}

#[test]
fn nics_are_left_out_for_the_expected_reasons() {
    for expected in Expected::all() {
        let machine = expected.machine();
        let rows = expected.exclude.iter().filter(|row| row.detect == "auto");
        let rows = rows.filter(|row| row.reason != "port-down");
        let wanted: BTreeSet<(String, &str)> = rows.map(|row| (row_name(row), code(row))).collect();
        let left_out = machine.inventory.left_out.iter().filter(|out| out.kind == Kind::Nic);
        let found: BTreeSet<(String, &str)> = left_out
            .map(|out| {
                let name = out.rdma_devices.first().or(out.netdevs.first()).cloned();
                let address = out.address.map(|address| address.to_string());
                (name.or(address).unwrap_or_default(), out.reason.code.as_str())
            })
            .collect();
        assert_eq!(found, wanted, "{}", expected.name);
    }
}

fn row_name(row: &Excluded) -> String {
    let name = row.ibdev.clone().or(row.netdev.clone());
    name.or(row.bdf.map(|address| address.to_string())).unwrap_or_default()
}

#[test]
fn ports_that_are_down_are_offered_with_a_taint() {
    for expected in Expected::all() {
        let rows = expected.exclude.iter().filter(|row| row.reason == "port-down");
        let wanted: BTreeSet<&str> = rows.filter_map(|row| row.ibdev.as_deref()).collect();
        let machine = expected.machine();
        let tainted = machine.inventory.devices.iter().filter(|device| !device.taints.is_empty());
        let found: BTreeSet<&str> =
            tainted.filter_map(|device| expected.nic_at(device.address)).collect();
        assert_eq!(found, wanted, "{}", expected.name);
    }
}

#[test]
fn nearest_nics_are_the_expected_ones_once_the_policy_applies() {
    for expected in Expected::all() {
        let overridden = expected.with_override.as_ref().map(|with| &with.nearest);
        let wanted = std::iter::once(&expected.nearest).chain(overridden);
        for (machine, wanted) in expected.machines(&expected.policy()).iter().zip(wanted) {
            for (gpu, nics) in wanted {
                let offered = machine.inventory.devices.iter();
                let healthy = offered.filter(|d| d.kind == Kind::Nic && d.taints.is_empty());
                let classes = healthy.map(|device| {
                    let class = machine.topology.path(expected.gpus[gpu], device.address).class;
                    (class, expected.nic_at(device.address).unwrap().to_owned())
                });
                let classes: Vec<(PathClass, String)> = classes.collect();
                let best = classes.iter().map(|(class, _)| *class).min();
                let nearest = classes.into_iter().filter(|(class, _)| Some(*class) == best);
                let nearest: BTreeSet<String> = nearest.map(|(_, name)| name).collect();
                assert_eq!(nearest, *nics, "{} {gpu}", expected.name);
            }
        }
    }
}

#[test]
fn every_gpu_is_offered() {
    for expected in Expected::all() {
        let machine = expected.machine();
        let offered = machine.inventory.devices.iter().filter(|device| device.kind == Kind::Gpu);
        let offered: BTreeSet<_> = offered.map(|device| device.address).collect();
        assert_eq!(offered, expected.gpus.values().copied().collect(), "{}", expected.name);
    }
}

/// Place and NUMA node as another program reads them from the slice.
fn published(device: &OfferedDevice) -> (Option<Place>, Option<NumaNode>) {
    let place = match device.attributes.get(attribute::PCIE_PATH) {
        Some(AttributeValue::String(text)) => text.parse().ok(),
        _ => None,
    };
    let numa = match device.attributes.get(attribute::NUMA_NODE) {
        Some(AttributeValue::Int(node)) => u32::try_from(*node).ok().map(NumaNode),
        _ => None,
    };
    (place, numa)
}

fn each_pair(mut check: impl FnMut(&str, &Machine, &OfferedDevice, &OfferedDevice)) {
    for expected in Expected::all() {
        for machine in expected.machines(&Policy::default()) {
            for a in &machine.inventory.devices {
                for b in &machine.inventory.devices {
                    check(&format!("{} {} {}", expected.name, a.name, b.name), &machine, a, b);
                }
            }
        }
    }
}

#[test]
fn the_class_from_published_attributes_is_that_of_the_machine() {
    let mut pairs = 0;
    each_pair(|name, machine, a, b| {
        let ((place_a, numa_a), (place_b, numa_b)) = (published(a), published(b));
        let path = path_between((place_a.as_ref(), numa_a), (place_b.as_ref(), numa_b));
        let machine = machine.topology.path(a.address, b.address);
        let machine = (machine.class, machine.switch_hops, machine.via);
        assert_eq!((path.class, path.switch_hops, path.via), machine, "{name}");
        pairs += 1;
    });
    assert!(pairs > 2000, "{pairs}");
}

#[test]
fn the_joint_switch_is_equal_exactly_where_gpu_and_nic_are_pxb_or_nearer() {
    let mut joint = 0;
    each_pair(|name, machine, a, b| {
        if (a.kind, b.kind) != (Kind::Gpu, Kind::Nic) {
            return;
        }
        let switch =
            |device: &OfferedDevice| device.attributes.get(attribute::PCIE_SWITCH).cloned();
        let equal = switch(a).is_some() && switch(a) == switch(b);
        let class = machine.topology.path(a.address, b.address).class;
        assert_eq!(equal, class <= PathClass::Pxb, "{name}");
        joint += usize::from(equal);
    });
    assert!(joint > 50, "{joint}");
}

#[test]
fn the_relation_is_ultrametric() {
    for expected in Expected::all() {
        for machine in expected.machines(&Policy::default()) {
            let devices = &machine.inventory.devices;
            let class = |a: usize, b: usize| {
                machine.topology.path(devices[a].address, devices[b].address).class
            };
            for a in 0..devices.len() {
                for b in 0..devices.len() {
                    for c in 0..devices.len() {
                        let far = class(a, c).max(class(c, b));
                        assert!(a == b || class(a, b) <= far, "{} {a} {b} {c}", expected.name);
                    }
                }
            }
        }
    }
}
