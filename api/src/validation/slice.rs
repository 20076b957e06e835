//! The limits of ResourceSlices, as the API server of Kubernetes 1.37 checks them
//! (`resource.k8s.io/v1`), so that a slice written by hand means what it says.
//!
//! Shared counters, binding conditions and sharing policies are not looked at.

use k8s_openapi::api::resource::v1::{
    Device, DeviceAttribute, DeviceTaint, ResourceSlice, ResourceSliceSpec,
};

use super::format::{
    is_attribute_name, is_dns_label, is_driver_name, is_label_name, is_label_value, is_pool_name,
    is_semantic_version,
};
use super::{Findings, ValidationError, entry};
use crate::Quantity;

/// Devices of a slice.
pub const MAX_DEVICES: usize = 128;
/// Devices of a slice in which one has taints, counters or lists of values.
pub const MAX_ELABORATE_DEVICES: usize = 64;
/// Attributes and capacities of a device.
pub const MAX_VALUES: usize = 32;
/// Bytes of an attribute's text or version.
pub const MAX_TEXT_BYTES: usize = 64;
/// Taints of a device.
pub const MAX_TAINTS: usize = 16;

/// All that is wrong with a slice, in the order of its fields.
pub fn validate_slice(slice: &ResourceSlice) -> Result<(), Vec<ValidationError>> {
    let mut findings = Findings::default();
    let spec = &slice.spec;
    findings.subdomain("metadata.name", slice.metadata.name.as_deref().unwrap_or_default());
    findings.text("spec.driver", &spec.driver, is_driver_name, "a DRA driver name");
    findings.pool(spec);
    findings.reach(spec);
    let devices = spec.devices.as_deref().unwrap_or_default();
    let max = match devices.iter().any(is_elaborate) {
        true => MAX_ELABORATE_DEVICES,
        false => MAX_DEVICES,
    };
    let devices = findings.limited("spec.devices", devices, max);
    findings.unique("spec.devices", "name", devices.iter().map(|device| device.name.as_str()));
    for (index, device) in devices.iter().enumerate() {
        findings.device(index, device);
    }
    findings.finish()
}

impl Findings {
    fn pool(&mut self, spec: &ResourceSliceSpec) {
        let pool = &spec.pool;
        let expected = "DNS subdomains with / between them, at most 253 bytes";
        self.text("spec.pool.name", &pool.name, is_pool_name, expected);
        if pool.generation < 0 {
            let problem = format!("expected at least 0, found {}", pool.generation);
            self.add("spec.pool.generation", problem);
        }
        if pool.resource_slice_count < 1 {
            let problem = format!("expected at least 1, found {}", pool.resource_slice_count);
            self.add("spec.pool.resourceSliceCount", problem);
        }
    }

    /// Which nodes see the devices.
    fn reach(&mut self, spec: &ResourceSliceSpec) {
        let node = spec.node_name.as_deref().filter(|name| !name.is_empty());
        if let Some(name) = node {
            self.subdomain("spec.nodeName", name);
        }
        let given = [
            node.is_some(),
            spec.node_selector.is_some(),
            spec.all_nodes == Some(true),
            spec.per_device_node_selection == Some(true),
        ];
        let found = given.into_iter().filter(|given| *given).count();
        if found != 1 {
            let problem = format!(
                "expected exactly one of nodeName, nodeSelector, allNodes and \
                 perDeviceNodeSelection, found {found}"
            );
            self.add("spec", problem);
        }
    }

    /// Paths are written for what is wrong alone: a cluster has millions of attributes.
    fn device(&mut self, index: usize, device: &Device) {
        let at = |part: String| format!("spec.devices[{index}].{part}");
        if !is_dns_label(&device.name) {
            self.label(at("name".to_owned()), &device.name);
        }
        let attributes = || device.attributes.iter().flatten();
        let capacity = || device.capacity.iter().flatten();
        let values = attributes().count() + capacity().count();
        if values > MAX_VALUES {
            let problem =
                format!("expected at most {MAX_VALUES} attributes and capacities, found {values}");
            self.add(at("attributes".to_owned()), problem);
        }
        let expected = "expected a name such as memory or example.com/memory";
        for (name, value) in attributes() {
            if !is_attribute_name(name) {
                self.add(at(entry("attributes", name)), expected);
            } else if let Some(problem) = value_problem(value) {
                self.add(at(entry("attributes", name)), problem);
            }
        }
        for (name, capacity) in capacity() {
            if !is_attribute_name(name) {
                self.add(at(entry("capacity", name)), expected);
            } else if let Err(error) = Quantity::try_from(&capacity.value) {
                self.add(at(entry("capacity", name) + ".value"), error.to_string());
            }
        }
        let taints = device.taints.as_deref().unwrap_or_default();
        self.at_most(&at("taints".to_owned()), taints.len(), MAX_TAINTS);
        for (number, taint) in taints.iter().enumerate() {
            self.taint(&at(format!("taints[{number}]")), taint);
        }
    }

    fn taint(&mut self, field: &str, taint: &DeviceTaint) {
        self.text(format!("{field}.key"), &taint.key, is_label_name, "a label name");
        let value = taint.value.as_deref().unwrap_or_default();
        if !is_label_value(value) {
            self.add(format!("{field}.value"), format!("expected a label value, found {value:?}"));
        }
        let is_effect = |effect: &str| matches!(effect, "None" | "NoSchedule" | "NoExecute");
        let expected = "NoSchedule, NoExecute or None";
        self.text(format!("{field}.effect"), &taint.effect, is_effect, expected);
    }
}

/// A device that counts double.
fn is_elaborate(device: &Device) -> bool {
    let is_list = |value: &DeviceAttribute| {
        value.bools.is_some()
            || value.ints.is_some()
            || value.strings.is_some()
            || value.versions.is_some()
    };
    device.taints.as_ref().is_some_and(|taints| !taints.is_empty())
        || device.consumes_counters.as_ref().is_some_and(|counters| !counters.is_empty())
        || device.attributes.iter().flatten().any(|(_, value)| is_list(value))
}

fn value_problem(value: &DeviceAttribute) -> Option<String> {
    let DeviceAttribute { bool, bools, int, ints, string, strings, version, versions } = value;
    let given = [
        bool.is_some(),
        bools.is_some(),
        int.is_some(),
        ints.is_some(),
        string.is_some(),
        strings.is_some(),
        version.is_some(),
        versions.is_some(),
    ];
    let found = given.into_iter().filter(|given| *given).count();
    if found != 1 {
        return Some(format!("expected exactly one value, found {found}"));
    }
    let texts = string.iter().chain(strings.iter().flatten());
    let versions = || version.iter().chain(versions.iter().flatten());
    let long = texts.chain(versions()).find(|text| text.len() > MAX_TEXT_BYTES);
    if let Some(text) = long {
        let found = text.len();
        return Some(format!("expected at most {MAX_TEXT_BYTES} bytes, found {found}"));
    }
    let wrong = versions().find(|text| !is_semantic_version(text))?;
    Some(format!("expected a semantic version such as 1.2.3, found {wrong:?}"))
}

#[cfg(test)]
mod tests;
