//! Opaque configuration kinds of claims, classes and allocations, from and to the JSON object that
//! stands under `opaque.parameters`.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::names::API_VERSION;
use crate::validation::{Findings, MAX_DEVICES, ValidationError};
use crate::{Across, PathClass, Within};

/// Any of the kinds, decoded and valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpaqueConfig {
    /// Of a claim.
    Placement(Placement),
    /// Of a claim, a DeviceClass or a ResourceClass.
    Environment(Environment),
    /// Of an allocation.
    AllocatedUnits(AllocatedUnits),
}

/// Forms units from plain requests of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Placement {
    /// What one unit takes from each request.
    pub unit: Vec<UnitPart>,
    /// Between the devices of one unit.
    #[serde(default)]
    pub within: Within,
    /// Between the units.
    #[serde(default)]
    pub across: Across,
}

/// Devices that one unit takes from one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UnitPart {
    /// Name of a request of the claim.
    pub request: String,
    /// Devices per unit. Default 1.
    #[serde(default = "one")]
    pub count: u32,
}

fn one() -> u32 {
    1
}

/// Asks for environment variables and extra nodes in the container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Environment {
    /// `NCCL_IB_HCA`.
    pub nccl: bool,
    /// `UCX_NET_DEVICES`.
    pub ucx: bool,
    /// `CUDA_DEVICE_ORDER=PCI_BUS_ID`.
    pub cuda_device_order: bool,
    /// `NCCL_TOPO_FILE` and its mount, where the node has an override.
    pub topology_file: bool,
    /// `/dev/gdrdrv`.
    pub gdrcopy: bool,
    /// `/dev/infiniband/umadN` and `issmN`.
    pub umad: bool,
}

/// The units of a grant, one entry of `allocation.config` per ResourceClass request or Placement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AllocatedUnits {
    /// In the order of the results.
    pub units: Vec<AllocatedUnit>,
}

/// Devices that belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AllocatedUnit {
    /// The devices of the unit.
    pub devices: Vec<DeviceRef>,
    /// Worst path between a GPU and a NIC of the unit; absent without such a pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<PathClass>,
    /// Deepest switch that all G-N pairs of the unit share, a PCI address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
}

/// A device by name.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceRef {
    /// DRA driver name.
    pub driver: String,
    /// Pool name.
    pub pool: String,
    /// Device name within the pool.
    pub device: String,
}

/// An object that is no configuration of this driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Not a JSON object.
    #[error("expected an object with apiVersion and kind, found {0}")]
    NotAnObject(&'static str),
    /// `apiVersion` or `kind` is missing or unknown.
    #[error("{field}: {found}: expected {expected}")]
    Header {
        /// `apiVersion` or `kind`.
        field: &'static str,
        /// What stands there.
        found: String,
        /// What may stand there.
        expected: &'static str,
    },
    /// A field is unknown, missing or of the wrong type.
    #[error("{kind}: {error}")]
    Field {
        /// The kind that was decoded.
        kind: &'static str,
        /// The field and what was expected.
        error: ValidationError,
    },
    /// Every field could be read, but some are not allowed.
    #[error("{kind}: {}", joined(errors))]
    Invalid {
        /// The kind that was decoded.
        kind: &'static str,
        /// At least one.
        errors: Vec<ValidationError>,
    },
    /// The configuration could not be written as JSON.
    #[error("write {kind} as JSON: {problem}")]
    Encode {
        /// The kind that was to be written.
        kind: &'static str,
        /// What the writer said.
        problem: String,
    },
}

const PLACEMENT: &str = "Placement";
const ENVIRONMENT: &str = "Environment";
const ALLOCATED_UNITS: &str = "AllocatedUnits";
const KINDS: &str = "Placement, Environment or AllocatedUnits";

impl OpaqueConfig {
    /// Decodes the object under `opaque.parameters` and validates it.
    pub fn parse(value: &Value) -> Result<Self, ConfigError> {
        let Value::Object(object) = value else {
            return Err(ConfigError::NotAnObject(json_type(value)));
        };
        let version = header(object, "apiVersion", API_VERSION)?;
        if version != API_VERSION {
            return Err(unknown_header("apiVersion", version, API_VERSION));
        }
        match header(object, "kind", KINDS)? {
            PLACEMENT => {
                let placement: Placement = fields(PLACEMENT, object)?;
                valid(PLACEMENT, placement.validate())?;
                Ok(Self::Placement(placement))
            }
            ENVIRONMENT => Ok(Self::Environment(fields(ENVIRONMENT, object)?)),
            ALLOCATED_UNITS => {
                let units: AllocatedUnits = fields(ALLOCATED_UNITS, object)?;
                valid(ALLOCATED_UNITS, units.validate())?;
                Ok(Self::AllocatedUnits(units))
            }
            other => Err(unknown_header("kind", other, KINDS)),
        }
    }

    /// The value of `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Placement(_) => PLACEMENT,
            Self::Environment(_) => ENVIRONMENT,
            Self::AllocatedUnits(_) => ALLOCATED_UNITS,
        }
    }

    /// The object for `opaque.parameters`, with `apiVersion` and `kind` in front.
    pub fn encode(&self) -> Result<Value, ConfigError> {
        let body = match self {
            Self::Placement(placement) => serde_json::to_value(placement),
            Self::Environment(environment) => serde_json::to_value(environment),
            Self::AllocatedUnits(units) => serde_json::to_value(units),
        };
        let failed = |problem| ConfigError::Encode { kind: self.kind(), problem };
        let mut object = Map::new();
        object.insert("apiVersion".to_owned(), API_VERSION.into());
        object.insert("kind".to_owned(), self.kind().into());
        match body {
            Ok(Value::Object(body)) => object.extend(body),
            Ok(other) => return Err(failed(format!("became {}", json_type(&other)))),
            Err(error) => return Err(failed(error.to_string())),
        }
        Ok(Value::Object(object))
    }
}

impl Placement {
    /// At least one part, counts of at least 1, at most [`MAX_DEVICES`] in a unit, each request
    /// once, and no wish farther than what is required.
    pub fn validate(&self) -> Result<(), Vec<ValidationError>> {
        let mut findings = Findings::default();
        if self.unit.is_empty() {
            findings.add("unit", "expected at least one request, found none");
        }
        for (index, part) in self.unit.iter().enumerate() {
            findings.label(format!("unit[{index}].request"), &part.request);
        }
        findings.unique("unit", "request", self.unit.iter().map(|part| part.request.as_str()));
        findings.counts("unit", self.unit.iter().map(|part| part.count));
        findings.locality("", self.within, self.across);
        findings.finish()
    }
}

impl AllocatedUnits {
    /// No empty unit, no device twice, at most [`MAX_DEVICES`] altogether, nothing nameless.
    pub fn validate(&self) -> Result<(), Vec<ValidationError>> {
        let mut findings = Findings::default();
        let mut seen = BTreeSet::new();
        for (index, unit) in self.units.iter().enumerate() {
            if unit.devices.is_empty() {
                findings.add(format!("units[{index}].devices"), "expected a device, found none");
            }
            if unit.via.as_deref() == Some("") {
                findings.add(format!("units[{index}].via"), "required: an address");
            }
            for (position, device) in unit.devices.iter().enumerate() {
                let field = format!("units[{index}].devices[{position}]");
                if !seen.insert(device) {
                    findings.add(&field, "duplicate device");
                }
                let DeviceRef { driver, pool, device } = device;
                for (part, name) in [("driver", driver), ("pool", pool), ("device", device)] {
                    if name.is_empty() {
                        findings.add(format!("{field}.{part}"), "required: a name");
                    }
                }
            }
        }
        let total: usize = self.units.iter().map(|unit| unit.devices.len()).sum();
        if total > MAX_DEVICES as usize {
            let problem = format!("expected at most {MAX_DEVICES} devices, found {total}");
            findings.add("units", problem);
        }
        findings.finish()
    }
}

fn header<'a>(
    object: &'a Map<String, Value>,
    field: &'static str,
    expected: &'static str,
) -> Result<&'a str, ConfigError> {
    let found = match object.get(field) {
        Some(Value::String(text)) => return Ok(text),
        Some(other) => format!("is {}", json_type(other)),
        None => "is missing".to_owned(),
    };
    Err(ConfigError::Header { field, found, expected })
}

fn unknown_header(field: &'static str, word: &str, expected: &'static str) -> ConfigError {
    ConfigError::Header { field, found: format!("unknown value {word:?}"), expected }
}

/// Decodes what stands beside `apiVersion` and `kind`.
fn fields<T: DeserializeOwned>(
    kind: &'static str,
    object: &Map<String, Value>,
) -> Result<T, ConfigError> {
    let mut body = object.clone();
    body.retain(|field, _| field != "apiVersion" && field != "kind");
    serde_path_to_error::deserialize(Value::Object(body)).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { String::new() } else { path };
        let problem = error.into_inner().to_string();
        ConfigError::Field { kind, error: ValidationError { field, problem } }
    })
}

fn valid(kind: &'static str, outcome: Result<(), Vec<ValidationError>>) -> Result<(), ConfigError> {
    outcome.map_err(|errors| ConfigError::Invalid { kind, errors })
}

fn joined(errors: &[ValidationError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
