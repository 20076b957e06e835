//! The gRPC services that kubelet calls, on unix sockets.
//!
//! ```text
//! plugins_registry/lanemate.dev@<pod>-reg.sock   registration: what the driver is, where it serves
//! plugins/lanemate.dev/dra-<pod>.sock            dra: prepare and unprepare, v1 and v1beta1
//!
//! bind dra -> bind registration -> serve both
//!   shutdown: registration file removed, its server stopped -> calls in flight -> dra file removed
//! ```
//! What is done for a claim is behind [`ClaimServer`]; status codes and messages stay in here.

use std::future::Future;

use lanemate_driver::prepare::PreparedDevice;
use tokio::time::Instant;

use crate::claim_id::ClaimId;

mod dra;
mod generated;
mod registration;
mod server;
mod sockets;

pub use registration::Registration;
pub use server::{Config, ServeError, Serving, serve};
pub use sockets::{SocketError, SocketPaths};

/// Does what kubelet asks for, claim by claim. Claims come concurrently, the same one too: kubelet
/// gives up a call and makes it anew while the first goes on.
///
/// The work is not cut short when the deadline passes or kubelet hangs up, so it must end by
/// itself. An `Err` is the text that kubelet puts into its event on the pod.
pub trait ClaimServer: Send + Sync + 'static {
    /// Makes the devices of a claim ready. Doing it twice is doing it once.
    fn prepare(
        &self,
        claim: ClaimId,
        deadline: Instant,
    ) -> impl Future<Output = Result<Vec<PreparedDevice>, String>> + Send;

    /// Gives the devices of a claim back. A claim that is not known needs nothing.
    fn unprepare(
        &self,
        claim: ClaimId,
        deadline: Instant,
    ) -> impl Future<Output = Result<(), String>> + Send;
}
