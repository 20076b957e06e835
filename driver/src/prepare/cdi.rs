//! The part of the Container Device Interface that we write, version 0.6.0.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::claim::allocated::ClaimUid;

use super::{Base, PlannedFile, PlannedPath};

/// Vendor and class of our CDI devices.
pub const KIND: &str = "lanemate.dev/claim";

/// The lowest version that has what every spec of ours uses: annotations are 0.6.0, names that
/// begin with a digit and host paths of nodes 0.5.0. Some runtimes in the field refuse 1.0.0.
pub const VERSION: &str = "0.6.0";

/// Beginning of the name of each spec file of ours.
pub const FILE_PREFIX: &str = "lanemate.dev-claim_";

/// Annotation of a spec: namespace of the claim.
pub const CLAIM_NAMESPACE: &str = "lanemate.dev/claim-namespace";
/// Annotation of a spec: name of the claim.
pub const CLAIM_NAME: &str = "lanemate.dev/claim-name";
/// Annotation of a spec: names of the devices that the claim holds on this node, with commas between
/// them. Those with adminAccess are not among them, since they are held by others, or by nobody.
pub const HELD_DEVICES: &str = "lanemate.dev/devices";

/// One spec file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// `cdiVersion`.
    pub cdi_version: String,
    /// `vendor/class` of the devices.
    pub kind: String,
    /// Keys and values of the writer's own.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The devices.
    pub devices: Vec<Device>,
    /// Edits for a container that gets at least one of the devices.
    #[serde(skip_serializing_if = "ContainerEdits::is_empty")]
    pub container_edits: ContainerEdits,
}

/// One device of a spec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// Name within the spec's kind.
    pub name: String,
    /// Edits for a container that gets the device; must not be empty.
    pub container_edits: ContainerEdits,
}

/// What changes in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerEdits {
    /// `NAME=value`; replaces what image and pod set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Device nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_nodes: Vec<DeviceNode>,
    /// Mounts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Mount>,
}

/// One device node. The runtime makes it from its numbers and looks at no path of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceNode {
    /// Absolute path in the container.
    pub path: String,
    /// `c` or `b`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Of `rwm`. Never `m`: the runtime makes the nodes.
    pub permissions: String,
}

/// One bind mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mount {
    /// Absolute path, as the runtime sees the host.
    pub host_path: String,
    /// Absolute path in the container.
    pub container_path: String,
    /// Mount options.
    pub options: Vec<String>,
}

impl Spec {
    /// The file of the spec in the CDI directory.
    pub(super) fn file(&self, uid: &ClaimUid) -> PlannedFile {
        // Strings, numbers, lists and maps with text keys: there is nothing that could fail.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        let path = file_name(uid);
        PlannedFile {
            path: PlannedPath { base: Base::Cdi, path },
            mode: 0o644,
            bytes: text.into_bytes(),
        }
    }
}

impl ContainerEdits {
    /// True when nothing changes.
    pub fn is_empty(&self) -> bool {
        self.env.is_empty() && self.device_nodes.is_empty() && self.mounts.is_empty()
    }

    /// Adds what is not there yet.
    pub(super) fn merge(&mut self, other: Self) {
        add_new(&mut self.env, other.env);
        add_new(&mut self.device_nodes, other.device_nodes);
        add_new(&mut self.mounts, other.mounts);
    }
}

impl Mount {
    /// A file that containers may read and not change.
    pub(super) fn read_only(host_path: String, container_path: String) -> Self {
        let options = ["ro", "nosuid", "nodev", "bind"].map(str::to_owned).to_vec();
        Self { host_path, container_path, options }
    }
}

/// Name of the spec file of a claim.
pub fn file_name(uid: &ClaimUid) -> String {
    format!("{FILE_PREFIX}{uid}.json")
}

/// The claim whose spec file has a name.
pub fn claim_of_file(name: &str) -> Option<ClaimUid> {
    name.strip_prefix(FILE_PREFIX)?.strip_suffix(".json")?.parse().ok()
}

/// The name by which a runtime knows one of our devices.
pub(super) fn qualified(name: &str) -> String {
    format!("{KIND}={name}")
}

fn add_new<T: PartialEq>(to: &mut Vec<T>, from: Vec<T>) {
    for item in from {
        if !to.contains(&item) {
            to.push(item);
        }
    }
}
