//! A node for tests: the plugin's binary on a captured machine, what kubelet does to it, and a small
//! API server in this process.

#![allow(dead_code, reason = "each test and the benchmark use a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod binary;

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use lanemate_kubelet_plugin::state::record::Record;
use lanemate_kubelet_sim::{Claim, Device, Kubelet, Settings};
use lanemate_test_api::{NODE_STATES, RESOURCE_SLICES, TestApi};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The driver under test.
pub const DRIVER: &str = "lanemate.dev";
/// Name of the node, and of its machine in `test/hosts/captures`.
pub const NODE: &str = "dgx-h100";
/// GPUs of that machine and the NIC under the switch of each.
pub const PAIRS: [(&str, &str); 4] = [
    ("gpu-0000-1b-00-0", "nic-0000-18-00-0"),
    ("gpu-0000-9d-00-0", "nic-0000-9a-00-0"),
    ("gpu-0000-c3-00-0", "nic-0000-c0-00-0"),
    ("gpu-0000-d1-00-0", "nic-0000-ce-00-0"),
];
/// What has not come by then does not come, however busy the machine is.
const LONGEST: Duration = Duration::from_secs(30);
const BETWEEN: Duration = Duration::from_millis(20);

/// The node. The plugin ends with it.
pub struct Rig {
    /// The API server.
    pub api: TestApi,
    /// Kubelet.
    pub kubelet: Kubelet,
    directory: TempDir,
    plugin: Option<Child>,
    flags: Vec<String>,
}

impl Rig {
    /// A node that the plugin was never on. No plugin runs yet.
    pub async fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("lm").tempdir().unwrap();
        let api = TestApi::start().await.unwrap();
        api.kubeconfig_file(directory.path()).unwrap();
        api.put(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})).unwrap();
        let registry = directory.path().join("k/plugins_registry");
        fs::create_dir_all(&registry).unwrap();
        let kubelet = Kubelet::start(Settings::new(registry));
        let rig = Self { api, kubelet, directory, plugin: None, flags: Vec::new() };
        rig.write_machine(&rig.captured());
        rig
    }

    /// Lets kubelet look at its registry so often; to be called before the plugin starts.
    pub fn poll_every(&mut self, poll: Duration) {
        let registry = self.directory.path().join("k/plugins_registry");
        self.kubelet = Kubelet::start(Settings { poll, ..Settings::new(registry) });
    }

    /// Adds flags to all later starts.
    pub fn flags(&mut self, flags: &[&str]) {
        self.flags.extend(flags.iter().map(|flag| (*flag).to_owned()));
    }

    /// The capture of the machine, as it is in the repository.
    pub fn captured(&self) -> String {
        let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../test/hosts/captures");
        fs::read_to_string(captures.join(format!("{NODE}.yaml"))).unwrap()
    }

    /// Makes the machine what a capture says.
    pub fn write_machine(&self, capture: &str) {
        // Renamed into place, since the plugin may be reading it.
        let new = self.directory.path().join("new.yaml");
        fs::write(&new, capture).unwrap();
        fs::rename(new, self.machine()).unwrap();
    }

    fn machine(&self) -> PathBuf {
        self.directory.path().join("machine.yaml")
    }

    /// The CDI directory.
    pub fn cdi(&self) -> PathBuf {
        self.directory.path().join("cdi")
    }

    /// The plugin's directory below kubelet's.
    pub fn plugin_directory(&self) -> PathBuf {
        self.directory.path().join("k/plugins").join(DRIVER)
    }

    /// The state directory.
    pub fn state(&self) -> PathBuf {
        self.plugin_directory().join("state")
    }

    /// The record of a claim.
    pub fn record(&self, claim: &Claim) -> PathBuf {
        self.state().join("claims").join(format!("{}.json", claim.uid))
    }

    /// Starts the plugin with faults, in the form of `LANEMATE_FAULT`.
    pub fn spawn(&mut self, faults: &str) {
        assert!(self.plugin.is_none(), "the plugin runs already");
        self.plugin = Some(self.command(faults).spawn().unwrap());
    }

    /// The plugin's command line; it writes to the log of this node.
    pub fn command(&self, faults: &str) -> Command {
        let at = |name: &str| self.directory.path().join(name);
        let log = OpenOptions::new().create(true).append(true).open(self.log()).unwrap();
        let mut command = Command::new(binary::path());
        command
            .args(["--node-name", NODE, "--metrics-address", "off", "--log-format", "text"])
            .arg("--root")
            .arg(self.machine())
            .arg("--kubelet-root")
            .arg(at("k"))
            .arg("--cdi-root")
            .arg(self.cdi())
            .arg("--kubeconfig")
            .arg(at("kubeconfig"))
            .args(&self.flags)
            .env("LANEMATE_FAULT", faults)
            .env_remove("POD_UID")
            .stdin(Stdio::null())
            .stdout(Stdio::from(log.try_clone().unwrap()))
            .stderr(Stdio::from(log));
        command
    }

    /// Starts the plugin and waits until kubelet has it.
    pub async fn start(&mut self) {
        self.spawn("");
        self.registered().await;
    }

    /// Waits until kubelet has the plugin.
    pub async fn registered(&self) {
        let registered = self.kubelet.until_registered(DRIVER, 1, LONGEST).await;
        if let Err(error) = registered {
            panic!("{error}\n{}", self.told());
        }
    }

    /// Process id of the plugin.
    pub fn pid(&self) -> u32 {
        self.plugin.as_ref().unwrap().id()
    }

    /// Ends the plugin as kubelet ends a pod.
    pub async fn stop(&mut self) -> ExitStatus {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.ended().await
    }

    /// Waits for the plugin to end by itself.
    pub async fn ended(&mut self) -> ExitStatus {
        let mut plugin = self.plugin.take().unwrap();
        let log = self.log();
        let status = until("the plugin to end", async || plugin.try_wait().unwrap()).await;
        let status =
            status.unwrap_or_else(|error| panic!("{error}\n{}", fs::read_to_string(log).unwrap()));
        // Kubelet takes the dead one for the next one otherwise.
        self.until("kubelet to miss the plugin", |rig| {
            rig.kubelet.plugins(DRIVER).iter().all(|plugin| !plugin.connected)
        })
        .await;
        status
    }

    /// Puts an allocated claim with a pod that has it reserved. The devices go to one request each:
    /// `r0`, `r1` and so on.
    pub fn claim(&self, name: &str, devices: &[&str]) -> Claim {
        let uid = format!("{name}-uid");
        self.claim_of(name, &uid, devices)
    }

    /// The same with a UID.
    pub fn claim_of(&self, name: &str, uid: &str, devices: &[&str]) -> Claim {
        let result = |(index, device): (usize, &&str)| json!({"request": format!("r{index}"), "driver": DRIVER, "pool": NODE, "device": device});
        let results: Vec<Value> = devices.iter().enumerate().map(result).collect();
        let pod = format!("pod-of-{name}");
        self.api
            .put(json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"namespace": "default", "name": pod, "uid": format!("{pod}-uid")},
                "status": {"phase": "Running"},
            }))
            .unwrap();
        self.api
            .put(json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                "metadata": {"namespace": "default", "name": name, "uid": uid},
                "spec": {"devices": {}},
                "status": {
                    "allocation": {
                        "allocationTimestamp": "2026-01-01T00:00:00Z",
                        "devices": {"results": results},
                    },
                    "reservedFor": [{"resource": "pods", "name": pod, "uid": format!("{pod}-uid")}],
                },
            }))
            .unwrap();
        Claim { namespace: "default".to_owned(), name: name.to_owned(), uid: uid.to_owned() }
    }

    /// Path of a claim in the API.
    pub fn path(&self, claim: &Claim) -> String {
        let Claim { namespace, name, .. } = claim;
        format!("/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}")
    }

    /// Removes a claim from the API server, as when it was force-deleted.
    pub fn delete_claim(&self, claim: &Claim) {
        assert_eq!(self.api.remove(&self.path(claim)), 1);
    }

    /// Prepares one claim.
    pub async fn prepare(&self, claim: &Claim) -> Result<Vec<Device>, String> {
        let mut answers = self
            .kubelet
            .prepare(DRIVER, std::slice::from_ref(claim))
            .await
            .map_err(|error| error.to_string())?;
        answers.remove(&claim.uid).unwrap()
    }

    /// Prepares one claim; it must succeed, and kubelet sends it again when asked again.
    pub async fn prepared(&self, claim: &Claim) -> Vec<Device> {
        self.kubelet.forget(DRIVER, std::slice::from_ref(claim));
        match self.prepare(claim).await {
            Ok(devices) => devices,
            Err(error) => panic!("prepare {}: {error}\n{}", claim.name, self.told()),
        }
    }

    /// Unprepares one claim.
    pub async fn unprepare(&self, claim: &Claim) -> Result<(), String> {
        let mut answers = self
            .kubelet
            .unprepare(DRIVER, std::slice::from_ref(claim))
            .await
            .map_err(|error| error.to_string())?;
        answers.remove(&claim.uid).unwrap()
    }

    /// Unprepares one claim; it must succeed.
    pub async fn unprepared(&self, claim: &Claim) {
        if let Err(error) = self.unprepare(claim).await {
            panic!("unprepare {}: {error}\n{}", claim.name, self.told());
        }
    }

    /// UIDs of the claims that have a record.
    pub fn recorded(&self) -> BTreeSet<String> {
        let names = file_names(&self.state().join("claims"));
        names.iter().map(|name| uid_of(name, "", ".json")).collect()
    }

    /// UIDs of the claims that have a CDI file.
    pub fn in_cdi(&self) -> BTreeSet<String> {
        let names = file_names(&self.cdi());
        names.iter().map(|name| uid_of(name, "lanemate.dev-claim_", ".json")).collect()
    }

    /// Entries of the metadata directory.
    pub fn metadata(&self) -> BTreeSet<String> {
        file_names(&self.plugin_directory().join("metadata"))
    }

    /// UIDs of the claims that `NodeState` names; absent when it was never written.
    pub fn published_held(&self) -> Option<BTreeSet<String>> {
        let state = self.api.get(&format!("{NODE_STATES}/{NODE}"))?;
        let held = state["status"]["held"].as_array().cloned().unwrap_or_default();
        Some(held.iter().map(|one| one["claim"]["uid"].as_str().unwrap().to_owned()).collect())
    }

    /// Names of the published devices, in order.
    pub fn published_devices(&self) -> Vec<String> {
        let slices = self.api.list(RESOURCE_SLICES);
        let devices = slices.iter().flat_map(|slice| slice["spec"]["devices"].as_array().unwrap());
        devices.map(|device| device["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits for something that becomes true; a failure shows the plugin's log.
    pub async fn until(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let waited = until(what, async || is_so(self).then_some(())).await;
        if let Err(error) = waited {
            panic!("{error}; {}", self.told());
        }
    }

    /// Where things stand, and what the plugin has told.
    pub fn told(&self) -> String {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        format!(
            "recorded {:?}, in CDI {:?}, metadata {:?}, NodeState {:?}\n{log}",
            self.recorded(),
            self.in_cdi(),
            self.metadata(),
            self.published_held(),
        )
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(mut plugin) = self.plugin.take() {
            let _ = plugin.kill();
            let _ = plugin.wait();
        }
    }
}

/// Asks until there is an answer, for half a minute at most.
pub async fn until<T>(
    what: &str,
    mut question: impl AsyncFnMut() -> Option<T>,
) -> Result<T, String> {
    let end = tokio::time::Instant::now() + LONGEST;
    loop {
        if let Some(answer) = question().await {
            return Ok(answer);
        }
        if tokio::time::Instant::now() >= end {
            return Err(format!("waited {LONGEST:?} for {what}"));
        }
        tokio::time::sleep(BETWEEN).await;
    }
}

fn file_names(directory: &Path) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(directory) else { return BTreeSet::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// What is no file of a claim, such as a file that was not completed, stays as it is and is seen.
fn uid_of(name: &str, prefix: &str, suffix: &str) -> String {
    let uid = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(suffix));
    uid.unwrap_or(name).to_owned()
}

/// Changes one bit of a file.
pub fn flip_bit(file: &Path, byte: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[byte] ^= 1;
    let mut written = File::create(file).unwrap();
    std::io::Write::write_all(&mut written, &bytes).unwrap();
}

/// Makes a record one that only a later version of the plugin can read.
pub fn make_newer(file: &Path) {
    let mut record = Record::decode(&fs::read(file).unwrap()).unwrap();
    (record.schema, record.min_reader) = (99, 99);
    fs::write(file, record.encode().unwrap()).unwrap();
}
