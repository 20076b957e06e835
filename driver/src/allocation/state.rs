//! What every node has and who holds it: `reserve` takes devices, `release` gives them back.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::resource::v1::DeviceRequestAllocationResult;

use crate::claim::filter::{self, FilterError, Step};
use crate::pool::{DeviceSet, Layout, LayoutError, NodePools, UnusablePool, layout::Identity};

/// The nodes of a cluster, by name.
#[derive(Debug, Default)]
pub struct Cluster {
    nodes: BTreeMap<String, Node>,
    /// Layouts in use, with numbers that are never used again: nodes that are alike share one.
    layouts: BTreeMap<usize, Arc<Layout>>,
    next_layout: usize,
    /// Who holds each device that is held, on nodes that are not known (yet) too.
    held: BTreeMap<DeviceId, String>,
}

/// A device by driver, pool and name.
pub type DeviceId = (String, String, String);

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
}

impl Cluster {
    /// Adds or replaces a node. Devices that claims hold already are not free.
    pub fn apply_node(&mut self, name: &str, mut seen: NodePools) -> Result<(), LayoutError> {
        let unusable = std::mem::take(&mut seen.unusable);
        let (layout, identity) = Layout::new(seen)?;
        let (layout_id, layout) = self.share(layout);
        let mut node = Node {
            layout_id,
            free: (0..layout.len()).collect(),
            resting: DeviceSet::default(),
            holders: BTreeMap::new(),
            layout,
            identity,
            unusable,
        };
        for position in 0..node.layout.len() {
            if let Some(holder) = self.held.get(&node.device_id(position)) {
                node.hold(position, holder);
            }
        }
        self.nodes.insert(name.to_owned(), node);
        Ok(())
    }

    fn share(&mut self, layout: Layout) -> (usize, Arc<Layout>) {
        self.layouts.retain(|_, known| Arc::strong_count(known) > 1);
        let same = self.layouts.iter().find(|(_, known)| known.is_like(&layout));
        if let Some((number, known)) = same {
            return (*number, Arc::clone(known));
        }
        let (number, layout) = (self.next_layout, Arc::new(layout));
        self.next_layout += 1;
        self.layouts.insert(number, Arc::clone(&layout));
        (number, layout)
    }

    /// A node by name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name)
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes.iter().map(|(name, node)| (name.as_str(), node))
    }

    /// Marks devices as held by a claim (`namespace/name`), wherever they are. Returns those that another claim holds
    /// already: they stay with it.
    pub fn reserve(&mut self, holder: &str, devices: &[DeviceId]) -> Vec<DeviceId> {
        let mut taken = Vec::new();
        for device in devices {
            match self.held.get(device) {
                Some(other) if other != holder => taken.push(device.clone()),
                _ => {
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
                self.visit(device, Node::free);
            }
        }
    }

    /// A pool is usually named after its node, but a device of a shared pool is on several nodes.
    fn visit(&mut self, device: &DeviceId, act: impl Fn(&mut Node, usize)) {
        let own = self.nodes.get_mut(&device.1).and_then(|node| Some((node.find(device)?, node)));
        if let Some((position, node)) = own {
            act(node, position);
            return;
        }
        for node in self.nodes.values_mut() {
            if let Some(position) = node.find(device) {
                act(node, position);
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
        self.layout.devices.iter().enumerate().position(|(position, device)| {
            device.name == *name && device.driver == *driver && self.pool(position) == pool
        })
    }

    fn hold(&mut self, position: usize, holder: &str) {
        self.free.remove(position);
        self.holders.insert(position, holder.to_owned());
    }

    fn free(&mut self, position: usize) {
        self.free.insert(position);
        self.holders.remove(&position);
    }
}
