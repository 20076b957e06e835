//! The Node that owns this node's objects: when it goes, the garbage collector removes them.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Api, Client};
use lanemate_runtime::call::{CallError, call};

/// A reference to the Node as it is now. A Node that was made again has another UID, and objects
/// that name the old one are removed.
///
/// # Errors
/// When the Node cannot be read or does not exist yet.
pub async fn owner(client: &Client, node: &str) -> Result<OwnerReference, CallError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let deed = || format!("get node {node}");
    let found = call(deed, nodes.get(node)).await?;
    let Some(uid) = found.metadata.uid else {
        let message = "the Node has no UID: expected what the API server gives".to_owned();
        return Err(CallError::Refused { deed: deed(), message });
    };
    Ok(OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.to_owned(),
        uid,
        ..OwnerReference::default()
    })
}
