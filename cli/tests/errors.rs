//! Bad input gets one line that names file, field and expectation, and status 1; wrong usage status 2.
// Helpers of tests are not seen as tests.
#![allow(clippy::unwrap_used)]

mod program;

use std::path::Path;

use program::{capture, hosts, lanemate};

/// Writes a file below a directory; gives its path.
fn write(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn check(args: &[&str], status: i32, expect: &[&str]) {
    let output = lanemate(args);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{args:?}: {complaint}");
    assert!(output.stdout.is_empty(), "{args:?}: prints a result all the same");
    for part in expect {
        assert!(complaint.contains(part), "{part:?} is not in: {complaint}");
    }
    if status == 1 {
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
        assert!(complaint.starts_with("lanemate: "), "{complaint}");
    }
}

fn check_host(text: &str, expect: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let host = write(dir.path(), "host.yaml", text);
    for command in ["topology", "slices"] {
        check(&[command, "--host", &host], 1, &[&[host.as_str()], expect].concat());
    }
}

#[test]
fn a_broken_capture_is_told_with_file_and_field() {
    let text = std::fs::read_to_string(capture("workstation-no-nic")).unwrap();
    let version = text.replace("capture-v1", "capture-v9");
    check_host(&version, &["apiVersion", "lanemate.dev/capture-v1", "capture-v9"]);
    check_host(&text.replace("HostCapture", "Pod"), &["kind", "HostCapture", "Pod"]);
    check_host(&text[..text.len() / 2], &["line"]);
    check_host("", &["apiVersion"]);
    check_host("- a\n", &[]);
    check_host(&format!("{text}\nfoo: 1\n"), &["foo"]);
    check_host(&text.replace("type: c", "type: x"), &["type", "expected c or b"]);
}

#[test]
fn a_missing_file_is_named() {
    let host = capture("workstation-no-nic");
    let absent = "/nonexistent/file";
    check(&["topology", "--host", absent], 1, &[absent, "No such file"]);
    check(&["topology", "--host", &host, "--config", absent], 1, &[absent, "No such file"]);
    check(&["topology", "--host", &host, "--override", absent], 1, &[absent, "No such file"]);
    check(&["topology", "--root", absent], 1, &[absent, "--root", "directory"]);
}

#[test]
fn two_hosts_with_one_name_are_refused() {
    let (one, other) = (capture("workstation-no-nic"), capture("no-gpu-2nic"));
    let named = format!("workstation-no-nic={other}");
    let expect = ["\"workstation-no-nic\"", "NAME=FILE", &one];
    let same = ["topology", "--host", &one, "--host", &one];
    check(&same, 1, &[&expect[..], &["metadata.name"]].concat());
    check(&["slices", "--host", &one, "--host", &named], 1, &[&expect[..], &["--host"]].concat());
}

#[test]
fn a_broken_configuration_is_told_with_file_and_field() {
    let dir = tempfile::tempdir().unwrap();
    let host = capture("dgx-h100");
    let check_config = |text: &str, expect: &[&str]| {
        let config = write(dir.path(), "config.yaml", text);
        let args = ["topology", "--host", &host, "--config", &config];
        check(&args, 1, &[&[config.as_str()], expect].concat());
    };
    check_config("exclude: []\nfoo: 1\n", &["line 2", "unknown field `foo`", "exclude"]);
    check_config("exclude:\n- netdevs: a\n", &["line 2", "unknown field `netdevs`", "netdev"]);
    check_config("exclude:\n- pciBusID: 18:00\n", &["line 2", "pciBusID", "DDDD:BB:DD.F"]);
    check_config("exclude: [{}]\n", &["exclude[0]", "exactly one of"]);
    check_config("exclude: [{cel: 'device.attributes['}]\n", &["exclude[0]", "cel"]);
    let config = write(dir.path(), "config.yaml", "topologyOverride: absent.xml\n");
    let args = ["topology", "--host", &host, "--config", &config];
    check(&args, 1, &["topologyOverride", "absent.xml", "No such file"]);
}

#[test]
fn a_bad_override_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let host = capture("azure-ndv5-h100");
    for text in ["", "<system", "<system></wrong>", "<graphs/>", "no XML"] {
        let xml = write(dir.path(), "topo.xml", text);
        check(&["topology", "--host", &host, "--override", &xml], 1, &[&xml]);
    }
    let mut capture = std::fs::read_to_string(&host).unwrap();
    capture.push_str("topologyOverride: <system\n");
    check_host(&capture, &["topologyOverride"]);
}

#[test]
fn wrong_usage_has_status_2() {
    let (host, other) = (capture("dgx-h100"), capture("dgx-a100"));
    let xml = hosts("overrides/aws-p4d.xml");
    let both = ["--host", &host, "--host", &other];
    let unknown = format!("n9={xml}");
    let with = |args: &[&'static str]| {
        [args, &both[..]].concat().iter().map(|s| s.to_string()).collect::<Vec<_>>()
    };
    let check_usage = |args: Vec<String>, expect: &[&str]| {
        check(&args.iter().map(String::as_str).collect::<Vec<_>>(), 2, expect);
    };
    check(&[], 2, &["Usage:"]);
    check(&["nonsense"], 2, &["nonsense"]);
    check(&["topology", "-o", "png"], 2, &["png", "svg"]);
    check(&["topology", "--host", &host, "--root", "/x"], 2, &["--root"]);
    check(&["topology", "--host", &host, "--node", "x"], 2, &["--node"]);
    check_usage(with(&["topology", "-o", "svg"]), &["one machine"]);
    check(&["topology", "--host", &host, "--host", &other, "--override", &xml], 2, &["NAME=FILE"]);
    check(&["topology", "--host", &host, "--override", &unknown], 2, &["n9", "dgx-h100"]);
    check(&["topology", "--root", "/", "--node", "Not A Name"], 2, &["--node", "Not A Name"]);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    use std::process::{Command, Stdio};
    let mut child = Command::new(env!("CARGO_BIN_EXE_lanemate"))
        .args(["topology", "-o", "json", "--host", &capture("dgx-h100")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}

#[test]
fn help_is_a_result_and_names_itself_as_it_was_called() {
    for command in ["topology", "slices"] {
        let help = program::printed(&[command, "--help"]);
        assert!(help.contains("Examples:\n  lanemate "), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("kubectl-lanemate");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_lanemate"), &link).unwrap();
    let output = std::process::Command::new(&link).args(["slices", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(help.contains("Usage: kubectl lanemate slices"), "{help}");
}
