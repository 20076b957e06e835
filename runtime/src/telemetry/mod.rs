//! What a program tells about itself: log, metrics, health.

pub mod health;
pub mod logging;
pub mod metrics_server;
pub mod process;

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use futures::FutureExt;

/// For answers on their way when the program ends.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Answers until told to stop. A connection on which nothing more is said does not hold up the end.
///
/// # Errors
/// What the operating system says.
pub async fn answer<L: Listener<Addr: Debug>>(
    listener: L,
    router: Router,
    stopped: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let stopped = stopped.shared();
    let served = axum::serve(listener, router).with_graceful_shutdown(stopped.clone());
    tokio::select! {
        served = served => served,
        () = async { stopped.await; tokio::time::sleep(LAST_ANSWERS).await } => Ok(()),
    }
}
