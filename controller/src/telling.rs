//! What the controller tells about its work: events for people, numbers for machines, lines in the log.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use lanemate_api::names;
use lanemate_runtime::events::{self, Event, Events, Object, Reporter};
use lanemate_runtime::shutdown::InputEnded;
use tokio::sync::{mpsc, watch};

use crate::change::{Change, Outcome, Report};
use crate::index::Index;
use crate::plan::{About, Notice, Stats};
use crate::telemetry::metrics::Metrics;
use crate::write::MANAGER;

/// Tells; never waits.
pub struct Teller {
    events: Events<Object>,
    metrics: Metrics,
}

impl Teller {
    /// Tells with these.
    pub fn new(events: Events<Object>, metrics: Metrics) -> Self {
        Self { events, metrics }
    }

    /// Of a change that is over.
    pub fn report(&self, report: &Report) {
        self.metrics.report(report);
        let what = words(&report.change);
        match &report.outcome {
            Outcome::Done => tracing::info!(change = what, "written"),
            Outcome::Superseded(why) => tracing::info!(change = what, why, "planned anew"),
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
    pub fn planned(&mut self, index: &Index, stats: &Stats, took: Duration, now: Timestamp) {
        self.metrics.planned(index, stats, took, now);
    }

    /// To people.
    pub fn notice(&self, notice: Notice) {
        let Notice { about, is_warning, reason, note } = notice;
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

fn object(about: About) -> Object {
    let (api_version, kind, id) = match about {
        About::Pod(id) => ("v1", "Pod", id),
        About::Claim(id) => ("resource.k8s.io/v1", "ResourceClaim", id),
        About::Class(id) => (names::API_VERSION, "ResourceClass", id),
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
        Change::Class(change) => change.words(),
    }
}
