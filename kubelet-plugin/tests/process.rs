//! The program as a whole, as a process between a simulated kubelet and a fake API server: start,
//! registration, Prepare and Unprepare, restarts and ends.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

mod rig;

use std::fs;
use std::time::Duration;

use lanemate_kubelet_sim::Claim;
use lanemate_test_api::{Fault, RESOURCE_SLICES, TestApi};
use rig::{NODE, PAIRS, Rig};
use serde_json::{Value, json};

/// The claim of these tests.
fn pair(rig: &Rig) -> Claim {
    rig.claim("pair", &[PAIRS[0].0, PAIRS[0].1])
}

/// Starts the plugin and waits until it is registered and ready.
async fn ready(rig: &mut Rig) {
    rig.start().await;
    rig.until("readiness", |rig| rig.probe("ready").is_empty()).await;
}

#[tokio::test]
async fn a_claim_is_prepared_survives_a_restart_and_is_unprepared() {
    let mut rig = Rig::new().await;
    let claim = pair(&rig);
    ready(&mut rig).await;
    assert_eq!(rig.probe("live"), "");
    assert_eq!(rig.api.list(RESOURCE_SLICES).len(), 1);
    assert_eq!(rig.published_devices().len(), 18);

    let devices = rig.prepared(&claim).await;
    let names: Vec<&str> = devices.iter().map(|device| &*device.device).collect();
    assert_eq!(names, [PAIRS[0].0, PAIRS[0].1]);
    let spec = fs::read(rig.spec(&claim)).unwrap();

    rig.signal("-KILL");
    rig.ended().await;
    ready(&mut rig).await;
    assert_eq!(fs::read(rig.spec(&claim)).unwrap(), spec);
    assert_eq!(rig.prepared(&claim).await, devices);
    rig.unprepared(&claim).await;
    assert!(!rig.spec(&claim).exists());

    // All lines are JSON, and those about one operation share its id.
    let log = rig.log();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_claim = lines.iter().filter(|line| line.pointer("/span/uid") == Some(&json!(claim.uid)));
    let of_claim = of_claim.filter(|line| line.pointer("/span/claim") == Some(&json!(claim.name)));
    let operations: Vec<&Value> =
        of_claim.map(|line| line.pointer("/span/operation").unwrap()).collect();
    let [first, .., last] = &operations[..] else { panic!("{log}") };
    assert_ne!(first, last);
}

#[tokio::test]
async fn a_signal_ends_it_in_order_and_leaves_records_and_slices() {
    let mut rig = Rig::new().await;
    let claim = pair(&rig);
    for signal in ["-TERM", "-INT"] {
        ready(&mut rig).await;
        rig.prepared(&claim).await;
        rig.signal(signal);
        assert_eq!(rig.ended().await.code(), Some(0));
        // Kubelet forgets it, as all its sockets are gone.
        rig.registered().await;
        let names = fs::read_dir(rig.plugin_directory()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let sockets: Vec<String> = names.filter(|name| name.ends_with(".sock")).collect();
        assert!(sockets.is_empty(), "{sockets:?}");
        assert!(rig.spec(&claim).exists());
        assert_eq!(rig.api.list(RESOURCE_SLICES).len(), 1);
    }
}

#[tokio::test]
async fn two_instances_of_an_update_serve_one_node_and_the_old_one_can_go() {
    let mut rig = Rig::new().await;
    let claim = pair(&rig);
    rig.pod_uid = "pod-old";
    rig.start().await;
    let before = rig.prepared(&claim).await;
    rig.pod_uid = "pod-new";
    rig.start().await;
    assert_eq!(rig.prepared(&claim).await, before);
    rig.stop().await;
    rig.registered().await;
    rig.unprepared(&claim).await;
    assert!(!rig.spec(&claim).exists());
}

#[tokio::test]
async fn without_an_api_server_it_registers_and_says_what_it_waits_for() {
    let mut rig = Rig::new().await;
    let claim = pair(&rig);
    // The one that the node knows ends.
    rig.api = TestApi::start().await.unwrap();
    rig.start().await;
    let error = rig.prepare(&claim).await.unwrap_err();
    assert!(error.contains("cannot be read from the API server"), "{error}");
    rig.unprepared(&claim).await;
    assert_eq!(rig.probe("live"), "");
    let expect = "lanemate-kubelet-plugin: the node's ResourceSlices are not published\n";
    rig.until("only the slices to be missing", |rig| rig.probe("ready") == expect).await;
    rig.stop().await;
}

#[tokio::test]
async fn an_api_server_that_hangs_does_not_hold_up_the_end() {
    let mut rig = Rig::new().await;
    let claim = pair(&rig);
    rig.start().await;
    let hang = Fault::Hang(Duration::from_secs(600));
    rig.api.faults().next("*", "/", hang, usize::MAX);
    // A claim in work is given up, for the next instance to take care of.
    let signal = async {
        let asked = |rig: &Rig| rig.api.count("GET", &rig.path(&claim)) > 0;
        rig.until("the claim to be read", asked).await;
        rig.signal("-TERM");
    };
    let (answer, ()) = tokio::join!(rig.prepare(&claim), signal);
    let error = answer.unwrap_err();
    assert!(error.contains("no answer while the plugin is ending"), "{error}");
    assert_eq!(rig.ended().await.code(), Some(0));

    // The signal comes while records are compared with the cluster, before kubelet is served.
    rig.api.faults().clear();
    rig.start().await;
    rig.prepared(&claim).await;
    rig.stop().await;
    rig.api.faults().next("*", "/", Fault::Hang(Duration::from_secs(600)), usize::MAX);
    let reads = |rig: &Rig| rig.api.count("GET", &rig.path(&claim));
    let before = reads(&rig);
    rig.spawn("");
    rig.until("the claim to be read", |rig| reads(rig) > before).await;
    rig.stop().await;
    assert_eq!(rig.recorded(), [claim.uid].into());
}

#[tokio::test]
async fn what_cannot_start_says_why_and_fails() {
    let rig = Rig::new().await;
    let broken = rig.at("broken.yaml");
    fs::write(&broken, "kind: [").unwrap();
    let broken = broken.display().to_string();
    let kubeconfig = rig.at("kubeconfig").display().to_string();
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
        let mut command = rig.program(flags);
        command.args(["--node-name", NODE]).arg("--cdi-root").arg(rig.cdi());
        let output = command.arg("--root").arg(rig.at("k")).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.contains(expect)), (Some(status), true), "{said}");
    }
}
