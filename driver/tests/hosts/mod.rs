//! The captured hosts of `test/hosts` with their expected answers.

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a broken fixture fails the test")]

use std::collections::{BTreeMap, BTreeSet};

use lanemate_driver::ids::PciAddress;
use lanemate_driver::inventory::{ExcludeRule, Policy};
use lanemate_driver::machine::Machine;
use lanemate_driver::testing::{HOSTS, facts, read};
use lanemate_driver::topology::Override;
use serde::Deserialize;

/// `test/hosts/expected/NAME.json`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Expected {
    pub name: String,
    pub gpus: BTreeMap<String, PciAddress>,
    pub nics: BTreeMap<String, ExpectedNic>,
    pub nearest: BTreeMap<String, BTreeSet<String>>,
    pub exclude: Vec<Excluded>,
    #[serde(default)]
    pub complexes: BTreeMap<String, BTreeSet<String>>,
    pub with_override: Option<WithOverride>,
    pub pairs: Vec<Pair>,
    #[serde(default)]
    pub pairs_with_override: Vec<Pair>,
}

#[derive(Deserialize)]
pub struct ExpectedNic {
    pub bdf: PciAddress,
}

#[derive(Deserialize)]
pub struct Excluded {
    pub bdf: Option<PciAddress>,
    pub ibdev: Option<String>,
    pub netdev: Option<String>,
    pub reason: String,
    pub detect: String,
}

#[derive(Deserialize)]
pub struct WithOverride {
    pub file: String,
    pub nearest: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pair {
    pub gpu: String,
    pub nic: String,
    pub path_class: String,
    pub switch_hops: Option<u32>,
    pub common_switch: Option<String>,
    pub sysfs_class: Option<String>,
    pub via: Option<String>,
}

impl Expected {
    pub fn all() -> Vec<Self> {
        let read = |name: &&str| read(&format!("expected/{name}.json"));
        HOSTS.iter().map(|name| serde_json::from_str(&read(name)).unwrap()).collect()
    }

    /// The XML that belongs to the host, if any.
    pub fn override_(&self) -> Option<Override> {
        let file = &self.with_override.as_ref()?.file;
        Some(Override::parse(&read(&format!("overrides/{file}"))).unwrap())
    }

    /// The rows that only the site knows.
    pub fn policy(&self) -> Policy {
        let rows = self.exclude.iter().filter(|row| row.detect == "policy");
        let rule = |row: &Excluded| match (&row.ibdev, &row.netdev, row.bdf) {
            (Some(ibdev), ..) => ExcludeRule::RdmaDevice(ibdev.clone()),
            (_, Some(netdev), _) => ExcludeRule::Netdev(netdev.clone()),
            (.., Some(address)) => ExcludeRule::PciBusId(address),
            _ => panic!("{}: a row without a name", self.name),
        };
        Policy { exclude: rows.map(rule).collect() }
    }

    /// The host without override and policy.
    pub fn machine(&self) -> Machine {
        Machine::from_facts(&self.name, facts(&self.name), None, &Policy::default())
    }

    /// The host without an override, and with one where there is one.
    pub fn machines(&self, policy: &Policy) -> Vec<Machine> {
        let machine = |xml: Option<&Override>| {
            Machine::from_facts(&self.name, facts(&self.name), xml, policy)
        };
        let overridden = self.override_().map(|xml| machine(Some(&xml)));
        std::iter::once(machine(None)).chain(overridden).collect()
    }

    /// Name of the RDMA device that the expected answers use for an address.
    pub fn nic_at(&self, address: PciAddress) -> Option<&str> {
        self.nics.iter().find(|(_, nic)| nic.bdf == address).map(|(name, _)| name.as_str())
    }
}
