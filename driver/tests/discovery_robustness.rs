//! Captures with an entry missing, a file of nonsense, or their entries in another order: nothing
//! else changes.

#![allow(clippy::unwrap_used, reason = "a broken fixture fails the test")]

use std::collections::{BTreeMap, BTreeSet};

use lanemate_driver::discovery::facts::DeviceNode;
use lanemate_driver::discovery::host::{HostError, MAX_FILE_BYTES};
use lanemate_driver::discovery::{Facts, Host, HostCapture, discover, record};
use lanemate_driver::ids::PciAddress;
use lanemate_driver::inventory::{Inventory, OfferedDevice, Policy};
use lanemate_driver::machine::Machine;
use lanemate_driver::resource_slice::{Mode, RenderOptions, render};
use lanemate_driver::testing::{HOSTS, facts, host, read};

fn machine(name: &str, facts: &Facts) -> Machine {
    Machine::from_facts(name, facts.clone(), None, &Policy::default())
}

/// A machine in which one path is gone, or holds something else.
struct Changed<'a> {
    host: &'a dyn Host,
    path: &'a str,
    content: Option<&'a [u8]>,
}

impl Changed<'_> {
    fn is_gone(&self, path: &str) -> bool {
        self.content.is_none() && self.path == path
    }
}

impl Host for Changed<'_> {
    fn file(&self, path: &str) -> Result<Vec<u8>, HostError> {
        match self.content {
            _ if path != self.path => self.host.file(path),
            Some(content) if content.len() > MAX_FILE_BYTES => Err(HostError::TooLarge),
            Some(content) => Ok(content.to_vec()),
            None => Err(HostError::Missing),
        }
    }

    fn link(&self, path: &str) -> Result<Option<String>, HostError> {
        if self.is_gone(path) { Ok(None) } else { self.host.link(path) }
    }

    fn names(&self, path: &str) -> Result<Vec<String>, HostError> {
        let mut names = self.host.names(path)?;
        if self.content.is_none()
            && let Some((parent, gone)) = self.path.rsplit_once('/')
            && parent == path
        {
            names.retain(|name| name != gone);
        }
        Ok(names)
    }

    fn device(&self, path: &str) -> Result<DeviceNode, HostError> {
        if self.is_gone(path) { Err(HostError::Missing) } else { self.host.device(path) }
    }

    fn exists(&self, path: &str) -> bool {
        !self.is_gone(path) && self.host.exists(path)
    }
}

/// A file without which a function or port cannot be judged.
fn is_required(path: &str, facts: &Facts) -> bool {
    let mut components = path.rsplit('/');
    let (file, parent) = (components.next().unwrap(), components.next().unwrap_or_default());
    match file {
        "vendor" | "device" | "class" => {
            parent.parse().is_ok_and(|address| facts.functions.contains_key(&address))
        }
        "state" | "link_layer" => components.next() == Some("ports"),
        _ => false,
    }
}

/// Functions that differ, by address.
fn differing(a: &Facts, b: &Facts) -> Vec<PciAddress> {
    let same = |address| a.functions.get(address) == b.functions.get(address);
    let all = a.functions.keys().chain(b.functions.keys().filter(|k| !a.functions.contains_key(k)));
    all.filter(|address| !same(address)).copied().collect()
}

/// A function and what is bound to it: its virtual and physical functions.
fn is_about(path: &str, address: PciAddress, facts: &Facts) -> bool {
    let Some(function) = facts.functions.get(&address) else { return false };
    let virtual_functions = &function.virtual_functions;
    let near = virtual_functions.iter().chain(&function.physical_function).chain([&address]);
    near.into_iter().any(|address| path.contains(&address.to_string()))
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

/// A captured machine as it is, to compare with what it becomes without an entry.
struct Whole {
    name: &'static str,
    facts: Facts,
    machine: Machine,
    offered: BTreeMap<PciAddress, OfferedDevice>,
}

impl Whole {
    fn new(name: &'static str, facts: Facts) -> Self {
        let machine = machine(name, &facts);
        let offered = own(&machine.inventory);
        Self { name, facts, machine, offered }
    }

    /// The entry spoke for its own function; those of nodes and classes for several.
    fn check_facts(&self, path: &str, without: &Facts) {
        let name = self.name;
        if is_required(path, &self.facts) {
            let named = without.problems.iter().any(|problem| problem.path == path);
            assert!(named, "{name}: {path}: {:?}", without.problems);
        }
        let shared = path.contains("/node/") || path.starts_with("sys/class/infiniband");
        for address in differing(&self.facts, without) {
            let told = shared || is_about(path, address, &self.facts) || path.contains("/net/");
            assert!(told, "{name}: {path} changes {address}");
        }
    }

    /// Other devices than the file's own publish what they did.
    fn check_devices(&self, path: &str, without: Facts) {
        let name = self.name;
        let after = Machine::from_facts(name, without, None, &Policy::default());
        if is_shared(path) {
            assert_eq!(after.gpus(), self.machine.gpus(), "{name}: {path}");
            return;
        }
        let allowed = owners(path);
        let now = own(&after.inventory);
        for address in
            self.offered.keys().chain(now.keys()).filter(|address| !allowed.contains(address))
        {
            // A NIC that took its place from a complex loses it with the other half.
            let moved = after.topology.source(*address) != self.machine.topology.source(*address);
            assert!(
                moved || self.offered.get(address) == now.get(address),
                "{name}: {path} changes {address}"
            );
        }
    }
}

fn check_without(name: &'static str) {
    let capture = host(name);
    let host = capture.host();
    // What is not read cannot matter: the recorded entries alone lead to the same facts.
    let (read, facts) = record(&host, &capture, name);
    assert_eq!(discover(&read.host(), &capture), facts, "{name}");
    let whole = Whole::new(name, facts);
    for path in read.files.keys().chain(read.links.keys()).chain(read.devices.keys()) {
        let without = discover(&Changed { host: &host, path, content: None }, &capture);
        whole.check_facts(path, &without);
        if read.files.contains_key(path) {
            whole.check_devices(path, without);
        }
    }
}

#[test]
fn with_any_one_entry_gone_only_what_it_told_is_gone() {
    // The hosts differ in size by ten: every second one makes two even shares.
    let share = |first| HOSTS.iter().skip(first).step_by(2);
    std::thread::scope(|scope| {
        for first in [0, 1] {
            scope.spawn(move || share(first).for_each(|name| check_without(name)));
        }
    });
}

#[test]
fn a_file_that_holds_nonsense_is_a_problem_or_nothing_and_never_a_panic() {
    let large = vec![b'1'; 2 << 20];
    let nonsense: [&[u8]; 5] = [b"", b"x\n", b"\xff\xfe\x00", b"0xffffffffffffffffff: \n", &large];
    for name in ["gb300-cx8", "mi300x-vm", "no-gpu-2nic", "dgx-h100"] {
        let capture = host(name);
        let host = capture.host();
        let (read, whole) = record(&host, &capture, name);
        let mut kinds: BTreeSet<&str> = BTreeSet::new();
        for path in read.files.keys() {
            let kind = path.trim_end_matches(|c: char| c.is_ascii_digit() || c == '/');
            if !kinds.insert(kind.rsplit('/').next().unwrap_or_default()) {
                continue;
            }
            for content in nonsense {
                let changed = Changed { host: &host, path, content: Some(content) };
                let facts = discover(&changed, &capture);
                assert_eq!(facts.functions.len(), whole.functions.len(), "{name}: {path}");
                // A class names the same file by another path.
                let end: Vec<&str> = path.rsplitn(3, '/').take(2).collect();
                let named = facts
                    .problems
                    .iter()
                    .any(|problem| problem.path.rsplitn(3, '/').take(2).eq(end.iter().copied()));
                let must = is_required(path, &whole) || content.len() > MAX_FILE_BYTES;
                let quiet = path.contains("/gid_attrs/");
                assert!(named || !must || quiet, "{name}: {path}: {:?}", facts.problems);
            }
        }
        assert!(kinds.len() > 15, "{name}: {kinds:?}");
    }
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
    let options = RenderOptions { mode: Mode::Controller, generation: 1 };
    for name in HOSTS {
        let text = read(&format!("captures/{name}.yaml"));
        let turned = reversed(&text);
        assert_ne!(turned, text, "{name}");
        let capture = HostCapture::parse(&turned).unwrap();
        let (turned, facts) = (discover(&capture.host(), &capture), facts(name));
        assert_eq!(turned, facts, "{name}");
        let slices = |facts| render(&machine(name, facts).inventory, options);
        assert_eq!(slices(&turned), slices(&facts), "{name}");
    }
}
