//! This node's objects in the cluster: claims are read; slices, the NodeState and events are written.

pub mod change;
pub mod claims;
pub mod events;
pub mod node;
pub mod node_state;
pub mod slices;

use kube::api::PostParams;

/// Who writes.
const MANAGER: &str = "lanemate-kubelet-plugin";

/// A write in the plugin's name: the API server notes in `managedFields` who wrote what.
pub(crate) fn as_plugin() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}
