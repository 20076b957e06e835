//! Where decisions take place: nodes with their devices, who holds them, and the classes.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{anyhow, bail};
use k8s_openapi::api::resource::v1::{AllocationResult, ResourceClaim, ResourceSlice};
use lanemate_api::{builtin_device_classes, names};
use lanemate_driver::allocation::{Cluster, DeviceId, device_of};
use lanemate_driver::claim::Classes;
use lanemate_driver::node_fit::{NodeView, node_selector_matches};
use lanemate_driver::pending::{ClaimRef, allocation_of};
use lanemate_driver::pool::Slices;

use crate::objects::Objects;

/// Nodes, devices, holders and classes.
pub struct Scene {
    /// Every node that may be chosen, by name.
    pub nodes: BTreeMap<String, NodeView>,
    /// Their devices, and who holds them.
    pub cluster: Cluster,
    /// All classes, the built-in ones included.
    pub classes: Classes,
    /// Drivers whose slices take no part.
    pub left_out: BTreeSet<String>,
    /// Whether every driver takes part.
    any_driver: bool,
}

/// What is odd, but stops nothing.
pub type Warnings = Vec<String>;

impl Scene {
    /// The scene that objects describe; `machines` are the slices of captured machines, by node.
    pub fn new(
        objects: &Objects,
        machines: &BTreeMap<String, Vec<ResourceSlice>>,
        any_driver: bool,
    ) -> anyhow::Result<(Self, Warnings)> {
        pools_differ(objects, machines)?;
        let slices = || objects.slices.iter().chain(machines.values().flatten());
        let mut scene = Self {
            nodes: nodes(objects, machines),
            cluster: Cluster::default(),
            classes: classes(objects),
            left_out: BTreeSet::new(),
            any_driver,
        };
        let drivers = slices().map(|slice| &slice.spec.driver);
        scene.left_out = drivers.filter(|driver| !scene.takes_part(driver)).cloned().collect();
        scene.place_devices(slices())?;
        let warnings = scene.hold_devices(objects);
        Ok((scene, warnings))
    }

    fn takes_part(&self, driver: &str) -> bool {
        self.any_driver || driver == names::DRIVER
    }

    fn place_devices<'a>(
        &mut self,
        slices: impl Iterator<Item = &'a ResourceSlice>,
    ) -> anyhow::Result<()> {
        let index = Slices::new(slices, |driver| self.takes_part(driver));
        for (name, view) in &self.nodes {
            let pools = index.of_node(name, |selector| node_selector_matches(selector, view));
            let applied = self.cluster.apply_node(name, pools);
            applied.map_err(|error| anyhow!("node {name}: {error}"))?;
        }
        Ok(())
    }

    /// Devices of claims that are allocated already are not free, broken claims included.
    fn hold_devices(&mut self, objects: &Objects) -> Warnings {
        let broken = objects.broken_claims.iter().filter_map(|broken| broken.claim.as_deref());
        let mut claims: Vec<&ResourceClaim> = objects.claims.iter().chain(broken).collect();
        claims.sort_by_cached_key(|claim| ClaimRef::of(&claim.metadata));
        let mut holders = BTreeMap::<DeviceId, String>::new();
        let mut warnings = Warnings::new();
        for claim in claims {
            let Some(allocation) = allocation_of(claim) else { continue };
            let holder = ClaimRef::of(&claim.metadata).to_string();
            let devices = self.held_by(allocation);
            for device in self.cluster.reserve(&holder, &devices) {
                let first = holders.get(&device).map_or("another claim", String::as_str);
                let (driver, pool, name) = &device;
                warnings.push(format!(
                    "device {driver}/{pool}/{name} is allocated to {first} and to {holder}"
                ));
            }
            for device in devices {
                holders.entry(device).or_insert_with(|| holder.clone());
            }
        }
        warnings
    }

    /// Devices that somebody holds beside what claims say are not free.
    #[cfg(feature = "cluster")]
    pub fn hold(&mut self, holder: &str, devices: &[DeviceId]) {
        // What a claim holds as well stays with it.
        self.cluster.reserve(holder, devices);
    }

    /// Devices that an allocation takes away from others: those seen by an administrator are not,
    /// and shares of a device do not take all of it.
    fn held_by(&self, allocation: &AllocationResult) -> Vec<DeviceId> {
        let results =
            allocation.devices.iter().flat_map(|devices| devices.results.iter().flatten());
        let held = results.filter(|result| {
            self.takes_part(&result.driver)
                && result.admin_access != Some(true)
                && result.share_id.is_none()
        });
        held.map(device_of).collect()
    }
}

/// A captured machine is no node that has slices of our driver in the files already.
fn pools_differ(
    objects: &Objects,
    machines: &BTreeMap<String, Vec<ResourceSlice>>,
) -> anyhow::Result<()> {
    let ours = objects.slices.iter().filter(|slice| slice.spec.driver == names::DRIVER);
    let mut pools = ours.map(|slice| &slice.spec.pool.name);
    match pools.find(|pool| machines.contains_key(*pool)) {
        Some(pool) => bail!(
            "--host: {pool:?} has ResourceSlices of {} in the files already: expected a name of \
             its own; --host NAME=FILE gives another",
            names::DRIVER
        ),
        None => Ok(()),
    }
}

/// Node objects, captured machines, and names that slices mention; of the last two only the name is
/// known.
fn nodes(
    objects: &Objects,
    machines: &BTreeMap<String, Vec<ResourceSlice>>,
) -> BTreeMap<String, NodeView> {
    let of_slices = objects.slices.iter().filter_map(|slice| slice.spec.node_name.as_ref());
    let named = machines.keys().chain(of_slices);
    let mut nodes: BTreeMap<String, NodeView> =
        named.map(|name| (name.clone(), NodeView::named(name))).collect();
    nodes.extend(objects.nodes.iter().map(|node| {
        let view = NodeView::of(node);
        (view.name.clone(), view)
    }));
    nodes
}

fn classes(objects: &Objects) -> Classes {
    let mut classes = Classes::default();
    for class in builtin_device_classes().iter().chain(&objects.device_classes) {
        classes.apply_device_class(class.clone());
    }
    for class in &objects.resource_classes {
        classes.apply_resource_class(class.clone());
    }
    classes
}
