//! Captures with their entries in another order or with a file missing: nothing else changes.

#![allow(clippy::unwrap_used, reason = "a broken fixture fails the test")]

mod hosts;

use std::collections::{BTreeMap, BTreeSet};

use hosts::Expected;
use lanemate_driver::discovery::{HostCapture, discover};
use lanemate_driver::ids::PciAddress;
use lanemate_driver::inventory::{Inventory, OfferedDevice, Policy};
use lanemate_driver::machine::Machine;
use lanemate_driver::resource_slice::{Mode, RenderOptions, render};
use lanemate_driver::testing::{HOSTS, host, read};

const OPTIONS: RenderOptions = RenderOptions { mode: Mode::Controller, generation: 1 };

fn machine(capture: &HostCapture) -> Machine {
    let facts = discover(&capture.host(), capture);
    Machine::from_facts(&capture.name, facts, None, &Policy::default())
}

/// The text of a capture with the lines of each section in reverse.
fn reversed(text: &str) -> String {
    let (mut out, mut section): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let is_entry = line.starts_with("  \"") || line.starts_with("    - {");
        if !is_entry {
            out.extend(section.drain(..).rev());
            out.push(line);
        } else {
            section.push(line);
        }
    }
    out.extend(section.drain(..).rev());
    out.join("\n") + "\n"
}

#[test]
fn the_order_of_entries_in_a_capture_changes_nothing() {
    for name in HOSTS {
        let text = read(&format!("captures/{name}.yaml"));
        let turned = reversed(&text);
        assert_ne!(turned, text, "{name}");
        let slices =
            |text: &str| render(&machine(&HostCapture::parse(text).unwrap()).inventory, OPTIONS);
        assert_eq!(slices(&turned), slices(&text), "{name}");
    }
}

/// The functions that a file is about: the addresses in its path. A file of a bridge is about
/// nothing that is published.
fn owners(path: &str) -> BTreeSet<PciAddress> {
    path.split('/').filter_map(|component| component.parse().ok()).collect()
}

/// Files about the machine as a whole.
fn is_shared(path: &str) -> bool {
    ["proc/", "sys/devices/system/node/", "sys/module/", "sys/class/kfd/"]
        .iter()
        .any(|shared| path.starts_with(shared))
}

/// What a device publishes, without the one attribute that depends on what else is offered.
fn own(inventory: &Inventory) -> BTreeMap<PciAddress, OfferedDevice> {
    let device = |device: &OfferedDevice| {
        let mut device = device.clone();
        device.attributes.remove(lanemate_api::attribute::PCIE_SWITCH);
        (device.address, device)
    };
    inventory.devices.iter().map(device).collect()
}

fn check_without(name: &str) {
    let whole = host(name);
    let before = machine(&whole);
    let offered = own(&before.inventory);
    for path in whole.files.keys().filter(|path| !is_shared(path)) {
        let mut capture = whole.clone();
        capture.files.remove(path);
        let after = machine(&capture);
        let allowed = owners(path);
        let now = own(&after.inventory);
        for address in offered.keys().chain(now.keys()).filter(|address| !allowed.contains(address))
        {
            // A NIC that took its place from a complex loses it with the other half.
            let moved = after.topology.source(*address) != before.topology.source(*address);
            assert!(
                moved || offered.get(address) == now.get(address),
                "{name}: {path} changes {address}"
            );
        }
    }
}

#[test]
fn a_missing_file_changes_no_other_device() {
    let names: Vec<&str> = HOSTS.to_vec();
    let (left, right) = names.split_at(names.len() / 2);
    std::thread::scope(|scope| {
        for half in [left, right] {
            scope.spawn(|| half.iter().for_each(|name| check_without(name)));
        }
    });
}

#[test]
fn a_missing_shared_file_is_survived() {
    for expected in Expected::all() {
        let whole = host(&expected.name);
        for path in whole.files.keys().filter(|path| is_shared(path)) {
            let mut capture = whole.clone();
            capture.files.remove(path);
            let gpus = machine(&capture).gpus();
            assert_eq!(
                gpus,
                expected
                    .gpus
                    .values()
                    .copied()
                    .collect::<BTreeSet<_>>()
                    .into_iter()
                    .collect::<Vec<_>>()
            );
        }
    }
}
