//! Takes Lanemate out of a cluster without stranding pods, devices or classes.
//!
//! ```text
//! controller's Deployment at 0, its pods gone, its lease over --> nobody allocates
//!   |--a claim or a node holds devices--> Deployment as it was, nothing else changed, an error
//!   v
//! gate policies --> gate off every pod --> finalizer off every ResourceClass --> fence policies --> done
//! ```
//! Each step looks at what is there: after an interruption the next run goes on where the last one ended. The fence
//! goes last, so that until then nobody else allocates what a step before has failed on.

mod call;
mod classes;
mod deployment;
mod gates;
mod holders;
mod lease;
mod policies;

use std::process::ExitCode;
use std::time::Duration;

use lanemate_runtime::call::CallError;
use lanemate_runtime::client::{ClientError, connect};
use lanemate_runtime::shutdown::Signals;

use self::call::Cluster;
use crate::args::UninstallArgs;

/// Things named one by one; of the others, how many.
const NAMED: usize = 20;

/// Why Lanemate is still there.
#[derive(Debug, thiserror::Error)]
enum UninstallError {
    /// The API server cannot be called.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A call has failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Signals cannot be caught.
    #[error("catch signals: {0}")]
    Signals(std::io::Error),
    /// The Deployment does not say which pods are its own.
    #[error(
        "read the selector of deployment {deployment}: {error}: expected one as Kubernetes takes it"
    )]
    Selector {
        /// Namespace and name.
        deployment: String,
        /// What is wrong.
        error: kube::core::ParseExpressionError,
    },
    /// Devices are in use.
    #[error(
        "devices of lanemate.dev are in use by {count} of the claims and nodes above: delete the pods that use them, or \
         wait until they have ended, and run it again"
    )]
    InUse {
        /// Claims and nodes.
        count: usize,
    },
    /// Something did not come.
    #[error("waited {within:?} for {what}; at last: {state}")]
    Late {
        /// What was waited for.
        what: String,
        /// How long.
        within: Duration,
        /// How it stood, and what to do.
        state: String,
    },
    /// It was told to end.
    #[error("ended by {0} before all was done: run it again, it goes on where it was")]
    Interrupted(&'static str),
    /// The controller stays away after a failure.
    #[error(
        "{cause}; and the controller is still scaled to 0: {restoring}: scale {deployment} to {replicas}"
    )]
    NotRestored {
        /// What failed first.
        cause: Box<UninstallError>,
        /// What failed then.
        restoring: CallError,
        /// Namespace and name.
        deployment: String,
        /// As before.
        replicas: i32,
    },
}

/// Does all of it, and tells people on stdout.
pub fn run(args: &UninstallArgs) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("lanemate-controller: start the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(until_signalled(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lanemate-controller: uninstall: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn until_signalled(args: &UninstallArgs) -> Result<(), UninstallError> {
    let mut signals = Signals::catch().map_err(UninstallError::Signals)?;
    let connection = connect(args.cluster.kubeconfig.as_deref()).await?;
    let cluster =
        Cluster { client: connection.client, dry_run: args.dry_run, within: args.timeout };
    println!("uninstall Lanemate from {}", connection.address);
    let found = deployment::find(&cluster, args).await?;
    let settled = tokio::select! {
        settled = nobody_holds(&cluster, args, found.as_ref()) => settled,
        signal = signals.next() => Err(UninstallError::Interrupted(signal)),
    };
    if let Err(cause) = settled {
        return Err(deployment::restore(&cluster, found.as_ref(), cause).await);
    }
    tokio::select! {
        removed = remove(&cluster) => removed?,
        signal = signals.next() => return Err(UninstallError::Interrupted(signal)),
    }
    println!("{}", if args.dry_run { "nothing was changed" } else { "done" });
    Ok(())
}

/// Nobody allocates any more, and nothing is allocated.
async fn nobody_holds(
    cluster: &Cluster,
    args: &UninstallArgs,
    found: Option<&deployment::Found>,
) -> Result<(), UninstallError> {
    if let Some(found) = found {
        deployment::scale_to_zero(cluster, found).await?;
    }
    if !cluster.dry_run {
        lease::until_over(cluster, &args.namespace, &args.lease_name).await?;
    }
    let holders = holders::read(cluster).await?;
    for line in named(&holders, |holder| holder.to_string()) {
        println!("{line}");
    }
    match holders.len() {
        0 => Ok(()),
        count => Err(UninstallError::InUse { count }),
    }
}

async fn remove(cluster: &Cluster) -> Result<(), UninstallError> {
    policies::remove_gate(cluster).await?;
    gates::take_off(cluster).await?;
    classes::let_go(cluster).await?;
    policies::remove_fence(cluster).await
}

/// A line for each of the first things, and one for how many more there are.
fn named<T>(all: &[T], line: impl Fn(&T) -> String) -> Vec<String> {
    let more = all.len().saturating_sub(NAMED);
    let rest = (more > 0).then(|| format!("… and {more} more"));
    all.iter().take(NAMED).map(line).chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_things_the_first_are_named_and_the_others_counted() {
        let lines = |count: usize| named(&(0..count).collect::<Vec<_>>(), usize::to_string);
        assert_eq!(lines(2), ["0", "1"]);
        assert_eq!(lines(20).len(), 20);
        assert_eq!(lines(23).last().unwrap(), "… and 3 more");
    }
}
