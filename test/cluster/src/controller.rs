//! The controller as a process: the binary, with the rights of its service account and no others.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::cluster::Cluster;
use crate::wait::until;
use anyhow::Context;

/// The account whose rights the controller has.
pub const CONTROLLER: (&str, &str) = ("lanemate-system", "lanemate-controller");

/// A running controller, ended when dropped.
pub struct Controller {
    child: Child,
    log: PathBuf,
}

/// How it is started.
#[derive(Clone, Debug)]
pub struct Start {
    /// Name of the lease: a name of its own waits for nobody.
    pub lease: String,
    /// Duration of the lease, in seconds.
    pub lease_seconds: u32,
    /// The kubeconfig to use.
    pub kubeconfig: PathBuf,
}

impl Controller {
    /// Starts the binary; returns at once. The log goes on where an earlier one of the same name has ended.
    pub fn spawn(cluster: &Cluster, name: &str, start: &Start) -> anyhow::Result<Controller> {
        let binary = std::env::var_os("LANEMATE_CONTROLLER")
            .context("LANEMATE_CONTROLLER is not set: run hack/e2e")?;
        let log = cluster.logs().join(format!("controller-{name}.log"));
        let open = || File::options().create(true).append(true).open(&log);
        let mut command = Command::new(binary);
        command
            .args(["--http-address", "off", "--log-level", "info,lanemate_controller=debug"])
            .args(["--lease-name", &start.lease, "--identity", name])
            .args(["--lease-duration", &format!("{}s", start.lease_seconds)])
            .arg("--kubeconfig")
            .arg(&start.kubeconfig)
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .stdout(open()?)
            .stderr(open()?);
        let child = command.spawn().context("start the controller")?;
        Ok(Controller { child, log })
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the log says, since this position, that it plans.
    pub async fn until_working(&mut self, since: u64) -> anyhow::Result<()> {
        self.until_logged(since, "\"state\":\"Working\"").await
    }

    /// Waits for these words in the log behind a position.
    pub async fn until_logged(&mut self, since: u64, words: &str) -> anyhow::Result<()> {
        until(&format!("{words} in {}", self.log.display()), async || {
            let text = read_from(&self.log, since)?;
            if text.contains(words) {
                return Ok(Ok(()));
            }
            if let Some(status) = self.child.try_wait()? {
                anyhow::bail!("the controller has ended with {status}:\n{text}");
            }
            Ok(Err(text.lines().last().unwrap_or_default().to_owned()))
        })
        .await
    }

    /// Whether these words are in the log behind a position.
    pub fn has_logged(&self, since: u64, words: &str) -> anyhow::Result<bool> {
        Ok(read_from(&self.log, since)?.contains(words))
    }

    /// SIGKILL, and its end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// SIGSTOP.
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// SIGTERM, and its end.
    pub async fn terminate(&mut self) -> anyhow::Result<ExitStatus> {
        self.signal("TERM");
        self.ended().await
    }

    /// True when it has ended.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Waits for its end.
    pub async fn ended(&mut self) -> anyhow::Result<ExitStatus> {
        until("the controller to end", async || {
            Ok(self.child.try_wait()?.ok_or_else(|| "running".to_owned()))
        })
        .await
    }

    fn signal(&self, name: &str) {
        let sent =
            Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(sent.is_ok_and(|status| status.success()), "send SIG{name}");
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the log of the controller is {}", self.log.display());
        }
        self.kill();
    }
}

/// The length of the log of the controllers of a name so far.
pub fn logged(cluster: &Cluster, name: &str) -> u64 {
    length(&cluster.logs().join(format!("controller-{name}.log")))
}

fn length(log: &Path) -> u64 {
    std::fs::metadata(log).map_or(0, |metadata| metadata.len())
}

fn read_from(log: &Path, position: u64) -> anyhow::Result<String> {
    let mut file = File::open(log)?;
    file.seek(SeekFrom::Start(position))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes a kubeconfig with the controller's rights.
pub async fn kubeconfig(cluster: &Cluster, directory: &Path) -> anyhow::Result<PathBuf> {
    let file = directory.join("controller.kubeconfig");
    cluster.write_kubeconfig(&file, CONTROLLER, None).await?;
    Ok(file)
}
