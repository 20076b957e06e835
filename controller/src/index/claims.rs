//! Claims: what they hold, for whom, and who wrote it.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeSelector;
use k8s_openapi::api::resource::v1::ResourceClaim;
use lanemate_driver::allocation::DeviceId;

use crate::id::{Id, Uid, Version};

/// What is known of a claim.
#[derive(Clone, Debug)]
pub struct ClaimFacts {
    /// Namespace, name and UID.
    pub id: Id,
    /// Its version.
    pub version: Version,
    /// It is being deleted.
    pub deleting: bool,
    /// UID of the pod that owns it: a claim made from a template is for that pod alone.
    pub owner: Option<Uid>,
    /// What it holds.
    pub grant: Option<Grant>,
    /// `status.reservedFor`.
    pub reserved_for: Vec<Consumer>,
    /// The claim without what no write needs, while it is not allocated.
    pub object: Option<Arc<ResourceClaim>>,
}

/// An allocation.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// Devices of our driver that are taken from others: those seen by an administrator only are not.
    pub devices: Vec<DeviceId>,
    /// Some result is of another driver.
    pub has_others: bool,
    /// Our controller wrote it, as `metadata.managedFields` says; absent where nobody is named.
    pub by_us: Option<bool>,
    /// `allocationTimestamp`.
    pub at: Option<Timestamp>,
    /// The node, where the selector is one term with one field `metadata.name`.
    pub node: Option<String>,
    /// `nodeSelector` as written.
    pub selector: Option<NodeSelector>,
}

/// One entry of `status.reservedFor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// It is a pod.
    pub is_pod: bool,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: Uid,
}
