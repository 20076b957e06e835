//! Opaque configuration kinds of claims, classes and allocations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Across, PathClass, Within};

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
