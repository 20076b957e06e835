//! The command line, checked as a whole.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use lanemate_runtime::random;
use lanemate_runtime::telemetry::logging::{self, LogSettings};

use crate::args::{Cli, Mode};

/// The shortest lease: a renewal must get through well before the margin of [`crate::lease`] is spent.
const SHORTEST_LEASE: Duration = Duration::from_secs(2);
/// Longer, and a crashed instance stops all placing for minutes.
const LONGEST_LEASE: Duration = Duration::from_secs(120);

/// What the controller is to do.
#[derive(Debug)]
pub struct Settings {
    /// How the API server is reached; absent: as the service account of the pod.
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the lease.
    pub lease_namespace: String,
    /// Its name.
    pub lease_name: String,
    /// This instance.
    pub identity: String,
    /// How long the lease lasts.
    pub lease_duration: Duration,
    /// Where metrics and health are served; absent: nowhere.
    pub http_address: Option<SocketAddr>,
    /// The log.
    pub log: LogSettings,
}

/// What is wrong with the command line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// There is nothing to do.
    #[error(
        "--mode scheduler: kube-scheduler allocates in this mode and a second allocator would grant devices twice: \
         expected that this program is not run, or --mode controller here and on all plugins"
    )]
    SchedulerMode,
    /// A flag has a value that it cannot have.
    #[error("{flag} {value}: expected {expected}")]
    Flag {
        /// The flag.
        flag: &'static str,
        /// As written.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
}

impl Settings {
    /// Checks what was typed.
    ///
    /// # Errors
    /// See [`SettingsError`].
    pub fn check(cli: Cli) -> Result<Self, SettingsError> {
        if cli.mode == Mode::Scheduler {
            return Err(SettingsError::SchedulerMode);
        }
        let (lease, telemetry) = (cli.lease, cli.telemetry);
        let identity = lease.identity.filter(|name| !name.is_empty());
        Ok(Self {
            kubeconfig: cli.cluster.kubeconfig.filter(|path| !path.as_os_str().is_empty()),
            lease_namespace: lease.lease_namespace,
            lease_name: lease.lease_name,
            // Two instances of one name would both believe that the lease is theirs.
            identity: format!(
                "{}_{:016x}",
                identity.as_deref().unwrap_or("lanemate-controller"),
                random::number()
            ),
            lease_duration: lease_duration(lease.lease_duration)?,
            http_address: http_address(&telemetry.http_address)?,
            log: LogSettings {
                format: telemetry.log_format,
                filter: logging::filter(&telemetry.log_level).ok_or(SettingsError::Flag {
                    flag: "--log-level",
                    value: telemetry.log_level,
                    expected: "error, warn, info, debug or trace, or such as info,kube=debug",
                })?,
            },
        })
    }
}

fn lease_duration(duration: Duration) -> Result<Duration, SettingsError> {
    let whole = duration.subsec_nanos() == 0;
    if whole && (SHORTEST_LEASE..=LONGEST_LEASE).contains(&duration) {
        return Ok(duration);
    }
    Err(SettingsError::Flag {
        flag: "--lease-duration",
        value: format!("{duration:?}"),
        expected: "whole seconds from 2s to 2m",
    })
}

fn http_address(text: &str) -> Result<Option<SocketAddr>, SettingsError> {
    if text == "off" {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| SettingsError::Flag {
        flag: "--http-address",
        value: text.to_owned(),
        expected: "an address and a port, such as 0.0.0.0:9098 or [::]:9098, or off",
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn check(words: &[&str], expect: &str) {
        let words = std::iter::once("lanemate-controller").chain(words.iter().copied());
        let error = Settings::check(Cli::parse_from(words)).map(|_| ()).unwrap_err();
        assert!(error.to_string().starts_with(expect), "{error}");
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        check(&["--mode", "scheduler"], "--mode scheduler: kube-scheduler allocates in this mode");
        check(&["--lease-duration", "1s"], "--lease-duration 1s: expected whole seconds from 2s");
        check(&["--lease-duration", "2500ms"], "--lease-duration 2.5s: expected whole seconds");
        check(&["--http-address", "9098"], "--http-address 9098: expected an address and a port");
        check(&["--log-level", "info,a=b=c"], "--log-level info,a=b=c: expected error, warn");
    }

    #[test]
    fn two_instances_of_one_name_have_identities_of_their_own() {
        let of = || {
            let cli = Cli::parse_from([
                "lanemate-controller",
                "--identity",
                "a",
                "--http-address",
                "off",
            ]);
            Settings::check(cli).unwrap().identity
        };
        let (one, other) = (of(), of());
        assert!(one.starts_with("a_") && other.starts_with("a_") && one != other, "{one} {other}");
    }
}
