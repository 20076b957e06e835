//! ResourceSlices as they were published, packed: five thousand nodes publish ninety thousand devices.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::NodeSelector;
use k8s_openapi::api::resource::v1::{DeviceTaint, DeviceTaintRule, ResourceSlice};
use lanemate_api::names;

/// A slice, as its JSON: a tenth of what the parsed object takes, and read only when its node changes.
#[derive(Debug)]
pub struct Packed {
    /// DRA driver name.
    pub driver: String,
    /// Pool name.
    pub pool: String,
    /// Its generation.
    pub generation: i64,
    /// The node that published it; absent for devices that several nodes reach.
    pub node: Option<String>,
    /// A device of ours lacks the allocator taint.
    is_untainted: bool,
    bytes: Box<[u8]>,
}

/// All slices, by name and by where they count.
#[derive(Debug, Default)]
pub struct Published {
    slices: BTreeMap<String, Packed>,
    by_node: BTreeMap<String, BTreeSet<String>>,
    by_pool: BTreeMap<(String, String), BTreeSet<String>>,
    shared: BTreeSet<String>,
    /// Slices of ours with a device that lacks the allocator taint.
    untainted: BTreeSet<String>,
    rules: BTreeMap<String, DeviceTaintRule>,
}

impl Packed {
    fn new(mut slice: ResourceSlice) -> Option<Self> {
        slice.metadata.managed_fields = None;
        let spec = &slice.spec;
        let tainted = |taint: &DeviceTaint| {
            taint.key == names::ALLOCATOR_TAINT_KEY
                && taint.value.as_deref() == Some(names::ALLOCATOR_TAINT_VALUE)
                && taint.effect == "NoSchedule"
        };
        let mut devices = spec.devices.iter().flatten();
        Some(Self {
            driver: spec.driver.clone(),
            pool: spec.pool.name.clone(),
            generation: spec.pool.generation,
            node: spec.node_name.clone().filter(|node| !node.is_empty()),
            is_untainted: spec.driver == names::DRIVER
                && devices.any(|device| !device.taints.iter().flatten().any(tainted)),
            bytes: serde_json::to_vec(&slice).ok()?.into(),
        })
    }

    fn unpack(&self) -> Option<ResourceSlice> {
        serde_json::from_slice(&self.bytes).ok()
    }
}

impl Published {
    /// Names of all slices.
    pub fn names(&self) -> Vec<String> {
        self.slices.keys().cloned().collect()
    }

    /// Slices of ours with a device that lacks the allocator taint. Asked for in every round.
    pub fn untainted(&self) -> impl Iterator<Item = &str> {
        self.untainted.iter().map(String::as_str)
    }

    /// Adds a slice that is not there.
    pub fn insert(&mut self, slice: ResourceSlice) -> Option<&Packed> {
        let name = slice.metadata.name.clone()?;
        let packed = Packed::new(slice)?;
        let pool = (packed.driver.clone(), packed.pool.clone());
        self.by_pool.entry(pool).or_default().insert(name.clone());
        if packed.is_untainted {
            self.untainted.insert(name.clone());
        }
        match &packed.node {
            Some(node) => self.by_node.entry(node.clone()).or_default().insert(name.clone()),
            None => self.shared.insert(name.clone()),
        };
        Some(self.slices.entry(name).insert_entry(packed).into_mut())
    }

    /// Removes a slice.
    pub fn remove(&mut self, name: &str) -> Option<Packed> {
        let packed = self.slices.remove(name)?;
        self.shared.remove(name);
        self.untainted.remove(name);
        if let Some(node) = &packed.node {
            take(&mut self.by_node, node, name);
        }
        take(&mut self.by_pool, &(packed.driver.clone(), packed.pool.clone()), name);
        Some(packed)
    }

    /// Whether some slice counts for several nodes.
    pub fn has_shared(&self) -> bool {
        !self.shared.is_empty()
    }

    /// Slices of our driver or of the others that a node may see, and what else is in their pools; with the taints of
    /// rules.
    pub fn of_node(&self, node: &str, ours: bool) -> Vec<ResourceSlice> {
        let own = self.by_node.get(node).into_iter().flatten();
        let named = own.chain(&self.shared).filter_map(|name| self.slices.get(name));
        let of_side = named.filter(|slice| (slice.driver == names::DRIVER) == ours);
        let pools: BTreeSet<(String, String)> =
            of_side.map(|slice| (slice.driver.clone(), slice.pool.clone())).collect();
        let names: BTreeSet<&String> =
            pools.iter().filter_map(|pool| self.by_pool.get(pool)).flatten().collect();
        let slices = names.into_iter().filter_map(|name| self.slices.get(name)?.unpack());
        slices.map(|slice| self.tainted(slice)).collect()
    }

    /// The generations of our pools on a node.
    pub fn generations(&self, node: &str) -> BTreeMap<String, i64> {
        let own = self.by_node.get(node).into_iter().flatten();
        let mut generations = BTreeMap::new();
        for slice in own.filter_map(|name| self.slices.get(name)) {
            if slice.driver == names::DRIVER {
                let newest = generations.entry(slice.pool.clone()).or_insert(slice.generation);
                *newest = slice.generation.max(*newest);
            }
        }
        generations
    }

    /// The newest generation of a pool of ours.
    pub fn newest(&self, pool: &str) -> Option<i64> {
        let names = self.by_pool.get(&(names::DRIVER.to_owned(), pool.to_owned()))?;
        names.iter().filter_map(|name| self.slices.get(name)).map(|slice| slice.generation).max()
    }

    /// Adds, replaces or removes a rule.
    pub fn set_rule(&mut self, name: &str, rule: Option<DeviceTaintRule>) {
        match rule {
            Some(rule) => self.rules.insert(name.to_owned(), rule),
            None => self.rules.remove(name),
        };
    }

    /// Names of all rules.
    pub fn rules(&self) -> Vec<String> {
        self.rules.keys().cloned().collect()
    }

    /// Lays the taints of rules over a slice, as kube-scheduler does.
    fn tainted(&self, mut slice: ResourceSlice) -> ResourceSlice {
        let (driver, pool) = (slice.spec.driver.clone(), slice.spec.pool.name.clone());
        for rule in self.rules.values() {
            let selector = rule.spec.device_selector.as_ref();
            // Upstream's rule without a selector selects nothing; one with an empty selector, everything.
            let Some(selector) = selector else { continue };
            let meets = |wanted: &Option<String>, found: &str| {
                wanted.as_deref().is_none_or(|wanted| wanted == found)
            };
            if !meets(&selector.driver, &driver) || !meets(&selector.pool, &pool) {
                continue;
            }
            for device in slice.spec.devices.iter_mut().flatten() {
                if meets(&selector.device, &device.name) {
                    device.taints.get_or_insert_default().push(rule.spec.taint.clone());
                }
            }
        }
        slice
    }
}

fn take<K: Ord>(index: &mut BTreeMap<K, BTreeSet<String>>, key: &K, name: &str) {
    if let Some(names) = index.get_mut(key) {
        names.remove(name);
        if names.is_empty() {
            index.remove(key);
        }
    }
}

/// A selector that nobody can judge selects no node.
pub fn selects(
    selector: &NodeSelector,
    view: Option<&lanemate_driver::node_fit::NodeView>,
) -> bool {
    view.is_some_and(|view| lanemate_driver::node_fit::node_selector_matches(selector, view))
}
