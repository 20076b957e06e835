//! This node's objects in the cluster: claims are read; slices, the NodeState and events are written.

pub mod backoff;
pub mod call;
pub mod claims;
pub mod client;
pub mod events;
pub mod node;
pub mod node_state;
pub mod slices;

use kube::api::PostParams;
use tokio::sync::watch;

/// Who writes.
const MANAGER: &str = "lanemate-kubelet-plugin";

/// Why a task has ended before it was told to.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TaskError {
    /// Nobody is left who could tell it what to publish.
    #[error("{task} has ended: {input} no longer come, so the plugin must be started again")]
    InputEnded {
        /// The task.
        task: &'static str,
        /// What it waited for.
        input: &'static str,
    },
}

/// Waits until the tasks are told to end, or nobody is left who could tell them.
pub(crate) async fn told_to_end(shutdown: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, and that is an end too.
    let _ = shutdown.wait_for(|end| *end).await;
}

/// A write in the plugin's name: the API server notes in `managedFields` who wrote what.
pub(crate) fn as_plugin() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}
