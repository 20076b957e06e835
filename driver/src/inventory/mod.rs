//! What a node offers and what it leaves out, with the reason.

pub mod attributes;
mod build;
pub mod exclusion;
mod joint;
pub mod limits;
mod order;
pub mod policy;
pub mod uplink;
mod version;

pub use policy::{ExcludeRule, Policy};

use std::collections::BTreeMap;
use std::fmt;

use lanemate_api::Quantity;
use serde::Serialize;

use crate::attribute::AttributeValue;
use crate::discovery::facts::Problem;
use crate::ids::{Kind, PciAddress};

/// The devices of one node.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// Name of the node, which is the name of its pool.
    pub node: String,
    /// What is offered, in publishing order.
    pub devices: Vec<OfferedDevice>,
    /// What is left out.
    pub left_out: Vec<LeftOut>,
    /// Trouble met on the way, discovery's included.
    pub problems: Vec<Problem>,
}

/// A device that is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedDevice {
    /// Name within the pool, from the PCI address.
    pub name: String,
    /// PCI address.
    pub address: PciAddress,
    /// GPU or NIC.
    pub kind: Kind,
    /// Attributes by name; unqualified names are in the driver's domain.
    pub attributes: BTreeMap<String, AttributeValue>,
    /// Capacities by name.
    pub capacity: BTreeMap<String, Quantity>,
    /// Taints, without the allocator's own.
    pub taints: Vec<Taint>,
}

/// A taint on a device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Taint {
    /// Label name.
    pub key: String,
    /// Label value; absent when empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// `NoSchedule` or `NoExecute`.
    pub effect: String,
}

/// A device that is not published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// PCI address; absent for an interface without a PCI function.
    pub address: Option<PciAddress>,
    /// GPU or NIC.
    pub kind: Kind,
    /// Names under which people know it: RDMA devices.
    pub rdma_devices: Vec<String>,
    /// Network interfaces.
    pub netdevs: Vec<String>,
    /// Why.
    pub reason: Reason,
}

/// Why a device is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// One of the codes of the JSON contract.
    pub code: ReasonCode,
    /// In words.
    pub text: String,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.text)
    }
}

/// Codes of the JSON contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReasonCode {
    /// Carries a default route, or belongs to an interface that does.
    DefaultRoute,
    /// No RDMA device.
    NoRdma,
    /// No kernel driver.
    NoDriver,
    /// Bound to a VFIO driver.
    Vfio,
    /// The node GUID is zero.
    ZeroGuid,
    /// Data-direct DMA function.
    DmaFunction,
    /// Manages an NVLink switch.
    SwitchManagement,
    /// A plane of a multi-plane HCA.
    Smi,
    /// A display, audio or USB function, or a GPU that its driver's library does not know.
    NotCompute,
    /// A GPU in MIG mode, whose parts cannot be granted yet.
    Mig,
    /// The site's configuration excludes it.
    Policy,
}

impl ReasonCode {
    /// The code as users read it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DefaultRoute => "default-route",
            Self::NoRdma => "no-rdma",
            Self::NoDriver => "no-driver",
            Self::Vfio => "vfio",
            Self::ZeroGuid => "zero-guid",
            Self::DmaFunction => "dma-function",
            Self::SwitchManagement => "switch-management",
            Self::Smi => "smi",
            Self::NotCompute => "not-compute",
            Self::Mig => "mig",
            Self::Policy => "policy",
        }
    }
}

#[cfg(test)]
mod tests;
