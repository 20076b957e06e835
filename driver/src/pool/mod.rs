//! ResourceSlices become pools, and pools the devices that one node sees.
//!
//! A pool is what the slices of its highest generation say. It counts only when all of them are
//! there and no name stands twice; what does not count is kept with the reason, so that a refusal
//! can name it.

pub mod device;
pub mod layout;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::NodeSelector;
use k8s_openapi::api::resource::v1::{ResourceSlice, ResourceSliceSpec};

pub use device::{Device, DeviceError, Reach};
pub use layout::{DeviceSet, Layout, LayoutError, MAX_DEVICES};

/// Slices of the drivers that take part, indexed by the nodes that may see them.
#[derive(Default)]
pub struct Slices<'a> {
    by_node: BTreeMap<&'a str, Vec<&'a ResourceSlice>>,
    shared: Vec<&'a ResourceSlice>,
    by_pool: BTreeMap<(&'a str, &'a str), Vec<&'a ResourceSlice>>,
}

/// What one node sees.
#[derive(Debug, Default)]
pub struct NodePools {
    /// Devices by driver, pool, slice and place in the slice: the published order.
    pub devices: Vec<Device>,
    /// Pools that do not count.
    pub unusable: Vec<UnusablePool>,
}

/// A pool that does not count, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusablePool {
    /// DRA driver name.
    pub driver: String,
    /// Pool name.
    pub pool: String,
    /// Why.
    pub reason: PoolError,
}

/// Why a pool does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// Slices are missing, or there are too many.
    #[error("incomplete: {found} of {expected} slices of generation {generation} are published")]
    Incomplete {
        /// Slices of the highest generation.
        found: usize,
        /// `resourceSliceCount`.
        expected: i64,
        /// The highest generation.
        generation: i64,
    },
    /// A newer generation is published for another node.
    #[error("outdated: generation {generation} is superseded by a slice of another node")]
    Outdated {
        /// The generation this node sees.
        generation: i64,
    },
    /// Two devices have one name.
    #[error("invalid: device {0} is published twice")]
    DuplicateDevice(String),
    /// The slice uses a feature that the allocation core does not implement.
    #[error("slice {slice}: {feature} is not supported yet")]
    Unsupported {
        /// Name of the slice.
        slice: String,
        /// The field.
        feature: &'static str,
    },
    /// A device does not parse.
    #[error("slice {slice}: {source}")]
    Device {
        /// Name of the slice.
        slice: String,
        /// What is wrong.
        source: DeviceError,
    },
}

impl<'a> Slices<'a> {
    /// Indexes the slices whose driver takes part.
    pub fn new(
        slices: impl IntoIterator<Item = &'a ResourceSlice>,
        takes_part: impl Fn(&str) -> bool,
    ) -> Self {
        let mut index = Self::default();
        for slice in slices.into_iter().filter(|slice| takes_part(&slice.spec.driver)) {
            let spec = &slice.spec;
            match &spec.node_name {
                Some(node) => index.by_node.entry(node).or_default().push(slice),
                None => index.shared.push(slice),
            }
            index.by_pool.entry((&spec.driver, &spec.pool.name)).or_default().push(slice);
        }
        index
    }

    /// Names of the nodes that have slices of their own.
    pub fn node_names(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.by_node.keys().copied()
    }

    /// The pools that a node sees; `matches` tells whether a node selector selects the node.
    pub fn of_node(&self, node: &str, matches: impl Fn(&NodeSelector) -> bool) -> NodePools {
        let own = self.by_node.get(node).into_iter().flatten();
        let shared = self.shared.iter().filter(|slice| visible(&slice.spec, &matches));
        let mut pools: BTreeMap<(&str, &str), Vec<&ResourceSlice>> = BTreeMap::new();
        for slice in own.chain(shared) {
            let key = (slice.spec.driver.as_str(), slice.spec.pool.name.as_str());
            pools.entry(key).or_default().push(slice);
        }
        let mut seen = NodePools::default();
        for ((driver, pool), slices) in pools {
            match self.pool_devices((driver, pool), slices) {
                Ok(devices) => seen.devices.extend(devices),
                Err(reason) => seen.unusable.push(UnusablePool {
                    driver: driver.to_owned(),
                    pool: pool.to_owned(),
                    reason,
                }),
            }
        }
        seen
    }

    fn pool_devices(
        &self,
        pool: (&str, &str),
        mut slices: Vec<&ResourceSlice>,
    ) -> Result<Vec<Device>, PoolError> {
        let generation = highest_generation(&slices);
        slices.retain(|slice| slice.spec.pool.generation == generation);
        self.check_complete(pool, &slices, generation)?;
        slices.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let mut names = BTreeSet::new();
        let mut devices = Vec::new();
        for slice in slices {
            let slice_name = || slice.metadata.name.clone().unwrap_or_default();
            if let Some(feature) = unsupported_feature(&slice.spec) {
                return Err(PoolError::Unsupported { slice: slice_name(), feature });
            }
            for device in slice.spec.devices.iter().flatten() {
                let device = Device::parse(&slice.spec, device)
                    .map_err(|source| PoolError::Device { slice: slice_name(), source })?;
                if !names.insert(device.name.clone()) {
                    return Err(PoolError::DuplicateDevice(device.name));
                }
                devices.push(device);
            }
        }
        Ok(devices)
    }

    /// Completeness is judged on all slices of the pool, those of other nodes included.
    fn check_complete(
        &self,
        pool: (&str, &str),
        seen: &[&ResourceSlice],
        generation: i64,
    ) -> Result<(), PoolError> {
        let expected = seen.first().map_or(0, |slice| slice.spec.pool.resource_slice_count);
        let complete = |count: usize| i64::try_from(count) == Ok(expected);
        if complete(seen.len()) {
            return Ok(());
        }
        let everywhere = self.by_pool.get(&pool).map_or(&[][..], Vec::as_slice);
        if highest_generation(everywhere) > generation {
            return Err(PoolError::Outdated { generation });
        }
        let of_generation =
            everywhere.iter().filter(|slice| slice.spec.pool.generation == generation);
        let found = of_generation.count();
        if complete(found) {
            return Ok(());
        }
        Err(PoolError::Incomplete { found, expected, generation })
    }
}

fn highest_generation(slices: &[&ResourceSlice]) -> i64 {
    slices.iter().map(|slice| slice.spec.pool.generation).max().unwrap_or(0)
}

fn visible(spec: &ResourceSliceSpec, matches: &impl Fn(&NodeSelector) -> bool) -> bool {
    spec.all_nodes == Some(true)
        || spec.per_device_node_selection == Some(true)
        || spec.node_selector.as_ref().is_some_and(matches)
}

/// Features that change the answer and are not implemented: refused, never ignored.
fn unsupported_feature(spec: &ResourceSliceSpec) -> Option<&'static str> {
    if spec.shared_counters.as_ref().is_some_and(|counters| !counters.is_empty()) {
        return Some("spec.sharedCounters");
    }
    (spec.per_device_node_selection == Some(true)).then_some("spec.perDeviceNodeSelection")
}

#[cfg(test)]
mod tests;
