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
        // What is not read cannot matter.
        render(&record(&capture.host(), &capture, name).0, root.path());
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
