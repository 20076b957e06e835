//! Events on objects, for people. Whoever tells of one never waits: events are folded, limited, and lost
//! when the API server does not take them.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event as Wire;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use self::fold::{Decision, Fold};
use crate::call::{CallError, call};
use crate::shutdown::{InputEnded, told_to_end};

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
const DEFAULT_NAMESPACE: &str = "default";

/// Where to tell of an event; cheap to clone. Never waits.
#[derive(Debug)]
pub struct Events<A> {
    sender: mpsc::Sender<Event<A>>,
}

/// One event, about what the program calls `A`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event<A> {
    /// What it is about.
    pub about: A,
    /// `Warning`, or else `Normal`.
    pub is_warning: bool,
    /// One word for programs, such as `PrepareFailed`.
    pub reason: &'static str,
    /// A sentence for people.
    pub note: String,
}

/// An object, for an [`Event`] of which a program tells.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Object {
    /// `v1`, `resource.k8s.io/v1`.
    pub api_version: &'static str,
    /// `Pod`, `ResourceClaim`.
    pub kind: &'static str,
    /// Absent for an object that is in none.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
}

/// Who tells, and how what it tells about becomes an object.
#[derive(Clone, Debug)]
pub struct Reporter<R> {
    /// The program, such as `lanemate.dev/controller` (events.k8s.io/v1, `reportingController`).
    pub controller: String,
    /// Which instance of it; cut to what the API takes.
    pub instance: String,
    /// Who writes, for `managedFields`.
    pub manager: &'static str,
    /// The object of an event.
    pub regarding: R,
}

/// Writes events.
struct Writer<A, R> {
    client: Client,
    reporter: Reporter<R>,
    fold: Fold<A>,
}

impl<A> Clone for Events<A> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone() }
    }
}

impl<A> Events<A> {
    /// The two ends: where to tell, and what is told.
    pub fn channel() -> (Self, mpsc::Receiver<Event<A>>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self { sender }, receiver)
    }

    /// Something that needs attention.
    pub fn warn(&self, about: A, reason: &'static str, note: String) {
        self.tell(Event { about, is_warning: true, reason, note });
    }

    /// Something that went well.
    pub fn inform(&self, about: A, reason: &'static str, note: String) {
        self.tell(Event { about, is_warning: false, reason, note });
    }

    fn tell(&self, event: Event<A>) {
        if let Err(error) = self.sender.try_send(event) {
            tracing::warn!(%error, "event dropped");
        }
    }
}

/// Writes events until it is told to end.
///
/// # Errors
/// When nobody is left who could tell of an event.
pub async fn run<A: Clone + Ord>(
    client: Client,
    reporter: Reporter<impl Fn(&A) -> ObjectReference>,
    mut told: mpsc::Receiver<Event<A>>,
    mut shutdown: watch::Receiver<bool>,
) -> Result<(), InputEnded> {
    let mut writer = Writer { client, reporter, fold: Fold::default() };
    loop {
        let event = tokio::select! {
            () = told_to_end(&mut shutdown) => return Ok(()),
            event = told.recv() => event,
        };
        let mut event = event.ok_or(InputEnded { task: "events", input: "events" })?;
        event.note.truncate(event.note.floor_char_boundary(MAX_NOTE));
        tokio::select! {
            () = told_to_end(&mut shutdown) => return Ok(()),
            () = writer.write(event) => {}
        }
    }
}

impl<A: Clone + Ord, R: Fn(&A) -> ObjectReference> Writer<A, R> {
    async fn write(&mut self, event: Event<A>) {
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

    async fn create(&mut self, event: &Event<A>) -> Result<(), CallError> {
        let regarding = (self.reporter.regarding)(&event.about);
        let deed = || format!("create events.events.k8s.io for {}", words(&regarding));
        let api: Api<Wire> = Api::namespaced(self.client.clone(), namespace(&regarding));
        let manager = Some(self.reporter.manager.to_owned());
        let parameters = PostParams { field_manager: manager, ..PostParams::default() };
        let wire = self.wire(event, &regarding);
        let created = call(deed, api.create(&parameters, &wire)).await?;
        self.fold.created(event, created.metadata.name.unwrap_or_default());
        Ok(())
    }

    async fn count(&self, event: &Event<A>, name: &str, count: i32) -> Result<(), CallError> {
        let now = MicroTime(jiff::Timestamp::now());
        let series = json!({ "series": { "count": count, "lastObservedTime": now } });
        let deed = || format!("patch events.events.k8s.io {name}");
        let regarding = (self.reporter.regarding)(&event.about);
        let api: Api<Wire> = Api::namespaced(self.client.clone(), namespace(&regarding));
        let patch = Patch::Merge(&series);
        call(deed, api.patch(name, &PatchParams::default(), &patch)).await.map(drop)
    }

    /// Not through the client library's recorder: it folds events with different notes into the
    /// first, and cuts neither names nor the reporting instance to what the API takes.
    fn wire(&self, event: &Event<A>, regarding: &ObjectReference) -> Wire {
        let now = jiff::Timestamp::now();
        let name = regarding.name.as_deref().unwrap_or_default();
        let name = cut(name, MAX_NAME).trim_end_matches(['.', '-']);
        Wire {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{:x}", now.as_nanosecond())),
                namespace: Some(namespace(regarding).to_owned()),
                ..ObjectMeta::default()
            },
            action: Some(event.reason.to_owned()),
            event_time: Some(MicroTime(now)),
            note: Some(event.note.clone()),
            reason: Some(event.reason.to_owned()),
            regarding: Some(regarding.clone()),
            reporting_controller: Some(self.reporter.controller.clone()),
            reporting_instance: Some(cut(&self.reporter.instance, MAX_INSTANCE).to_owned()),
            type_: Some(if event.is_warning { "Warning" } else { "Normal" }.to_owned()),
            ..Wire::default()
        }
    }
}

impl Object {
    /// For a [`Reporter`] that tells of objects.
    pub fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some(self.api_version.to_owned()),
            kind: Some(self.kind.to_owned()),
            namespace: self.namespace.clone(),
            name: Some(self.name.clone()),
            uid: Some(self.uid.clone()),
            ..ObjectReference::default()
        }
    }
}

fn namespace(regarding: &ObjectReference) -> &str {
    regarding.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE)
}

fn words(regarding: &ObjectReference) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    match &regarding.namespace {
        Some(namespace) => {
            format!("{} {namespace}/{}", part(&regarding.kind), part(&regarding.name))
        }
        None => format!("{} {}", part(&regarding.kind), part(&regarding.name)),
    }
}

fn cut(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}
