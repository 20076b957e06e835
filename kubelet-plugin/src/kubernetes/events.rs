//! Events on claims and on the node, for people. Whoever tells of one never waits: events are folded,
//! limited, and lost when the API server does not take them.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event as Wire;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use lanemate_api::names;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use self::fold::{Decision, Fold};
use super::call::{CallError, call};
use super::{TaskError, as_plugin, told_to_end};
use crate::claim_id::ClaimId;

mod fold;

/// Events that wait for the API server. More are dropped: they repeat, and memory is bounded.
const WAITING: usize = 256;
/// Bytes of a note (events.k8s.io/v1, `note`).
const MAX_NOTE: usize = 1024;
/// Bytes of the reporting instance (events.k8s.io/v1, `reportingInstance`).
const MAX_INSTANCE: usize = 128;
/// Bytes of an object's name that stand in the event's name, of which there may be 253.
const MAX_NAME: usize = 200;
/// Where events on cluster-scoped objects belong.
const NODE_NAMESPACE: &str = "default";

/// Where to tell of an event; cheap to clone. Never waits.
#[derive(Clone, Debug)]
pub struct Events {
    sender: mpsc::Sender<Event>,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// What it is about.
    pub about: About,
    /// `Warning`, or else `Normal`.
    pub is_warning: bool,
    /// One word for programs, such as `PrepareFailed`.
    pub reason: &'static str,
    /// A sentence for people.
    pub note: String,
}

/// The object of an event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum About {
    /// A claim.
    Claim(ClaimId),
    /// This node.
    Node,
}

/// Writes events.
struct Writer {
    client: Client,
    node: String,
    fold: Fold,
}

impl Events {
    /// The two ends: where to tell, and what is told.
    pub fn channel() -> (Self, mpsc::Receiver<Event>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self { sender }, receiver)
    }

    /// Something that needs attention.
    pub fn warn(&self, about: About, reason: &'static str, note: String) {
        self.tell(Event { about, is_warning: true, reason, note });
    }

    /// Something that went well.
    pub fn inform(&self, about: About, reason: &'static str, note: String) {
        self.tell(Event { about, is_warning: false, reason, note });
    }

    fn tell(&self, event: Event) {
        if let Err(error) = self.sender.try_send(event) {
            tracing::warn!(%error, "event dropped");
        }
    }
}

/// Writes events until it is told to end.
///
/// # Errors
/// When nobody is left who could tell of an event.
pub async fn run(
    client: Client,
    node: String,
    mut told: mpsc::Receiver<Event>,
    mut shutdown: watch::Receiver<bool>,
) -> Result<(), TaskError> {
    let mut writer = Writer { client, node, fold: Fold::default() };
    loop {
        let event = tokio::select! {
            () = told_to_end(&mut shutdown) => return Ok(()),
            event = told.recv() => event,
        };
        let mut event = event.ok_or(TaskError::InputEnded { task: "events", input: "events" })?;
        event.note.truncate(event.note.floor_char_boundary(MAX_NOTE));
        tokio::select! {
            () = told_to_end(&mut shutdown) => return Ok(()),
            () = writer.write(event) => {}
        }
    }
}

impl Writer {
    async fn write(&mut self, event: Event) {
        let written = match self.fold.take(&event, Instant::now()) {
            Decision::Drop => return,
            Decision::Create => self.create(&event).await,
            Decision::Count { name, count } => match self.count(&event, &name, count).await {
                // Events are removed after an hour, or by people.
                Err(error) if error.is_not_found() => self.create(&event).await,
                counted => counted,
            },
        };
        if let Err(error) = written {
            tracing::warn!(%error, reason = event.reason, note = event.note, "event dropped");
        }
    }

    async fn create(&mut self, event: &Event) -> Result<(), CallError> {
        let wire = self.wire(event);
        let deed = || format!("create events.events.k8s.io for {}", self.words(&event.about));
        let created = call(deed, self.api(event).create(&as_plugin(), &wire)).await?;
        self.fold.created(event, created.metadata.name.unwrap_or_default());
        Ok(())
    }

    async fn count(&self, event: &Event, name: &str, count: i32) -> Result<(), CallError> {
        let now = MicroTime(jiff::Timestamp::now());
        let series = json!({ "series": { "count": count, "lastObservedTime": now } });
        let deed = || format!("patch events.events.k8s.io {name}");
        let patch = Patch::Merge(&series);
        call(deed, self.api(event).patch(name, &PatchParams::default(), &patch)).await.map(drop)
    }

    fn api(&self, event: &Event) -> Api<Wire> {
        let namespace = match &event.about {
            About::Claim(claim) => &claim.namespace,
            About::Node => NODE_NAMESPACE,
        };
        Api::namespaced(self.client.clone(), namespace)
    }

    fn words(&self, about: &About) -> String {
        match about {
            About::Claim(claim) => format!("claim {claim}"),
            About::Node => format!("node {}", self.node),
        }
    }

    /// Not through the client library's recorder: it folds events with different notes into the
    /// first, and cuts neither names nor the reporting instance to what the API takes.
    fn wire(&self, event: &Event) -> Wire {
        let now = jiff::Timestamp::now();
        let regarding = regarding(&event.about, &self.node);
        let name = regarding.name.as_deref().unwrap_or_default();
        let name = cut(name, MAX_NAME).trim_end_matches(['.', '-']);
        let namespace = match &event.about {
            About::Claim(claim) => claim.namespace.clone(),
            About::Node => NODE_NAMESPACE.to_owned(),
        };
        Wire {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{:x}", now.as_nanosecond())),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            action: Some(event.reason.to_owned()),
            event_time: Some(MicroTime(now)),
            note: Some(event.note.clone()),
            reason: Some(event.reason.to_owned()),
            regarding: Some(regarding),
            reporting_controller: Some(format!("{}/kubelet-plugin", names::DRIVER)),
            reporting_instance: Some(cut(&self.node, MAX_INSTANCE).to_owned()),
            type_: Some(if event.is_warning { "Warning" } else { "Normal" }.to_owned()),
            ..Wire::default()
        }
    }
}

fn regarding(about: &About, node: &str) -> ObjectReference {
    match about {
        About::Claim(claim) => ObjectReference {
            api_version: Some("resource.k8s.io/v1".to_owned()),
            kind: Some("ResourceClaim".to_owned()),
            name: Some(claim.name.clone()),
            namespace: Some(claim.namespace.clone()),
            uid: Some(claim.uid.to_string()),
            ..ObjectReference::default()
        },
        // As kubelet does, and where `kubectl describe node` looks: the name stands for the UID.
        About::Node => ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            uid: Some(node.to_owned()),
            ..ObjectReference::default()
        },
    }
}

fn cut(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}
