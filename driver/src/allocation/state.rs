//! What every node has and who holds it: `reserve` takes devices, `release` gives them back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::resource::v1::DeviceRequestAllocationResult;

use crate::allocation::change_log::ChangeLog;
use crate::claim::filter::{self, FilterError, Step};
use crate::pool::{DeviceSet, Layout, LayoutError, NodePools, UnusablePool, layout::Identity};

/// The nodes of a cluster, by name.
#[derive(Debug, Default)]
pub struct Cluster {
    nodes: BTreeMap<Arc<str>, Node>,
    /// Layouts in use, with numbers that are never used again: nodes that are alike share one.
    layouts: BTreeMap<usize, (Arc<Layout>, Arc<Positions>)>,
    next_layout: usize,
    /// Nodes that see a pool: its own, or several that share it.
    by_pool: BTreeMap<String, BTreeSet<Arc<str>>>,
    /// Who holds each device that is held, on nodes that are not known (yet) too.
    held: BTreeMap<DeviceId, String>,
    /// Devices that rest, on nodes that are not known (yet) too.
    resting: BTreeSet<DeviceId>,
    capacity_version: u64,
    changes: ChangeLog,
}

/// A device by driver, pool and name.
pub type DeviceId = (String, String, String);

/// Positions of the devices with a name; pools may have a name in common.
type Positions = BTreeMap<String, Vec<usize>>;

/// The device that a result of an allocation names.
pub fn device_of(result: &DeviceRequestAllocationResult) -> DeviceId {
    (result.driver.clone(), result.pool.clone(), result.device.clone())
}

/// One node.
#[derive(Debug)]
pub struct Node {
    /// Number of the layout.
    pub layout_id: usize,
    /// Devices, shared with nodes that are alike.
    pub layout: Arc<Layout>,
    /// What is unique to the node.
    pub identity: Identity,
    /// Pools that do not count.
    pub unusable: Vec<UnusablePool>,
    /// Devices that no claim holds.
    pub free: DeviceSet,
    /// Devices freed a short while ago.
    pub resting: DeviceSet,
    /// The claim that holds each device that is held, as `namespace/name`.
    pub holders: BTreeMap<usize, String>,
    positions: Arc<Positions>,
}

impl Cluster {
    /// Adds or replaces a node. Devices that claims hold already are not free.
    pub fn apply_node(&mut self, name: &str, mut seen: NodePools) -> Result<(), LayoutError> {
        let unusable = std::mem::take(&mut seen.unusable);
        let (layout, identity) = Layout::new(seen)?;
        let (layout_id, layout, positions) = self.share(layout);
        let mut node = Node {
            layout_id,
            free: (0..layout.len()).collect(),
            resting: DeviceSet::default(),
            holders: BTreeMap::new(),
            layout,
            identity,
            unusable,
            positions,
        };
        for position in 0..node.layout.len() {
            let device = node.device_id(position);
            if let Some(holder) = self.held.get(&device) {
                node.hold(position, holder);
            }
            if self.resting.contains(&device) {
                node.resting.insert(position);
            }
        }
        self.remove_node(name);
        let name: Arc<str> = Arc::from(name);
        for pool in &node.identity.pools {
            self.by_pool.entry(pool.clone()).or_default().insert(Arc::clone(&name));
        }
        self.nodes.insert(Arc::clone(&name), node);
        self.capacity_version += 1;
        self.changes.push(name);
        Ok(())
    }

    /// Forgets a node. What claims hold there stays held, should it come back.
    pub fn remove_node(&mut self, name: &str) {
        let Some((name, node)) = self.nodes.remove_entry(name) else { return };
        for pool in &node.identity.pools {
            if let Some(seen_by) = self.by_pool.get_mut(pool) {
                seen_by.remove(&name);
                if seen_by.is_empty() {
                    self.by_pool.remove(pool);
                }
            }
        }
        self.capacity_version += 1;
        self.changes.push(name);
    }

    fn share(&mut self, layout: Layout) -> (usize, Arc<Layout>, Arc<Positions>) {
        self.layouts.retain(|_, (known, _)| Arc::strong_count(known) > 1);
        let same = self.layouts.iter().find(|(_, (known, _))| known.is_like(&layout));
        if let Some((number, (known, positions))) = same {
            return (*number, Arc::clone(known), Arc::clone(positions));
        }
        let mut positions = Positions::new();
        for (position, device) in layout.devices.iter().enumerate() {
            positions.entry(device.name.clone()).or_default().push(position);
        }
        let (number, layout, positions) = (self.next_layout, Arc::new(layout), Arc::new(positions));
        self.next_layout += 1;
        self.layouts.insert(number, (Arc::clone(&layout), Arc::clone(&positions)));
        (number, layout, positions)
    }

    /// A node by name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name)
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes.iter().map(|(name, node)| (&**name, node))
    }

    /// The claim (`namespace/name`) that holds a device, on a node that is known or not.
    pub fn holder(&self, device: &DeviceId) -> Option<&str> {
        self.held.get(device).map(String::as_str)
    }

    /// Every device that is held, and by which claim.
    pub fn held(&self) -> impl Iterator<Item = (&DeviceId, &str)> {
        self.held.iter().map(|(device, holder)| (device, holder.as_str()))
    }

    /// Rises whenever a claim that was refused might fit: when a device is freed, a node comes, changes or goes, or a
    /// device begins or ends to rest. A reservation leaves it alone.
    pub fn capacity_version(&self) -> u64 {
        self.capacity_version
    }

    /// What changed on nodes, for those who keep answers.
    pub(super) fn changes(&self) -> &ChangeLog {
        &self.changes
    }

    /// Marks devices as held by a claim (`namespace/name`), wherever they are. Returns those that another claim holds
    /// already: they stay with it.
    pub fn reserve(&mut self, holder: &str, devices: &[DeviceId]) -> Vec<DeviceId> {
        let mut taken = Vec::new();
        for device in devices {
            match self.held.get(device) {
                Some(other) if other == holder => {}
                Some(_) => taken.push(device.clone()),
                None => {
                    self.held.insert(device.clone(), holder.to_owned());
                    self.visit(device, |node, position| node.hold(position, holder));
                }
            }
        }
        taken
    }

    /// Gives devices back that a claim holds; what another claim holds stays with it.
    pub fn release(&mut self, holder: &str, devices: &[DeviceId]) {
        for device in devices {
            if self.held.get(device).is_some_and(|by| by == holder) {
                self.held.remove(device);
                self.capacity_version += 1;
                self.visit(device, Node::free);
            }
        }
    }

    /// Lets devices rest, or ends their rest: of grants that are equally good one that touches none is taken.
    pub fn set_resting(&mut self, devices: &[DeviceId], rests: bool) {
        for device in devices {
            let changed = if rests {
                self.resting.insert(device.clone())
            } else {
                self.resting.remove(device)
            };
            if changed {
                self.capacity_version += 1;
                self.visit(device, |node, position| node.rest(position, rests));
            }
        }
    }

    /// Acts on a device on every node that sees it.
    fn visit(&mut self, device: &DeviceId, act: impl Fn(&mut Node, usize)) {
        for name in self.by_pool.get(&device.1).into_iter().flatten() {
            let Some(node) = self.nodes.get_mut(name) else { continue };
            if let Some(position) = node.find(device) {
                act(node, position);
                self.changes.push(Arc::clone(name));
            }
        }
    }
}

impl Node {
    /// Driver, pool and name of a device.
    pub fn device_id(&self, position: usize) -> DeviceId {
        let device = &self.layout.devices[position];
        (device.driver.clone(), self.pool(position).to_owned(), device.name.clone())
    }

    /// The pool of a device.
    pub fn pool(&self, position: usize) -> &str {
        &self.identity.pools[usize::from(self.layout.pools[position])]
    }

    /// Whether a selector matches a device. What is unique to the node is added only for a selector that may read it.
    ///
    /// # Errors
    /// When the selector fails on the device.
    pub fn matches(&self, step: &Step, position: usize) -> Result<bool, FilterError> {
        let device = &self.layout.devices[position];
        if !step.reads_identity {
            return filter::matches(step, device, &device.attributes);
        }
        let mut all = device.attributes.clone();
        all.extend(self.identity.attributes[position].clone());
        filter::matches(step, device, &all)
    }

    fn find(&self, (driver, pool, name): &DeviceId) -> Option<usize> {
        let named = self.positions.get(name)?.iter().copied();
        let mut same = named.filter(|position| self.layout.devices[*position].driver == *driver);
        same.find(|position| self.pool(*position) == pool)
    }

    fn hold(&mut self, position: usize, holder: &str) {
        self.free.remove(position);
        self.holders.insert(position, holder.to_owned());
    }

    fn free(&mut self, position: usize) {
        self.free.insert(position);
        self.holders.remove(&position);
    }

    fn rest(&mut self, position: usize, rests: bool) {
        if rests {
            self.resting.insert(position);
        } else {
            self.resting.remove(position);
        }
    }
}
