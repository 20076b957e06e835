//! What the cluster looks like, kept synchronously: every kind enters by apply, delete and reset on plain values.
//!
//! Objects are parsed at the door; only what a plan may have to write back is kept as an object. What is derived from them
//! (who holds a device, what runs on a node) is brought up to date with each update, so that a plan reads and never scans.
//!
//! ```text
//! seen by a watch ----+
//!                     +--> facts --> derived: devices held, load of nodes, claims by pod, pods by claim
//! written by us  -----+    (assumed until the watch shows that version, or a newer one)
//! ```

pub mod claims;
pub mod pods;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::resource::v1::{DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice};
use lanemate_api::{NodeState, ResourceClass};

pub use self::claims::{ClaimFacts, Consumer, Grant};
pub use self::pods::{PodClaim, PodFacts, Stage};
use crate::id::{Key, Uid};

/// An object of a kind that is watched.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Object {
    Pod(Box<Pod>),
    Claim(Box<ResourceClaim>),
    Node(Box<Node>),
    Slice(Box<ResourceSlice>),
    DeviceClass(Box<DeviceClass>),
    ResourceClass(Box<ResourceClass>),
    NodeState(Box<NodeState>),
    TaintRule(Box<DeviceTaintRule>),
    Volume(Box<PersistentVolume>),
    VolumeClaim(Box<PersistentVolumeClaim>),
}

/// A kind that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Kind {
    Pod,
    Claim,
    Node,
    Slice,
    DeviceClass,
    ResourceClass,
    NodeState,
    TaintRule,
    Volume,
    VolumeClaim,
}

/// What a watch tells.
#[derive(Clone, Debug)]
pub enum Update {
    /// The object is there, new or changed.
    Apply(Object),
    /// It is gone.
    Delete(Kind, Key),
    /// These are all objects of a kind: a first list, or one after a watch was cut.
    Reset(Kind, Vec<Object>),
}

/// Who keeps a device from being given to others. A device is free only when nobody does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// A claim whose allocation names the device, as seen or as assumed.
    Claim(Uid),
    /// A node that still has the device prepared for a claim.
    Node(Uid),
}
