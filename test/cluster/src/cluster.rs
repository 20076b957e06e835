//! The cluster around a test: client, node, kubelet.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Client, Config};
use tokio::sync::RwLock;

use crate::namespace::TestNamespace;

/// The name of the one node.
pub const NODE: &str = "node-1";
/// kubelet's directory, with `plugins` and `plugins_registry`; the cluster's own.
pub const KUBELET_DIR: &str = "/var/lib/kubelet";
/// Where containerd looks for CDI files, beside `/etc/cdi`; the cluster's own.
pub const CDI_DIR: &str = "/var/run/cdi";
/// The driver whose devices tests allocate.
pub(crate) const DRIVER: &str = "lanemate.dev";

/// Tests run side by side; one that disturbs the node runs alone.
static TURN: RwLock<()> = RwLock::const_new(());

/// What a test holds as long as it runs: a guard of [`TURN`], for reading or for writing.
pub(crate) type Turn = Box<dyn Send + Sync>;

/// A running cluster, seen from inside of its namespaces.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    command: PathBuf,
    logs: PathBuf,
}

impl Cluster {
    /// The cluster in whose namespaces this process runs.
    pub async fn current() -> anyhow::Result<Cluster> {
        let variable = |name: &str| {
            env::var_os(name).map(PathBuf::from).with_context(|| {
                format!("{name} is not set, so this runs in no cluster: run hack/e2e")
            })
        };
        let command = variable("LANEMATE_CLUSTER_COMMAND")?;
        let logs = variable("LANEMATE_CLUSTER_LOGS")?;
        let config = Config::infer().await.context("read the kubeconfig of the cluster")?;
        let client = Client::try_from(config).context("make a client of the cluster")?;
        Ok(Cluster { client, command, logs })
    }

    /// An administrator's client. It belongs to the runtime it was made in, so a test makes its
    /// own.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The directory of the logs: `kubelet.log`, `containerd.log`, `kube-apiserver.log` and so on.
    pub fn logs(&self) -> &Path {
        &self.logs
    }

    /// `hack/cluster` or `hack/control-plane`, whichever started it.
    pub(crate) fn command(&self) -> &Path {
        &self.command
    }

    /// A namespace of its own for a test, deleted when dropped. One per test: a second one could
    /// wait for a test that waits for the first.
    pub async fn namespace(&self, test: &str) -> anyhow::Result<TestNamespace> {
        self.namespace_in_turn(test, Box::new(TURN.read().await)).await
    }

    /// The same for a test that disturbs others, such as by restarting kubelet: no other runs
    /// meanwhile.
    pub async fn namespace_alone(&self, test: &str) -> anyhow::Result<TestNamespace> {
        self.namespace_in_turn(test, Box::new(TURN.write().await)).await
    }

    async fn namespace_in_turn(&self, test: &str, turn: Turn) -> anyhow::Result<TestNamespace> {
        let mut prefix: String = test
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .take(40)
            .collect();
        prefix.make_ascii_lowercase();
        let mut namespace = Namespace::default();
        namespace.metadata.generate_name = Some(format!("{}-", prefix.trim_matches('-')));
        TestNamespace::create(self.client(), namespace, turn).await
    }

    /// Stops kubelet and returns when another one is at work; for tests in a
    /// [`Cluster::namespace_alone`].
    pub async fn restart_kubelet(&self) -> anyhow::Result<()> {
        self.order("restart-kubelet").await
    }

    /// Ends all that runs on the node, empties `/run`, and returns when kubelet is at work again under
    /// another boot id; for tests in a [`Cluster::namespace_alone`].
    pub async fn reboot(&self) -> anyhow::Result<()> {
        self.order("reboot").await
    }

    /// Gives `hack/cluster` a command about this cluster.
    async fn order(&self, verb: &str) -> anyhow::Result<()> {
        let name = env::var("LANEMATE_CLUSTER").context("read LANEMATE_CLUSTER")?;
        let mut command = Command::new(&self.command);
        command.args([verb, &name]);
        let output = crate::namespace::run(command, None).await?;
        anyhow::ensure!(output.status.success(), "{verb}: {output}");
        Ok(())
    }
}
