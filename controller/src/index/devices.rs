//! Devices: slices become the pools of each node, ours and those of other drivers.
//!
//! ```text
//! slice, taint rule, node --> pools of the node --> offered  (complete, newest generation)
//!                                              `--> gone since … (held devices that are not offered)
//! freed --15 s, where no plugin says what its node holds--> rested
//! ```

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::resource::v1::{DeviceTaintRule, ResourceSlice};
use lanemate_api::names;
use lanemate_driver::allocation::{Cluster, DeviceId};
use lanemate_driver::node_fit::NodeView;
use lanemate_driver::pool::Slices;

use super::holders::Holders;
use super::published::{Packed, Published, selects};
use crate::change::Generations;

/// How long a freed device rests where nobody says what its node still holds: measured, Unprepare comes up to 2.4 s after
/// a forced delete, and kubelet's retry after 10 to 16 s.
const REST: SignedDuration = SignedDuration::from_secs(15);

/// Whether a device is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Its pool is complete and has it.
    Present,
    /// Its slice or its pool is gone or incomplete, or it is not in there.
    GoneSince(Timestamp),
}

/// The devices of the cluster.
#[derive(Debug)]
pub struct Devices {
    published: Published,
    generations: Generations,
    ours: Cluster,
    others: Cluster,
    /// Held devices that are not offered.
    gone: BTreeMap<DeviceId, Timestamp>,
    resting: BTreeMap<DeviceId, Timestamp>,
}

impl Devices {
    /// None yet.
    pub fn new(generations: Generations) -> Self {
        Self {
            published: Published::default(),
            generations,
            ours: Cluster::default(),
            others: Cluster::default(),
            gone: BTreeMap::new(),
            resting: BTreeMap::new(),
        }
    }

    /// Our devices.
    pub fn ours(&self) -> &Cluster {
        &self.ours
    }

    /// The same, for holders.
    pub fn ours_mut(&mut self) -> &mut Cluster {
        &mut self.ours
    }

    /// Those of other drivers.
    pub fn others(&self) -> &Cluster {
        &self.others
    }

    /// The same, for holders.
    pub fn others_mut(&mut self) -> &mut Cluster {
        &mut self.others
    }

    /// Slices of ours with a device that lacks the allocator taint.
    pub fn untainted(&self) -> impl Iterator<Item = &str> {
        self.published.untainted()
    }

    /// The generation of each of our pools on a node.
    pub fn generations_of(&self, node: &str) -> BTreeMap<String, i64> {
        self.published.generations(node)
    }

    /// Whether a device is offered, or since when it is not.
    pub fn presence(&self, device: &DeviceId) -> Presence {
        match self.gone.get(device) {
            Some(since) => Presence::GoneSince(*since),
            None if self.is_offered(device) => Presence::Present,
            // Nobody holds it, so that nobody has noted since when.
            None => Presence::GoneSince(Timestamp::MAX),
        }
    }

    /// Names of all slices.
    pub fn slices(&self) -> Vec<String> {
        self.published.names()
    }

    /// Adds or replaces a slice; the nodes that it changes. None: every node.
    pub fn apply_slice(&mut self, slice: ResourceSlice) -> Touched {
        let name = slice.metadata.name.clone().unwrap_or_default();
        let mut touched = self.remove_slice(&name);
        if let Some(packed) = self.published.insert(slice) {
            touched.add(packed);
        }
        touched
    }

    /// Removes a slice; the nodes that it changes.
    pub fn remove_slice(&mut self, name: &str) -> Touched {
        let mut touched = Touched::default();
        if let Some(packed) = self.published.remove(name) {
            touched.add(&packed);
        }
        touched
    }

    /// Names of all taint rules.
    pub fn rules(&self) -> Vec<String> {
        self.published.rules()
    }

    /// Adds, replaces or removes a taint rule. All nodes are changed by that: rules are few, and written by people.
    pub fn set_rule(&mut self, name: &str, rule: Option<DeviceTaintRule>) -> Touched {
        self.published.set_rule(name, rule);
        Touched { all: true, ..Touched::default() }
    }

    /// Whether devices of other drivers may be reached by labels of nodes.
    pub fn depends_on_labels(&self) -> bool {
        self.published.has_shared()
    }

    /// Reads the pools of a node anew. A node that is no Node object offers nothing: no pod can be there.
    pub fn rebuild(
        &mut self,
        node: &str,
        view: Option<&NodeView>,
        holders: &Holders,
        now: Timestamp,
    ) {
        for ours in [true, false] {
            let slices = self.published.of_node(node, ours);
            let pools =
                Slices::new(&slices, |_| true).of_node(node, |selector| selects(selector, view));
            let cluster = if ours { &mut self.ours } else { &mut self.others };
            let is_empty = pools.devices.is_empty() && pools.unusable.is_empty();
            if view.is_none() || is_empty {
                cluster.remove_node(node);
            } else if let Err(error) = cluster.apply_node(node, pools) {
                tracing::warn!(node, %error, "the devices of a node cannot be used");
                cluster.remove_node(node);
            }
        }
        let held: Vec<DeviceId> = holders.of_pool(names::DRIVER, node).cloned().collect();
        held.iter().for_each(|device| self.note_presence(device, now));
    }

    /// Tells the writer which generations count.
    pub fn note_generations(&self, pools: &BTreeSet<String>) {
        for pool in pools {
            let newest = self.published.newest(pool);
            self.generations.note(pool, newest);
        }
    }

    /// Notes since when a held device is not offered.
    pub fn note_presence(&mut self, device: &DeviceId, now: Timestamp) {
        if self.is_offered(device) {
            self.gone.remove(device);
        } else {
            self.gone.entry(device.clone()).or_insert(now);
        }
    }

    /// A device has no holder any more.
    pub fn freed(&mut self, device: &DeviceId, is_told: bool, now: Timestamp) {
        self.gone.remove(device);
        if !is_told {
            let until = now.checked_add(REST).unwrap_or(now);
            self.resting.insert(device.clone(), until);
            self.ours.set_resting(std::slice::from_ref(device), true);
        }
    }

    /// Ends the rest of devices whose time has come; when the next one comes.
    pub fn expire(&mut self, now: Timestamp) -> Option<Timestamp> {
        let rested: Vec<DeviceId> = self
            .resting
            .iter()
            .filter(|(_, until)| **until <= now)
            .map(|(it, _)| it.clone())
            .collect();
        self.ours.set_resting(&rested, false);
        self.resting.retain(|_, until| *until > now);
        self.resting.values().min().copied()
    }

    fn is_offered(&self, (driver, pool, name): &DeviceId) -> bool {
        self.ours.node(pool).is_some_and(|node| {
            let mut devices = node.layout.devices.iter();
            devices.any(|device| device.name == *name && device.driver == *driver)
        })
    }
}

/// Nodes whose pools a change touches.
#[derive(Debug, Default)]
pub struct Touched {
    /// These.
    pub nodes: BTreeSet<String>,
    /// All of them.
    pub all: bool,
    /// Pools of ours.
    pub pools: BTreeSet<String>,
}

impl Touched {
    fn add(&mut self, slice: &Packed) {
        match &slice.node {
            Some(node) => drop(self.nodes.insert(node.clone())),
            None => self.all = true,
        }
        if slice.driver == names::DRIVER {
            self.pools.insert(slice.pool.clone());
        }
    }

    /// Both.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.nodes.extend(other.nodes);
        self.pools.extend(other.pools);
        self.all |= other.all;
        self
    }
}
