//! What the cluster looks like, kept synchronously: every kind enters by apply, delete and listed on plain values.
//!
//! Objects are parsed at the door; only what a plan may have to write back is kept as an object. What is derived from them
//! (who holds a device, what runs on a node) is brought up to date with each update, so that a plan reads and never scans.
//!
//! ```text
//! seen by a watch ----+
//!                     +--> facts --> derived: devices held, load of nodes, pods by claim
//! written by us  -----+    (assumed until the watch shows that version, or a newer one)
//! ```

mod apply;
pub mod claims;
pub mod classes;
pub mod devices;
pub mod holders;
pub mod nodes;
pub mod pods;
pub mod published;
pub mod room;
mod written;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::resource::v1::{DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice};
use lanemate_api::{NodeState, ResourceClass};
use lanemate_driver::allocation::{Cluster, DeviceId};
use lanemate_driver::claim::Classes;
use lanemate_driver::node_fit::{PodNeeds, Unfit};

pub use self::claims::{ClaimFacts, Consumer, Grant};
use self::classes::ClassObjects;
use self::devices::Devices;
pub use self::devices::Presence;
pub use self::holders::Holder;
use self::holders::Holders;
pub use self::nodes::NodeFacts;
pub use self::pods::{ClaimName, PodClaim, PodFacts, Stage, Unscheduled};
use self::room::Room;
use self::written::{ClaimOver, PodOver};
use crate::change::Generations;
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
    Namespace(Box<Namespace>),
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
    Namespace,
}

impl Kind {
    /// Kinds without which nothing can be planned. Labels of namespaces matter to few pods.
    pub const NEEDED: [Self; 10] = [
        Self::Pod,
        Self::Claim,
        Self::Node,
        Self::Slice,
        Self::DeviceClass,
        Self::ResourceClass,
        Self::NodeState,
        Self::TaintRule,
        Self::Volume,
        Self::VolumeClaim,
    ];
}

/// What a watch tells.
#[derive(Clone, Debug)]
pub enum Update {
    /// The object is there, new or changed.
    Apply(Object),
    /// It is gone.
    Delete(Kind, Key),
    /// A list is complete, a first one or one after a watch was cut: what is not named is gone.
    Listed(Kind, BTreeSet<Key>),
}

/// All that is known.
#[derive(Debug)]
pub struct Index {
    listed: BTreeSet<Kind>,
    pods: BTreeMap<Uid, PodEntry>,
    pod_keys: BTreeMap<Key, Uid>,
    claims: BTreeMap<Uid, ClaimEntry>,
    claim_keys: BTreeMap<Key, Uid>,
    /// Pods that wait for us, or for kube-scheduler with claims.
    waiting: BTreeSet<Uid>,
    /// Unfinished pods by the claims that they name.
    users: BTreeMap<Key, BTreeSet<Uid>>,
    nodes: BTreeMap<String, NodeFacts>,
    node_states: BTreeMap<String, NodeState>,
    classes: ClassObjects,
    devices: Devices,
    holders: Holders,
    room: Room,
    /// Classes with a write on its way.
    busy_classes: BTreeSet<Uid>,
}

/// A pod as it was seen, and with what we wrote laid over.
#[derive(Debug)]
struct PodEntry {
    seen: PodFacts,
    /// Absent where nothing is laid over.
    shown: Option<Box<PodFacts>>,
    over: Option<PodOver>,
}

/// A claim as it was seen, and with what we wrote laid over.
#[derive(Debug)]
struct ClaimEntry {
    seen: ClaimFacts,
    /// Absent where nothing is laid over.
    shown: Option<Box<ClaimFacts>>,
    over: Option<ClaimOver>,
}

impl PodEntry {
    fn shown(&self) -> &PodFacts {
        self.shown.as_deref().unwrap_or(&self.seen)
    }
}

impl ClaimEntry {
    fn shown(&self) -> &ClaimFacts {
        self.shown.as_deref().unwrap_or(&self.seen)
    }
}

impl Index {
    /// Nothing is known yet. Generations of pools are noted for the writer.
    pub fn new(generations: Generations) -> Self {
        Self {
            listed: BTreeSet::new(),
            pods: BTreeMap::new(),
            pod_keys: BTreeMap::new(),
            claims: BTreeMap::new(),
            claim_keys: BTreeMap::new(),
            waiting: BTreeSet::new(),
            users: BTreeMap::new(),
            nodes: BTreeMap::new(),
            node_states: BTreeMap::new(),
            classes: ClassObjects::default(),
            devices: Devices::new(generations),
            holders: Holders::default(),
            room: Room::default(),
            busy_classes: BTreeSet::new(),
        }
    }

    /// Kinds that were never listed: nothing can be planned before all were.
    pub fn missing(&self) -> Vec<Kind> {
        Kind::NEEDED.into_iter().filter(|kind| !self.listed.contains(kind)).collect()
    }

    /// A pod, with what was written laid over.
    pub fn pod(&self, uid: &Uid) -> Option<&PodFacts> {
        self.pods.get(uid).map(PodEntry::shown)
    }

    /// All pods.
    pub fn pods(&self) -> impl Iterator<Item = &PodFacts> {
        self.pods.values().map(PodEntry::shown)
    }

    /// Unfinished pods with claims or gates that have no node, or a node and a claim without an allocation; in no order.
    pub fn waiting(&self) -> impl Iterator<Item = &PodFacts> {
        self.waiting.iter().filter_map(|uid| self.pod(uid))
    }

    fn is_waiting(&self, pod: &PodFacts) -> bool {
        match &pod.stage {
            _ if pod.deleting || (pod.claims.is_empty() && pod.gates.is_empty()) => false,
            Stage::Finished => false,
            Stage::Waiting => true,
            Stage::Bound(_) => self.claims_of(pod).any(|claim| claim.grant.is_none()),
        }
    }

    /// The claims of a pod that are there.
    pub fn claims_of(&self, pod: &PodFacts) -> impl Iterator<Item = &ClaimFacts> {
        pod.claim_keys().filter_map(|key| self.claim(&key))
    }

    /// The claim of a name, with what was written laid over.
    pub fn claim(&self, key: &Key) -> Option<&ClaimFacts> {
        self.claim_by_uid(self.claim_keys.get(key)?)
    }

    /// A claim, with what was written laid over.
    pub fn claim_by_uid(&self, uid: &Uid) -> Option<&ClaimFacts> {
        self.claims.get(uid).map(ClaimEntry::shown)
    }

    /// All claims.
    pub fn claims(&self) -> impl Iterator<Item = &ClaimFacts> {
        self.claims.values().map(ClaimEntry::shown)
    }

    /// Unfinished pods that name a claim.
    pub fn users(&self, claim: &Key) -> impl Iterator<Item = &PodFacts> {
        self.users.get(claim).into_iter().flatten().filter_map(|uid| self.pod(uid))
    }

    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeFacts> {
        self.nodes.values()
    }

    /// A node.
    pub fn node(&self, name: &str) -> Option<&NodeFacts> {
        self.nodes.get(name)
    }

    /// What a node holds, as its plugin says.
    pub fn node_state(&self, node: &str) -> Option<&NodeState> {
        self.node_states.get(node)
    }

    /// Whether a pod may run on a node, beside what else runs there and was let go to it.
    ///
    /// # Errors
    /// The first reason why not.
    pub fn fits(&self, pod: &PodFacts, node: &str) -> Result<(), Unfit> {
        let Some(facts) = self.nodes.get(node) else {
            return Err(Unfit { reason: "there is no such node".to_owned() });
        };
        self.room.fits(&pod.id.uid, &pod.needs, &facts.view)
    }

    /// The first constraint of a pod that is not judged here.
    pub fn unmodelled(&self, needs: &PodNeeds) -> Option<String> {
        self.room.unmodelled(needs)
    }

    /// Rises when anything changes that [`Self::fits`] goes by.
    pub fn fit_version(&self) -> u64 {
        self.room.version()
    }

    /// Our devices. One that anybody holds is not free.
    pub fn cluster(&self) -> &Cluster {
        self.devices.ours()
    }

    /// Devices of all other drivers, and what allocated claims hold of them.
    pub fn other_cluster(&self) -> &Cluster {
        self.devices.others()
    }

    /// Classes, compiled.
    pub fn classes(&mut self) -> &mut Classes {
        &mut self.classes.compiled
    }

    /// A DeviceClass as it is.
    pub fn device_class(&self, name: &str) -> Option<&DeviceClass> {
        self.classes.devices.get(name)
    }

    /// All DeviceClasses.
    pub fn device_classes(&self) -> impl Iterator<Item = &DeviceClass> {
        self.classes.devices.values()
    }

    /// A ResourceClass as it is.
    pub fn resource_class(&self, name: &str) -> Option<&ResourceClass> {
        self.classes.resources.get(name)
    }

    /// All ResourceClasses.
    pub fn resource_classes(&self) -> impl Iterator<Item = &ResourceClass> {
        self.classes.resources.values()
    }

    /// Who holds a device of ours.
    pub fn holders(&self, device: &DeviceId) -> BTreeSet<Holder> {
        self.holders.of(device)
    }

    /// Devices of ours that two or more claims hold.
    pub fn contested(&self) -> impl Iterator<Item = &DeviceId> {
        self.holders.contested()
    }

    /// Whether two or more claims hold a device of ours.
    pub fn is_contested(&self, device: &DeviceId) -> bool {
        self.holders.is_contested(device)
    }

    /// Whether a device is offered, or since when it is not.
    pub fn presence(&self, device: &DeviceId) -> Presence {
        self.devices.presence(device)
    }

    /// The generation of each of our pools on a node.
    pub fn generations_of(&self, node: &str) -> BTreeMap<String, i64> {
        self.devices.generations_of(node)
    }

    /// Slices of ours with a device that lacks the allocator taint.
    pub fn untainted(&self) -> impl Iterator<Item = &str> {
        self.devices.untainted()
    }

    /// A change for this pod, claim or class is with the writer.
    pub fn in_flight(&self, uid: &Uid) -> bool {
        let pod = self.pods.get(uid).and_then(|entry| entry.over.as_ref());
        let claim = self.claims.get(uid).and_then(|entry| entry.over.as_ref());
        pod.is_some_and(PodOver::is_in_flight)
            || claim.is_some_and(ClaimOver::is_in_flight)
            || self.busy_classes.contains(uid)
    }

    /// How many objects of each kind are known.
    pub fn sizes(&self) -> [(&'static str, usize); 5] {
        [
            ("pods", self.pods.len()),
            ("resourceclaims", self.claims.len()),
            ("nodes", self.nodes.len()),
            ("nodestates", self.node_states.len()),
            ("resourceclasses", self.classes.resources.len()),
        ]
    }

    /// Ends what time alone ends; when to come again.
    pub fn expire(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.devices.expire(now)
    }
}
