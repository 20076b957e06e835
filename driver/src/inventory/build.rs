//! From facts and places to what a node offers.

use lanemate_api::validation::format::is_dns_subdomain;

use super::uplink::Uplinks;
use super::{
    Inventory, LeftOut, Policy, Reason, ReasonCode, attributes, exclusion, joint, limits, order,
};
use crate::discovery::facts::{Facts, PciFunction, Problem};
use crate::ids::{Kind, PciAddress};
use crate::topology::Topology;
use crate::topology::kind::{is_gpu, is_nic};

impl Inventory {
    /// Decides what the node offers. Nothing here fails: what cannot be published is left out with
    /// a reason or a problem.
    pub fn build(node: &str, facts: &Facts, topology: &Topology, policy: &Policy) -> Self {
        let uplinks = Uplinks::find(facts);
        let mut inventory = Self { node: node.to_owned(), ..Self::default() };
        inventory.problems.extend(facts.problems.iter().cloned());
        inventory.problems.extend(topology.problems().iter().cloned());
        inventory.problems.extend(uplinks.problems.iter().cloned());
        if !is_dns_subdomain(node) {
            let message = format!(
                "node name {node:?}: expected a DNS subdomain: slices of this name are refused"
            );
            inventory.problems.push(Problem { path: "node".to_owned(), message });
        }
        for function in facts.functions.values() {
            inventory.add(function, facts, topology, &uplinks);
        }
        inventory.left_out.extend(uplinks.interfaces.iter().map(|(name, text)| LeftOut {
            address: None,
            kind: Kind::Nic,
            rdma_devices: Vec::new(),
            netdevs: vec![name.clone()],
            reason: Reason { code: ReasonCode::DefaultRoute, text: text.clone() },
        }));
        joint::publish(&mut inventory.devices, topology);
        inventory.apply(policy, facts);
        joint::publish(&mut inventory.devices, topology);
        inventory.keep_limits();
        inventory.devices = order::packed(std::mem::take(&mut inventory.devices), topology);
        // Interfaces without a function come last.
        inventory.left_out.sort_by_key(|device| {
            (device.address.is_none(), device.address, device.netdevs.clone())
        });
        inventory
    }

    fn add(
        &mut self,
        function: &PciFunction,
        facts: &Facts,
        topology: &Topology,
        uplinks: &Uplinks,
    ) {
        let (kind, reason) = if is_gpu(function, facts) {
            (Kind::Gpu, exclusion::gpu(function, facts))
        } else if is_nic(function, facts) {
            (Kind::Nic, exclusion::nic(function, uplinks))
        } else if let Some(reason) = exclusion::beside_gpus(function, facts) {
            (Kind::Gpu, Some(reason))
        } else {
            return;
        };
        if let Some(reason) = reason {
            self.left_out.push(left_out(function, kind, reason));
            return;
        }
        let (device, problems) = attributes::device(function, kind, facts, topology);
        self.blame(device.address, problems);
        self.devices.push(device);
    }

    /// Leaves out what the site's configuration names.
    fn apply(&mut self, policy: &Policy, facts: &Facts) {
        for device in std::mem::take(&mut self.devices) {
            let Some(function) = facts.functions.get(&device.address) else { continue };
            let (reason, errors) = policy.decide(&device, function);
            self.blame(device.address, errors);
            match reason {
                Some(reason) => self.left_out.push(left_out(function, device.kind, reason)),
                None => self.devices.push(device),
            }
        }
    }

    fn keep_limits(&mut self) {
        for mut device in std::mem::take(&mut self.devices) {
            let dropped = limits::enforce(&mut device);
            self.blame(device.address, dropped);
            self.devices.push(device);
        }
    }

    fn blame(&mut self, address: PciAddress, messages: Vec<String>) {
        let path = format!("sys/bus/pci/devices/{address}");
        let problem = |message| Problem { path: path.clone(), message };
        self.problems.extend(messages.into_iter().map(problem));
    }
}

fn left_out(function: &PciFunction, kind: Kind, reason: Reason) -> LeftOut {
    LeftOut {
        address: Some(function.address),
        kind,
        rdma_devices: function.rdma.iter().map(|device| device.name.clone()).collect(),
        netdevs: function.netdevs.clone(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::policy::CelRule;
    use crate::inventory::{ExcludeRule, OfferedDevice};
    use crate::topology::fixtures::{facts, gpu, nic};

    fn machine() -> Facts {
        let port = |bus: u8| format!("0000:{bus:02x}:01.0");
        let below = |bus: u8, number: u8| format!("0000:{:02x}:00.0", bus + number);
        let mut functions = Vec::new();
        for bus in [0x10, 0x20, 0x30] {
            let chain = [port(bus), below(bus, 1), below(bus, 2)];
            let chain: Vec<&str> = chain.iter().map(String::as_str).collect();
            let bridge = format!("pci0000:{bus:02x}");
            functions.push(nic(&below(bus, 3), &bridge, &chain));
            if bus != 0x20 {
                functions.push(gpu(&below(bus, 4), &bridge, &chain));
            }
        }
        facts(functions)
    }

    fn build(rules: Vec<ExcludeRule>) -> Inventory {
        let facts = machine();
        let topology = Topology::build(&facts, None);
        Inventory::build("host", &facts, &topology, &Policy { exclude: rules })
    }

    fn check(rules: Vec<ExcludeRule>, offered: &[&str], left_out: &[&str]) {
        let inventory = build(rules);
        let show = |device: &OfferedDevice| {
            let joint = device.attributes.contains_key("pcieSwitch");
            format!("{}{}", device.name, if joint { " joint" } else { "" })
        };
        let found: Vec<String> = inventory.devices.iter().map(show).collect();
        assert_eq!(found, offered);
        let reasons: Vec<String> =
            inventory.left_out.iter().map(|device| device.reason.to_string()).collect();
        assert_eq!(reasons, left_out);
    }

    #[test]
    fn a_node_name_that_the_api_refuses_is_a_problem() {
        let problems = |node: &str| {
            let facts = Facts::default();
            Inventory::build(node, &facts, &Topology::default(), &Policy::default()).problems.len()
        };
        let long = "x".repeat(64);
        for (node, expect) in [("n1.example.com", 0), (&long, 0), ("Node_1", 1), ("", 1)] {
            assert_eq!(problems(node), expect, "{node:?}");
        }
        assert_eq!(problems(&"x".repeat(254)), 1);
    }

    #[test]
    fn pairs_come_first_and_singles_last() {
        check(
            vec![],
            &[
                "gpu-0000-14-00-0 joint",
                "nic-0000-13-00-0 joint",
                "gpu-0000-34-00-0 joint",
                "nic-0000-33-00-0 joint",
                "nic-0000-23-00-0",
            ],
            &[],
        );
    }

    #[test]
    fn what_the_policy_leaves_out_makes_no_joint_switch() {
        let cel = CelRule {
            expression: "x".to_owned(),
            matches: Box::new(|device| Ok(device.name == "nic-0000-23-00-0")),
        };
        check(
            vec![ExcludeRule::RdmaDevice("*_13".to_owned()), ExcludeRule::Cel(cel)],
            &["gpu-0000-34-00-0 joint", "nic-0000-33-00-0 joint", "gpu-0000-14-00-0"],
            &["policy: rdmaDevice *_13", "policy: cel x"],
        );
    }

    #[test]
    fn an_expression_that_fails_excludes_nothing_and_is_a_problem_of_each_device() {
        let cel = CelRule {
            expression: "x".to_owned(),
            matches: Box::new(|_| Err("no such attribute: x".to_owned())),
        };
        let inventory = build(vec![ExcludeRule::Cel(cel)]);
        assert_eq!((inventory.devices.len(), inventory.problems.len()), (5, 5));
        assert_eq!(inventory.problems[0].message, "exclude by cel \"x\": no such attribute: x");
    }
}
