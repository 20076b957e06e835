//! Functions that carry the node's own traffic: what a default route touches is never offered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::discovery::facts::{Facts, Interface, Network, PciFunction, Problem};
use crate::ids::PciAddress;

/// What the default routes touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uplinks {
    /// Functions, with the reason in words.
    pub functions: BTreeMap<PciAddress, String>,
    /// Interfaces that carry a default route, are hardware, and are no PCI function (`hv_netvsc`),
    /// with the reason in words.
    pub interfaces: BTreeMap<String, String>,
    /// Default routes that were ignored.
    pub problems: Vec<Problem>,
}

impl Uplinks {
    /// Finds them. IPv6 default routes count as well, unless they would hide more than half of the
    /// RDMA functions that the IPv4 ones leave: then router advertisements arrive on every rail.
    pub fn find(facts: &Facts) -> Self {
        let mut uplinks = Self::default();
        uplinks.add(facts, &facts.network.default_v4, "IPv4");
        let is_left = |function: &&PciFunction| {
            !function.rdma.is_empty() && !uplinks.functions.contains_key(&function.address)
        };
        let left: BTreeSet<_> =
            facts.functions.values().filter(is_left).map(|function| function.address).collect();

        let mut by_v6 = Self::default();
        by_v6.add(facts, &facts.network.default_v6, "IPv6");
        let hidden = by_v6.functions.keys().filter(|address| left.contains(address)).count();
        if 2 * hidden > left.len() {
            uplinks.problems.push(Problem {
                path: "proc/net/ipv6_route".to_owned(),
                message: format!(
                    "IPv6 default routes touch {hidden} of {} RDMA functions: ignored, expected at most half",
                    left.len()
                ),
            });
            return uplinks;
        }
        for (address, text) in by_v6.functions {
            uplinks.functions.entry(address).or_insert(text);
        }
        for (name, text) in by_v6.interfaces {
            uplinks.interfaces.entry(name).or_insert(text);
        }
        uplinks
    }

    fn add(&mut self, facts: &Facts, routes: &[String], family: &str) {
        let network = &facts.network;
        for (name, text) in closure(network, routes, family) {
            let interface = network.interfaces.get(name);
            if let Some(address) = interface.and_then(|interface| interface.function) {
                self.functions.entry(address).or_insert(text);
            } else if routes.iter().any(|route| route == name)
                && interface.is_some_and(|interface| !interface.software)
            {
                self.interfaces.entry(name.to_owned()).or_insert(text);
            }
        }
        self.add_bonded(facts);
        self.add_virtual(facts);
    }

    /// Where one function of an RDMA LAG is hidden, all are.
    fn add_bonded(&mut self, facts: &Facts) {
        for bonded in facts.functions.values().filter(|function| is_bonded(function)) {
            let members = || std::iter::once(bonded).chain(lag_partners(facts, bonded));
            let hidden = members().find(|member| self.functions.contains_key(&member.address));
            let Some(hidden) = hidden.map(|member| member.address) else { continue };
            for member in members() {
                let text = || format!("RDMA LAG with {hidden}");
                self.functions.entry(member.address).or_insert_with(text);
            }
        }
    }

    fn add_virtual(&mut self, facts: &Facts) {
        for function in facts.functions.values() {
            if let Some(parent) = function.physical_function
                && self.functions.contains_key(&parent)
            {
                let text = format!("virtual function of {parent}");
                self.functions.entry(function.address).or_insert(text);
            }
        }
    }
}

/// Interfaces that the routes touch, nearest first: over `lower_*`, `upper_*` and `master`.
/// Each interface is visited once.
fn closure<'a>(network: &'a Network, routes: &'a [String], family: &str) -> Vec<(&'a str, String)> {
    let mut found = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut queue: VecDeque<(&str, String)> = routes
        .iter()
        .map(|name| (name.as_str(), format!("carries the {family} default route")))
        .collect();
    while let Some((name, text)) = queue.pop_front() {
        if !seen.insert(name) {
            continue;
        }
        if let Some(Interface { lower, upper, .. }) = network.interfaces.get(name) {
            queue.extend(lower.iter().map(|below| (below.as_str(), format!("slave of {name}"))));
            queue.extend(upper.iter().map(|above| (above.as_str(), format!("on top of {name}"))));
        }
        found.push((name, text));
    }
    found
}

/// The kernel names the RDMA device of a LAG `mlx5_bond_N`.
fn is_bonded(function: &PciFunction) -> bool {
    function.rdma.iter().any(|device| device.name.contains("_bond_"))
}

/// The other physical functions of the card: one function has the RDMA device of all, so these have
/// none. Virtual functions have their own and follow their physical one.
fn lag_partners<'a>(
    facts: &'a Facts,
    bonded: &'a PciFunction,
) -> impl Iterator<Item = &'a PciFunction> {
    let card = (0..8).map(|number| PciAddress { function: number, ..bonded.address });
    card.filter_map(|address| facts.functions.get(&address)).filter(|other| {
        other.vendor == bonded.vendor && other.rdma.is_empty() && other.physical_function.is_none()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::fixtures::{facts, nic};

    /// NICs 01 to 04 with an interface `eN` each.
    fn machine() -> Facts {
        let addresses = (1..=4).map(|bus| format!("0000:{bus:02x}:00.0"));
        let mut facts = facts(addresses.map(|address| nic(&address, "pci0000:00", &[])));
        for (number, address) in facts.functions.keys().enumerate() {
            let interface = Interface { function: Some(*address), ..Interface::default() };
            facts.network.interfaces.insert(format!("e{}", number + 1), interface);
        }
        facts
    }

    fn interface(lower: &[&str], upper: &[&str]) -> Interface {
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
        Interface { software: true, lower: names(lower), upper: names(upper), ..Default::default() }
    }

    fn check(facts: &Facts, expect: &[(&str, &str)]) {
        let uplinks = Uplinks::find(facts);
        let functions = uplinks.functions.iter().map(|(a, text)| (a.to_string(), text.as_str()));
        let interfaces = uplinks.interfaces.iter().map(|(n, text)| (n.clone(), text.as_str()));
        let found: Vec<(String, &str)> = functions.chain(interfaces).collect();
        let found: Vec<(&str, &str)> = found.iter().map(|(a, text)| (a.as_str(), *text)).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn the_closure_runs_through_vlans_bonds_and_bridges() {
        let mut facts = machine();
        facts.network.default_v4 = vec!["bond0.7".to_owned()];
        let interfaces = &mut facts.network.interfaces;
        interfaces.insert("bond0.7".to_owned(), interface(&["bond0"], &[]));
        interfaces.insert("bond0".to_owned(), interface(&["e1", "e2"], &["bond0.7", "br0"]));
        interfaces.insert("br0".to_owned(), interface(&["bond0", "e4", "gone"], &[]));
        check(
            &facts,
            &[
                ("0000:01:00.0", "slave of bond0"),
                ("0000:02:00.0", "slave of bond0"),
                ("0000:04:00.0", "slave of br0"),
            ],
        );
    }

    #[test]
    fn a_hardware_interface_without_a_function_is_named_itself() {
        let mut facts = machine();
        facts.network.default_v4 = vec!["eth0".to_owned(), "dummy0".to_owned(), "gone".to_owned()];
        let eth0 = Interface { software: false, ..interface(&["e3"], &[]) };
        facts.network.interfaces.insert("eth0".to_owned(), eth0);
        facts.network.interfaces.insert("dummy0".to_owned(), interface(&[], &[]));
        check(
            &facts,
            &[("0000:03:00.0", "slave of eth0"), ("eth0", "carries the IPv4 default route")],
        );
    }

    #[test]
    fn virtual_functions_and_the_other_half_of_a_lag_follow() {
        let mut facts = machine();
        facts.network.default_v4 = vec!["e1".to_owned()];
        let mut other = nic("0000:01:00.1", "pci0000:00", &[]);
        other.rdma[0].name = "mlx5_bond_0".to_owned();
        facts.functions.insert(other.address, other);
        let first: PciAddress = "0000:01:00.0".parse().unwrap();
        facts.functions.get_mut(&first).unwrap().rdma.clear();
        let mut virtual_one = nic("0000:09:00.2", "pci0000:00", &[]);
        virtual_one.physical_function = "0000:01:00.1".parse().ok();
        facts.functions.insert(virtual_one.address, virtual_one);
        check(
            &facts,
            &[
                ("0000:01:00.0", "carries the IPv4 default route"),
                ("0000:01:00.1", "RDMA LAG with 0000:01:00.0"),
                ("0000:09:00.2", "virtual function of 0000:01:00.1"),
            ],
        );
    }

    #[test]
    fn a_lag_of_which_one_function_is_an_uplink_is_hidden_whole() {
        let mut facts = machine();
        facts.network.default_v4 = vec!["e1".to_owned()];
        for number in 1..=4 {
            let mut other = nic(&format!("0000:01:00.{number}"), "pci0000:00", &[]);
            match number {
                1 => other.rdma[0].name = "mlx5_bond_0".to_owned(),
                2 => other.rdma.clear(),
                3 => other.physical_function = "0000:01:00.2".parse().ok(),
                // A function of its own.
                _ => {}
            }
            facts.functions.insert(other.address, other);
        }
        let first: PciAddress = "0000:01:00.0".parse().unwrap();
        facts.functions.get_mut(&first).unwrap().rdma.clear();
        let vf: PciAddress = "0000:01:00.3".parse().unwrap();
        facts.functions.get_mut(&vf).unwrap().rdma.clear();
        check(
            &facts,
            &[
                ("0000:01:00.0", "carries the IPv4 default route"),
                ("0000:01:00.1", "RDMA LAG with 0000:01:00.0"),
                ("0000:01:00.2", "RDMA LAG with 0000:01:00.0"),
                ("0000:01:00.3", "virtual function of 0000:01:00.2"),
            ],
        );
    }

    #[test]
    fn links_that_go_round_end() {
        let mut facts = machine();
        facts.network.default_v4 = vec!["a".to_owned()];
        let interfaces = &mut facts.network.interfaces;
        interfaces.insert("a".to_owned(), interface(&["b"], &["a", "c"]));
        interfaces.insert("b".to_owned(), interface(&["a", "e1"], &["c"]));
        interfaces.insert("c".to_owned(), interface(&["c"], &["b"]));
        interfaces.get_mut("e1").unwrap().upper = vec!["b".to_owned(), "c".to_owned()];
        check(&facts, &[("0000:01:00.0", "slave of b")]);
    }

    #[test]
    fn ipv6_routes_hide_up_to_half_of_the_rdma_functions_that_ipv4_leaves() {
        let mut facts = machine();
        facts.network.default_v6 = vec!["e1".to_owned(), "e2".to_owned()];
        let text = "carries the IPv6 default route";
        check(&facts, &[("0000:01:00.0", text), ("0000:02:00.0", text)]);
        assert_eq!(Uplinks::find(&facts).problems, []);

        facts.network.default_v4 = vec!["e4".to_owned()];
        check(&facts, &[("0000:04:00.0", "carries the IPv4 default route")]);
        let problems = Uplinks::find(&facts).problems;
        assert_eq!(problems.len(), 1);
        assert!(problems[0].message.contains("2 of 3 RDMA functions"), "{problems:?}");

        // The same interface counts once, in the first step.
        facts.network.default_v6 = vec!["e3".to_owned(), "e4".to_owned()];
        check(
            &facts,
            &[("0000:03:00.0", text), ("0000:04:00.0", "carries the IPv4 default route")],
        );
    }
}
