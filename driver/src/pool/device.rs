//! One published device, with typed attributes.

use std::str::FromStr;

use k8s_openapi::api::core::v1::NodeSelector;
use k8s_openapi::api::resource::v1 as resource;
use lanemate_api::{Quantity, attribute, names};

use crate::attribute::{AttributeValue, Attributes, Capacities, QualifiedName};
use crate::ids::{Kind, NumaNode};
use crate::inventory::Taint;
use crate::topology::Place;

/// A device as a slice publishes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// DRA driver name.
    pub driver: String,
    /// Pool name.
    pub pool: String,
    /// Name within the pool.
    pub name: String,
    /// Attributes under qualified names.
    pub attributes: Attributes,
    /// Capacities under qualified names.
    pub capacity: Capacities,
    /// Taints with an effect.
    pub taints: Vec<Taint>,
    /// Nodes that can use it.
    pub reach: Reach,
}

/// Nodes that can use a device.
#[derive(Clone, Debug, PartialEq)]
pub enum Reach {
    /// The node that published it.
    Local,
    /// Every node.
    AllNodes,
    /// Nodes that a selector selects.
    Selected(NodeSelector),
}

/// A device that cannot be used as published.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// An attribute has no value, or several.
    #[error("device {device}: attribute {name}: expected exactly one value")]
    Attribute {
        /// Device name.
        device: String,
        /// Attribute name.
        name: String,
    },
    /// A capacity is no quantity.
    #[error("device {device}: capacity {name}: {value:?} is no quantity")]
    Capacity {
        /// Device name.
        device: String,
        /// Capacity name.
        name: String,
        /// The text.
        value: String,
    },
    /// A feature that the allocation core does not implement.
    #[error("device {device}: {feature} is not supported yet")]
    Unsupported {
        /// Device name.
        device: String,
        /// The field.
        feature: &'static str,
    },
}

impl Device {
    /// Reads a device of a slice.
    pub fn parse(
        slice: &resource::ResourceSliceSpec,
        device: &resource::Device,
    ) -> Result<Self, DeviceError> {
        if let Some(feature) = unsupported_feature(device) {
            return Err(DeviceError::Unsupported { device: device.name.clone(), feature });
        }
        Ok(Self {
            driver: slice.driver.clone(),
            pool: slice.pool.name.clone(),
            name: device.name.clone(),
            attributes: attributes(&slice.driver, device)?,
            capacity: capacities(&slice.driver, device)?,
            taints: taints(device),
            reach: reach(slice),
        })
    }

    /// An attribute in the domain of the device's own driver, as text.
    fn own_text(&self, id: &str) -> Option<&str> {
        let name = QualifiedName { domain: self.driver.clone(), id: id.to_owned() };
        match self.attributes.get(&name) {
            Some(AttributeValue::String(text)) => Some(text),
            _ => None,
        }
    }

    /// What it is to the matcher.
    pub fn kind(&self) -> Option<Kind> {
        Kind::from_type(self.own_text(attribute::TYPE)?)
    }

    /// Its place in the PCIe tree.
    pub fn place(&self) -> Option<Place> {
        Place::from_str(self.own_text(attribute::PCIE_PATH)?).ok()
    }

    /// Its NUMA node.
    pub fn numa_node(&self) -> Option<NumaNode> {
        match self.attributes.get(&QualifiedName::parse(attribute::NUMA_NODE, "")) {
            Some(AttributeValue::Int(node)) => u32::try_from(*node).ok().map(NumaNode),
            _ => None,
        }
    }

    /// Its NVLink island.
    pub fn nvlink_domain(&self) -> Option<&str> {
        self.own_text(attribute::NVLINK_DOMAIN)
    }

    /// The outermost switch above it, for people.
    pub fn pcie_switch(&self) -> Option<String> {
        self.place().and_then(|place| place.outermost_switch())
    }
}

/// The taint that keeps kube-scheduler away; the core tolerates it by itself.
pub fn is_allocator_taint(taint: &Taint) -> bool {
    taint.key == names::ALLOCATOR_TAINT_KEY
        && taint.value.as_deref() == Some(names::ALLOCATOR_TAINT_VALUE)
        && taint.effect == "NoSchedule"
}

fn unsupported_feature(device: &resource::Device) -> Option<&'static str> {
    let filled = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
    if device.consumes_counters.as_ref().is_some_and(|counters| !counters.is_empty()) {
        return Some("consumesCounters");
    }
    if device.allow_multiple_allocations == Some(true) {
        return Some("allowMultipleAllocations");
    }
    if filled(&device.binding_conditions) || filled(&device.binding_failure_conditions) {
        return Some("bindingConditions");
    }
    if device.node_allocatable_resources.as_ref().is_some_and(|map| !map.is_empty()) {
        return Some("nodeAllocatableResources");
    }
    (device.binds_to_node == Some(true)).then_some("bindsToNode")
}

fn attributes(driver: &str, device: &resource::Device) -> Result<Attributes, DeviceError> {
    let published = device.attributes.iter().flatten();
    let typed = published.map(|(name, value)| match attribute_value(value) {
        Some(value) => Ok((QualifiedName::parse(name, driver), value)),
        None => Err(DeviceError::Attribute { device: device.name.clone(), name: name.to_owned() }),
    });
    typed.collect()
}

fn attribute_value(value: &resource::DeviceAttribute) -> Option<AttributeValue> {
    let resource::DeviceAttribute { bool, bools, int, ints, string, strings, version, versions } =
        value.clone();
    let mut values = [
        bool.map(AttributeValue::Bool),
        int.map(AttributeValue::Int),
        string.map(AttributeValue::String),
        version.map(AttributeValue::Version),
        bools.map(AttributeValue::Bools),
        ints.map(AttributeValue::Ints),
        strings.map(AttributeValue::Strings),
        versions.map(AttributeValue::Versions),
    ]
    .into_iter()
    .flatten();
    let first = values.next()?;
    values.next().is_none().then_some(first)
}

fn capacities(driver: &str, device: &resource::Device) -> Result<Capacities, DeviceError> {
    let published = device.capacity.iter().flatten();
    let typed = published.map(|(name, capacity)| {
        let text = &capacity.value.0;
        let value = Quantity::from_str(text).map_err(|_| DeviceError::Capacity {
            device: device.name.clone(),
            name: name.to_owned(),
            value: text.to_owned(),
        })?;
        Ok((QualifiedName::parse(name, driver), value))
    });
    typed.collect()
}

/// Taints that keep pods away; unknown effects count as `None` upstream.
fn taints(device: &resource::Device) -> Vec<Taint> {
    let published = device.taints.iter().flatten();
    published
        .filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"))
        .map(|taint| Taint {
            key: taint.key.clone(),
            value: taint.value.clone().filter(|value| !value.is_empty()),
            effect: taint.effect.clone(),
        })
        .collect()
}

fn reach(slice: &resource::ResourceSliceSpec) -> Reach {
    match (&slice.node_name, &slice.node_selector) {
        (None, Some(selector)) => Reach::Selected(selector.clone()),
        (None, None) => Reach::AllNodes,
        (Some(_), _) => Reach::Local,
    }
}
