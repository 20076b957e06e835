//! Discovery of the captured machines.

mod details;

use std::fmt::Write as _;

use super::*;
use crate::testing::{HOSTS, facts};

/// What was found on a machine, in one line.
fn summary(facts: &Facts) -> String {
    let functions = || facts.functions.values();
    let gpus = functions().filter(|f| {
        matches!(f.vendor, Some(0x10de | 0x1002))
            && f.class.is_some_and(|class| class >> 16 == 0x03 || class >> 8 == 0x1200)
    });
    let gpus = gpus.count();
    let library = facts.nvml.as_ref().map_or("-".to_owned(), |nvml| nvml.gpus.len().to_string());
    let rdma: usize = functions().map(|f| f.rdma.len()).sum();
    let default = [facts.network.default_v4.join(","), facts.network.default_v6.join(",")];
    let mut line = format!("{} functions, {gpus} GPUs ({library})", facts.functions.len());
    let _ = write!(line, ", {rdma} ibdevs, v4 {}, v6 {}", default[0], default[1]);
    let direct = facts.gpudirect_rdma.map_or("unknown".to_owned(), |direct| direct.to_string());
    let _ = write!(
        line,
        ", {} nodes, {} NUMA, direct {direct}",
        facts.device_nodes.len(),
        facts.numa.len()
    );
    line
}

/// Name and summary of each machine.
const FOUND: [(&str, &str); 13] = [
    ("aws-p4d", "26 functions, 8 GPUs (8), 4 ibdevs, v4 ens33, v6 , 24 nodes, 2 NUMA, direct true"),
    (
        "azure-ndv5-h100",
        "17 functions, 8 GPUs (8), 9 ibdevs, v4 eth0, v6 , 41 nodes, 2 NUMA, direct true",
    ),
    (
        "dell-xe9680-h200",
        "54 functions, 8 GPUs (8), 9 ibdevs, v4 eth7, v6 , 42 nodes, 2 NUMA, direct true",
    ),
    (
        "dgx-a100",
        "102 functions, 8 GPUs (8), 12 ibdevs, v4 enp226s0, v6 , 57 nodes, 8 NUMA, direct true",
    ),
    (
        "dgx-h100",
        "88 functions, 8 GPUs (8), 12 ibdevs, v4 bond0, v6 , 55 nodes, 2 NUMA, direct true",
    ),
    (
        "flat-kvm-h200",
        "49 functions, 8 GPUs (8), 8 ibdevs, v4 enp1s0, v6 , 43 nodes, 1 NUMA, direct true",
    ),
    (
        "gb300-cx8",
        "58 functions, 4 GPUs (4), 5 ibdevs, v4 enP6p1s0f0np0, v6 , 25 nodes, 6 NUMA, direct true",
    ),
    (
        "l40s-4to1",
        "27 functions, 8 GPUs (8), 3 ibdevs, v4 bond0, v6 , 21 nodes, 2 NUMA, direct true",
    ),
    (
        "mi300x-vm",
        "16 functions, 8 GPUs (-), 8 ibdevs, v4 eth0, v6 , 42 nodes, 2 NUMA, direct true",
    ),
    (
        "mi355x-bm",
        "66 functions, 8 GPUs (-), 8 ibdevs, v4 enp161s0f0, v6 , 42 nodes, 2 NUMA, direct true",
    ),
    (
        "no-gpu-2nic",
        "13 functions, 0 GPUs (-), 7 ibdevs, v4 ens1f0np0, v6 , 22 nodes, 2 NUMA, direct unknown",
    ),
    (
        "oke-gb200",
        "56 functions, 4 GPUs (4), 9 ibdevs, v4 eth0, v6 eth0,rdma0,rdma1,rdma2,rdma3,rdma4,rdma5,rdma6,rdma7, 37 nodes, 6 NUMA, direct true",
    ),
    (
        "workstation-no-nic",
        "10 functions, 2 GPUs (2), 0 ibdevs, v4 enp13s0, v6 , 5 nodes, 1 NUMA, direct true",
    ),
];

#[test]
fn every_captured_machine_is_discovered_without_a_problem() {
    assert_eq!(FOUND.map(|(name, _)| name), HOSTS);
    for (name, found) in FOUND {
        let facts = facts(name);
        assert_eq!(summary(&facts), found, "{name}");
        assert_eq!(facts.problems, [], "{name}");
    }
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
            Some(content) if content.len() > host::MAX_FILE_BYTES => Err(HostError::TooLarge),
            Some(content) => Ok(content.to_vec()),
            None => Err(HostError::Missing),
        }
    }

    fn link(&self, path: &str) -> Result<Option<String>, HostError> {
        if self.is_gone(path) { Ok(None) } else { self.host.link(path) }
    }

    fn names(&self, path: &str) -> Result<Vec<String>, HostError> {
        let mut names = self.host.names(path)?;
        if self.content.is_none() && self.path.rsplit_once('/').is_some_and(|(p, _)| p == path) {
            names.retain(|name| !self.path.ends_with(&format!("/{name}")));
        }
        Ok(names)
    }

    fn device(&self, path: &str) -> Result<facts::DeviceNode, HostError> {
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
fn differing(a: &Facts, b: &Facts) -> Vec<crate::ids::PciAddress> {
    let same = |address| a.functions.get(address) == b.functions.get(address);
    let all = a.functions.keys().chain(b.functions.keys().filter(|k| !a.functions.contains_key(k)));
    all.filter(|address| !same(address)).copied().collect()
}

/// A function and what is bound to it: its virtual and physical functions.
fn is_about(path: &str, address: crate::ids::PciAddress, facts: &Facts) -> bool {
    let Some(function) = facts.functions.get(&address) else { return false };
    let virtual_functions = &function.virtual_functions;
    let near = virtual_functions.iter().chain(&function.physical_function).chain([&address]);
    near.into_iter().any(|address| path.contains(&address.to_string()))
}

#[test]
fn with_any_one_entry_gone_only_what_it_told_is_gone() {
    for name in HOSTS {
        let machine = crate::testing::host(name);
        let host = machine.host();
        // What is not read cannot matter.
        let (read, whole) = record(&host, &machine, name);
        let paths = read.files.keys().chain(read.links.keys()).chain(read.devices.keys());
        for path in paths {
            let without = Changed { host: &host, path, content: None };
            let facts = discover(&without, &machine);
            if is_required(path, &whole) {
                let named = facts.problems.iter().any(|problem| &problem.path == path);
                assert!(named, "{name}: {path}: {:?}", facts.problems);
            }
            let shared = path.contains("/node/") || path.starts_with("sys/class/infiniband");
            for address in differing(&whole, &facts) {
                // Entries speak for their own function; nodes and classes for several.
                let told = shared || is_about(path, address, &whole) || path.contains("/net/");
                assert!(told, "{name}: {path} changes {address}");
            }
        }
    }
}

#[test]
fn a_file_that_holds_nonsense_is_a_problem_or_nothing_and_never_a_panic() {
    let large = vec![b'1'; 2 << 20];
    let nonsense: [&[u8]; 5] = [b"", b"x\n", b"\xff\xfe\x00", b"0xffffffffffffffffff: \n", &large];
    for name in ["gb300-cx8", "mi300x-vm", "no-gpu-2nic", "dgx-h100"] {
        let machine = crate::testing::host(name);
        let host = machine.host();
        let (read, whole) = record(&host, &machine, name);
        let mut kinds: std::collections::BTreeSet<&str> = Default::default();
        for path in read.files.keys() {
            let kind = path.trim_end_matches(|c: char| c.is_ascii_digit() || c == '/');
            if !kinds.insert(kind.rsplit('/').next().unwrap_or_default()) {
                continue;
            }
            for content in nonsense {
                let changed = Changed { host: &host, path, content: Some(content) };
                let facts = discover(&changed, &machine);
                assert_eq!(facts.functions.len(), whole.functions.len(), "{name}: {path}");
                // A class names the same file by another path.
                let end: Vec<&str> = path.rsplitn(3, '/').take(2).collect();
                let named = facts
                    .problems
                    .iter()
                    .any(|problem| problem.path.rsplitn(3, '/').take(2).eq(end.iter().copied()));
                let must = is_required(path, &whole) || content.len() > host::MAX_FILE_BYTES;
                let quiet = path.contains("/gid_attrs/");
                assert!(named || !must || quiet, "{name}: {path}: {:?}", facts.problems);
            }
        }
        assert!(kinds.len() > 15, "{name}: {kinds:?}");
    }
}

#[test]
fn the_order_of_entries_in_a_capture_changes_nothing() {
    for name in HOSTS {
        let text = crate::testing::read(&format!("captures/{name}.yaml"));
        let mut reversed: Vec<&str> = Vec::new();
        let mut block: Vec<&str> = Vec::new();
        for line in text.lines() {
            if line.starts_with("  \"") {
                block.push(line);
            } else {
                reversed.extend(block.drain(..).rev());
                reversed.push(line);
            }
        }
        reversed.extend(block.drain(..).rev());
        let capture = HostCapture::parse(&reversed.join("\n")).unwrap();
        assert_eq!(capture, crate::testing::host(name), "{name}");
        assert_eq!(discover(&capture.host(), &capture), facts(name), "{name}");
    }
}

/// Writes files and links of a capture below a directory. Device nodes need privileges and are left
/// out.
#[allow(clippy::disallowed_methods)]
fn render(capture: &HostCapture, root: &std::path::Path) {
    let place = |path: &str| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    for (path, content) in &capture.files {
        std::fs::write(place(path), content).unwrap();
    }
    for (path, target) in &capture.links {
        std::os::unix::fs::symlink(target, place(path)).unwrap();
    }
}

#[test]
fn a_live_root_and_a_capture_of_the_same_machine_lead_to_the_same_facts() {
    for name in HOSTS {
        let root = tempfile::tempdir().unwrap();
        let capture = crate::testing::host(name);
        render(&capture, root.path());
        let live = discover(&LiveHost::new(root.path().to_owned()), &capture);
        let expected = Facts { device_nodes: Default::default(), ..facts(name) };
        assert_eq!(live, expected, "{name}");
    }
}

#[test]
fn the_machine_we_run_on_is_discovered_whatever_it_is() {
    let facts = discover(&LiveHost::new("/".into()), &NoGpuLibrary);
    assert!(facts.functions.len() < 65_536);
}

#[test]
fn an_empty_root_is_a_machine_about_which_nothing_is_known() {
    let empty = HostCapture::new("empty");
    let facts = discover(&empty.host(), &empty);
    let problems: Vec<&str> = facts.problems.iter().map(|p| p.path.as_str()).collect();
    assert_eq!(problems, ["proc/net/route"]);
    let problems = facts.problems.clone();
    assert_eq!(facts, Facts { problems, ..Facts::default() });
}
