//! `prepare` writes the files of an allocated claim and says so; what it cannot prepare it refuses with
//! the claim's file and the reason.
// Helpers of tests are not seen as tests.
#![allow(clippy::unwrap_used)]

mod program;

use std::path::Path;

use program::{capture, lanemate, printed};
use serde_json::Value;

/// A claim that holds devices: (request, driver, pool, device).
fn claim(results: &[(&str, &str, &str, &str)]) -> String {
    let results: String = results
        .iter()
        .map(|(request, driver, pool, device)| {
            format!(
                "\n      - {{request: {request}, driver: {driver}, pool: {pool}, device: {device}}}"
            )
        })
        .collect();
    format!(
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\n\
         metadata: {{name: pair, namespace: ml, uid: 8d7c1b9e-7a35-4f0e-9c55-0b8c3c2b7d11}}\n\
         spec: {{devices: {{requests: [{{name: gpu, exactly: {{deviceClassName: gpu.lanemate.dev}}}}]}}}}\n\
         status:\n  allocation:\n    devices:\n      results:{results}\n"
    )
}

const PAIR: [(&str, &str, &str, &str); 3] = [
    ("gpu", "lanemate.dev", "dgx-h100", "gpu-0000-1b-00-0"),
    ("nic", "lanemate.dev", "dgx-h100", "nic-0000-18-00-0"),
    ("disk", "other.dev", "dgx-h100", "disk-1"),
];

fn write(dir: &Path, text: &str) -> String {
    let path = dir.join("claim.yaml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn the_spec_has_one_device_for_each_result_of_ours_and_every_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), &claim(&PAIR));
    let (host, root) = (capture("dgx-h100"), dir.path().join("cdi"));
    let root = root.to_str().unwrap();
    let output = lanemate(&["prepare", "--host", &host, "--claim", &file, "--cdi-root", root]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();

    let written = text.lines().filter_map(|line| line.strip_prefix("wrote "));
    let written: Vec<&Path> = written.map(Path::new).collect();
    assert!(written.iter().all(|path| path.is_absolute() && path.is_file()), "{text}");
    assert!(written.iter().any(|path| path.starts_with(format!("{root}/metadata"))), "{text}");
    let spec = format!("{root}/lanemate.dev-claim_8d7c1b9e-7a35-4f0e-9c55-0b8c3c2b7d11.json");
    assert!(written.contains(&Path::new(&spec)), "{text}");

    let spec: Value = serde_json::from_str(&std::fs::read_to_string(&spec).unwrap()).unwrap();
    assert_eq!(spec["kind"], "lanemate.dev/claim");
    let devices = spec["devices"].as_array().unwrap();
    assert_eq!(devices.len(), 2);
    for device in devices {
        let id = format!("lanemate.dev/claim={}", device["name"].as_str().unwrap());
        assert!(text.contains(&id), "{id} is not in: {text}");
    }
    assert!(text.contains("gpu-0000-1b-00-0") && text.contains("nic-0000-18-00-0"), "{text}");
    assert!(!text.contains("disk-1"), "{text}");
}

#[test]
fn metadata_goes_where_it_is_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), &claim(&PAIR[1..2]));
    let (host, root) = (capture("dgx-h100"), dir.path().join("cdi"));
    let metadata = dir.path().join("meta");
    let text = printed(&[
        "prepare",
        "--host",
        &host,
        "--claim",
        &file,
        "--cdi-root",
        root.to_str().unwrap(),
        "--metadata-dir",
        metadata.to_str().unwrap(),
    ]);
    assert!(text.contains(&format!("wrote {}/", metadata.display())), "{text}");
    assert!(!root.join("metadata").exists());
}

fn check_refused(text: &str, host: &str, expect: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), text);
    let root = dir.path().join("cdi");
    let args = ["prepare", "--host", host, "--claim", &file, "--cdi-root", root.to_str().unwrap()];
    let output = lanemate(&args);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    assert!(!root.exists(), "writes although it refuses");
    for part in [&[file.as_str()], expect].concat() {
        assert!(complaint.contains(part), "{part:?} is not in: {complaint}");
    }
}

#[test]
fn a_claim_that_is_not_for_the_node_is_refused() {
    let host = capture("dgx-h100");
    let elsewhere = [("gpu", "lanemate.dev", "n9", "gpu-0000-1b-00-0")];
    check_refused(&claim(&elsewhere), &host, &["ml/pair", "pool dgx-h100", "are in pool n9"]);
    check_refused(&claim(&PAIR[2..]), &host, &["ml/pair", "lanemate.dev", "pool dgx-h100"]);
    let absent = [("gpu", "lanemate.dev", "dgx-h100", "gpu-0000-ff-00-0")];
    check_refused(&claim(&absent), &host, &["gpu-0000-ff-00-0"]);
    check_refused(&claim(&[PAIR[0], PAIR[0]]), &host, &["gpu-0000-1b-00-0", "twice"]);
}

#[test]
fn what_is_no_allocated_claim_is_refused_with_the_field() {
    let host = capture("dgx-h100");
    let text = claim(&PAIR);
    let pending = text.split("status:").next().unwrap();
    check_refused(pending, &host, &["ml/pair", "not allocated"]);
    let uid = ", uid: 8d7c1b9e-7a35-4f0e-9c55-0b8c3c2b7d11";
    check_refused(&text.replace(uid, ""), &host, &["ml/pair: metadata.uid is missing"]);
    check_refused(&text.replace(uid, ", uid: ../x"), &host, &["metadata.uid: \"../x\" is not"]);
    check_refused(&text.replace("/v1", "/v1beta1"), &host, &["only resource.k8s.io/v1 is read"]);
    check_refused(&text.replace("ResourceClaim", "Pod"), &host, &["Pod (", "a ResourceClaim"]);
    check_refused(&text.replace("{name: gpu,", "{name: gpu, cout: 2,"), &host, &["cout"]);
    check_refused(
        &text.replace("device: gpu", "share: 1, device: gpu"),
        &host,
        &["ml/pair", "status.allocation.devices.results[0].share: unknown field"],
    );
    check_refused(&text[..text.len() - 3], &host, &["line"]);
    check_refused("", &host, &["expected a ResourceClaim, found none"]);
    let two = format!("{text}---\n{}", text.replace("name: pair,", "name: other,"));
    check_refused(&two, &host, &["expected one ResourceClaim, found ml/other, ml/pair"]);
}

#[test]
fn what_cannot_be_written_is_named_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), &claim(&PAIR));
    let (host, root) = (capture("dgx-h100"), dir.path().join("cdi"));
    let spec = root.join("lanemate.dev-claim_8d7c1b9e-7a35-4f0e-9c55-0b8c3c2b7d11.json");
    std::fs::create_dir_all(&spec).unwrap();
    let args = ["prepare", "--host", &host, "--claim", &file, "--cdi-root", root.to_str().unwrap()];
    let output = lanemate(&args);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    let expect = format!("lanemate: rename to {}: Is a directory (os error 21)\n", spec.display());
    assert!(complaint.ends_with(&expect), "{complaint}");
    let left = |dir: &Path| std::fs::read_dir(dir).unwrap().count();
    assert_eq!((left(&root), left(&root.join("metadata")), left(&spec)), (2, 0, 0));
}

#[test]
fn several_hosts_are_wrong_usage() {
    let (one, other) = (capture("dgx-h100"), capture("dgx-a100"));
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), &claim(&PAIR));
    let args = ["prepare", "--host", &one, "--host", &other, "--claim", &file, "--cdi-root", "/x"];
    assert_eq!(lanemate(&args).status.code(), Some(2));
}
