//! The finalizer of ResourceClasses: only the controller takes it off, and without one no class could be deleted.

use kube::api::Patch;
use kube::{Api, ResourceExt};
use lanemate_api::ResourceClass;
use lanemate_api::names::CLASS_PROTECTION;
use lanemate_runtime::call::CallError;
use serde_json::json;

use super::UninstallError;
use super::call::Cluster;
use crate::classes::protect::with_protection;

/// Takes it off all of them, and changes nothing else.
pub(super) async fn let_go(cluster: &Cluster) -> Result<(), UninstallError> {
    cluster
        .until(&format!("finalizer {CLASS_PROTECTION} to be off all ResourceClasses"), async || {
            let without =
                |class: &ResourceClass| with_protection(class, false).into_iter().collect();
            let protected: Vec<ResourceClass> = cluster.list(without).await?;
            let mut left = Vec::new();
            for class in &protected {
                match patch(cluster, class).await {
                    Err(error) if error.is_conflict() => left.push(error.to_string()),
                    patched => patched?,
                }
            }
            Ok(if left.is_empty() { Ok(()) } else { Err(left.join("; ")) })
        })
        .await
}

/// Writes the finalizers that remain, unless others have changed the class since.
async fn patch(cluster: &Cluster, class: &ResourceClass) -> Result<(), CallError> {
    let name = class.name_any();
    let api = Api::<ResourceClass>::all(cluster.client.clone());
    let patch = Patch::Merge(json!({"metadata": {
        "uid": class.metadata.uid, "resourceVersion": class.metadata.resource_version,
        "finalizers": class.metadata.finalizers,
    }}));
    let parameters = cluster.patching();
    let deed = format!("take finalizer {CLASS_PROTECTION} off resourceclass {name}");
    match cluster.call(&deed, || api.patch(&name, &parameters, &patch)).await {
        Ok(_) => cluster.say(&deed),
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error),
    }
    Ok(())
}
