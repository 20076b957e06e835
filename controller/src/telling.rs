//! What the controller tells about its work: events for people, numbers for machines, lines in the log.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use lanemate_api::names;
use lanemate_driver::allocation::Evaluations;
use lanemate_runtime::events::{self, Event, Events, Object, Reporter};
use lanemate_runtime::shutdown::InputEnded;
use tokio::sync::{mpsc, watch};

use crate::change::{Change, Outcome, Report};
use crate::classes::subject;
use crate::id::Uid;
use crate::index::Index;
use crate::plan::repair::Counts;
use crate::plan::{About as Subject, Notice, Stats, notices};
use crate::telemetry::capacities::Capacities;
use crate::telemetry::metrics::Metrics;
use crate::write::MANAGER;

/// What is told of a plan.
#[derive(Clone, Copy)]
pub struct About<'a> {
    /// What the round saw.
    pub stats: &'a Stats,
    /// What is wrong now.
    pub counts: &'a Counts,
    /// How long it took.
    pub took: Duration,
    /// When.
    pub now: Timestamp,
}

/// Tells; never waits.
pub struct Teller {
    events: Events<Object>,
    metrics: Metrics,
    capacities: Capacities,
    evaluations: Evaluations,
    /// When changes were handed to the writer: as many as it takes.
    handed: BTreeMap<(&'static str, Uid), Instant>,
}

impl Teller {
    /// Tells with these.
    pub fn new(events: Events<Object>, metrics: Metrics) -> Self {
        Self {
            events,
            metrics,
            capacities: Capacities::default(),
            evaluations: Evaluations::default(),
            handed: BTreeMap::new(),
        }
    }

    /// Of a change that goes to the writer.
    pub fn handed(&mut self, change: &Change) {
        if let Some(key) = key(change) {
            self.handed.insert(key, Instant::now());
        }
    }

    /// Of a change that is over.
    pub fn report(&mut self, report: &Report) {
        if let Some(key) = key(&report.change)
            && let Some(handed) = self.handed.remove(&key)
        {
            self.metrics.write(key.0, handed.elapsed());
        }
        let what = words(&report.change);
        match &report.outcome {
            Outcome::Done => tracing::info!(change = what, "written"),
            Outcome::Superseded(why) => {
                self.metrics.conflict();
                tracing::info!(change = what, why, "planned anew");
            }
            Outcome::Refused(why) => tracing::warn!(change = what, why, "the API server refuses"),
            Outcome::Fenced => tracing::warn!(change = what, "not written: the lease may be lost"),
            Outcome::Dropped(fields) => {
                tracing::error!(
                    change = what,
                    ?fields,
                    "the API server drops fields: see `lanemate check`"
                );
            }
        }
    }

    /// Of a plan.
    pub fn planned(&mut self, index: &mut Index, about: &About<'_>) {
        let About { stats, counts, took, now } = *about;
        let age =
            stats.oldest.and_then(|oldest| Duration::try_from(now.duration_since(oldest)).ok());
        self.metrics.queue(stats.waiting, age.unwrap_or_default(), self.handed.len());
        self.metrics.wanted(stats.wanted.iter().map(|(class, count)| (class.as_str(), *count)));
        if let Ok(decisions @ 1..) = u32::try_from(stats.decisions) {
            for _ in 0..decisions {
                self.metrics.decision(took / decisions);
            }
        }
        self.metrics.troubles(counts);
        let names: Vec<String> =
            index.resource_classes().filter_map(|class| class.metadata.name.clone()).collect();
        let classes: Vec<_> =
            names.iter().filter_map(|name| index.classes().get(name).ok()).collect();
        let changes = self.capacities.count(index.cluster(), &mut self.evaluations, &classes, now);
        self.metrics.capacities(&changes);
        for (kind, count) in index.sizes() {
            self.metrics.objects(kind, count);
        }
    }

    /// To people.
    pub fn notice(&self, notice: Notice) {
        let Notice { about, is_warning, reason, note } = notice;
        if matches!(about, Subject::Pod(_)) && reason != notices::PLACED {
            self.metrics.refusal(reason);
        }
        let about = object(about);
        if is_warning {
            self.events.warn(about, reason, note);
        } else {
            self.events.inform(about, reason, note);
        }
    }
}

/// Writes events until it is told to end.
///
/// # Errors
/// When nobody is left who could tell of an event.
pub async fn write_events(
    client: Client,
    identity: String,
    told: mpsc::Receiver<Event<Object>>,
    shutdown: watch::Receiver<bool>,
) -> Result<(), InputEnded> {
    let reporter = Reporter {
        controller: format!("{}/controller", names::DRIVER),
        instance: identity,
        manager: MANAGER,
        regarding: |about: &Object| -> ObjectReference { about.reference() },
    };
    events::run(client, reporter, told, shutdown).await
}

fn object(about: Subject) -> Object {
    let (api_version, kind, id) = match about {
        Subject::Pod(id) => ("v1", "Pod", id),
        Subject::Claim(id) => ("resource.k8s.io/v1", "ResourceClaim", id),
        Subject::Class(id) => (names::API_VERSION, "ResourceClass", id),
    };
    Object {
        api_version,
        kind,
        namespace: Some(id.key.namespace).filter(|namespace| !namespace.is_empty()),
        name: id.key.name,
        uid: id.uid.0,
    }
}

/// A change in a few words.
fn words(change: &Change) -> String {
    match change {
        Change::Place(place) => format!("place pod {} on node {}", place.pod, place.node),
        Change::Ungate(ungate) => format!("take the gate off pod {}", ungate.pod),
        Change::Clear(clear) => format!("take claim {} back: {}", clear.claim, clear.why),
        Change::DeletePod(delete) => format!("delete pod {}: {}", delete.pod, delete.why),
        Change::Protect(protect) => format!("put the finalizer on claim {} again", protect.claim),
        Change::Class(change) => change.words(),
    }
}

/// The kind of a change, and what it is for.
fn key(change: &Change) -> Option<(&'static str, Uid)> {
    Some(match change {
        Change::Place(place) => ("place", place.pod.uid.clone()),
        Change::Ungate(ungate) => ("ungate", ungate.pod.uid.clone()),
        Change::Clear(clear) => ("clear", clear.claim.uid.clone()),
        Change::Protect(protect) => ("protect", protect.claim.uid.clone()),
        Change::DeletePod(delete) => ("delete_pod", delete.pod.uid.clone()),
        Change::Class(class) => ("class", subject(class)?),
    })
}
