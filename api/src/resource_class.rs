//! `ResourceClass`: a unit of several devices that belong together.

use k8s_openapi::api::resource::v1::{DeviceClassConfiguration, DeviceSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Locality;

/// Specification of a [`ResourceClass`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "lanemate.dev",
    version = "v1alpha1",
    kind = "ResourceClass",
    plural = "resourceclasses"
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceClassSpec {
    /// The devices of one unit.
    pub members: Vec<Member>,
    /// How near they have to be.
    #[serde(default)]
    pub locality: Locality,
    /// Configuration handed to drivers, as in a DeviceClass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config: Vec<DeviceClassConfiguration>,
}

/// One kind of device in a unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Member {
    /// Unique name within the class, a DNS label.
    pub name: String,
    /// The DeviceClass that such a device matches.
    pub device_class_name: String,
    /// Devices of this member in one unit. Default 1.
    #[serde(default = "one")]
    pub count: u32,
    /// Further selectors, all of which must match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selectors: Vec<DeviceSelector>,
}

fn one() -> u32 {
    1
}
