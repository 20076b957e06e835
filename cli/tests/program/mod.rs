//! Runs the built program, as a user would.

use std::path::PathBuf;
use std::process::{Command, Output};

/// A file below `test/hosts`.
pub fn hosts(path: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../test/hosts").join(path);
    assert!(path.exists(), "{}", path.display());
    path.display().to_string()
}

/// Path of a captured machine.
pub fn capture(name: &str) -> String {
    hosts(&format!("captures/{name}.yaml"))
}

/// Runs the program.
pub fn lanemate(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lanemate"));
    command.args(args).env_remove("NO_COLOR").output().unwrap()
}

/// What the program prints; it must succeed and have nothing to complain about.
pub fn printed(args: &[&str]) -> String {
    let output = lanemate(args);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && complaint.is_empty(), "{args:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}
