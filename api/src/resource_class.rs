//! `ResourceClass`: a unit of several devices that belong together.

use k8s_openapi::api::resource::v1::{DeviceClassConfiguration, DeviceSelector};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::Rule;
use kube::{CustomResource, CustomResourceExt};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Locality;
use crate::validation::{
    Findings, MAX_CONFIGS, MAX_DEVICES, MAX_EXPRESSION_BYTES, MAX_SELECTORS, ValidationError,
};

/// Bytes of a condition's message, as `metav1.Condition` bounds it.
pub const MAX_MESSAGE: usize = 32 * 1024;
const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// Specification of a ResourceClass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "lanemate.dev",
    version = "v1alpha1",
    kind = "ResourceClass",
    plural = "resourceclasses",
    status = "ResourceClassStatus",
    validation = not_itself(),
    doc = "A unit of several devices that belong together, such as a GPU and the NIC under the same PCIe switch.",
    printcolumn = r#"{"name":"Within","type":"string","jsonPath":".spec.locality.within.required"}"#,
    printcolumn = r#"{"name":"Across","type":"string","jsonPath":".spec.locality.across.required"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason","priority":1}"#,
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

/// What the controller has made of a ResourceClass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceClassStatus {
    /// Conditions; of type `Ready` only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
    /// The `metadata.generation` that the conditions are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "generation_schema")]
    pub observed_generation: Option<i64>,
}

/// Type of the condition that says whether claims of the class can be served.
pub const READY: &str = "Ready";

/// Why the condition [`READY`] is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadyReason {
    /// True: the DeviceClass is as the class says.
    Compiled,
    /// A field says what it must not.
    InvalidSpec,
    /// A member's DeviceClass does not exist, or is broken.
    UnknownMember,
    /// A member names a ResourceClass.
    NestedClass,
    /// A selector of a member does not compile.
    InvalidSelector,
    /// The DeviceClass of that name belongs to somebody else.
    NameConflict,
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

impl ReadyReason {
    /// The word in the condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Compiled => "Compiled",
            Self::InvalidSpec => "InvalidSpec",
            Self::UnknownMember => "UnknownMember",
            Self::NestedClass => "NestedClass",
            Self::InvalidSelector => "InvalidSelector",
            Self::NameConflict => "NameConflict",
        }
    }
}

/// The CustomResourceDefinition of [`ResourceClass`].
pub fn crd() -> CustomResourceDefinition {
    ResourceClass::crd()
}

impl ResourceClass {
    /// The condition [`READY`], where the controller has written one.
    pub fn ready(&self) -> Option<&Condition> {
        let conditions = self.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().find(|condition| condition.type_ == READY)
    }

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

/// The API server's own check that a class is none of its members.
fn not_itself() -> Rule {
    let rule = "self.spec.members.all(member, member.deviceClassName != self.metadata.name)";
    Rule::new(rule).message("spec.members: a member names a DeviceClass, not the class itself")
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

/// As `metav1.Condition`, with its bounds.
fn conditions_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Whether claims of the class can be served: the condition Ready.",
        "type": "array",
        "maxItems": 8,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": { "type": "string", "minLength": 1, "maxLength": 316 },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                "reason": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "message": { "type": "string", "maxLength": MAX_MESSAGE },
                "lastTransitionTime": { "type": "string", "format": "date-time", "maxLength": 64 },
                "observedGeneration": { "type": "integer", "format": "int64", "minimum": 0 },
            },
        },
    })
}

fn generation_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "The metadata.generation that the conditions are about.",
        "type": "integer",
        "format": "int64",
        "minimum": 0,
    })
}

#[cfg(test)]
mod tests;
