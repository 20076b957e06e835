//! What the plugin tells people about: claims, and its node.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use lanemate_api::names;
use lanemate_runtime::events::{self, Object, Reporter};
use lanemate_runtime::shutdown::InputEnded;
use tokio::sync::{mpsc, watch};

use super::MANAGER;
use crate::claim_id::ClaimId;

/// Where to tell of an event; cheap to clone. Never waits.
pub type Events = events::Events<About>;

/// One event.
pub type Event = events::Event<About>;

/// The object of an event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum About {
    /// A claim.
    Claim(ClaimId),
    /// This node.
    Node,
}

/// Writes events of this node until it is told to end.
///
/// # Errors
/// When nobody is left who could tell of an event.
pub async fn run(
    client: Client,
    node: String,
    told: mpsc::Receiver<Event>,
    shutdown: watch::Receiver<bool>,
) -> Result<(), InputEnded> {
    let reporter = Reporter {
        controller: format!("{}/kubelet-plugin", names::DRIVER),
        instance: node.clone(),
        manager: MANAGER,
        regarding: |about: &About| regarding(about, &node),
    };
    events::run(client, reporter, told, shutdown).await
}

fn regarding(about: &About, node: &str) -> ObjectReference {
    let object = match about {
        About::Claim(claim) => Object {
            api_version: "resource.k8s.io/v1",
            kind: "ResourceClaim",
            namespace: Some(claim.namespace.clone()),
            name: claim.name.clone(),
            uid: claim.uid.to_string(),
        },
        // As kubelet does, and where `kubectl describe node` looks: the name stands for the UID.
        About::Node => Object {
            api_version: "v1",
            kind: "Node",
            namespace: None,
            name: node.to_owned(),
            uid: node.to_owned(),
        },
    };
    object.reference()
}
