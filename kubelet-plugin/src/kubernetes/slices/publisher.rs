//! Keeps the slices in the cluster what they should be, as long as the plugin runs.
//!
//! ```text
//!            machine or mode changes, or the watch tells news
//!   settled ----------------------------------------------------> due
//!      ^                                                           | 50 ms
//!      |   as wanted                                               v
//!      +------------------------------------------------------- round --failed--> back-off --> due
//! ```
//! Kubelet deletes the slices of its node when it starts and when a plugin is gone for long; they are
//! back after one round. Whoever changes them again and again is answered more and more slowly: during
//! an update two plugins run at once, and may offer different things.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_objects};
use kube::{Api, Client};
use lanemate_api::names;
use lanemate_driver::machine::Machine;
use lanemate_driver::resource_slice::{Mode, RenderOptions, render};
use lanemate_runtime::backoff::Backoff;
use lanemate_runtime::call::CallError;
use lanemate_runtime::shutdown::{InputEnded, told_to_end};
use tokio::sync::watch;
use tokio::time::Instant;

use super::round::{Done, Rounds};
use super::seen::Seen;
use crate::telemetry::metrics::Metrics;

/// Changes that are published as one.
const GATHER: Duration = Duration::from_millis(50);
/// Seconds that one watch lasts. A connection that has died silently is noticed 5 s later, so slices
/// that vanish meanwhile are back within the minute for which allocators tolerate that.
pub const WATCH_SECONDS: u32 = 50;
/// Without a repair for so long, the next one is done at once again.
const QUIET: Duration = Duration::from_secs(60);

/// What is published, and by what means.
pub struct Publisher {
    /// The API server.
    pub client: Client,
    /// This node.
    pub node: String,
    /// The machine as last read; its inventory names the same node.
    pub machine: watch::Receiver<Arc<Machine>>,
    /// The mode in force.
    pub mode: watch::Receiver<Mode>,
    /// Where to tell what is published.
    pub published: watch::Sender<Published>,
    /// Counts writes.
    pub metrics: Metrics,
    /// Seconds that one watch lasts: [`WATCH_SECONDS`], less in tests.
    pub watch_seconds: u32,
}

/// What stands in the cluster, as far as this plugin knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// The slices have been what they should be at least once: ready.
    pub was_complete: bool,
    /// They are what they should be.
    pub is_complete: bool,
    /// Slices, when last complete.
    pub slices: usize,
    /// Devices in them.
    pub devices: usize,
    /// Generation of the pool, when last complete.
    pub generation: i64,
    /// Fields that the API server dropped or changed, such as
    /// `00000-lanemate.dev-n1: devices[0].taints: dropped`. A dropped taint of ours lets
    /// kube-scheduler allocate our devices.
    pub differences: Vec<String>,
    /// Why they are not complete.
    pub trouble: Option<String>,
}

/// Moments and waits.
struct Pace {
    /// The next round; absent while all is settled.
    due: Option<Instant>,
    /// No round before.
    not_before: Instant,
    failures: Backoff,
    repairs: Backoff,
    last_repair: Option<Instant>,
}

/// Publishes until it is told to end; the slices stay. Trouble with the API server is logged and
/// tried again.
///
/// # Errors
/// When nobody is left who could tell of the machine, of the mode or of the slices.
pub async fn run(
    publisher: Publisher,
    mut shutdown: watch::Receiver<bool>,
) -> Result<(), InputEnded> {
    let Publisher { client, node, mut machine, mut mode, published, metrics, watch_seconds } =
        publisher;
    let selector = format!("spec.driver={},spec.nodeName={node}", names::DRIVER);
    let mut watch = pin!(watch_slices(client.clone(), &selector, watch_seconds));
    let mut rounds = Rounds::new(client, node, selector, metrics.clone());
    let mut seen = Seen::default();
    let mut pace = Pace::new();
    let mut last: Option<Vec<ResourceSlice>> = None;
    loop {
        tokio::select! {
            () = told_to_end(&mut shutdown) => return Ok(()),
            () = pace.wait() => {}
            changed = machine.changed() => {
                changed.map_err(|_| ended("readings of the machine"))?;
                pace.hurry();
                continue;
            }
            changed = mode.changed() => {
                changed.map_err(|_| ended("modes"))?;
                pace.hurry();
                continue;
            }
            event = watch.next() => {
                if is_news(&mut seen, event.ok_or_else(|| ended("events of the watch"))?) {
                    pace.hurry();
                }
                continue;
            }
        }
        let options = RenderOptions { mode: *mode.borrow_and_update(), generation: 0 };
        let wanted = render(&machine.borrow_and_update().inventory, options);
        let done = tokio::select! {
            () = told_to_end(&mut shutdown) => return Ok(()),
            done = rounds.go(&wanted) => done,
        };
        match done {
            Ok(done) => {
                let is_repair = done.writes > 0 && last.as_ref() == Some(&wanted);
                pace.settled(is_repair);
                tell(&published, &metrics, &done);
                seen.published(done.versions);
                last = Some(wanted);
            }
            Err(error) => {
                let wait = pace.failed(&error);
                tracing::warn!(%error, retry_in = ?wait, "ResourceSlices not published");
                published.send_modify(|published| {
                    published.is_complete = false;
                    published.trouble = Some(error.to_string());
                });
            }
        }
    }
}

fn ended(input: &'static str) -> InputEnded {
    InputEnded { task: "resourceslices", input }
}

/// The slices of this node, by their metadata: what they say is read when a round needs it.
fn watch_slices(
    client: Client,
    selector: &str,
    seconds: u32,
) -> impl Stream<Item = watcher::Result<Event<PartialObjectMeta<ResourceSlice>>>> + use<> {
    let slices: Api<PartialObjectMeta<ResourceSlice>> = Api::all(client);
    let config = watcher::Config::default().fields(selector).timeout(seconds);
    watch_objects(slices, config).default_backoff()
}

/// A watch that fails may have missed something.
fn is_news(
    seen: &mut Seen,
    event: watcher::Result<Event<PartialObjectMeta<ResourceSlice>>>,
) -> bool {
    match event {
        Ok(event) => seen.is_news(&event),
        Err(error) => {
            tracing::debug!(%error, "watch of ResourceSlices failed; it begins again");
            true
        }
    }
}

fn tell(published: &watch::Sender<Published>, metrics: &Metrics, done: &Done) {
    let (slices, generation) = (done.versions.len(), done.generation);
    let now = jiff::Timestamp::now().as_second();
    // A double is exact up to the year 285 million.
    metrics.published(slices, generation, now as f64);
    if done.writes > 0 {
        let (writes, devices) = (done.writes, done.devices);
        tracing::info!(slices, devices, generation, writes, "ResourceSlices published");
    }
    if !done.differences.is_empty() {
        tracing::error!(
            differences = ?done.differences,
            "the API server has stored other ResourceSlices than were sent: a feature of \
             resource.k8s.io may be off there"
        );
    }
    published.send_modify(|published| {
        // What was dropped once stays so until it is written again.
        if done.writes > 0 {
            published.differences.clone_from(&done.differences);
        }
        published.was_complete = true;
        published.is_complete = true;
        published.slices = slices;
        published.devices = done.devices;
        published.generation = generation;
        published.trouble = None;
    });
}

impl Pace {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            due: Some(now),
            not_before: now,
            failures: Backoff::default(),
            repairs: Backoff::default(),
            last_repair: None,
        }
    }

    async fn wait(&self) {
        match self.due {
            Some(due) => tokio::time::sleep_until(due).await,
            None => std::future::pending().await,
        }
    }

    /// Something has changed.
    fn hurry(&mut self) {
        let soon = (Instant::now() + GATHER).max(self.not_before);
        self.due = Some(self.due.map_or(soon, |due| due.min(soon).max(self.not_before)));
    }

    /// The round went well. A repair is one that had to write what was written before.
    fn settled(&mut self, is_repair: bool) {
        let now = Instant::now();
        self.due = None;
        self.failures.reset();
        if self.last_repair.is_none_or(|last| now.duration_since(last) > QUIET) {
            self.repairs.reset();
        }
        self.not_before = now;
        if is_repair {
            self.not_before += self.repairs.next_wait();
            self.last_repair = Some(now);
        }
    }

    /// The round failed; returns the wait until the next one.
    fn failed(&mut self, error: &CallError) -> Duration {
        let wait = self.failures.next_wait().max(error.retry_after());
        self.not_before = Instant::now() + wait;
        self.due = Some(self.not_before);
        wait
    }
}
