//! The plugin's configuration file: which devices a site leaves out, and which NCCL topology applies.

use std::path::PathBuf;

use lanemate_api::names;
use serde::Deserialize;

use crate::attribute::QualifiedName;
use crate::ids::PciAddress;
use crate::inventory::policy::CelRule;
use crate::inventory::{ExcludeRule, OfferedDevice, Policy};
use crate::selector::{CompileError, Selector, Subject};
use crate::yaml;

/// What the file says. An empty file says nothing.
#[derive(Debug, Default)]
pub struct Config {
    /// What is left out by choice.
    pub policy: Policy,
    /// An NCCL topology XML, as written: relative to the configuration file.
    pub topology_override: Option<PathBuf>,
}

/// A text that is no configuration. One line; the file's name stands before it.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConfigError {
    /// Not YAML, or not of this shape: the line, and what is wrong there.
    #[error("{0}")]
    Yaml(String),
    /// An entry that says nothing, or several things.
    #[error("exclude[{0}]: expected exactly one of pciBusID, netdev, rdmaDevice, cel")]
    NotOneRule(usize),
    /// A pattern that matches nothing.
    #[error("exclude[{index}]: {field}: expected a name with * and ?, found nothing")]
    EmptyName {
        /// Position in the list.
        index: usize,
        /// Field of the entry.
        field: &'static str,
    },
    /// An expression that is no selector.
    #[error("exclude[{index}]: cel: {error}")]
    Cel {
        /// Position in the list.
        index: usize,
        /// What is wrong. The message has it, so it is no source of its own.
        error: Box<CompileError>,
    },
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Raw {
    exclude: Vec<RawExclude>,
    topology_override: Option<PathBuf>,
}

/// Exactly one of the fields.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RawExclude {
    #[serde(rename = "pciBusID")]
    pci_bus_id: Option<PciAddress>,
    netdev: Option<String>,
    rdma_device: Option<String>,
    cel: Option<String>,
}

impl Config {
    /// Reads the text of the file as a whole, so that a mistake shows at once.
    ///
    /// # Errors
    /// The first thing that is wrong, see [`ConfigError`].
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let raw: Raw = serde_saphyr::from_str(text)
            .map_err(|error| ConfigError::Yaml(yaml::problem(text, 1, &error)))?;
        let rules = raw.exclude.into_iter().enumerate().map(|(index, entry)| entry.rule(index));
        let policy = Policy { exclude: rules.collect::<Result<_, _>>()? };
        Ok(Self { policy, topology_override: raw.topology_override })
    }
}

impl RawExclude {
    fn rule(self, index: usize) -> Result<ExcludeRule, ConfigError> {
        let named = |field, name: String| match name.as_str() {
            "" => Err(ConfigError::EmptyName { index, field }),
            _ => Ok(name),
        };
        match self {
            Self { pci_bus_id: Some(address), netdev: None, rdma_device: None, cel: None } => {
                Ok(ExcludeRule::PciBusId(address))
            }
            Self { pci_bus_id: None, netdev: Some(name), rdma_device: None, cel: None } => {
                named("netdev", name).map(ExcludeRule::Netdev)
            }
            Self { pci_bus_id: None, netdev: None, rdma_device: Some(name), cel: None } => {
                named("rdmaDevice", name).map(ExcludeRule::RdmaDevice)
            }
            Self { pci_bus_id: None, netdev: None, rdma_device: None, cel: Some(text) } => {
                cel_rule(index, text)
            }
            _ => Err(ConfigError::NotOneRule(index)),
        }
    }
}

/// An expression over `device`, as in a DeviceClass of our driver.
fn cel_rule(index: usize, expression: String) -> Result<ExcludeRule, ConfigError> {
    let selector = Selector::compile(&expression)
        .map_err(|error| ConfigError::Cel { index, error: Box::new(error) })?;
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
    Ok(ExcludeRule::Cel(CelRule { expression, matches: Box::new(matches) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &[&str]) {
        let error = Config::parse(text).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        for part in expect {
            assert!(error.contains(part), "{part:?} is not in: {error}");
        }
    }

    #[test]
    fn a_mistake_is_told_with_line_field_and_expectation() {
        check("excluded: []", &["line 1", "unknown field `excluded`", "topologyOverride"]);
        check("exclude: 3", &["line 1", "exclude: 3", "expected sequence"]);
        check("exclude: [{pciBusID: 1b:00.0}]", &["pciBusID", "DDDD:BB:DD.F"]);
        check("exclude: [{netdev: a, cel: b}]", &["exclude[0]: expected exactly one of"]);
        check("exclude: [{netdev: a}, {}]", &["exclude[1]: expected exactly one of"]);
        check("exclude: [{rdmaDevice: \"\"}]", &["exclude[0]: rdmaDevice: expected a name"]);
        check("exclude: [{cel: 'device.driver =='}]", &["exclude[0]: cel: ", "device.driver =="]);
        check("exclude: [\"a", &["line 1", "unclosed quote"]);
    }

    #[test]
    fn an_empty_file_says_nothing() {
        for text in ["", "# nothing\n", "{}", "exclude: []\n"] {
            let config = Config::parse(text).unwrap();
            assert!(config.policy.exclude.is_empty() && config.topology_override.is_none());
        }
    }

    #[test]
    fn each_kind_of_rule_is_read() {
        let text = "exclude:\n- pciBusID: 0000:29:00.0\n- netdev: ibp*\n- rdmaDevice: mlx5_?\n\
                    - cel: 'true'\ntopologyOverride: topo.xml\n";
        let config = Config::parse(text).unwrap();
        let shown: Vec<String> =
            config.policy.exclude.iter().map(|rule| format!("{rule:?}")).collect();
        assert_eq!(
            shown,
            ["pciBusID 0000:29:00.0", "netdev ibp*", "rdmaDevice mlx5_?", "cel true"]
        );
        assert_eq!(config.topology_override, Some(PathBuf::from("topo.xml")));
    }
}
