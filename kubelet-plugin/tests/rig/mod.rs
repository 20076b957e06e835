//! A node for tests: the plugin's binary on a captured machine, what kubelet does to it, and a small
//! API server in this process.

#![allow(dead_code, reason = "each test and the benchmark use a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod binary;

use std::collections::{BTreeSet, VecDeque};
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

/// The node. The plugin ends with it; its log is shown when the test fails.
pub struct Rig {
    /// What a failure is told under; the name of the test to begin with.
    pub name: String,
    /// The API server.
    pub api: TestApi,
    /// Kubelet.
    pub kubelet: Kubelet,
    /// UID of the pod that the next instances run in; empty for none.
    pub pod_uid: &'static str,
    directory: TempDir,
    /// Running instances, the oldest first: two of them during an update.
    instances: VecDeque<Child>,
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
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        let (instances, flags) = (VecDeque::new(), Vec::new());
        let rig = Self { name, api, kubelet, pod_uid: "", directory, instances, flags };
        rig.write_machine(&rig.captured());
        rig
    }

    /// Lets kubelet look at its registry so often; to be called before the plugin starts.
    pub fn poll_every(&mut self, poll: Duration) {
        let registry = self.at("k/plugins_registry");
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
        let new = self.at("new.yaml");
        fs::write(&new, capture).unwrap();
        fs::rename(new, self.machine()).unwrap();
    }

    fn machine(&self) -> PathBuf {
        self.at("machine.yaml")
    }

    /// The CDI directory.
    pub fn cdi(&self) -> PathBuf {
        self.at("cdi")
    }

    /// The plugin's directory below kubelet's.
    pub fn plugin_directory(&self) -> PathBuf {
        self.at("k/plugins").join(DRIVER)
    }

    /// The state directory.
    pub fn state(&self) -> PathBuf {
        self.plugin_directory().join("state")
    }

    /// The record of a claim.
    pub fn record(&self, claim: &Claim) -> PathBuf {
        self.state().join("claims").join(format!("{}.json", claim.uid))
    }

    /// The program, with kubelet's directory on this node and nothing else.
    pub fn program(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary::path());
        command
            .env_clear()
            .args(arguments)
            .arg("--kubelet-root")
            .arg(self.at("k"))
            .stdin(Stdio::null());
        if !self.pod_uid.is_empty() {
            command.env("POD_UID", self.pod_uid);
        }
        command
    }

    /// The CDI file of a claim.
    pub fn spec(&self, claim: &Claim) -> PathBuf {
        self.cdi().join(format!("lanemate.dev-claim_{}.json", claim.uid))
    }

    /// Starts the plugin with faults, in the form of `LANEMATE_FAULT`.
    pub fn spawn(&mut self, faults: &str) {
        let log = OpenOptions::new().create(true).append(true).open(self.at("log")).unwrap();
        let mut command = self.program(&["--node-name", NODE, "--metrics-address", "off"]);
        command
            .arg("--root")
            .arg(self.machine())
            .arg("--cdi-root")
            .arg(self.cdi())
            .arg("--kubeconfig")
            .arg(self.at("kubeconfig"))
            .args(&self.flags)
            .env("LANEMATE_FAULT", faults)
            .stdout(Stdio::from(log.try_clone().unwrap()))
            .stderr(Stdio::from(log));
        self.instances.push_back(command.spawn().unwrap());
    }

    /// What a probe says on stderr; empty when all is well.
    pub fn probe(&self, about: &str) -> String {
        let output = self.program(&["probe", about]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.success(), said.is_empty(), "{said}");
        said
    }

    /// Starts the plugin and waits until kubelet has it.
    pub async fn start(&mut self) {
        self.spawn("");
        self.registered().await;
    }

    /// Waits until kubelet has each instance.
    pub async fn registered(&self) {
        self.kubelet.until_registered(DRIVER, self.instances.len(), LONGEST).await.unwrap();
    }

    /// Process id of the oldest instance.
    pub fn pid(&self) -> u32 {
        self.instances[0].id()
    }

    /// Sends a signal to the oldest instance.
    pub fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Ends the oldest instance as kubelet ends a pod.
    pub async fn stop(&mut self) {
        self.signal("-TERM");
        let status = self.ended().await;
        assert!(status.success(), "{status}");
    }

    /// Waits for the oldest instance to end.
    pub async fn ended(&mut self) -> ExitStatus {
        let oldest = &mut self.instances[0];
        let status = until("the plugin to end", async || oldest.try_wait().unwrap()).await;
        self.instances.pop_front();
        // Kubelet takes the dead one for the next one otherwise.
        self.until("kubelet to miss the plugin", |rig| {
            let plugins = rig.kubelet.plugins(DRIVER);
            plugins.iter().filter(|plugin| plugin.connected).count() <= rig.instances.len()
        })
        .await;
        status.unwrap()
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
            Err(error) => panic!("prepare {}: {error}", claim.name),
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
            panic!("unprepare {}: {error}", claim.name);
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

    /// Waits for something that becomes true.
    pub async fn until(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let waited = until(what, async || is_so(self).then_some(())).await;
        if let Err(error) = waited {
            panic!("{error}; {}", self.seen());
        }
    }

    /// What the node holds, and what the cluster thinks that it holds.
    pub fn seen(&self) -> String {
        format!(
            "recorded {:?}, in CDI {:?}, metadata {:?}, NodeState {:?}",
            self.recorded(),
            self.in_cdi(),
            self.metadata(),
            self.published_held(),
        )
    }

    /// The log of all instances.
    pub fn log(&self) -> String {
        fs::read_to_string(self.at("log")).unwrap_or_default()
    }

    /// A path of this node's own.
    pub fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        for instance in &mut self.instances {
            let _ = instance.kill();
            let _ = instance.wait();
        }
        if std::thread::panicking() {
            println!("the plugin's log, {}:\n{}", self.name, self.log());
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
