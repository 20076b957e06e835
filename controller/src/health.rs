//! Health, readiness and metrics over HTTP, on one port.

use std::future::Future;
use std::io;
use std::sync::Arc;

use lanemate_runtime::telemetry::{answer, health, metrics_server};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::rounds::State;

pub use lanemate_runtime::telemetry::metrics_server::bind;

/// How the controller is.
#[derive(Clone, Debug)]
pub struct Health {
    state: watch::Receiver<State>,
}

impl Health {
    /// As the owner of the index says.
    pub fn new(state: watch::Receiver<State>) -> Self {
        Self { state }
    }
}

impl health::Health for Health {
    /// A task that hangs or fails ends the process; there is nothing else that a restart would mend.
    async fn stuck(&self) -> Vec<String> {
        Vec::new()
    }

    /// One that waits to take over is ready: nothing more can be expected of it.
    async fn missing(&self) -> Vec<String> {
        match &*self.state.borrow() {
            State::Standby | State::Working => Vec::new(),
            State::Listing(kinds) => {
                kinds.iter().map(|kind| format!("list of kind {kind:?}")).collect()
            }
            State::Refusing(why) => vec![why.clone()],
        }
    }
}

/// Answers `/healthz`, `/readyz` and `/metrics` until told to stop.
///
/// # Errors
/// What the operating system says.
pub async fn serve(
    listener: TcpListener,
    health: Health,
    registry: Arc<Registry>,
    stopped: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = health::routes(health).merge(metrics_server::routes(registry));
    answer(listener, router, stopped).await
}

#[cfg(test)]
mod tests {
    use lanemate_runtime::telemetry::health::Health as _;

    use super::*;
    use crate::index::Kind;

    #[tokio::test]
    async fn a_candidate_is_ready_and_a_leader_when_all_is_listed() {
        let (state, seen) = watch::channel(State::Standby);
        let health = Health::new(seen);
        assert!(health.missing().await.is_empty());
        state.send_replace(State::Listing(vec![Kind::Claim]));
        assert_eq!(health.missing().await, ["list of kind Claim"]);
        state.send_replace(State::Refusing("no taint".to_owned()));
        assert_eq!(health.missing().await, ["no taint"]);
        state.send_replace(State::Working);
        assert!(health.missing().await.is_empty());
    }
}
