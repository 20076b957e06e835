//! `ResourceClass`: a unit of several devices that belong together.

use k8s_openapi::api::resource::v1::{DeviceClassConfiguration, DeviceSelector};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResource, CustomResourceExt};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Locality;
use crate::validation::{
    Findings, MAX_CONFIGS, MAX_DEVICES, MAX_EXPRESSION_BYTES, MAX_SELECTORS, ValidationError,
};

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
            findings.add("spec.members", "expected at least one member, found none");
        }
        for (index, member) in members.iter().enumerate() {
            check_member(&mut findings, &format!("spec.members[{index}]"), member, name);
        }
        findings.unique("spec.members", "name", members.iter().map(|member| member.name.as_str()));
        findings.counts("spec.members", members.iter().map(|member| member.count));
        let Locality { within, across } = self.spec.locality;
        findings.locality("spec.locality.", within, across);
        findings.class_configs("spec.config", &self.spec.config);
        findings.finish()
    }
}

fn check_member(findings: &mut Findings, field: &str, member: &Member, class: &str) {
    findings.label(format!("{field}.name"), &member.name);
    let class_field = format!("{field}.deviceClassName");
    if member.device_class_name == class && !class.is_empty() {
        findings.add(class_field, "expected a DeviceClass, found the class itself");
    } else {
        findings.subdomain(class_field, &member.device_class_name);
    }
    findings.selectors(&format!("{field}.selectors"), &member.selectors);
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
