//! The paths of every captured host are those that its public matrix shows.

#![allow(clippy::unwrap_used, reason = "a broken fixture fails the test")]

mod hosts;

use hosts::{Expected, Pair};
use lanemate_driver::machine::Machine;
use lanemate_driver::topology::Source;

fn check_pairs(expected: &Expected, machine: &Machine, pairs: &[Pair]) {
    let paths = machine.paths();
    assert_eq!(paths.len(), pairs.len(), "{}: number of pairs", expected.name);
    for pair in pairs {
        let (gpu, nic) = (expected.gpus[&pair.gpu], expected.nics[&pair.nic].bdf);
        let name = format!("{}: {} {}", expected.name, pair.gpu, pair.nic);
        let found = paths.iter().find(|path| path.gpu == gpu && path.nic == nic);
        let path = &found.unwrap_or_else(|| panic!("{name}: no such path")).path;
        assert_eq!(path.class.as_str(), pair.path_class, "{name}");
        let is_complex = pair.via.as_deref() == Some("complex");
        assert_eq!(path.source == Source::Complex, is_complex, "{name}: source");
        if !is_complex && path.source == Source::Sysfs {
            assert_eq!(path.switch_hops, pair.switch_hops, "{name}: switch hops");
            assert_eq!(path.via, pair.common_switch, "{name}: common switch");
        }
    }
}

#[test]
fn every_pair_has_the_expected_class_hops_and_switch() {
    for expected in Expected::all() {
        check_pairs(&expected, &expected.machine(), &expected.pairs);
    }
}

#[test]
fn every_pair_has_the_expected_class_with_an_override() {
    let mut overridden = 0;
    for expected in Expected::all().iter().filter(|expected| expected.with_override.is_some()) {
        let machines = expected.machines(&expected.policy());
        let machine = &machines[1];
        check_pairs(expected, machine, &expected.pairs_with_override);
        let paths = machine.paths();
        overridden += paths.iter().filter(|path| path.path.source == Source::Override).count();
        assert_eq!(machine.topology.problems(), []);
    }
    assert_eq!(overridden, 8 * 8 + 8 * 4);
}

#[test]
fn complexes_pair_the_nics_that_the_vpd_names() {
    for expected in Expected::all() {
        let machine = expected.machine();
        let mut found = std::collections::BTreeMap::new();
        for path in machine.paths().iter().filter(|path| path.path.source == Source::Complex) {
            let gpu = expected.gpus.iter().find(|(_, address)| **address == path.gpu).unwrap().0;
            let nics: &mut std::collections::BTreeSet<String> =
                found.entry(gpu.clone()).or_default();
            nics.insert(expected.nic_at(path.nic).unwrap().to_owned());
        }
        assert_eq!(found, expected.complexes, "{}", expected.name);
    }
}
