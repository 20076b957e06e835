//! `ResourceClass`: a unit of several devices that belong together.

use k8s_openapi::api::resource::v1::{DeviceClassConfiguration, DeviceSelector};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResource, CustomResourceExt};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::names::DRIVER;
use crate::validation::{Findings, MAX_DEVICES, ValidationError};
use crate::{Locality, OpaqueConfig};

/// Most selectors of one member, as of one DeviceClass.
pub const MAX_SELECTORS: usize = 32;
/// Longest CEL expression in bytes, as the API takes it.
pub const MAX_EXPRESSION_BYTES: usize = 10 * 1024;
/// Most entries of `spec.config`, as in a DeviceClass.
pub const MAX_CONFIGS: usize = 32;

const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// Specification of a ResourceClass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "lanemate.dev",
    version = "v1alpha1",
    kind = "ResourceClass",
    plural = "resourceclasses",
    doc = "A unit of several devices that belong together, such as a GPU and the NIC under the same PCIe switch.",
    printcolumn = r#"{"name":"Within","type":"string","jsonPath":".spec.locality.within.required"}"#,
    printcolumn = r#"{"name":"Across","type":"string","jsonPath":".spec.locality.across.required"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceClassSpec {
    /// The devices of one unit.
    #[schemars(
        length(min = 1, max = 32),
        extend(
            "x-kubernetes-list-type" = "map",
            "x-kubernetes-list-map-keys" = ["name"],
            "x-kubernetes-validations" = sum_rules(),
        )
    )]
    pub members: Vec<Member>,
    /// How near they have to be.
    #[serde(default)]
    pub locality: Locality,
    /// Configuration handed to drivers, as in a DeviceClass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "config_schema")]
    pub config: Vec<DeviceClassConfiguration>,
}

/// One kind of device in a unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Member {
    /// Unique name within the class, a DNS label.
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL))]
    pub name: String,
    /// The DeviceClass that such a device matches.
    #[schemars(length(min = 1, max = 253), regex(pattern = SUBDOMAIN))]
    pub device_class_name: String,
    /// Devices of this member in one unit. Default 1.
    #[serde(default = "one")]
    #[schemars(with = "i32", range(min = 1, max = 32))]
    pub count: u32,
    /// Further selectors, all of which must match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "selectors_schema")]
    pub selectors: Vec<DeviceSelector>,
}

fn one() -> u32 {
    1
}

/// The CustomResourceDefinition of [`ResourceClass`].
pub fn crd() -> CustomResourceDefinition {
    ResourceClass::crd()
}

impl ResourceClass {
    /// Checks what the schema checks, and what only this driver knows. Every error names its field,
    /// such as `spec.members[0].name`.
    pub fn validate(&self) -> Result<(), Vec<ValidationError>> {
        let mut findings = Findings::default();
        let name = self.metadata.name.as_deref().unwrap_or_default();
        findings.subdomain("metadata.name", name);
        let members = &self.spec.members;
        if members.is_empty() {
            findings.add("spec.members", "is empty: expected at least one member");
        }
        for (index, member) in members.iter().enumerate() {
            check_member(&mut findings, &format!("spec.members[{index}]"), member, name);
        }
        let names = members.iter().map(|member| member.name.as_str());
        findings.unique(names, |index| format!("spec.members[{index}].name"));
        let counts = members.iter().map(|member| member.count);
        findings.counts("spec.members", counts, |index| format!("spec.members[{index}].count"));
        let Locality { within, across } = self.spec.locality;
        findings.locality("spec.locality.", within, across);
        if self.spec.config.len() > MAX_CONFIGS {
            let count = self.spec.config.len();
            findings.add("spec.config", format!("{count} entries: expected at most {MAX_CONFIGS}"));
        }
        for (index, config) in self.spec.config.iter().enumerate() {
            check_config(&mut findings, &format!("spec.config[{index}]"), config);
        }
        findings.finish()
    }
}

fn check_member(findings: &mut Findings, field: &str, member: &Member, class: &str) {
    findings.label(format!("{field}.name"), &member.name);
    findings.subdomain(format!("{field}.deviceClassName"), &member.device_class_name);
    if member.device_class_name == class && !class.is_empty() {
        let problem = "names the class itself: expected a DeviceClass";
        findings.add(format!("{field}.deviceClassName"), problem);
    }
    let selectors = &member.selectors;
    if selectors.len() > MAX_SELECTORS {
        let problem = format!("{} selectors: expected at most {MAX_SELECTORS}", selectors.len());
        findings.add(format!("{field}.selectors"), problem);
    }
    for (index, selector) in selectors.iter().enumerate() {
        let expression = selector.cel.as_ref().map(|cel| cel.expression.as_str());
        let problem = match expression {
            None => ("", "is missing: expected cel".to_owned()),
            Some("") => (".expression", "is empty: expected a CEL expression".to_owned()),
            Some(text) if text.len() > MAX_EXPRESSION_BYTES => (
                ".expression",
                format!("{} bytes: expected at most {MAX_EXPRESSION_BYTES}", text.len()),
            ),
            Some(_) => continue,
        };
        findings.add(format!("{field}.selectors[{index}].cel{}", problem.0), problem.1);
    }
}

/// Parameters for other drivers are theirs to judge.
fn check_config(findings: &mut Findings, field: &str, config: &DeviceClassConfiguration) {
    let Some(opaque) = &config.opaque else {
        findings.add(format!("{field}.opaque"), "is missing: expected driver and parameters");
        return;
    };
    findings.subdomain(format!("{field}.opaque.driver"), &opaque.driver);
    if opaque.driver != DRIVER {
        return;
    }
    let field = format!("{field}.opaque.parameters");
    match OpaqueConfig::parse(&opaque.parameters.0) {
        Ok(OpaqueConfig::Environment(_)) => {}
        Ok(other) => {
            findings.add(field, format!("kind {}: expected Environment", other.kind()));
        }
        Err(error) => findings.add(field, error.to_string()),
    }
}

/// The API server's own check of the sum of the counts.
fn sum_rules() -> Value {
    json!([{
        "rule": format!("self.map(member, member.count).sum() <= {MAX_DEVICES}"),
        "message": format!("at most {MAX_DEVICES} devices in one unit"),
    }])
}

/// Bounds the list and the expressions, and describes them in a sentence where the derived schema
/// would repeat upstream's page.
fn selectors_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Further selectors, all of which must match, as in a DeviceClass.",
        "type": "array",
        "maxItems": MAX_SELECTORS,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "required": ["cel"],
            "properties": {
                "cel": {
                    "type": "object",
                    "required": ["expression"],
                    "properties": {
                        "expression": {
                            "description": "CEL over `device`, true for a device that fits.",
                            "type": "string",
                            "minLength": 1,
                            "maxLength": MAX_EXPRESSION_BYTES,
                        },
                    },
                },
            },
        },
    })
}

/// Keeps every field of the parameters: the derived schema would have the API server drop them.
fn config_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Configuration handed to drivers, as in a DeviceClass.",
        "type": "array",
        "maxItems": MAX_CONFIGS,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "required": ["opaque"],
            "properties": {
                "opaque": {
                    "type": "object",
                    "required": ["driver", "parameters"],
                    "properties": {
                        "driver": {
                            "description": "The driver that the parameters are for.",
                            "type": "string",
                            "minLength": 1,
                            "maxLength": 253,
                            "pattern": SUBDOMAIN,
                        },
                        "parameters": {
                            "description": "An object with apiVersion and kind.",
                            "type": "object",
                            "x-kubernetes-preserve-unknown-fields": true,
                        },
                    },
                },
            },
        },
    })
}

#[cfg(test)]
mod tests;
