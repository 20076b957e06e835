//! Classes as they are, and compiled.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::DeviceClass;
use lanemate_api::ResourceClass;
use lanemate_driver::claim::Classes;

/// DeviceClasses and ResourceClasses by name.
#[derive(Debug, Default)]
pub struct ClassObjects {
    /// As they are.
    pub devices: BTreeMap<String, DeviceClass>,
    /// As they are.
    pub resources: BTreeMap<String, ResourceClass>,
    /// For claims.
    pub compiled: Classes,
}

impl ClassObjects {
    /// Adds or replaces a DeviceClass.
    pub fn apply_device(&mut self, mut class: DeviceClass) {
        class.metadata.managed_fields = None;
        let Some(name) = class.metadata.name.clone() else { return };
        self.compiled.apply_device_class(class.clone());
        self.devices.insert(name, class);
    }

    /// Adds or replaces a ResourceClass.
    pub fn apply_resource(&mut self, mut class: ResourceClass) {
        class.metadata.managed_fields = None;
        let Some(name) = class.metadata.name.clone() else { return };
        self.compiled.apply_resource_class(class.clone());
        self.resources.insert(name, class);
    }

    /// Removes a DeviceClass.
    pub fn remove_device(&mut self, name: &str) {
        self.devices.remove(name);
        self.compiled.remove_device_class(name);
    }

    /// Removes a ResourceClass.
    pub fn remove_resource(&mut self, name: &str) {
        self.resources.remove(name);
        self.compiled.remove_resource_class(name);
    }
}
