//! Files and machines for one run of `plan`.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use crate::program::{capture, lanemate};

/// Files below a directory of their own, and machines.
pub struct Scene {
    dir: TempDir,
    args: Vec<String>,
}

/// What a run prints.
pub struct Answer {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

/// The class of the user documentation: a GPU with an InfiniBand NIC.
pub fn pair_class() -> String {
    example("gpu-rdma-pair.yaml")
}

pub fn example(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/user/examples");
    fs::read_to_string(folder.join(name)).unwrap()
}

/// A claim for some devices or units of a class; `more` are further fields of the request.
pub fn claim_with(name: &str, class: &str, count: u32, more: &str) -> String {
    format!(
        "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {{name: {name}}}\n\
         spec: {{devices: {{requests: [{{name: r, exactly: \
         {{deviceClassName: {class}, count: {count}{more}}}}}]}}}}\n"
    )
}

pub fn claim(name: &str, class: &str, count: u32) -> String {
    claim_with(name, class, count, "")
}

/// A claim that holds devices already: (driver, pool, device).
pub fn allocated(name: &str, devices: &[(&str, &str, &str)]) -> String {
    let mut text = claim(name, "gpu.lanemate.dev", 1);
    text += "status: {allocation: {devices: {results: [";
    for (driver, pool, device) in devices {
        let _ = write!(text, "{{request: r, driver: {driver}, pool: {pool}, device: {device}}},");
    }
    text + "]}}}\n"
}

impl Scene {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), args: vec!["plan".to_owned()] }
    }

    /// One captured machine, the class for pairs, and some claims.
    pub fn of(host: &str, claims: &[String]) -> Self {
        Self::new()
            .host(host)
            .file("class.yaml", &pair_class())
            .file("claims.yaml", &claims.concat())
    }

    pub fn host(self, name: &str) -> Self {
        self.args(&["--host", &capture(name)])
    }

    pub fn host_as(self, node: &str, name: &str) -> Self {
        self.args(&["--host", &format!("{node}={}", capture(name))])
    }

    pub fn file(self, name: &str, text: &str) -> Self {
        let path = self.dir.path().join(name);
        fs::write(&path, text).unwrap();
        let path = path.display().to_string();
        self.args(&["-f", &path])
    }

    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    /// What is printed; files are named without their directory.
    pub fn run(&self) -> Answer {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        let output = lanemate(&args);
        let dir = format!("{}/", self.dir.path().display());
        let text = |bytes| String::from_utf8(bytes).unwrap().replace(&dir, "");
        Answer {
            status: output.status.code().unwrap(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// The answer as JSON, with the exit status that is expected.
    pub fn json(self, status: i32) -> Value {
        let answer = self.args(&["-o", "json"]).run();
        assert_eq!(answer.status, status, "{}{}", answer.stdout, answer.stderr);
        serde_json::from_str(&answer.stdout).unwrap()
    }
}

/// The text of a field.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The items of a list; none where it is absent.
pub fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Names of the devices of an allocation, in order.
pub fn devices(allocation: &Value) -> Vec<&str> {
    list(allocation, "/results").iter().map(|result| text(result, "/device")).collect()
}
