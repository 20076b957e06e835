//! Captured machines for tests and benchmarks.
// Reads fixtures of this repository; no part of the driver.
#![allow(clippy::disallowed_methods)]

pub mod cluster;

use std::path::PathBuf;

use crate::discovery::{Facts, HostCapture, discover};

/// Names of the captured machines in `test/hosts/captures`.
pub const HOSTS: [&str; 13] = [
    "aws-p4d",
    "azure-ndv5-h100",
    "dell-xe9680-h200",
    "dgx-a100",
    "dgx-h100",
    "flat-kvm-h200",
    "gb300-cx8",
    "l40s-4to1",
    "mi300x-vm",
    "mi355x-bm",
    "no-gpu-2nic",
    "oke-gb200",
    "workstation-no-nic",
];

/// A captured machine of `test/hosts/captures`.
///
/// # Panics
/// When there is no such capture, or it is broken.
pub fn host(name: &str) -> HostCapture {
    let text = read(&format!("captures/{name}.yaml"));
    match HostCapture::parse(&text) {
        Ok(capture) => capture,
        Err(error) => panic!("{name}: {error}"),
    }
}

/// What discovery finds on a captured machine.
///
/// # Panics
/// When there is no such capture, or it is broken.
pub fn facts(name: &str) -> Facts {
    let capture = host(name);
    discover(&capture.host(), &capture)
}

/// Text of a file below `test/hosts`, e.g. `expected/dgx-h100.json`.
///
/// # Panics
/// When it cannot be read.
pub fn read(path: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../test/hosts").join(path);
    match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => panic!("{}: {error}", path.display()),
    }
}
