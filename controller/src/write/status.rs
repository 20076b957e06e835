//! What is written into a claim, and what came back of it.

use lanemate_api::names;
use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::NodeSelector;
use k8s_openapi::api::resource::v1::{
    AllocationResult, DeviceRequestAllocationResult, ResourceClaim, ResourceClaimConsumerReference,
};
use lanemate_api::quantity::Quantity;
use serde_json::Value;

use crate::id::Id;

/// Keeps an allocated claim from vanishing under its pods; the controller manager takes it off again.
const FINALIZER: &str = names::DELETE_PROTECTION;
/// Pods that a claim can be reserved for (resource.k8s.io/v1, `reservedFor`).
pub(super) const MOST_CONSUMERS: usize = 256;
/// Fields that an answer names: they repeat from result to result, and people need one.
const MOST_FIELDS: usize = 16;

/// True for a claim that does not vanish while it is allocated.
pub(super) fn is_protected(claim: &ResourceClaim) -> bool {
    claim.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

/// The claim with the finalizer.
pub(super) fn protected(mut claim: ResourceClaim) -> ResourceClaim {
    claim.metadata.finalizers.get_or_insert_default().push(FINALIZER.to_owned());
    claim
}

/// The claim with an allocation, reserved for the pod.
pub(super) fn allocated(
    claim: &ResourceClaim,
    allocation: &AllocationResult,
    pod: &Id,
) -> ResourceClaim {
    let mut claim = claim.clone();
    claim.status.get_or_insert_default().allocation = Some(allocation.clone());
    reserved(claim, pod)
}

/// The claim, reserved for one more pod.
pub(super) fn reserved(mut claim: ResourceClaim, pod: &Id) -> ResourceClaim {
    if !is_reserved(&claim, pod) {
        let consumers = claim.status.get_or_insert_default().reserved_for.get_or_insert_default();
        consumers.push(ResourceClaimConsumerReference {
            api_group: None,
            resource: "pods".to_owned(),
            name: pod.key.name.clone(),
            uid: pod.uid.0.clone(),
        });
    }
    claim
}

/// The claim without an allocation and all that hangs on it.
pub(super) fn cleared(mut claim: ResourceClaim) -> ResourceClaim {
    claim.status = None;
    claim
}

/// True where the pod is among the claim's users.
pub(super) fn is_reserved(claim: &ResourceClaim, pod: &Id) -> bool {
    consumers(claim).iter().any(|consumer| {
        let is_core = consumer.api_group.as_deref().unwrap_or_default().is_empty();
        is_core && consumer.resource == "pods" && consumer.uid == pod.uid.0
    })
}

/// The users of a claim.
pub(super) fn consumers(claim: &ResourceClaim) -> &[ResourceClaimConsumerReference] {
    claim.status.as_ref().and_then(|status| status.reserved_for.as_deref()).unwrap_or_default()
}

/// The allocation of a claim.
pub(super) fn allocation(claim: &ResourceClaim) -> Option<&AllocationResult> {
    claim.status.as_ref()?.allocation.as_ref()
}

/// True where the claim has the devices of this allocation: what a write of ours has done whose answer was lost. Fields
/// may be missing, and the users may be others by now.
pub(super) fn has_devices(claim: &ResourceClaim, sent: &AllocationResult) -> bool {
    let named = |allocation: &AllocationResult| -> Vec<[String; 4]> {
        results(allocation)
            .iter()
            .map(|r| [r.request.clone(), r.driver.clone(), r.pool.clone(), r.device.clone()])
            .collect()
    };
    let has = |found: &AllocationResult| named(found) == named(sent);
    allocation(claim).is_some_and(has)
}

fn results(allocation: &AllocationResult) -> &[DeviceRequestAllocationResult] {
    allocation.devices.as_ref().and_then(|devices| devices.results.as_deref()).unwrap_or_default()
}

/// False where an allocation binds its pods to another node. One of another form binds to nodes that are not known here.
pub(super) fn may_be_used_on(allocation: &AllocationResult, node: &str) -> bool {
    let names = |selector: &NodeSelector| -> Option<bool> {
        let [term] = selector.node_selector_terms.as_slice() else { return None };
        let [field] = term.match_fields.as_deref()? else { return None };
        let is_name = field.key == "metadata.name" && field.operator == "In";
        is_name.then(|| field.values.iter().flatten().any(|name| name == node))
    };
    allocation.node_selector.as_ref().and_then(names).unwrap_or(true)
}

/// The fields of an allocation that did not come back as they were sent, such as
/// `allocation.devices.results[].skipNodeOperations`.
///
/// # Errors
/// What is wrong, where one of the two is no JSON.
pub(super) fn dropped(
    sent: &AllocationResult,
    claim: &ResourceClaim,
) -> Result<Vec<String>, String> {
    let value = |allocation| serde_json::to_value(allocation).map_err(|error| error.to_string());
    let (sent, got) = (value(Some(sent))?, value(allocation(claim))?);
    let mut fields = BTreeSet::new();
    compare("allocation", &sent, &got, &mut fields);
    Ok(fields.into_iter().take(MOST_FIELDS).collect())
}

/// Notes what is not in `got` as in `sent`; what `got` has beyond that was added by the API server. Ends with the depth of
/// `sent`, which serde_json bounds to 128.
fn compare(path: &str, sent: &Value, got: &Value, fields: &mut BTreeSet<String>) {
    match (sent, got) {
        (Value::Object(sent), got) => {
            for (name, value) in sent {
                let found = got.get(name).unwrap_or(&Value::Null);
                compare(&format!("{path}.{name}"), value, found, fields);
            }
        }
        (Value::Array(sent), got) => {
            for (index, value) in sent.iter().enumerate() {
                let found = got.get(index).unwrap_or(&Value::Null);
                compare(&format!("{path}[]"), value, found, fields);
            }
        }
        (Value::String(sent), Value::String(got)) if is_quantity(path) && equal(sent, got) => {}
        (sent, got) if sent != got => {
            fields.insert(path.to_owned());
        }
        _ => {}
    }
}

/// The API server writes quantities in its own way.
fn is_quantity(path: &str) -> bool {
    path.contains(".consumedCapacity.")
}

fn equal(sent: &str, got: &str) -> bool {
    let parse = |text: &str| text.parse::<Quantity>().ok();
    parse(sent).is_some() && parse(sent) == parse(got)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Id {
        let metadata = json!({"namespace": "ml", "name": "p", "uid": "u-1"});
        Id::of(&serde_json::from_value(metadata).unwrap()).unwrap()
    }

    fn allocation(value: Value) -> AllocationResult {
        serde_json::from_value(value).unwrap()
    }

    fn full() -> Value {
        json!({
            "allocationTimestamp": "2026-01-02T03:04:05Z",
            "devices": {
                "results": [
                    {"request": "a", "driver": "lanemate.dev", "pool": "n1", "device": "gpu-0",
                     "consumedCapacity": {"memory": "1024Mi"}, "skipNodeOperations": ["x"]},
                    {"request": "a", "driver": "lanemate.dev", "pool": "n1", "device": "gpu-1",
                     "skipNodeOperations": ["x"]},
                ],
                "config": [{"source": "FromClass", "opaque": {"driver": "lanemate.dev", "parameters": {"b": 1, "a": [2]}}}],
            },
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]},
        })
    }

    /// The fields that are told of where this came back.
    fn check(came_back: Value, expect: &[&str]) {
        let sent = allocation(full());
        let mut claim = allocated(&ResourceClaim::default(), &sent, &pod());
        claim.status.as_mut().unwrap().allocation = Some(allocation(came_back));
        assert_eq!(dropped(&sent, &claim).unwrap(), expect);
    }

    #[test]
    fn fields_that_did_not_come_back_are_named_once() {
        check(full(), &[]);
        let mut dropped = full();
        for result in dropped["devices"]["results"].as_array_mut().unwrap() {
            result.as_object_mut().unwrap().shift_remove("skipNodeOperations");
        }
        check(dropped, &["allocation.devices.results[].skipNodeOperations[]"]);
        let mut dropped = full();
        dropped.as_object_mut().unwrap().shift_remove("allocationTimestamp");
        dropped["devices"]["config"][0]["opaque"]["parameters"] = json!({"a": [3], "b": 1});
        let config = "allocation.devices.config[].opaque.parameters.a[]";
        check(dropped, &["allocation.allocationTimestamp", config]);
    }

    #[test]
    fn another_way_of_writing_and_fields_that_were_added_are_no_loss() {
        let mut same = full();
        let first = &mut same["devices"]["results"][0];
        first["consumedCapacity"]["memory"] = json!("1Gi");
        first["shareID"] = json!("0a0a0a0a-0000-4000-8000-000000000000");
        same["devices"]["config"][0]["opaque"]["parameters"] = json!({"a": [2], "b": 1});
        check(same, &[]);
        let mut other = full();
        other["devices"]["results"][0]["consumedCapacity"]["memory"] = json!("2Gi");
        check(other, &["allocation.devices.results[].consumedCapacity.memory"]);
    }

    #[test]
    fn a_pod_is_reserved_once_and_known_by_its_uid() {
        let claim = allocated(&ResourceClaim::default(), &allocation(full()), &pod());
        assert!(has_devices(&claim, &allocation(full())) && is_reserved(&claim, &pod()));
        assert_eq!(consumers(&reserved(claim.clone(), &pod())).len(), 1);
        let mut namesake = pod();
        namesake.uid.0 = "u-2".to_owned();
        assert!(!is_reserved(&claim, &namesake));
        assert_eq!(consumers(&reserved(claim, &namesake)).len(), 2);
    }

    #[test]
    fn an_allocation_is_for_the_node_that_it_names() {
        assert!(may_be_used_on(&allocation(full()), "n1"));
        assert!(!may_be_used_on(&allocation(full()), "n2"));
        assert!(may_be_used_on(&AllocationResult::default(), "n2"));
    }
}
