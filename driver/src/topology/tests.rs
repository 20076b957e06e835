//! Places and paths of whole machines.

use super::fixtures::{facts, gpu, nic};
use super::*;

const GPU: &str = "0000:1a:00.0";
const NIC: &str = "0000:1b:00.0";

fn machine() -> Facts {
    let chain = ["0000:15:01.0", "0000:16:00.0", "0000:17:00.0"];
    facts([gpu(GPU, "pci0000:15", &chain), nic(NIC, "pci0000:15", &chain)])
}

fn check(xml: Option<&str>, expect: &str) {
    let xml = xml.map(|text| Override::parse(text).unwrap());
    let topology = Topology::build(&machine(), xml.as_ref());
    let path = topology.path(GPU.parse().unwrap(), NIC.parse().unwrap());
    let via = path.via.as_deref().unwrap_or("-");
    assert_eq!(format!("{} {via} {}", path.class, path.source), expect);
}

#[test]
fn an_override_decides_only_for_the_functions_that_it_names() {
    check(None, "PIX 0000:16:00.0 sysfs");
    check(
        Some(
            "<system><pci busid='ffff:ff:01.0'><pci busid='0000:1A:00.0'/>
             <pci busid='ffff:ff:02.0'><pci busid='0000:1B:00.0'/></pci></pci></system>",
        ),
        "PXB ffff:ff:01.0 override",
    );
    check(
        Some("<system><pci busid='ffff:ff:01.0'><pci busid='0000:1A:00.0'/></pci></system>"),
        "PHB - sysfs",
    );
}

#[test]
fn an_override_that_names_nothing_here_is_a_problem_and_changes_nothing() {
    let xml = "<system><pci busid='ffff:ff:01.0'><pci busid='0000:99:00.0'/></pci></system>";
    check(Some(xml), "PIX 0000:16:00.0 sysfs");
    let xml = Override::parse(xml).unwrap();
    let problems = Topology::build(&machine(), Some(&xml)).problems().to_vec();
    assert_eq!(problems.iter().map(|p| p.path.as_str()).collect::<Vec<_>>(), ["topologyOverride"]);
}

#[test]
fn a_function_that_does_not_exist_is_far_from_everything() {
    let topology = Topology::build(&machine(), None);
    let path = topology.path(GPU.parse().unwrap(), "0000:77:00.0".parse().unwrap());
    assert_eq!((path.class, path.source), (PathClass::Sys, Source::Sysfs));
}
