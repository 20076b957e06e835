//! The plugin on the cluster's node, as its service account, on a captured machine.
//!
//! The machine's device nodes have numbers that no driver of the test machine answers to: opening one
//! gives `ENXIO` where the container may, and `EPERM` where it may not. One is given the number of a
//! device that exists, so that it opens.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::api::ListParams;
use kube::{Api, Client};
use lanemate_test_cluster::{Cluster, NODE, TestNamespace, until};
use tempfile::TempDir;

/// The first GPU of the machine and the NIC under its switch.
pub const PAIR: (&str, &str) = ("gpu-0000-1b-00-0", "nic-0000-18-00-0");
/// Another such pair.
pub const OTHER: (&str, &str) = ("gpu-0000-9d-00-0", "nic-0000-9a-00-0");
/// `/dev/fuse`, which containers may not open without a grant, stands for the verbs device of the first
/// NIC.
const STANDS_FOR: (&str, &str) = ("major: 231, minor: 192", "major: 10, minor: 229");
const PLUGIN_DIR: &str = "/var/lib/kubelet/plugins/lanemate.dev";

/// A plugin that runs until it is dropped.
pub struct Plugin {
    process: Option<Child>,
    directory: TempDir,
    log: PathBuf,
    flags: Vec<String>,
}

impl Plugin {
    /// Installs the plugin with no flags but those that it needs, and waits until it is ready.
    pub async fn start(cluster: &Cluster) -> anyhow::Result<Self> {
        Self::start_with(cluster, &[]).await
    }

    /// The same with further flags.
    pub async fn start_with(cluster: &Cluster, flags: &[&str]) -> anyhow::Result<Self> {
        // What an earlier test has left is not of this plugin.
        let _ = fs::remove_dir_all(PLUGIN_DIR);
        let directory = tempfile::tempdir()?;
        let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hosts/captures/dgx-h100.yaml");
        let (number, other) = STANDS_FOR;
        let machine = fs::read_to_string(capture)?.replace(number, other);
        fs::write(directory.path().join("machine.yaml"), machine)?;
        write_kubeconfig(directory.path())?;
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let log = cluster.logs().join("kubelet-plugin.log");
        let mut plugin = Self { process: None, directory, log, flags };
        plugin.run().await?;
        Ok(plugin)
    }

    /// Starts the process and waits until it is ready.
    pub async fn run(&mut self) -> anyhow::Result<()> {
        let log = File::options().create(true).append(true).open(&self.log)?;
        let binary = binary()?;
        let process = Command::new(&binary)
            .args(["--node-name", NODE, "--metrics-address", "off", "--claim-gone-grace", "1s"])
            .arg("--root")
            .arg(self.directory.path().join("machine.yaml"))
            .arg("--kubeconfig")
            .arg(self.directory.path().join("kubeconfig"))
            .args(&self.flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {}", binary.display()))?;
        self.process = Some(process);
        until("the plugin to be ready", async || {
            let probe = Command::new(&binary).args(["probe", "ready"]).output()?;
            let said = String::from_utf8_lossy(&probe.stderr).into_owned();
            Ok(if probe.status.success() { Ok(()) } else { Err(said) })
        })
        .await
        .with_context(|| format!("see {}", self.log.display()))
    }

    /// Kills the process, as when it crashes.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill()?;
            process.wait()?;
        }
        Ok(())
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

/// A kubeconfig of the service account that the manifests in `deploy/` make, and of nobody else.
fn write_kubeconfig(directory: &Path) -> anyhow::Result<()> {
    let rbac = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/rbac/kubelet-plugin.yaml");
    kubectl(&["apply", "--filename", &rbac.display().to_string()])?;
    let token =
        kubectl(&["create", "token", "lanemate-kubelet-plugin", "--namespace", "lanemate-system"])?;
    let server = kubectl(&["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"])?;
    let raw = ["config", "view", "--raw", "--flatten", "-o"];
    let authority = "jsonpath={.clusters[0].cluster.certificate-authority-data}";
    let authority = kubectl(&[raw.as_slice(), &[authority]].concat())?;
    let file = directory.join("kubeconfig");
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: x,\n \
         clusters: [{{name: c, cluster: {{server: \"{server}\", certificate-authority-data: {authority}}}}}],\n \
         users: [{{name: u, user: {{token: \"{}\"}}}}],\n \
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]}}\n",
        token.trim()
    );
    fs::write(file, text).context("write the plugin's kubeconfig")
}

fn kubectl(words: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("kubectl").args(words).output().context("run kubectl")?;
    let (said, complaint) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    anyhow::ensure!(output.status.success(), "kubectl {words:?}: {complaint}");
    Ok(said.into_owned())
}

/// UIDs of the claims that have a CDI file on the node.
pub fn in_cdi() -> Vec<String> {
    let entries = fs::read_dir(lanemate_test_cluster::CDI_DIR).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let uid = |name: String| {
        let uid = name.strip_prefix("lanemate.dev-claim_")?.strip_suffix(".json")?;
        Some(uid.to_owned())
    };
    names.filter_map(uid).collect()
}

/// UIDs of the claims that have a record on the node.
pub fn recorded() -> Vec<String> {
    let entries =
        fs::read_dir(format!("{PLUGIN_DIR}/state/claims")).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| Some(name.strip_suffix(".json")?.to_owned())).collect()
}

/// The slices of the node, without what the API server adds to each write.
pub async fn slices(client: Client) -> anyhow::Result<Vec<ResourceSlice>> {
    let api: Api<ResourceSlice> = Api::all(client);
    let fields = format!("spec.driver=lanemate.dev,spec.nodeName={NODE}");
    Ok(api.list(&ListParams::default().fields(&fields)).await?.items)
}

/// What opening a device gives in a container: the number of a device node that it makes itself.
pub async fn open_by_number(
    namespace: &TestNamespace,
    pod: &str,
    (major, minor): (u32, u32),
) -> anyhow::Result<String> {
    let script = format!(
        "rm -f /tmp/node && mknod /tmp/node c {major} {minor} && dd if=/tmp/node of=/dev/null count=0"
    );
    Ok(namespace.exec(pod, &["sh", "-c", &script]).await?.to_string())
}

/// What opening a device gives in a container, by path.
pub async fn open(namespace: &TestNamespace, pod: &str, path: &str) -> anyhow::Result<String> {
    let script = format!("dd if={path} of=/dev/null count=0");
    Ok(namespace.exec(pod, &["sh", "-c", &script]).await?.to_string())
}
