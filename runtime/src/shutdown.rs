//! The life of the process: tasks that live as long as it does, and the signals that end it.
//!
//! ```text
//! running --SIGTERM or SIGINT--> draining --all tasks done, or too late--> ended
//!    `--a task ends by itself--> draining, and the process fails
//! draining --signal--> ended at once
//! ```

use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};

/// Exit status after a signal while it is ending.
const AT_ONCE: i32 = 1;

/// Tasks that are to live as long as the process, and are told together to end.
#[derive(Debug)]
pub struct Tasks {
    stop: watch::Sender<bool>,
    running: JoinSet<Result<(), String>>,
    names: BTreeMap<Id, &'static str>,
}

/// Tells a task that it is to end; cheap to clone.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

/// A task that ended while the process was to go on, or did not end when it was told to.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// It ended by itself without an error.
    #[error("task {0} ended by itself: expected it to go on until the process is told to end")]
    Ended(&'static str),
    /// It ended with an error.
    #[error("task {name} failed: {error}")]
    Failed {
        /// The task.
        name: &'static str,
        /// What it says.
        error: String,
    },
    /// It did not end in time.
    #[error("tasks {names} did not end within {within:?}")]
    Late {
        /// The tasks.
        names: String,
        /// The time they had.
        within: Duration,
    },
}

/// A task has ended before it was told to: nobody is left who could tell it what to do.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{task} has ended: {input} no longer come, so the process must be started again")]
pub struct InputEnded {
    /// The task.
    pub task: &'static str,
    /// What it waited for.
    pub input: &'static str,
}

/// SIGTERM and SIGINT, from now on.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

/// Waits until a task is told to end, or nobody is left who could tell it.
pub async fn told_to_end(shutdown: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, and that is an end too.
    let _ = shutdown.wait_for(|end| *end).await;
}

impl Stop {
    /// Returns when the task is to end.
    pub async fn requested(mut self) {
        told_to_end(&mut self.0).await;
    }

    /// True when the task is to end.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// The wish itself, for a task that waits for several things: true means that it is to end.
    pub fn receiver(self) -> watch::Receiver<bool> {
        self.0
    }
}

impl Tasks {
    /// None yet.
    pub fn new() -> Self {
        Self { stop: watch::channel(false).0, running: JoinSet::new(), names: BTreeMap::new() }
    }

    /// For a task that is about to begin.
    pub fn stop(&self) -> Stop {
        Stop(self.stop.subscribe())
    }

    /// Begins a task, under a name for people.
    pub fn begin<E: Display>(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        let handle = self.running.spawn(async { task.await.map_err(|error| error.to_string()) });
        self.names.insert(handle.id(), name);
    }

    /// Returns when a task ends by itself; never while all go on.
    pub async fn first_end(&mut self) -> TaskError {
        match self.next().await {
            Some((name, Ok(()))) => TaskError::Ended(name),
            Some((name, Err(error))) => TaskError::Failed { name, error },
            None => std::future::pending().await,
        }
    }

    /// Tells all tasks to end, and waits for them.
    ///
    /// # Errors
    /// The first task that failed on the way, or those that did not end in time: they are ended.
    pub async fn drain(mut self, within: Duration) -> Result<(), TaskError> {
        self.stop.send_replace(true);
        let mut failed = None;
        let all = async {
            while let Some((name, ended)) = self.next().await {
                let error = ended.err().map(|error| TaskError::Failed { name, error });
                failed = failed.take().or(error);
            }
        };
        if tokio::time::timeout(within, all).await.is_err() {
            let names: Vec<&str> = self.names.values().copied().collect();
            self.running.abort_all();
            return Err(TaskError::Late { names: names.join(", "), within });
        }
        failed.map_or(Ok(()), Err)
    }

    async fn next(&mut self) -> Option<(&'static str, Result<(), String>)> {
        let ended = self.running.join_next_with_id().await?;
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        // Each task was named when it began.
        let name = self.names.remove(&id).unwrap_or("without a name");
        Some((name, ended.map_or_else(|error| Err(error.to_string()), |(_, result)| result)))
    }
}

impl Default for Tasks {
    fn default() -> Self {
        Self::new()
    }
}

impl Signals {
    /// Catches them.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn catch() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { terminate, interrupt })
    }

    /// The next one, by name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// Ends the process at the next one, whatever it is doing.
    pub fn end_at_the_next(mut self) {
        tokio::spawn(async move {
            let signal = self.next().await;
            tracing::warn!(signal, "signal while ending: ending at once");
            std::process::exit(AT_ONCE);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    fn waits(tasks: &mut Tasks, name: &'static str) {
        let stop = tasks.stop();
        tasks.begin(name, async {
            stop.requested().await;
            Ok::<_, Infallible>(())
        });
    }

    #[tokio::test]
    async fn tasks_end_when_they_are_told_to() {
        let mut tasks = Tasks::new();
        waits(&mut tasks, "a");
        waits(&mut tasks, "b");
        assert_eq!(tasks.drain(LONG).await, Ok(()));
        assert_eq!(Tasks::new().drain(LONG).await, Ok(()));
    }

    #[tokio::test]
    async fn the_first_end_names_the_task_and_the_reason() {
        let mut tasks = Tasks::new();
        waits(&mut tasks, "a");
        tasks.begin("b", async { Ok::<_, Infallible>(()) });
        assert_eq!(tasks.first_end().await, TaskError::Ended("b"));
        tasks.begin("c", async { Err("no disk") });
        let error = tasks.first_end().await.to_string();
        assert_eq!(error, "task c failed: no disk");
        tasks.begin("d", async { if true { panic!("oh") } else { Ok::<_, Infallible>(()) } });
        let error = tasks.first_end().await.to_string();
        assert!(error.starts_with("task d failed: ") && error.contains("panic"), "{error}");
        assert_eq!(tasks.drain(LONG).await, Ok(()));
    }

    #[tokio::test]
    async fn a_task_that_does_not_end_is_named() {
        let mut tasks = Tasks::new();
        waits(&mut tasks, "a");
        tasks.begin("deaf", std::future::pending::<Result<(), Infallible>>());
        let within = Duration::from_millis(200);
        let error = tasks.drain(within).await.unwrap_err();
        assert_eq!(error, TaskError::Late { names: "deaf".to_owned(), within });
    }

    #[tokio::test]
    async fn a_task_that_fails_while_it_ends_is_told() {
        let mut tasks = Tasks::new();
        let stop = tasks.stop();
        tasks.begin("a", async {
            stop.requested().await;
            Err("socket is gone")
        });
        let error = tasks.drain(LONG).await.unwrap_err().to_string();
        assert_eq!(error, "task a failed: socket is gone");
    }
}
