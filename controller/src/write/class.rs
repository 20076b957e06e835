//! Writes for ResourceClasses, and of the DeviceClasses that they compile to. Each is for one version: what others have
//! changed is compiled again.

use k8s_openapi::api::resource::v1::DeviceClass;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use lanemate_api::ResourceClass;

use super::as_controller;
use super::attempt::{Job, Patience};
use crate::change::{ClassChange, Outcome};
use crate::id::{Id, Version};

impl Job {
    /// Writes one class.
    pub(super) async fn write_class(&mut self, change: &ClassChange) -> Result<(), Outcome> {
        let metadata = match change {
            ClassChange::Create(class) => self.create_class(class).await?.metadata,
            ClassChange::Replace(class) => self.replace_class(class).await?.metadata,
            ClassChange::Delete(class) => return self.delete_class(class).await,
            ClassChange::Status(class) => self.write_status(class).await?.metadata,
            ClassChange::Finalizers(class) => self.write_finalizers(class).await?.metadata,
        };
        if let Some(id) = Id::of(&metadata) {
            self.written.push((id, Version::of(&metadata)));
        }
        Ok(())
    }

    async fn create_class(&mut self, class: &DeviceClass) -> Result<DeviceClass, Outcome> {
        let deed = format!("create deviceclasses {}", class.name_any());
        let created = self.send(Patience::Some, &deed, |client| async {
            device_classes(client).create(&as_controller(), class).await
        });
        created.await.taken()
    }

    async fn replace_class(&mut self, class: &DeviceClass) -> Result<DeviceClass, Outcome> {
        let name = class.name_any();
        let deed = format!("update deviceclasses {name}");
        let replaced = self.send(Patience::Some, &deed, |client| async {
            device_classes(client).replace(&name, &as_controller(), class).await
        });
        replaced.await.taken()
    }

    async fn delete_class(&mut self, class: &DeviceClass) -> Result<(), Outcome> {
        let name = class.name_any();
        let deed = format!("delete deviceclasses {name}");
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: class.metadata.uid.clone(),
                resource_version: class.metadata.resource_version.clone(),
            }),
            ..DeleteParams::default()
        };
        let deleted = self.send(Patience::Some, &deed, |client| async {
            device_classes(client).delete(&name, &parameters).await
        });
        deleted.await.taken().map(drop)
    }

    async fn write_status(&mut self, class: &ResourceClass) -> Result<ResourceClass, Outcome> {
        let name = class.name_any();
        let deed = format!("update resourceclasses/status {name}");
        let written = self.send(Patience::Some, &deed, |client| async {
            let api = resource_classes(client);
            api.replace_subresource("status", &name, &as_controller(), class).await
        });
        written.await.taken()
    }

    async fn write_finalizers(&mut self, class: &ResourceClass) -> Result<ResourceClass, Outcome> {
        let name = class.name_any();
        let deed = format!("update resourceclasses {name}");
        let written = self.send(Patience::Some, &deed, |client| async {
            resource_classes(client).replace(&name, &as_controller(), class).await
        });
        written.await.taken()
    }
}

fn device_classes(client: Client) -> Api<DeviceClass> {
    Api::all(client)
}

fn resource_classes(client: Client) -> Api<ResourceClass> {
    Api::all(client)
}
