//! All of it wired, in the order in which it starts and ends.
//!
//! ```text
//! settings --> log --> health and metrics --all needed is served--> candidate --lease--> watches --all listed-->
//!     rounds and writer
//! SIGTERM: rounds --> jobs that have begun --> lease given back --> all other tasks
//! lease lost, or a task ends: the process ends with an error, and writes nothing more
//! ```
//! A candidate watches nothing: who becomes leader lists everything anew, so that no plan rests on what was seen before
//! the leader before it wrote its last.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use lanemate_runtime::client::{Connection, connect};
use lanemate_runtime::events::{Event, Events, Object};
use lanemate_runtime::shutdown::{Signals, Tasks};
use lanemate_runtime::telemetry::{logging, process};
use prometheus_client::registry::Registry;
use tokio::sync::{mpsc, watch};

use crate::args::{Cli, Command};
use crate::change::Generations;
use crate::health::{self, Health};
use crate::index::Index;
use crate::lease::{Leadership, Lease, LeaseSettings};
use crate::plan::Planner;
use crate::rounds::{Rounds, State, Writing};
use crate::served;
use crate::settings::Settings;
use crate::telemetry::metrics::Metrics;
use crate::telling::{Teller, write_events};
use crate::uninstall;
use crate::watch as watches;
use crate::write::{self, Writer};

/// Threads of the runtime: one plans, the others wait for the API server.
const WORKERS: usize = 2;
/// Renewals of the lease that fit into its duration.
const RENEWALS: u32 = 5;
/// Of the 30 s that a pod has to end: for jobs that have begun, each at most a few calls…
const JOBS_WITHIN: Duration = Duration::from_secs(15);
/// …and for all other tasks.
const TASKS_WITHIN: Duration = Duration::from_secs(5);

/// Does what the command line says.
pub fn run(cli: Cli) -> ExitCode {
    match &cli.command {
        Some(Command::Version) => {
            println!("lanemate-controller {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        Some(Command::Uninstall(args)) => return uninstall::run(args),
        None => {}
    }
    match Settings::check(cli) {
        Ok(settings) => logged(settings),
        Err(error) => {
            eprintln!("lanemate-controller: {error}");
            ExitCode::from(2)
        }
    }
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
            tracing::error!(error = format!("{error:#}"), "the controller has failed");
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
    let ended = runtime.block_on(begin_and_end(settings));
    // What did not end in time is not waited for again.
    runtime.shutdown_background();
    ended
}

async fn begin_and_end(settings: Settings) -> anyhow::Result<()> {
    let mut signals = Signals::catch().context("catch signals")?;
    let connection = connect(settings.kubeconfig.as_deref()).await?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        api_server = connection.address,
        identity = settings.identity,
        lease = format!("{}/{}", settings.lease_namespace, settings.lease_name),
        "starting"
    );
    let (state, seen) = watch::channel(State::Standby);
    let mut registry = Registry::default();
    let metrics = Metrics::new(&mut registry);
    process::register(&mut registry, "lanemate_controller");
    let mut tasks = Tasks::new();
    if let Some(address) = settings.http_address {
        let listener =
            health::bind(address).with_context(|| format!("bind --http-address {address}"))?;
        let served = health::serve(
            listener,
            Health::new(seen),
            Arc::new(registry),
            tasks.stop().requested(),
        );
        tasks.begin("http", served);
    }
    let lease = Lease::new(connection.client.clone(), lease_settings(&settings))?;
    let stop = tasks.stop().receiver();
    let leading = async {
        served::until_all_is_there(&connection.client, &state).await;
        lease.acquire(stop).await
    };
    let leadership = tokio::select! {
        signal = signals.next() => {
            tracing::info!(signal, "ending: another instance works");
            None
        }
        ended = tasks.first_end() => return Err(ended.into()),
        leadership = leading => leadership,
    };
    // Kept until the tasks are told to end: who writes events takes their end for a failure.
    let (events, told) = Events::channel();
    let led = match leadership {
        Some(leadership) => {
            metrics.leader(true);
            let told = (events.clone(), told);
            let rest = (leadership, &mut signals, &mut tasks);
            lead(&settings, connection, metrics, state, told, rest).await
        }
        None => Ok(()),
    };
    signals.end_at_the_next();
    let drained = tasks.drain(TASKS_WITHIN).await;
    drop(events);
    // The first error is the one to tell.
    led.and(drained.map_err(Into::into))
}

fn lease_settings(settings: &Settings) -> LeaseSettings {
    LeaseSettings {
        namespace: settings.lease_namespace.clone(),
        name: settings.lease_name.clone(),
        identity: settings.identity.clone(),
        duration: settings.lease_duration,
        renew_interval: settings.lease_duration / RENEWALS,
    }
}

/// Works until told to end, or until the lease is lost.
async fn lead(
    settings: &Settings,
    connection: Connection,
    metrics: Metrics,
    state: watch::Sender<State>,
    events: (Events<Object>, mpsc::Receiver<Event<Object>>),
    (leadership, signals, tasks): (Leadership, &mut Signals, &mut Tasks),
) -> anyhow::Result<()> {
    let client = connection.client;
    let (events, told) = events;
    let stop = tasks.stop().receiver();
    tasks.begin("events", write_events(client.clone(), settings.identity.clone(), told, stop));
    let updates = watches::begin(&client, tasks);
    let generations = Generations::default();
    let (writer, reports) = Writer::new(client, leadership.fence(), generations.clone());
    let mut working = Tasks::new();
    let jobs = writer.jobs();
    let (finished, writing) = (writer.run(), Writing { jobs, reports });
    let teller = Teller::new(events, metrics);
    let rounds = Rounds::new(Index::new(generations), Planner::default(), teller, state);
    let stopped = working.stop().requested();
    working.begin("rounds", rounds.run(updates, writing, stopped));
    let mut finished = tokio::spawn(finished);
    let ended = tokio::select! {
        signal = signals.next() => {
            tracing::info!(signal, "ending: what has begun is finished, allocations stay");
            Ok(())
        }
        lost = leadership.lost() => Err(anyhow!(lost)),
        ended = working.first_end() => Err(ended.into()),
        ended = tasks.first_end() => Err(ended.into()),
        ended = &mut finished => Err(anyhow!("the writer has ended by itself: {ended:?}")),
    };
    let drained = working.drain(TASKS_WITHIN).await;
    ended?;
    drained?;
    // The owner of the index is gone, and with it the queue: the writer ends when its jobs are done.
    match tokio::time::timeout(JOBS_WITHIN, finished).await {
        Ok(Ok(write::Ended { in_doubt: 0 })) => {
            if let Err(error) = leadership.release().await {
                tracing::warn!(%error, "the lease is not given back, and runs out by itself");
            }
        }
        Ok(Ok(write::Ended { in_doubt })) => {
            tracing::warn!(in_doubt, "writes are in doubt: the lease is kept until it runs out");
        }
        Ok(Err(error)) => return Err(anyhow!("the writer has failed: {error}")),
        Err(_) => {
            tracing::warn!(within = ?JOBS_WITHIN, "jobs did not end: the lease runs out by itself")
        }
    }
    Ok(())
}
