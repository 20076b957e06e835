//! What kubelet does to a DRA plugin, as far as the plugin can see it, for tests.
//!
//! [`Kubelet`] watches a registry directory, registers what it finds, and calls Prepare and
//! Unprepare. Unlike the real one it can be made to call late, twice, out of order, and in an old
//! version. It knows nothing of the plugin but its sockets.

#![warn(missing_docs)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

mod calls;
mod connection;
mod generated;
mod kubelet;
mod registry;
#[cfg(test)]
mod tests;

pub use kubelet::Kubelet;

/// A claim, as a call names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
}

/// A device, as the plugin answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Requests that it answers; none stands for all.
    pub request_names: Vec<String>,
    /// Pool.
    pub pool: String,
    /// Device.
    pub device: String,
    /// CDI devices.
    pub cdi_ids: Vec<String>,
    /// Share of the device; version v1 alone has it.
    pub share_id: Option<String>,
}

/// By the UID of the claim; an error is the plugin's text.
pub type Answers<T> = BTreeMap<String, Result<T, String>>;

/// Version of the service, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Kubernetes 1.32 and later.
    V1beta1,
    /// Kubernetes 1.34 and later.
    V1,
}

/// How this kubelet is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its registry directory.
    pub registry: PathBuf,
    /// Between two looks at the directory and the connections.
    pub poll: Duration,
    /// How long it waits for an answer.
    pub call_timeout: Duration,
    /// The version to use; absent for the newest that the plugin offers.
    pub version: Option<Version>,
}

/// A plugin that has registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    /// Name of the driver.
    pub driver: String,
    /// Its registration socket.
    pub socket: PathBuf,
    /// Its socket for claims.
    pub endpoint: PathBuf,
    /// What it offers there.
    pub versions: Vec<String>,
    /// Whether there is a connection to the endpoint.
    pub connected: bool,
}

/// Why a call has no answer.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum KubeletError {
    /// No such plugin.
    #[error("driver {0} is not registered")]
    NotRegistered(String),
    /// Registered, and nobody at the endpoint.
    #[error("driver {0} is registered, but none of its instances is connected")]
    NotConnected(String),
    /// The versions do not meet.
    #[error("driver {driver} offers {offered:?}, expected {wanted}")]
    NoVersion {
        /// Name.
        driver: String,
        /// What it has.
        offered: Vec<String>,
        /// What was to be used.
        wanted: String,
    },
    /// The call as a whole failed, and no claim has an answer.
    #[error("{method}: {code}: {message}")]
    Call {
        /// Method.
        method: &'static str,
        /// Name of the gRPC status code, such as `DeadlineExceeded`.
        code: String,
        /// Text of the status.
        message: String,
    },
    /// Claims that were asked for have no entry.
    #[error("{method} skipped {skipped} ResourceClaims")]
    Skipped {
        /// Method.
        method: &'static str,
        /// How many.
        skipped: usize,
    },
    /// An entry that nobody asked for.
    #[error("{method} returned a result for an unknown claim UID {uid:?}")]
    UnknownClaim {
        /// Method.
        method: &'static str,
        /// The UID.
        uid: String,
    },
    /// What a test waited for did not come.
    #[error("waited {within:?} for {what}; last seen: {seen}")]
    Waited {
        /// For what.
        what: String,
        /// How long.
        within: Duration,
        /// What there was instead.
        seen: String,
    },
}

impl Settings {
    /// As the real kubelet, which waits 45 s; looks every 20 ms.
    pub fn new(registry: impl Into<PathBuf>) -> Self {
        Self {
            registry: registry.into(),
            poll: Duration::from_millis(20),
            call_timeout: Duration::from_secs(45),
            version: None,
        }
    }
}

impl Version {
    /// The service, as a plugin lists it.
    pub fn service(self) -> &'static str {
        match self {
            Self::V1beta1 => "v1beta1.DRAPlugin",
            Self::V1 => "v1.DRAPlugin",
        }
    }
}
