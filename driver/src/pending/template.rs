//! Claims that are made from a ResourceClaimTemplate for one pod.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use lanemate_api::names::POD_CLAIM_NAME_ANNOTATION;

use super::ClaimRef;

/// What `status.resourceClaimStatuses` says of a claim: nothing, that none was necessary, or its
/// name.
pub(super) fn name_in_status<'a>(pod: &'a Pod, name: &str) -> Option<Option<&'a str>> {
    let statuses = pod.status.as_ref()?.resource_claim_statuses.as_deref()?;
    let status = statuses.iter().find(|status| status.name == name)?;
    Some(status.resource_claim_name.as_deref())
}

/// The controlling pod of a claim, where it is surely not this one.
pub(super) fn owner_other_than(claim: &ResourceClaim, pod: &Pod) -> Option<String> {
    let owners = claim.metadata.owner_references.as_deref().unwrap_or_default();
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    let same_name = owner.kind == "Pod" && Some(&owner.name) == pod.metadata.name.as_ref();
    let same_uid = pod.metadata.uid.as_ref().is_none_or(|uid| *uid == owner.uid);
    (!(same_name && same_uid)).then(|| owner.name.clone())
}

/// The claim that kube-controller-manager would make of a template, but with a name that can be
/// foretold and without uid.
pub(super) fn instantiate(
    pod: &Pod,
    name_in_pod: &str,
    claim: &ClaimRef,
    template: &ResourceClaimTemplate,
) -> ResourceClaim {
    let wanted = template.spec.clone().unwrap_or_default();
    let metadata = wanted.metadata.unwrap_or_default();
    let mut annotations = metadata.annotations.unwrap_or_default();
    annotations.insert(POD_CLAIM_NAME_ANNOTATION.to_owned(), name_in_pod.to_owned());
    let owner = pod.metadata.uid.clone().map(|uid| OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        uid,
        controller: Some(true),
        block_owner_deletion: Some(true),
    });
    ResourceClaim {
        metadata: ObjectMeta {
            name: Some(claim.name.clone()),
            namespace: Some(claim.namespace.clone()),
            labels: metadata.labels,
            annotations: Some(annotations),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: wanted.spec,
        status: None,
    }
}
