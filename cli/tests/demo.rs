//! `demo` shows the whole job, writes what it speaks of, and its commands repeat each step.
// Helpers of tests are not seen as tests.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

fn run(dir: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lanemate"));
    command.args(["demo", "--dir"]).arg(dir).output().unwrap()
}

fn demo(dir: &Path) -> String {
    let output = run(dir);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && complaint.is_empty(), "{complaint}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_job_is_told_in_80_columns() {
    let dir = tempfile::tempdir().unwrap();
    let text = demo(dir.path()).replace(&dir.path().display().to_string(), "DIR");
    let parts = [
        "dgx-h100  8 GPUs, 10 NICs",
        "18 devices in 1 ResourceSlice",
        "default/notebook on dgx-h100",
        "PXB  via ",
        "default/train-b does not fit",
        "held by default/train-a",
        "/dev/nvidia0",
        "To repeat each step",
    ];
    let mut rest = text.as_str();
    for part in parts {
        let at =
            rest.find(part).unwrap_or_else(|| panic!("{part:?} is not in, or too early: {text}"));
        rest = &rest[at..];
    }
    for line in text.lines().filter(|line| !line.contains("export PATH")) {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn every_printed_command_works() {
    let dir = tempfile::tempdir().unwrap();
    let text = demo(dir.path());
    let (_, commands) = text.split_once("To repeat each step\n").unwrap();
    let lines: Vec<&str> = commands.lines().map(str::trim).collect();
    let (setup, commands): (Vec<&str>, Vec<&str>) =
        lines.into_iter().partition(|line| !line.starts_with("lanemate "));
    assert_eq!(commands.len(), 4, "{text}");
    let cdi = dir.path().join("cdi");
    let specs = specs(&cdi);
    assert_eq!(specs.len(), 2);
    std::fs::remove_dir_all(&cdi).unwrap();
    for command in commands {
        let script = format!("{}\n{command}", setup.join("\n"));
        let output = Command::new("sh").arg("-euc").arg(script).output().unwrap();
        // One of the claims does not fit, as the text says.
        let expect = if command.starts_with("lanemate plan") { 3 } else { 0 };
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(expect), "{command}: {complaint}");
        assert!(!output.stdout.is_empty(), "{command}");
        if command.starts_with("lanemate slices") {
            let slices = std::fs::read(dir.path().join("slices.yaml")).unwrap();
            assert_eq!(output.stdout, slices);
        }
    }
    let again = self::specs(&cdi);
    assert_eq!(again, specs[..1], "the first claim's spec is written again, the same");
}

/// Name and content of each CDI spec.
fn specs(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut specs: Vec<_> = files
        .filter(|path| path.is_file())
        .map(|path| (path.display().to_string(), std::fs::read(&path).unwrap()))
        .collect();
    specs.sort();
    specs
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let output = run(&file);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&file.display().to_string()));
}
