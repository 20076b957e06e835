//! A capture leads to the same answers as the machine, live or captured, and names nothing that
//! identifies it.
// Helpers of tests are not seen as tests.
#![allow(clippy::unwrap_used)]

mod program;

use std::path::Path;

use lanemate_driver::discovery::HostCapture;
use program::{capture, hosts, lanemate, printed};
use serde_json::Value;

/// What `topology` says, without the UUIDs, which a capture replaces.
fn topology(args: &[&str]) -> Value {
    let json = printed(&[&["topology", "-o", "json"], args].concat());
    let mut topology: Value = serde_json::from_str(&json).unwrap();
    for gpu in topology["gpus"].as_array_mut().unwrap() {
        gpu.as_object_mut().unwrap().remove("uuid");
    }
    topology
}

#[test]
fn a_capture_of_a_capture_says_the_same_and_a_third_is_equal() {
    for entry in std::fs::read_dir(hosts("captures")).unwrap() {
        let host = entry.unwrap().path().display().to_string();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("again.yaml").display().to_string();
        let output = lanemate(&["capture", "--host", &host, "--to", &file]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).starts_with(&format!("wrote {file}")));
        assert_eq!(topology(&["--host", &file]), topology(&["--host", &host]), "{host}");
        let once = std::fs::read_to_string(&file).unwrap();
        let again = lanemate(&["capture", "--host", &file]);
        assert_eq!(String::from_utf8(again.stdout).unwrap(), once, "{host}");
    }
}

#[test]
fn what_identifies_the_machine_is_replaced() {
    let file = capture("dgx-h100");
    let before = HostCapture::parse(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let text = printed(&["capture", "--host", &file]);
    let after = HostCapture::parse(&text).unwrap();
    let uuids = |capture: &HostCapture| -> Vec<String> {
        capture.nvml.iter().flat_map(|nvml| &nvml.devices).filter_map(|d| d.uuid.clone()).collect()
    };
    let (old, new) = (uuids(&before), uuids(&after));
    assert_eq!((old.len(), new.len()), (8, 8));
    assert!(old.iter().all(|uuid| !text.contains(uuid.as_str())));
    let guids: Vec<_> =
        before.files.iter().filter(|(path, _)| path.ends_with("node_guid")).collect();
    assert!(!guids.is_empty());
    for (path, guid) in guids {
        assert_ne!(after.files.get(path), Some(guid), "{path}");
    }
}

/// Lays a capture out as a directory, without its device nodes.
fn lay_out(capture: &HostCapture, root: &Path) {
    let make = |path: &str| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    for (path, content) in &capture.files {
        std::fs::write(make(path), content).unwrap();
    }
    for (path, target) in &capture.links {
        std::os::unix::fs::symlink(target, make(path)).unwrap();
    }
}

#[test]
fn a_live_root_is_read_as_its_capture_and_can_be_captured() {
    let dir = tempfile::tempdir().unwrap();
    // Without NVIDIA's library there is nothing that a directory cannot show.
    let file = capture("mi355x-bm");
    let known = HostCapture::parse(&std::fs::read_to_string(&file).unwrap()).unwrap();
    lay_out(&known, dir.path());
    let name = dir.path().join("proc/sys/kernel/hostname");
    std::fs::create_dir_all(name.parent().unwrap()).unwrap();
    std::fs::write(&name, "Secret-Host\n").unwrap();
    let root = dir.path().display().to_string();

    let expect = topology(&["--host", &file]);
    assert_eq!(topology(&["--root", &root, "--node", "mi355x-bm"]), expect);
    assert_eq!(topology(&["--root", &root])["host"], "secret-host");

    let text = String::from_utf8(lanemate(&["capture", "--root", &root]).stdout).unwrap();
    assert!(!text.to_lowercase().contains("secret-host"));
    let again = dir.path().join("again.yaml").display().to_string();
    std::fs::write(&again, text).unwrap();
    let renamed = format!("mi355x-bm={again}");
    assert_eq!(topology(&["--host", &renamed]), expect);
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let output = lanemate(&["capture", "--host", &capture("dgx-h100"), "--to", "/nonexistent/x"]);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains("/nonexistent/x") && complaint.lines().count() == 1, "{complaint}");
}
