//! Who holds devices of ours: claims by their allocation, and nodes by what they say.

use std::fmt;

use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::ResourceExt;
use lanemate_api::NodeState;
use lanemate_api::node_state::HeldClaim;
use lanemate_runtime::call::CallError;

use super::call::Cluster;
use crate::id::Key;
use crate::index::{ClaimFacts, Consumer};

/// One that holds devices. Written as a line for people.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Holder {
    /// A claim with an allocation.
    Claim {
        claim: Key,
        devices: usize,
        /// Pods and other objects of `status.reservedFor`.
        users: Vec<String>,
    },
    /// A node that has not let go of a claim.
    Node { node: String, claim: String, state: &'static str },
}

/// Those of the cluster, sorted.
pub(super) async fn read(cluster: &Cluster) -> Result<Vec<Holder>, CallError> {
    let claims = cluster.list(|claim: &ResourceClaim| of_claim(claim).into_iter().collect());
    let mut all: Vec<Holder> = claims.await?;
    all.extend(cluster.list(|node: &NodeState| of_node(node)).await?);
    all.sort();
    Ok(all)
}

fn of_claim(claim: &ResourceClaim) -> Option<Holder> {
    let ClaimFacts { id, grant, reserved_for, .. } = ClaimFacts::of(claim)?;
    let devices = grant?.devices.len();
    let user = |user: &Consumer| match user.is_pod {
        true => format!("pod {}", user.name),
        false => user.name.clone(),
    };
    let users = reserved_for.iter().map(user).collect();
    (devices > 0).then_some(Holder::Claim { claim: id.key, devices, users })
}

fn of_node(node: &NodeState) -> Vec<Holder> {
    let held = |held: &HeldClaim| {
        let claim = match (&held.claim.namespace, &held.claim.name) {
            (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
            _ => format!("with UID {}", held.claim.uid),
        };
        Holder::Node { node: node.name_any(), claim, state: held.state.as_str() }
    };
    node.status.held.iter().map(held).collect()
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim { claim, devices, users } => {
                write!(f, "claim {}/{} holds {devices} devices, ", claim.namespace, claim.name)?;
                match users.as_slice() {
                    [] => f.write_str("reserved for nobody: delete the claim, or clear it"),
                    users => write!(f, "reserved for {}", users.join(", ")),
                }
            }
            Self::Node { node, claim, state } => {
                write!(f, "node {node} holds devices of claim {claim} ({state})")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(status: Value, expect: Option<&str>) {
        let metadata = json!({"namespace": "ml", "name": "a", "uid": "u-1"});
        let claim = json!({"metadata": metadata, "spec": {}, "status": status});
        let claim: ResourceClaim = serde_json::from_value(claim).unwrap();
        assert_eq!(of_claim(&claim).map(|holder| holder.to_string()).as_deref(), expect);
    }

    fn allocation(driver: &str, admin: bool) -> Value {
        let result = json!({"request": "r", "driver": driver, "pool": "n", "device": "d",
            "adminAccess": admin});
        json!({"devices": {"results": [result]}})
    }

    #[test]
    fn claims_hold_what_is_taken_from_others() {
        let ours = allocation("lanemate.dev", false);
        check(json!({}), None);
        check(json!({"allocation": allocation("example.com", false)}), None);
        check(json!({"allocation": allocation("lanemate.dev", true)}), None);
        check(
            json!({"allocation": ours, "reservedFor": [
                {"resource": "pods", "name": "p", "uid": "1"},
                {"resource": "pods", "name": "q", "uid": "2"},
            ]}),
            Some("claim ml/a holds 1 devices, reserved for pod p, pod q"),
        );
        let nobody =
            "claim ml/a holds 1 devices, reserved for nobody: delete the claim, or clear it";
        check(json!({"allocation": ours}), Some(nobody));
    }

    #[test]
    fn nodes_hold_what_they_say() {
        let state = json!({
            "apiVersion": "lanemate.dev/v1alpha1", "kind": "NodeState", "metadata": {"name": "n"},
            "status": {"held": [
                {"claim": {"namespace": "ml", "name": "a", "uid": "u-1"}, "state": "Prepared"},
                {"claim": {"uid": "u-2"}, "state": "Unknown"},
            ]},
        });
        let holders = of_node(&serde_json::from_value(state).unwrap());
        let lines: Vec<String> = holders.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "node n holds devices of claim ml/a (Prepared)",
                "node n holds devices of claim with UID u-2 (Unknown)",
            ]
        );
    }
}
