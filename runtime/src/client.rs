//! The client of the API server: where it is, and how long one waits for it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

/// Time to open a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Silence on a connection after which it is given up: longer than a watch lasts, so that a quiet
/// watch is not cut.
const READ: Duration = Duration::from_secs(75);
/// Time in which a request must be taken by the other side.
const WRITE: Duration = Duration::from_secs(5);

/// A client, and the address for messages.
#[derive(Clone)]
pub struct Connection {
    /// The client.
    pub client: Client,
    /// The API server's address.
    pub address: String,
}

/// Why there is no client. Causes stand in the words, and not beside them: whoever prints the chain prints them once.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file cannot be read.
    #[error("read kubeconfig {path}: {error}: expected a kubeconfig with a current context")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: Box<KubeconfigError>,
    },
    /// There is no service account here.
    #[error(
        "read the service account of this pod: {0}: expected to run in a cluster, or a kubeconfig"
    )]
    InCluster(Box<kube::config::InClusterError>),
    /// The certificates or the address cannot be used.
    #[error("set up the client for {address}: {error}: expected a usable address and certificates")]
    Setup {
        /// The API server's address.
        address: String,
        /// What is wrong.
        error: Box<kube::Error>,
    },
}

/// A client from a kubeconfig file, or else from the service account of the pod. Nothing is sent
/// yet. Must be called within a runtime.
///
/// # Errors
/// When the file or the service account cannot be read, or what they say cannot be used.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Connection, ClientError> {
    let mut config = match kubeconfig {
        Some(path) => read(path).await.map_err(|error| ClientError::Kubeconfig {
            path: path.to_owned(),
            error: Box::new(error),
        })?,
        None => Config::incluster().map_err(|error| ClientError::InCluster(Box::new(error)))?,
    };
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(READ);
    config.write_timeout = Some(WRITE);
    // Else the time that a connection lay idle counts as silence.
    config.reset_reader_on_write = true;
    // Retries inside of the client would use up the time of a call unseen: each caller retries as its
    // own deadline allows, after a fresh read where the answer may have changed, and says so.
    config.default_retry = false;
    let address = config.cluster_url.to_string();
    let client = Client::try_from(config)
        .map_err(|error| ClientError::Setup { address: address.clone(), error: Box::new(error) })?;
    Ok(Connection { client, address })
}

async fn read(path: &Path) -> Result<Config, KubeconfigError> {
    let file = Kubeconfig::read_from(path)?;
    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_missing_or_broken_kubeconfig_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let absent = directory.path().join("absent");
        let broken = directory.path().join("broken");
        std::fs::write(&broken, "{apiVersion: v1, kind: Config}").unwrap();
        for path in [absent, broken] {
            let Err(error) = connect(Some(&path)).await else { panic!("{}", path.display()) };
            let words = error.to_string();
            assert!(words.contains(&path.display().to_string()), "{words}");
            assert!(words.contains("expected a kubeconfig"), "{words}");
        }
    }

    #[tokio::test]
    async fn outside_of_a_cluster_a_kubeconfig_is_asked_for() {
        let Err(error) = connect(None).await else { panic!("expected no service account") };
        assert!(error.to_string().ends_with("or a kubeconfig"), "{error}");
    }
}
