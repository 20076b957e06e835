//! The program as a whole, as a process between a simulated kubelet and a fake API server: start,
//! registration, Prepare and Unprepare, restarts and ends.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use lanemate_kubelet_sim::{Claim, Kubelet, Settings};
use lanemate_test_api::{RESOURCE_SLICES, TestApi};
use serde_json::{Value, json};

const DRIVER: &str = "lanemate.dev";
const UID: &str = "6f1c9d52-0a51-4b0e-8f0e-3d1f4a5b6c01";
/// Longer than anything takes on a busy machine.
const WITHIN: Duration = Duration::from_secs(60);

/// A node with directories of its own, a DGX H100 by its capture.
struct Node {
    dir: tempfile::TempDir,
    kubeconfig: PathBuf,
}

/// The running program. Killed when dropped.
struct Plugin {
    child: Child,
    log: PathBuf,
}

impl Node {
    fn new(api: &TestApi) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("kubelet/plugins_registry")).unwrap();
        let kubeconfig = api.kubeconfig_file(dir.path()).unwrap();
        Self { dir, kubeconfig }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lanemate-kubelet-plugin"));
        command.env_clear().args(flags).arg("--kubelet-root").arg(self.path("kubelet"));
        command
    }

    /// Starts the program, with more flags.
    fn start(&self, flags: &[&str]) -> Plugin {
        let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../test/hosts/captures");
        let log = self.path(&format!("log-{}", fs::read_dir(self.dir.path()).unwrap().count()));
        let child = self
            .command(&["--node-name", "n1", "--metrics-address", "off"])
            .arg("--root")
            .arg(captures.join("dgx-h100.yaml"))
            .arg("--cdi-root")
            .arg(self.path("cdi"))
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(flags)
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Plugin { child, log }
    }

    fn kubelet(&self) -> Kubelet {
        Kubelet::start(Settings::new(self.path("kubelet/plugins_registry")))
    }

    /// What a probe says on stderr; empty when all is well.
    fn probe(&self, about: &str) -> String {
        let output = self.command(&["probe", about]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.success(), said.is_empty(), "{said}");
        said
    }

    fn spec(&self) -> PathBuf {
        self.path(&format!("cdi/lanemate.dev-claim_{UID}.json"))
    }
}

impl Plugin {
    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Waits for its end.
    async fn ended(&mut self) -> ExitStatus {
        self.until("the end of the process", |plugin| plugin.child.try_wait().unwrap()).await
    }

    async fn until<T>(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> Option<T>) -> T {
        let so = async {
            loop {
                if let Some(answer) = is_so(self) {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        match tokio::time::timeout(WITHIN, so).await {
            Ok(answer) => answer,
            Err(_) => panic!("waited for {what}; the log:\n{}", self.log()),
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// The lines of the log, all of which are JSON.
    fn lines(&self) -> Vec<Value> {
        self.log().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn api_with_a_claim() -> TestApi {
    let api = TestApi::start().await.unwrap();
    api.put(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})).unwrap();
    let result =
        |device: &str| json!({"request": "pair", "driver": DRIVER, "pool": "n1", "device": device});
    let results = [result("gpu-0000-1b-00-0"), result("nic-0000-18-00-0")];
    api.put(json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"namespace": "ml", "name": "pair", "uid": UID}, "spec": {},
        "status": {"allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "pod-1"}]}}))
        .unwrap();
    api
}

fn claim() -> Claim {
    Claim { namespace: "ml".to_owned(), name: "pair".to_owned(), uid: UID.to_owned() }
}

/// Until kubelet has it, and it is ready.
async fn ready(node: &Node, kubelet: &Kubelet, plugin: &mut Plugin) {
    if let Err(error) = kubelet.until_registered(DRIVER, 1, WITHIN).await {
        panic!("{error}; the log:\n{}", plugin.log());
    }
    plugin.until("readiness", |_| node.probe("ready").is_empty().then_some(())).await;
}

#[tokio::test]
async fn a_claim_is_prepared_survives_a_restart_and_is_unprepared() {
    let api = api_with_a_claim().await;
    let node = Node::new(&api);
    let kubelet = node.kubelet();
    let mut plugin = node.start(&[]);
    ready(&node, &kubelet, &mut plugin).await;
    assert_eq!(node.probe("live"), "");
    let slices = api.list(RESOURCE_SLICES);
    assert_eq!(slices.len(), 1);
    assert_eq!(slices[0].pointer("/spec/devices").unwrap().as_array().unwrap().len(), 18);

    let answers = kubelet.prepare(DRIVER, &[claim()]).await.unwrap();
    let devices = answers[UID].as_ref().unwrap();
    let names: Vec<&str> = devices.iter().map(|device| &*device.device).collect();
    assert_eq!(names, ["gpu-0000-1b-00-0", "nic-0000-18-00-0"]);
    let spec = fs::read(node.spec()).unwrap();

    plugin.signal("-KILL");
    plugin.ended().await;
    let mut plugin = node.start(&[]);
    ready(&node, &kubelet, &mut plugin).await;
    assert_eq!(fs::read(node.spec()).unwrap(), spec);
    kubelet.forget(DRIVER, &[claim()]);
    let again = kubelet.prepare(DRIVER, &[claim()]).await.unwrap();
    assert_eq!(again, answers);

    kubelet.unprepare(DRIVER, &[claim()]).await.unwrap()[UID].as_ref().unwrap();
    assert!(!node.spec().exists());
    let of_claim = |line: &&Value| line.pointer("/span/uid") == Some(&json!(UID));
    let lines = plugin.lines();
    let of_claim: Vec<&Value> = lines.iter().filter(of_claim).collect();
    let operations: Vec<&Value> =
        of_claim.iter().map(|line| line.pointer("/span/operation").unwrap()).collect();
    assert!(
        operations.len() >= 2 && operations[0] != operations[operations.len() - 1],
        "{lines:?}"
    );
}

#[tokio::test]
async fn a_signal_ends_it_in_order_and_leaves_records_and_slices() {
    let api = api_with_a_claim().await;
    let node = Node::new(&api);
    let kubelet = node.kubelet();
    for signal in ["-TERM", "-INT"] {
        let mut plugin = node.start(&[]);
        ready(&node, &kubelet, &mut plugin).await;
        kubelet.forget(DRIVER, &[claim()]);
        kubelet.prepare(DRIVER, &[claim()]).await.unwrap()[UID].as_ref().unwrap();
        plugin.signal(signal);
        assert_eq!(plugin.ended().await.code(), Some(0), "{}", plugin.log());
        kubelet.until_registered(DRIVER, 0, WITHIN).await.unwrap();
        let plugins = node.path("kubelet/plugins/lanemate.dev");
        let names = fs::read_dir(plugins).unwrap().map(|entry| entry.unwrap().file_name());
        let sockets: Vec<_> =
            names.filter(|name| name.to_string_lossy().ends_with(".sock")).collect();
        assert!(sockets.is_empty(), "{sockets:?}");
        assert!(node.spec().exists());
        assert_eq!(api.list(RESOURCE_SLICES).len(), 1);
    }
}

#[tokio::test]
async fn two_instances_of_an_update_serve_one_node_and_the_old_one_can_go() {
    let api = api_with_a_claim().await;
    let node = Node::new(&api);
    let kubelet = node.kubelet();
    let mut old = node.start(&["--pod-uid", "pod-old"]);
    kubelet.until_registered(DRIVER, 1, WITHIN).await.unwrap();
    let before = kubelet.prepare(DRIVER, &[claim()]).await.unwrap();
    let _new = node.start(&["--pod-uid", "pod-new"]);
    kubelet.until_registered(DRIVER, 2, WITHIN).await.unwrap();
    kubelet.forget(DRIVER, &[claim()]);
    assert_eq!(kubelet.prepare(DRIVER, &[claim()]).await.unwrap(), before);
    old.signal("-TERM");
    assert_eq!(old.ended().await.code(), Some(0), "{}", old.log());
    kubelet.until_registered(DRIVER, 1, WITHIN).await.unwrap();
    kubelet.unprepare(DRIVER, &[claim()]).await.unwrap()[UID].as_ref().unwrap();
    assert!(!node.spec().exists());
}

#[tokio::test]
async fn without_an_api_server_it_registers_and_says_what_it_waits_for() {
    let api = api_with_a_claim().await;
    let node = Node::new(&api);
    drop(api);
    let kubelet = node.kubelet();
    let mut plugin = node.start(&[]);
    kubelet.until_registered(DRIVER, 1, WITHIN).await.unwrap();
    let answers = kubelet.prepare(DRIVER, &[claim()]).await.unwrap();
    let error = answers[UID].as_ref().unwrap_err();
    assert!(error.contains("cannot be read from the API server"), "{error}");
    kubelet.unprepare(DRIVER, &[claim()]).await.unwrap()[UID].as_ref().unwrap();
    assert_eq!(node.probe("live"), "");
    let expect = "the node's ResourceSlices are not published\n";
    plugin
        .until("only the slices to be missing", |_| {
            node.probe("ready").ends_with(&format!("plugin: {expect}")).then_some(())
        })
        .await;
    plugin.signal("-TERM");
    assert_eq!(plugin.ended().await.code(), Some(0), "{}", plugin.log());
}

#[tokio::test]
async fn what_cannot_start_says_why_and_fails() {
    let api = api_with_a_claim().await;
    let node = Node::new(&api);
    let broken = node.path("broken.yaml");
    fs::write(&broken, "kind: [").unwrap();
    let broken = broken.display().to_string();
    let kubeconfig = node.kubeconfig.display().to_string();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    for (flags, status, expect) in [
        (&["--mode", "both"][..], 2, "invalid value 'both'"),
        (&["--state-dir", "x"], 2, "--state-dir \"x\": expected an absolute path"),
        (&["--config", &broken], 2, "broken.yaml\": line 1"),
        (&["--kubeconfig", &broken], 1, "expected a kubeconfig"),
        (
            &["--kubeconfig", &kubeconfig, "--metrics-address", &taken],
            1,
            "bind --metrics-address 127.0.0.1:",
        ),
    ] {
        let mut command = node.command(flags);
        command.args(["--node-name", "n1", "--root"]).arg(node.dir.path());
        let output = command.arg("--cdi-root").arg(node.path("cdi")).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.contains(expect)), (Some(status), true), "{said}");
    }
}
