//! The plugin's configuration file: which devices a site leaves out, and which NCCL topology applies.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use lanemate_api::names;
use lanemate_driver::attribute::QualifiedName;
use lanemate_driver::ids::PciAddress;
use lanemate_driver::inventory::policy::CelRule;
use lanemate_driver::inventory::{ExcludeRule, OfferedDevice, Policy};
use lanemate_driver::selector::{Selector, Subject};
use serde::Deserialize;

use crate::input;

/// The file as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// A device that any of these matches is left out.
    exclude: Vec<Exclude>,
    /// An NCCL topology XML, relative to the configuration file.
    topology_override: Option<PathBuf>,
}

/// One entry of `exclude`: exactly one of the fields.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Exclude {
    #[serde(rename = "pciBusID")]
    pci_bus_id: Option<PciAddress>,
    netdev: Option<String>,
    rdma_device: Option<String>,
    cel: Option<String>,
}

impl Config {
    /// Reads the file; what stands in it is checked as a whole, so that a mistake shows at once.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        let mut config: Self = input::yaml(file)?;
        config.policy().with_context(|| input::name(file))?;
        let base = file.parent().unwrap_or(Path::new(""));
        config.topology_override = config.topology_override.map(|path| base.join(path));
        Ok(config)
    }

    /// The NCCL topology XML, if one is named.
    pub fn topology_override(&self) -> Option<&Path> {
        self.topology_override.as_deref()
    }

    /// What is left out by choice.
    pub fn policy(&self) -> anyhow::Result<Policy> {
        let rule = |(index, exclude): (usize, &Exclude)| {
            exclude.rule().with_context(|| format!("exclude[{index}]"))
        };
        let exclude = self.exclude.iter().enumerate().map(rule).collect::<Result<_, _>>()?;
        Ok(Policy { exclude })
    }
}

impl Exclude {
    fn rule(&self) -> anyhow::Result<ExcludeRule> {
        let glob = |field: &str, glob: &String| match glob.as_str() {
            "" => Err(anyhow!("{field}: expected a name with * and ?, found nothing")),
            _ => Ok(glob.clone()),
        };
        let rules = [
            self.pci_bus_id.map(|address| Ok(ExcludeRule::PciBusId(address))),
            self.netdev.as_ref().map(|name| glob("netdev", name).map(ExcludeRule::Netdev)),
            self.rdma_device
                .as_ref()
                .map(|name| glob("rdmaDevice", name).map(ExcludeRule::RdmaDevice)),
            self.cel.as_ref().map(|text| cel_rule(text)),
        ];
        let mut rules = rules.into_iter().flatten();
        match (rules.next(), rules.next()) {
            (Some(rule), None) => rule,
            _ => bail!("expected exactly one of pciBusID, netdev, rdmaDevice, cel"),
        }
    }
}

/// An expression over `device`, as in a DeviceClass of our driver.
fn cel_rule(text: &str) -> anyhow::Result<ExcludeRule> {
    let selector = Selector::compile(text).context("cel")?;
    let matches = move |device: &OfferedDevice| {
        let qualified = |name: &str| QualifiedName::parse(name, names::DRIVER);
        let attributes = device
            .attributes
            .iter()
            .map(|(name, value)| (qualified(name), value.clone()))
            .collect();
        let capacity =
            device.capacity.iter().map(|(name, quantity)| (qualified(name), *quantity)).collect();
        let subject = Subject {
            driver: names::DRIVER,
            attributes: &attributes,
            capacity: &capacity,
            allow_multiple_allocations: false,
        };
        selector.matches(&subject).map_err(|error| error.to_string())
    };
    Ok(ExcludeRule::Cel(CelRule { expression: text.to_owned(), matches: Box::new(matches) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("c.yaml");
        std::fs::write(&file, text).unwrap();
        let error = format!("{:#}", Config::read(&file).unwrap_err());
        error.replace(&file.display().to_string(), "c.yaml")
    }

    fn check(text: &str, expect: &[&str]) {
        let error = error(text);
        assert!(!error.contains('\n'), "{error}");
        for part in expect {
            assert!(error.contains(part), "{part:?} is not in: {error}");
        }
    }

    #[test]
    fn a_mistake_is_told_with_file_field_and_expectation() {
        check("excluded: []", &["c.yaml: line 1", "unknown field `excluded`", "topologyOverride"]);
        check("exclude: 3", &["c.yaml: line 1", "exclude: 3", "expected sequence"]);
        check("exclude: [{pciBusID: 1b:00.0}]", &["c.yaml", "pciBusID", "DDDD:BB:DD.F"]);
        check("exclude: [{netdev: a, cel: b}]", &["c.yaml: exclude[0]: expected exactly one of"]);
        check("exclude: [{netdev: a}, {}]", &["c.yaml: exclude[1]: expected exactly one of"]);
        check(
            "exclude: [{rdmaDevice: \"\"}]",
            &["c.yaml: exclude[0]: rdmaDevice: expected a name"],
        );
        check(
            "exclude: [{cel: 'device.driver =='}]",
            &["c.yaml: exclude[0]: cel: ", "device.driver =="],
        );
        check("exclude: [\"a", &["c.yaml: line 1", "unclosed quote"]);
    }

    #[test]
    fn an_override_is_found_beside_the_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("c.yaml");
        std::fs::write(&file, "topologyOverride: topo.xml\n").unwrap();
        let config = Config::read(&file).unwrap();
        assert_eq!(config.topology_override(), Some(dir.path().join("topo.xml").as_path()));
    }
}
