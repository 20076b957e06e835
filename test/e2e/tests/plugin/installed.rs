//! The plugin on the cluster's node, as its service account, on a captured machine.
//!
//! The machine's device nodes have numbers that no driver of the test machine answers to: opening one
//! gives `ENXIO` where the container may, and `EPERM` where it may not. One is given the number of a
//! device that exists, so that it opens.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::Context;
pub use lanemate_test_cluster::node::{PAIRS, PLUGIN_DIR, in_cdi, of_node, recorded, slices};
use lanemate_test_cluster::{Cluster, NODE, until};
use tempfile::TempDir;

/// The first pair, whose NIC has a device that exists.
pub const PAIR: (&str, &str) = PAIRS[0];
/// Another one.
pub const OTHER: (&str, &str) = PAIRS[4];
/// `/dev/fuse`, which containers may not open without a grant, stands for the verbs device of the first
/// NIC.
const STANDS_FOR: (&str, &str) = ("major: 231, minor: 192", "major: 10, minor: 229");
/// A plugin that runs until it is dropped.
pub struct Plugin {
    process: Option<Child>,
    directory: TempDir,
    log: PathBuf,
    flags: Vec<String>,
    /// The flags by which `probe` finds it.
    pod: Vec<String>,
}

impl Plugin {
    /// Installs the plugin with no flags but those that it needs, and waits until it is ready.
    pub async fn start(cluster: &Cluster) -> anyhow::Result<Self> {
        Self::start_with(cluster, &[]).await
    }

    /// The same with further flags.
    pub async fn start_with(cluster: &Cluster, flags: &[&str]) -> anyhow::Result<Self> {
        let mut plugin = Self::install(cluster, flags)?;
        plugin.run().await?;
        Ok(plugin)
    }

    /// Prepares a node on which the plugin has never been, without starting it.
    pub fn install(cluster: &Cluster, flags: &[&str]) -> anyhow::Result<Self> {
        // What an earlier test has left is not of this plugin.
        let _ = fs::remove_dir_all(PLUGIN_DIR);
        Self::beside(cluster, flags, &[])
    }

    /// A plugin in a pod of this UID, which takes the node as it is, beside another one.
    pub fn in_pod(cluster: &Cluster, uid: &str) -> anyhow::Result<Self> {
        Self::beside(cluster, &[], &["--pod-uid", uid])
    }

    fn beside(cluster: &Cluster, flags: &[&str], pod: &[&str]) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hosts/captures/dgx-h100.yaml");
        let (number, other) = STANDS_FOR;
        let machine = fs::read_to_string(capture)?.replace(number, other);
        fs::write(directory.path().join("machine.yaml"), machine)?;
        apply_rights()?;
        write_kubeconfig(&directory.path().join("kubeconfig"), &server()?, NODE)?;
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let log = cluster.logs().join("kubelet-plugin.log");
        Ok(Self { process: None, directory, log, flags: owned(flags), pod: owned(pod) })
    }

    /// Leads the plugin to the API server through another address, from its next start on.
    pub fn reach(&self, server: &str) -> anyhow::Result<()> {
        write_kubeconfig(&self.directory.path().join("kubeconfig"), server, NODE)
    }

    /// Starts the process and waits until it is ready.
    pub async fn run(&mut self) -> anyhow::Result<()> {
        self.spawn()?;
        let binary = binary()?;
        until("the plugin to be ready", async || {
            let probe = Command::new(&binary).args(["probe", "ready"]).args(&self.pod).output()?;
            let said = String::from_utf8_lossy(&probe.stderr).into_owned();
            Ok(if probe.status.success() { Ok(()) } else { Err(said) })
        })
        .await
        .with_context(|| format!("see {}", self.log.display()))
    }

    /// Starts the process.
    pub fn spawn(&mut self) -> anyhow::Result<()> {
        let log = File::options().create(true).append(true).open(&self.log)?;
        let binary = binary()?;
        let process = Command::new(&binary)
            .args(["--node-name", NODE, "--metrics-address", "off", "--claim-gone-grace", "1s"])
            .arg("--root")
            .arg(self.directory.path().join("machine.yaml"))
            .arg("--kubeconfig")
            .arg(self.directory.path().join("kubeconfig"))
            .args(&self.flags)
            .args(&self.pod)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {}", binary.display()))?;
        self.process = Some(process);
        Ok(())
    }

    /// Kills the process, as when it crashes.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill()?;
            process.wait()?;
        }
        Ok(())
    }

    /// Tells the process to end by SIGTERM, as kubelet does, and waits for it.
    pub async fn terminate(&mut self) -> anyhow::Result<ExitStatus> {
        let process = self.process.as_mut().context("end a plugin that does not run")?;
        let told = Command::new("kill").args(["-TERM", &process.id().to_string()]).status()?;
        anyhow::ensure!(told.success(), "kill -TERM: {told}");
        let ended = until("the plugin to end", async || {
            Ok(process.try_wait()?.ok_or_else(|| "it runs".to_owned()))
        });
        let ended = ended.await?;
        self.process = None;
        Ok(ended)
    }

    /// What all plugins of this cluster have logged.
    pub fn log(&self) -> anyhow::Result<String> {
        fs::read_to_string(&self.log).with_context(|| format!("read {}", self.log.display()))
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            eprintln!("kill the plugin: {error}");
        }
    }
}

fn binary() -> anyhow::Result<PathBuf> {
    let path = env::var_os("LANEMATE_KUBELET_PLUGIN").context("run hack/e2e")?;
    Ok(PathBuf::from(path))
}

/// Gives the plugin's account the rights that the manifests in `deploy/` give, and no others.
pub fn apply_rights() -> anyhow::Result<()> {
    let rbac = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/rbac/kubelet-plugin.yaml");
    kubectl(&["apply", "--filename", &rbac.display().to_string()]).map(drop)
}

/// The API server's address.
pub fn server() -> anyhow::Result<String> {
    kubectl(&["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"])
}

/// A kubeconfig of the plugin's service account on a node, as its pod there has it, and of nobody else.
pub fn write_kubeconfig(file: &Path, server: &str, node: &str) -> anyhow::Result<()> {
    let account = ["create", "token", "lanemate-kubelet-plugin", "--namespace", "lanemate-system"];
    let bound = ["--bound-object-kind", "Node", "--bound-object-name", node];
    let token = kubectl(&[account.as_slice(), bound.as_slice()].concat())?;
    let raw = ["config", "view", "--raw", "--flatten", "-o"];
    let authority = "jsonpath={.clusters[0].cluster.certificate-authority-data}";
    let authority = kubectl(&[raw.as_slice(), &[authority]].concat())?;
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: x,\n \
         clusters: [{{name: c, cluster: {{server: \"{server}\", certificate-authority-data: {authority}}}}}],\n \
         users: [{{name: u, user: {{token: \"{}\"}}}}],\n \
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]}}\n",
        token.trim()
    );
    fs::write(file, text).context("write the plugin's kubeconfig")
}

/// What kubectl prints.
pub fn kubectl(words: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("kubectl").args(words).output().context("run kubectl")?;
    let (said, complaint) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    anyhow::ensure!(output.status.success(), "kubectl {words:?}: {complaint}");
    Ok(said.into_owned())
}
