//! Runs `test/cdi-check`, and builds it first, once.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

/// What a container gets that is handed some CDI devices of a directory.
pub struct Container {
    /// Paths of device nodes, sorted.
    pub devices: Vec<String>,
    /// `NAME=value`.
    pub env: Vec<String>,
    /// Destination and source of each mount.
    pub mounts: Vec<(String, String)>,
}

/// Validates all specs of the directory and injects the devices, or tells what is wrong.
pub fn container(cdi: &Path, ids: &[String]) -> Result<Container, String> {
    let output = Command::new(program()).arg(cdi).args(ids).output().unwrap();
    if !output.status.success() {
        return Err(String::from_utf8(output.stderr).unwrap());
    }
    let spec: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = |path: &str| spec.pointer(path).and_then(Value::as_array).into_iter().flatten();
    let mut devices: Vec<String> = all("/linux/devices").map(|d| text(&d["path"])).collect();
    devices.sort();
    Ok(Container {
        devices,
        env: all("/process/env").map(text).collect(),
        mounts: all("/mounts").map(|m| (text(&m["destination"]), text(&m["source"]))).collect(),
    })
}

/// Tests run in threads of one process; cargo's own lock keeps processes apart.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(build)
}

fn build() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../test/cdi-check/Cargo.toml");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("cdi-check");
    let program = target.join("debug/cdi-check");
    if !program.exists() {
        // Past the test harness, which would keep it until the test has failed.
        let waiting =
            "building test/cdi-check, the CDI reference implementation, once (minutes)…\n";
        std::io::stderr().write_all(waiting.as_bytes()).unwrap();
    }
    let status = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--quiet", "--manifest-path"])
        .arg(&manifest)
        .arg("--target-dir")
        .arg(&target)
        .status()
        .unwrap();
    assert!(status.success(), "{} does not build", manifest.display());
    program
}
