//! Outages of single programs of the control plane; for tests in a [`Cluster::namespace_alone`].

use std::process::Command;

use anyhow::Context;

use crate::cluster::Cluster;

/// A program of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    Etcd,
    ApiServer,
    ControllerManager,
    Scheduler,
}

/// What is done to it. Whatever shall run is healthy afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Ends it by SIGTERM; another one starts.
    Restart,
    /// Ends it by SIGKILL; another one starts.
    Kill,
    /// Ends it until [`Deed::Start`].
    Stop,
    /// Starts one that was stopped.
    Start,
    /// Holds it, connections and all, until [`Deed::Resume`].
    Pause,
    /// Lets one that was paused go on.
    Resume,
}

impl Component {
    /// The name of its program and of its log.
    pub fn name(self) -> &'static str {
        match self {
            Component::Etcd => "etcd",
            Component::ApiServer => "kube-apiserver",
            Component::ControllerManager => "kube-controller-manager",
            Component::Scheduler => "kube-scheduler",
        }
    }
}

impl Deed {
    fn verb(self) -> &'static str {
        match self {
            Deed::Restart => "restart",
            Deed::Kill => "kill",
            Deed::Stop => "stop",
            Deed::Start => "start",
            Deed::Pause => "pause",
            Deed::Resume => "resume",
        }
    }

    /// What makes up for it, if anything is to be made up for.
    fn opposite(self) -> Option<Deed> {
        match self {
            Deed::Stop => Some(Deed::Start),
            Deed::Pause => Some(Deed::Resume),
            Deed::Restart | Deed::Kill | Deed::Start | Deed::Resume => None,
        }
    }
}

/// A program that is stopped or paused. It goes on when this is dropped, so that a test that fails
/// does not take the next ones along.
#[must_use = "the program goes on when this is dropped"]
pub struct Outage {
    mend: Option<(Command, String)>,
}

impl Outage {
    /// Lets it go on, and returns when it is healthy.
    pub async fn end(mut self) -> anyhow::Result<()> {
        match self.mend.take() {
            None => Ok(()),
            Some((command, what)) => succeed(command, &what).await,
        }
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        if let Some((mut command, what)) = self.mend.take() {
            let ended = command.status();
            if !ended.as_ref().is_ok_and(std::process::ExitStatus::success) {
                eprintln!("{what}: {ended:?}");
            }
        }
    }
}

impl Cluster {
    /// Restarts or kills a program, or stops or pauses it for as long as the outage is kept.
    pub async fn disturb(&self, component: Component, deed: Deed) -> anyhow::Result<Outage> {
        let (command, what) = self.treatment(component, deed)?;
        let mend = deed.opposite().map(|deed| self.treatment(component, deed)).transpose()?;
        // Kept from here on: a deed that fails half-way is made up for, too.
        let outage = Outage { mend };
        succeed(command, &what).await?;
        Ok(outage)
    }

    fn treatment(&self, component: Component, deed: Deed) -> anyhow::Result<(Command, String)> {
        let name = std::env::var("LANEMATE_CLUSTER").context("read LANEMATE_CLUSTER")?;
        let mut command = Command::new(self.command());
        command.args([deed.verb(), &name, component.name()]);
        Ok((command, format!("{} {}", deed.verb(), component.name())))
    }
}

async fn succeed(command: Command, what: &str) -> anyhow::Result<()> {
    let output = crate::namespace::run(command, None).await?;
    anyhow::ensure!(output.status.success(), "{what}: {output}");
    Ok(())
}
