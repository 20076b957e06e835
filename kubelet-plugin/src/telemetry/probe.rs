//! Asks the health socket, for probes of kubelet: a program in the container, since kubelet's HTTP
//! probes reach no unix socket. It starts often, so it has no runtime.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::health;
use crate::args::Probe;

/// Longer than the plugin waits for its own parts, so that its answer says which one is stuck.
pub const PATIENCE: Duration = health::PATIENCE.saturating_add(Duration::from_secs(5));
/// Longest answer: some lines.
const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// Why a probe fails.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// Nobody answers.
    #[error("ask {socket}: {error}: is the plugin running, with the same --health-socket?")]
    NoAnswer {
        /// Where it was asked.
        socket: PathBuf,
        /// What the operating system says.
        error: io::Error,
    },
    /// It is not well.
    #[error("{0}")]
    NotWell(String),
}

/// Asks how the plugin is.
///
/// # Errors
/// It is not well, or does not answer.
pub fn ask(socket: &Path, about: Probe) -> Result<(), ProbeError> {
    let path = match about {
        Probe::Live => "/healthz",
        Probe::Ready => "/readyz",
    };
    let failed = |error| ProbeError::NoAnswer { socket: socket.to_owned(), error };
    let answer = exchange(socket, path).map_err(failed)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1);
    match status {
        Some("200") => Ok(()),
        _ => Err(ProbeError::NotWell(body.trim_end().to_owned())),
    }
}

fn exchange(socket: &Path, path: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // HTTP/1.0: no chunks, and the end of the stream is the end of the answer.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: plugin\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(MAX_ANSWER_BYTES).read_to_string(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_that_does_not_run_is_told_with_the_socket() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("health.sock");
        let error = ask(&socket, Probe::Live).unwrap_err().to_string();
        assert!(error.starts_with(&format!("ask {}: No such file", socket.display())), "{error}");
        assert!(error.contains("--health-socket"), "{error}");
    }
}
