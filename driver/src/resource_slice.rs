//! The ResourceSlices of an inventory. Same inventory, same bytes.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{
    Device, DeviceAttribute, DeviceCapacity, DeviceTaint, ResourcePool, ResourceSlice,
    ResourceSliceSpec,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use lanemate_api::names;

use crate::attribute::AttributeValue;
use crate::inventory::{Inventory, OfferedDevice};
use crate::stable_hash::stable_hash;

/// Who allocates the devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Our controller: every device carries a taint that keeps kube-scheduler away.
    #[default]
    Controller,
    /// kube-scheduler.
    Scheduler,
}

/// How to render.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderOptions {
    /// Who allocates.
    pub mode: Mode,
    /// Generation of the pool.
    pub generation: i64,
}

/// Devices in one slice (resource.k8s.io/v1, `ResourceSliceSpec.devices`).
const MAX_DEVICES: usize = 128;
/// The same where any device has taints, counters or list attributes.
const MAX_RICH_DEVICES: usize = 64;
/// Bytes of an object's name.
const MAX_NAME: usize = 253;

/// The slices of a node's pool, in publishing order. A node that offers nothing has one empty slice:
/// it says that the plugin is there.
pub fn render(inventory: &Inventory, options: RenderOptions) -> Vec<ResourceSlice> {
    let devices: Vec<Device> =
        inventory.devices.iter().map(|offered| device(offered, options.mode)).collect();
    let limit = if devices.iter().any(is_rich) { MAX_RICH_DEVICES } else { MAX_DEVICES };
    let mut chunks: Vec<Vec<Device>> = devices.chunks(limit).map(<[Device]>::to_vec).collect();
    if chunks.is_empty() {
        chunks.push(Vec::new());
    }
    let count = i64::try_from(chunks.len()).unwrap_or(i64::MAX);
    let pool = ResourcePool {
        generation: options.generation,
        name: inventory.node.clone(),
        resource_slice_count: count,
    };
    let slice = |(index, devices)| ResourceSlice {
        metadata: ObjectMeta {
            name: Some(slice_name(index, &inventory.node)),
            ..ObjectMeta::default()
        },
        spec: ResourceSliceSpec {
            devices: Some(devices),
            driver: names::DRIVER.to_owned(),
            node_name: Some(inventory.node.clone()),
            pool: pool.clone(),
            ..ResourceSliceSpec::default()
        },
    };
    chunks.into_iter().enumerate().map(slice).collect()
}

/// `<5 hexadecimal digits>-lanemate.dev-<node>`: allocators read slices in the order of their
/// names, and that must be the packing order. A node name that is too long is cut and marked by a hash.
fn slice_name(index: usize, node: &str) -> String {
    let prefix = format!("{index:05x}-{}-", names::DRIVER);
    if prefix.len() + node.len() <= MAX_NAME {
        return prefix + node;
    }
    let mark = format!("-{:016x}", stable_hash(node.as_bytes()));
    let room = MAX_NAME - prefix.len() - mark.len();
    let kept = node.get(..node.floor_char_boundary(room)).unwrap_or_default();
    format!("{prefix}{}{mark}", kept.trim_end_matches(['.', '-']))
}

fn is_rich(device: &Device) -> bool {
    let is_list = |value: &DeviceAttribute| {
        value.bools.is_some()
            || value.ints.is_some()
            || value.strings.is_some()
            || value.versions.is_some()
    };
    device.taints.is_some()
        || device.consumes_counters.is_some()
        || device.attributes.iter().flat_map(BTreeMap::values).any(is_list)
}

fn device(offered: &OfferedDevice, mode: Mode) -> Device {
    let attributes = offered.attributes.iter().map(|(name, value)| (name.clone(), wire(value)));
    let attributes: BTreeMap<String, DeviceAttribute> = attributes.collect();
    let capacity = offered.capacity.iter().map(|(name, value)| {
        let value = Quantity(value.to_string());
        (name.clone(), DeviceCapacity { request_policy: None, value })
    });
    let capacity: BTreeMap<String, DeviceCapacity> = capacity.collect();
    let taints = taints(offered, mode);
    Device {
        name: offered.name.clone(),
        attributes: (!attributes.is_empty()).then_some(attributes),
        capacity: (!capacity.is_empty()).then_some(capacity),
        taints: (!taints.is_empty()).then_some(taints),
        ..Device::default()
    }
}

/// The allocator's own taint stands first.
fn taints(offered: &OfferedDevice, mode: Mode) -> Vec<DeviceTaint> {
    let own = (mode == Mode::Controller).then(|| DeviceTaint {
        key: names::ALLOCATOR_TAINT_KEY.to_owned(),
        value: Some(names::ALLOCATOR_TAINT_VALUE.to_owned()),
        effect: "NoSchedule".to_owned(),
        time_added: None,
    });
    let others = offered.taints.iter().map(|taint| DeviceTaint {
        key: taint.key.clone(),
        value: taint.value.clone(),
        effect: taint.effect.clone(),
        time_added: None,
    });
    own.into_iter().chain(others).collect()
}

fn wire(value: &AttributeValue) -> DeviceAttribute {
    let mut wire = DeviceAttribute::default();
    match value.clone() {
        AttributeValue::Bool(value) => wire.bool = Some(value),
        AttributeValue::Int(value) => wire.int = Some(value),
        AttributeValue::String(value) => wire.string = Some(value),
        AttributeValue::Version(value) => wire.version = Some(value),
        AttributeValue::Bools(values) => wire.bools = Some(values),
        AttributeValue::Ints(values) => wire.ints = Some(values),
        AttributeValue::Strings(values) => wire.strings = Some(values),
        AttributeValue::Versions(values) => wire.versions = Some(values),
    }
    wire
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Kind;
    use crate::ids::PciAddress;

    fn inventory(node: &str, devices: usize) -> Inventory {
        let device = |number: usize| {
            let domain = u32::try_from(number).unwrap();
            let address = PciAddress { domain, bus: 0, device: 0, function: 0 };
            OfferedDevice {
                name: Kind::Nic.device_name(address),
                address,
                kind: Kind::Nic,
                attributes: BTreeMap::new(),
                capacity: BTreeMap::new(),
                taints: Vec::new(),
            }
        };
        Inventory {
            node: node.to_owned(),
            devices: (0..devices).map(device).collect(),
            ..Inventory::default()
        }
    }

    fn check(mode: Mode, devices: usize, expect: &[usize]) {
        let slices = render(&inventory("n1", devices), RenderOptions { mode, generation: 3 });
        let sizes: Vec<usize> =
            slices.iter().map(|slice| slice.spec.devices.as_ref().map_or(0, Vec::len)).collect();
        assert_eq!(sizes, expect);
        for slice in &slices {
            assert_eq!(slice.spec.pool.resource_slice_count, expect.len() as i64);
            assert_eq!((slice.spec.pool.generation, slice.spec.pool.name.as_str()), (3, "n1"));
        }
    }

    #[test]
    fn slices_hold_128_devices_or_64_with_taints() {
        for (devices, untainted, tainted) in [
            (0, &[0][..], &[0][..]),
            (1, &[1], &[1]),
            (64, &[64], &[64]),
            (65, &[65], &[64, 1]),
            (128, &[128], &[64, 64]),
            (129, &[128, 1], &[64, 64, 1]),
            (300, &[128, 128, 44], &[64, 64, 64, 64, 44]),
        ] {
            check(Mode::Scheduler, devices, untainted);
            check(Mode::Controller, devices, tainted);
        }
    }

    #[test]
    fn one_tainted_device_makes_all_slices_small() {
        let mut inventory = inventory("n1", 129);
        let taint = crate::inventory::Taint {
            key: names::PORT_DOWN_TAINT_KEY.to_owned(),
            value: None,
            effect: "NoSchedule".to_owned(),
        };
        inventory.devices[128].taints.push(taint);
        let slices = render(&inventory, RenderOptions { mode: Mode::Scheduler, generation: 1 });
        let devices: Vec<Device> =
            slices.iter().flat_map(|slice| slice.spec.devices.clone().unwrap()).collect();
        let sizes: Vec<usize> =
            slices.iter().map(|slice| slice.spec.devices.as_ref().unwrap().len()).collect();
        assert_eq!(sizes, [64, 64, 1]);
        let names = inventory.devices.iter().map(|device| &device.name);
        assert!(devices.iter().map(|device| &device.name).eq(names));
    }

    #[test]
    fn names_sort_in_publishing_order_and_fit() {
        let names = |node: &str| -> Vec<String> {
            let options = RenderOptions { mode: Mode::Controller, generation: 1 };
            let slices = render(&inventory(node, 1100), options);
            slices.into_iter().filter_map(|slice| slice.metadata.name).collect()
        };
        let short = names("node-1.example.com");
        assert_eq!(short[0], "00000-lanemate.dev-node-1.example.com");
        assert_eq!(short[17], "00011-lanemate.dev-node-1.example.com");
        assert!(short.is_sorted());
        let label = "x".repeat(61) + "-a";
        let long = [label.as_str(); 4].join(".")[..253].to_owned();
        let (one, other) = (names(&long), names(&(long[..252].to_owned() + "y")));
        assert!(one.iter().all(|name| name.len() <= 253 && !name.contains(".-")), "{one:?}");
        assert_ne!(one[0], other[0]);
    }

    #[test]
    fn the_allocators_taint_is_there_in_mode_controller_only() {
        let taint = |mode| {
            let slices = render(&inventory("n1", 1), RenderOptions { mode, generation: 1 });
            slices[0].spec.devices.clone().unwrap()[0].taints.clone()
        };
        assert_eq!(taint(Mode::Scheduler), None);
        let taints = taint(Mode::Controller).unwrap();
        assert_eq!((taints[0].key.as_str(), taints.len()), ("lanemate.dev/allocator", 1));
    }
}
