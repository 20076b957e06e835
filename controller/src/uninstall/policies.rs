//! The admission policies of `deploy/admission`, by name: bindings first, as a binding without its policy refuses
//! what it was to judge.

use std::fmt::Debug;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use super::UninstallError;
use super::call::Cluster;

/// Policies that put the gate on pods; each has a binding of its name.
const GATE: [&str; 2] = ["lanemate-placement-gate", "lanemate-placement-gate-of-pods"];
/// Policies that keep others from our devices; each has a binding of its name.
const FENCE: [&str; 5] = [
    "lanemate-allocation",
    "lanemate-finalizer",
    "lanemate-config",
    "lanemate-pods",
    "lanemate-node",
];

/// From now on no pod gets the gate.
pub(super) async fn remove_gate(cluster: &Cluster) -> Result<(), UninstallError> {
    delete::<MutatingAdmissionPolicyBinding>(cluster, &GATE).await?;
    delete::<MutatingAdmissionPolicy>(cluster, &GATE).await
}

/// From now on everybody may allocate our devices.
pub(super) async fn remove_fence(cluster: &Cluster) -> Result<(), UninstallError> {
    delete::<ValidatingAdmissionPolicyBinding>(cluster, &FENCE).await?;
    delete::<ValidatingAdmissionPolicy>(cluster, &FENCE).await
}

async fn delete<K>(cluster: &Cluster, names: &[&str]) -> Result<(), UninstallError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let (api, parameters) = (Api::<K>::all(cluster.client.clone()), cluster.deleting());
    for name in names {
        let deed = format!("delete {} {name}", K::plural(&()));
        match cluster.call(&deed, || api.delete(name, &parameters)).await {
            Ok(_) => cluster.say(&deed),
            // Deleted before, never made, or of a kind that the API server does not serve.
            Err(error) if error.is_not_found() => println!("{deed}: absent"),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The names in a manifest; those of a policy and of its binding are the same.
    fn names(manifest: &'static str) -> BTreeSet<&'static str> {
        manifest.lines().filter_map(|line| line.strip_prefix("  name: ")).collect()
    }

    #[test]
    fn every_shipped_policy_is_removed() {
        let gate = names(include_str!("../../../deploy/admission/gate.yaml"));
        assert_eq!(gate, BTreeSet::from(GATE));
        let mut fence = names(include_str!("../../../deploy/admission/fence.yaml"));
        fence.extend(names(include_str!("../../../deploy/admission/node-fence.yaml")));
        assert_eq!(fence, BTreeSet::from(FENCE));
    }
}
