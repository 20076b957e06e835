//! All of it wired, in the order in which it starts and ends.
//!
//! ```text
//! settings --> log --> records in order --> health, metrics, slices, NodeState, events
//!     --> records compared with the cluster --> sockets of kubelet --> scans, comparisons
//! SIGTERM: kubelet's sockets and calls in flight --> all other tasks --> state thread
//! ```
//! An API server that does not answer delays nothing but what needs it: the node serves from its
//! records, and publishes when the API server is back.

use std::future::Future;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use lanemate_driver::files::Roots;
use lanemate_runtime::client::{Connection, connect};
use lanemate_runtime::random::jittered;
use lanemate_runtime::shutdown::{Signals, Stop, TaskError, Tasks};
use lanemate_runtime::telemetry::{logging, metrics_server, process};
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::args::{Cli, Command};
use crate::grpc::{self, Registration, SocketPaths};
use crate::kubernetes::claims::Claims;
use crate::kubernetes::events::{self, Events};
use crate::kubernetes::node_state;
use crate::kubernetes::slices::publisher::{self, Published, Publisher};
use crate::machine_source::MachineSource;
use crate::reconcile::{Next, Reconciler};
use crate::service::Service;
use crate::settings::{self, Settings};
use crate::state::{self, State};
use crate::telemetry::health::{self, Health, Readiness};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::probe;

/// Between two looks for files that others may have removed…
const TEND_INTERVAL: Duration = Duration::from_secs(1);
/// …and while they cannot be written again.
const MAX_TEND_INTERVAL: Duration = Duration::from_secs(60);
/// Threads of the runtime: it waits for sockets; the work on disks has a thread of its own.
const WORKERS: usize = 2;
/// How long the first comparison with the cluster may hold up the registration. Where the API server
/// does not answer, the node is better off with a plugin that serves from its records.
const FIRST_COMPARISON: Duration = Duration::from_secs(15);
/// Of the 30 s that a pod has to end: for calls in flight, a little more than their server takes…
const SERVERS_WITHIN: Duration = Duration::from_secs(22);
/// …for all other tasks…
const TASKS_WITHIN: Duration = Duration::from_secs(3);
/// …and for what the state thread has begun.
const STATE_WITHIN: Duration = Duration::from_secs(3);

/// Does what the command line says.
pub fn run(cli: Cli) -> ExitCode {
    match cli.command {
        Some(Command::Version) => {
            println!("lanemate-kubelet-plugin {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Some(Command::Probe { about }) => {
            let answer = probe::ask(&settings::health_socket(&cli), about);
            answer.map_or_else(|error| failed(&error.to_string(), 1), |()| ExitCode::SUCCESS)
        }
        None => match Settings::check(cli) {
            Ok(settings) => logged(settings),
            Err(error) => failed(&error.to_string(), 2),
        },
    }
}

fn failed(error: &str, status: u8) -> ExitCode {
    for line in error.lines() {
        eprintln!("lanemate-kubelet-plugin: {line}");
    }
    ExitCode::from(status)
}

/// From here on all is told in the log, which is on stderr too.
fn logged(mut settings: Settings) -> ExitCode {
    logging::begin(std::mem::take(&mut settings.log));
    match serve(settings) {
        Ok(()) => {
            tracing::info!("ended");
            ExitCode::SUCCESS
        }
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "the plugin has failed");
            ExitCode::FAILURE
        }
    }
}

fn serve(settings: Settings) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
        .context("start the runtime")?;
    runtime.block_on(begin_and_end(settings))
}

async fn begin_and_end(settings: Settings) -> anyhow::Result<()> {
    let mut signals = Signals::catch().context("catch signals")?;
    let directories = &settings.directories;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        node = settings.node,
        mode = ?settings.mode,
        root = %settings.machine.root.display(),
        plugins = %directories.plugins.display(),
        registry = %directories.registry.display(),
        state = %directories.state.display(),
        metadata = %directories.metadata.display(),
        cdi = %directories.cdi.display(),
        health_socket = %settings.health_socket.display(),
        metrics = settings.metrics_address.map_or("off".to_owned(), |address| address.to_string()),
        "starting"
    );
    let mut plugin = Plugin::start(settings).await?;
    let served = tokio::select! {
        signal = signals.next() => {
            tracing::info!(signal, "ending: calls in flight are finished, records and slices stay");
            Ok(())
        }
        ended = plugin.serve() => ended,
    };
    signals.end_at_the_next();
    let drained = plugin.drain().await;
    // The first error is the one to tell.
    served.and(drained)
}

/// The running parts.
struct Plugin {
    settings: Settings,
    service: Arc<Service>,
    reconciler: Reconciler,
    state: State,
    thread: JoinHandle<()>,
    readiness: Readiness,
    published: watch::Receiver<Published>,
    /// Kubelet's sockets: they end first.
    servers: Tasks,
    tasks: Tasks,
}

impl Plugin {
    /// Brings the records in order, and starts all that does not wait for the API server.
    async fn start(mut settings: Settings) -> anyhow::Result<Self> {
        let connection = connect(settings.kubeconfig.as_deref()).await?;
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        process::register(&mut registry, "lanemate_plugin");
        let (events, told) = Events::channel();
        let machine = std::mem::take(&mut settings.machine);
        let directory = &settings.directories.metadata;
        let mut source = MachineSource::open(settings.node.clone(), machine, directory)?;
        let (state, thread) = state::start(
            of_state(&settings),
            Box::new(move || source.read()),
            metrics.clone(),
            events.clone(),
        )
        .context("start the state thread")?;
        let claims = Claims::new(connection.clone());
        let servers = Tasks::new();
        let service =
            Service::new(claims.clone(), state.clone(), events, metrics.clone(), servers.stop());
        let (publish, published) = watch::channel(Published::default());
        let mut plugin = Self {
            service: Arc::new(service),
            reconciler: Reconciler::new(claims, state.clone()),
            state,
            thread,
            readiness: Readiness::default(),
            published,
            servers,
            tasks: Tasks::new(),
            settings,
        };
        plugin.begin_telemetry(registry)?;
        plugin.begin_publishing(&connection, told, publish, metrics);
        Ok(plugin)
    }

    fn begin_telemetry(&mut self, registry: Registry) -> anyhow::Result<()> {
        let socket = &self.settings.health_socket;
        let listener = health::bind(socket)
            .with_context(|| format!("bind --health-socket {}", socket.display()))?;
        let health = Health::new(self.state.clone(), self.readiness.clone(), health::PATIENCE);
        let stop = self.tasks.stop().requested();
        self.tasks.begin("health", health::serve(listener, health, stop));
        if let Some(address) = self.settings.metrics_address {
            let listener = metrics_server::bind(address)
                .with_context(|| format!("bind --metrics-address {address}"))?;
            let stop = self.tasks.stop().requested();
            self.tasks.begin("metrics", metrics_server::serve(listener, Arc::new(registry), stop));
        }
        Ok(())
    }

    fn begin_publishing(
        &mut self,
        connection: &Connection,
        told: tokio::sync::mpsc::Receiver<events::Event>,
        published: watch::Sender<Published>,
        metrics: Metrics,
    ) {
        let client = || connection.client.clone();
        let node = || self.settings.node.clone();
        let publisher = Publisher {
            client: client(),
            node: node(),
            machine: self.state.machine(),
            mode: self.state.mode(),
            published,
            metrics,
            watch_seconds: publisher::WATCH_SECONDS,
        };
        let stop = self.tasks.stop().receiver();
        let publishing = publisher::run(publisher, stop);
        let stop = self.tasks.stop().receiver();
        let telling = events::run(client(), node(), told, stop);
        let stop = self.tasks.stop().receiver();
        let holding = node_state::run(client(), node(), self.state.held(), stop);
        self.tasks.begin("slices", publishing);
        self.tasks.begin("events", telling);
        self.tasks.begin("node-state", holding);
    }

    /// Compares the records with the cluster, registers with kubelet, and goes on until a task ends.
    async fn serve(&mut self) -> anyhow::Result<()> {
        let next = match timeout(FIRST_COMPARISON, self.reconciler.round()).await {
            Ok(next) => next?,
            Err(_) => {
                tracing::warn!("records are not compared with the cluster yet: it does not answer");
                Next::Soon
            }
        };
        self.begin_kubelet().await?;
        let stop = self.tasks.stop();
        let rounds = self.reconciler.clone();
        let interval = self.settings.reconcile_interval;
        self.tasks.begin("reconcile", rounds.run(interval, next, stop));
        let stop = self.tasks.stop();
        let scans = scan(self.state.clone(), self.settings.rescan_interval, stop);
        self.tasks.begin("rescan", scans);
        self.tasks.begin("tend", tend(self.state.clone(), self.tasks.stop()));
        let ended: TaskError = tokio::select! {
            ended = self.servers.first_end() => ended,
            ended = self.tasks.first_end() => ended,
        };
        Err(ended.into())
    }

    async fn begin_kubelet(&mut self) -> anyhow::Result<()> {
        let directories = &self.settings.directories;
        let config = grpc::Config {
            plugins: directories.plugins.clone(),
            registry: directories.registry.clone(),
            pod_uid: self.settings.pod_uid.clone(),
            answer_within: grpc::Config::ANSWER_WITHIN,
            drain_within: grpc::Config::DRAIN_WITHIN,
        };
        let stop = self.servers.stop().requested();
        let mut serving = grpc::serve(config, Arc::clone(&self.service), stop).await?;
        let registered = serving.registered.clone();
        let paths = serving.paths.clone();
        self.servers.begin("kubelet-socket-files", watch_over(paths, self.servers.stop()));
        self.servers.begin("kubelet-sockets", async move { serving.ended().await });
        let stop = self.servers.stop();
        let readiness = self.readiness.clone();
        let follow = follow(registered, self.published.clone(), readiness, stop);
        self.servers.begin("readiness", follow);
        Ok(())
    }

    /// Ends everything, kubelet's calls first, and waits for it.
    async fn drain(self) -> anyhow::Result<()> {
        let Self { service, reconciler, state, thread, servers, tasks, .. } = self;
        let served = servers.drain(SERVERS_WITHIN).await;
        let done = tasks.drain(TASKS_WITHIN).await;
        // The thread ends when nobody can ask it any more.
        drop((service, reconciler, state));
        let joined = timeout(STATE_WITHIN, tokio::task::spawn_blocking(|| thread.join())).await;
        let ended = match joined {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(_) => Err(anyhow!("the state thread has panicked: its words are above")),
            Err(_) => Err(anyhow!("the state thread did not end within {STATE_WITHIN:?}")),
        };
        served?;
        done?;
        ended
    }
}

fn of_state(settings: &Settings) -> state::Settings {
    let directories = &settings.directories;
    state::Settings {
        directory: directories.state.clone(),
        roots: Roots { cdi: directories.cdi.clone(), metadata: directories.metadata.clone() },
        kubelet_checkpoint: directories.kubelet_claims.clone(),
        lock_wait: state::Settings::LOCK_WAIT,
        gone_grace: settings.claim_gone_grace,
        mode: settings.mode,
        // In two pods both processes may have the id 1; outside of pods ids differ.
        instance: settings.pod_uid.clone().unwrap_or_else(|| std::process::id().to_string()),
    }
}

/// Reads the machine again and again.
async fn scan(state: State, interval: Duration, stop: Stop) -> anyhow::Result<()> {
    let scans = async {
        loop {
            tokio::time::sleep(jittered(interval)).await;
            state.rescan().await.context("the state thread has ended")?;
        }
    };
    until(stop, scans).await
}

/// Looks for files of prepared claims again and again.
async fn tend(state: State, stop: Stop) -> anyhow::Result<()> {
    let looks = async {
        let mut pause = TEND_INTERVAL;
        loop {
            tokio::time::sleep(pause).await;
            let is_whole = state.tend().await.context("the state thread has ended")?;
            // What cannot be written now is tried again less often, and by reconciliation.
            pause = if is_whole { TEND_INTERVAL } else { MAX_TEND_INTERVAL.min(pause * 2) };
        }
    };
    until(stop, looks).await
}

/// Ends when a socket of ours is removed by others: nobody could call it any more, and a new process
/// binds it anew.
async fn watch_over(paths: SocketPaths, stop: Stop) -> anyhow::Result<()> {
    let looks = async {
        loop {
            tokio::time::sleep(TEND_INTERVAL).await;
            let mut files = [paths.dra(), paths.registration()].into_iter();
            if let Some(gone) = files.find(|file| !Path::new(file).exists()) {
                bail!("the socket {gone} was removed: expected it to stay");
            }
        }
    };
    until(stop, looks).await
}

/// Tells readiness what kubelet and the publisher say.
async fn follow(
    mut registered: watch::Receiver<Registration>,
    mut published: watch::Receiver<Published>,
    readiness: Readiness,
    stop: Stop,
) -> anyhow::Result<()> {
    let follow = async {
        loop {
            readiness.set_registration(registered.borrow_and_update().clone());
            if published.borrow_and_update().was_complete {
                readiness.set_published();
            }
            tokio::select! {
                changed = registered.changed() => changed.context("kubelet's sockets have ended")?,
                changed = published.changed() => changed.context("the publisher has ended")?,
            }
        }
    };
    until(stop, follow).await
}

async fn until(stop: Stop, work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let asked = stop.clone();
    tokio::select! {
        () = stop.requested() => Ok(()),
        // What it works for may end together with it, and be seen to end before the wish is.
        ended = work => if asked.is_requested() { Ok(()) } else { ended },
    }
}
