//! Claims: what they hold, for whom, and who wrote it.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeSelector;
use k8s_openapi::api::resource::v1::{
    AllocationResult, ResourceClaim, ResourceClaimConsumerReference,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use lanemate_api::names;
use lanemate_driver::allocation::{DeviceId, device_of};

use crate::id::{Id, Uid, Version};

/// What is known of a claim.
#[derive(Clone, Debug)]
pub struct ClaimFacts {
    /// Namespace, name and UID.
    pub id: Id,
    /// Its version.
    pub version: Version,
    /// It is being deleted.
    pub deleting: bool,
    /// UID of the pod that owns it: a claim made from a template is for that pod alone.
    pub owner: Option<Uid>,
    /// What it holds.
    pub grant: Option<Grant>,
    /// `status.reservedFor`.
    pub reserved_for: Vec<Consumer>,
    /// Classes that it asks for.
    pub classes: BTreeSet<Arc<str>>,
    /// It carries the finalizer that keeps it while it is allocated.
    pub is_protected: bool,
    /// The claim without what no write needs, while it is not allocated.
    pub object: Option<Arc<ResourceClaim>>,
}

/// An allocation.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// Devices of our driver that are taken from others: those seen by an administrator only are not.
    pub devices: Vec<DeviceId>,
    /// Some result is of another driver.
    pub has_others: bool,
    /// Devices of other drivers that are taken from others.
    pub others: Vec<DeviceId>,
    /// Our controller wrote it, as `metadata.managedFields` says; absent where nobody is named.
    pub by_us: Option<bool>,
    /// `allocationTimestamp`.
    pub at: Option<Timestamp>,
    /// The node, where the selector is one term with one field `metadata.name`.
    pub node: Option<String>,
    /// `nodeSelector` as written.
    pub selector: Option<NodeSelector>,
}

/// One entry of `status.reservedFor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// It is a pod.
    pub is_pod: bool,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: Uid,
}

impl ClaimFacts {
    /// Reads a claim; none without name or UID.
    pub fn of(claim: &ResourceClaim) -> Option<Self> {
        let status = claim.status.as_ref();
        let allocation = status.and_then(|status| status.allocation.as_ref());
        let consumers = status.and_then(|status| status.reserved_for.as_deref());
        let metadata = &claim.metadata;
        let by_us = allocation.and_then(|_| by_us(metadata.managed_fields.as_deref()));
        Some(Self {
            id: Id::of(metadata)?,
            version: Version::of(metadata),
            deleting: metadata.deletion_timestamp.is_some(),
            owner: owner(metadata),
            grant: allocation.map(|allocation| Grant { by_us, ..Grant::of(allocation) }),
            reserved_for: consumers.unwrap_or_default().iter().map(Consumer::of).collect(),
            classes: classes(claim),
            is_protected: metadata
                .finalizers
                .iter()
                .flatten()
                .any(|finalizer| finalizer == names::DELETE_PROTECTION),
            object: allocation.is_none().then(|| Arc::new(trimmed(claim))),
        })
    }

    /// Whether a pod is among its users.
    pub fn is_reserved_for(&self, pod: &Uid) -> bool {
        self.reserved_for.iter().any(|consumer| consumer.is_pod && consumer.uid == *pod)
    }
}

impl Grant {
    /// Reads an allocation.
    pub fn of(allocation: &AllocationResult) -> Self {
        let results =
            allocation.devices.iter().flat_map(|devices| devices.results.iter().flatten());
        // Shares of a device do not take all of it, and no device of ours is shared.
        let taken =
            results.clone().filter(|it| it.admin_access != Some(true) && it.share_id.is_none());
        let (ours, others): (Vec<DeviceId>, Vec<DeviceId>) =
            taken.map(device_of).partition(|(driver, _, _)| driver == names::DRIVER);
        Self {
            has_others: results.clone().any(|result| result.driver != names::DRIVER),
            devices: ours,
            others,
            by_us: None,
            at: allocation.allocation_timestamp.as_ref().map(|time| time.0),
            node: allocation.node_selector.as_ref().and_then(only_node),
            selector: allocation.node_selector.clone(),
        }
    }
}

impl Consumer {
    /// Reads an entry of `reservedFor`.
    pub fn of(reference: &ResourceClaimConsumerReference) -> Self {
        let is_core = reference.api_group.as_deref().unwrap_or_default().is_empty();
        Self {
            is_pod: is_core && reference.resource == "pods",
            name: reference.name.clone(),
            uid: Uid(reference.uid.clone()),
        }
    }
}

fn classes(claim: &ResourceClaim) -> BTreeSet<Arc<str>> {
    let requests = claim.spec.iter().flat_map(|spec| spec.devices.iter());
    let requests = requests.flat_map(|devices| devices.requests.iter().flatten());
    let names = requests.flat_map(|request| {
        let exactly = request.exactly.iter().map(|exactly| &exactly.device_class_name);
        let of_list = request.first_available.iter().flatten();
        exactly.chain(of_list.map(|alternative| &alternative.device_class_name))
    });
    names.map(|name| Arc::from(name.as_str())).collect()
}

fn owner(metadata: &ObjectMeta) -> Option<Uid> {
    let owners = metadata.owner_references.iter().flatten();
    let mut pods = owners.filter(|owner| owner.controller == Some(true) && owner.kind == "Pod");
    pods.next().map(|owner| Uid(owner.uid.clone()))
}

/// Whether our writer owns `status.allocation`; absent where nobody is named.
fn by_us(managed: Option<&[ManagedFieldsEntry]>) -> Option<bool> {
    let owns = |entry: &&ManagedFieldsEntry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        fields.is_some_and(|fields| fields.pointer("/f:status/f:allocation").is_some())
    };
    let entry = managed.unwrap_or_default().iter().find(owns)?;
    Some(entry.manager.as_deref() == Some(crate::write::MANAGER))
}

fn only_node(selector: &NodeSelector) -> Option<String> {
    let [term] = selector.node_selector_terms.as_slice() else { return None };
    let [field] = term.match_fields.as_deref().unwrap_or_default() else { return None };
    let is_plain = term.match_expressions.as_deref().unwrap_or_default().is_empty();
    let [node] = field.values.as_deref().unwrap_or_default() else { return None };
    let is_name = field.key == "metadata.name" && field.operator == "In";
    (is_plain && is_name).then(|| node.clone())
}

/// Without what is long and never written by us. `managedFields` need not be sent back: the API server keeps them.
fn trimmed(claim: &ResourceClaim) -> ResourceClaim {
    let mut claim = claim.clone();
    claim.metadata.managed_fields = None;
    claim
}
