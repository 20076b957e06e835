//! `cdi-check <cdi-dir> <cdi-id>…`: validates every CDI spec in a directory as the reference
//! implementation does, injects the named devices into a default container and prints the container's
//! OCI runtime spec. It is its judgement, not ours, that the tests of the prepare plan rely on.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, ensure};
use container_device_interface::cache::Cache;
use container_device_interface::spec::{Spec, read_spec};
use container_device_interface::spec_dirs::with_spec_dirs;
use container_device_interface::version::minimum_required_version;
use oci_spec::runtime::{self, LinuxDevice, Mount};
use serde_json::Value;

/// Specs of this project are held to more than validity.
const OUR_VENDOR: &str = "lanemate.dev";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((directory, ids)) = arguments.split_first() else {
        eprintln!("usage: cdi-check <cdi-dir> <cdi-id>...");
        return ExitCode::from(2);
    };
    match check(directory, ids) {
        Ok(container) => {
            println!("{container}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cdi-check: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The OCI runtime spec, as JSON, of a container that gets the devices.
fn check(directory: &str, ids: &[String]) -> Result<String> {
    let files = spec_files(Path::new(directory))?;
    ensure!(!files.is_empty(), "no .json or .yaml file in {directory}");
    for file in files {
        let spec = read_spec(&file, 0).with_context(|| file.display().to_string())?;
        if spec.get_vendor() == OUR_VENDOR {
            declares_the_lowest_version(&spec, &file)
                .with_context(|| file.display().to_string())?;
        }
    }
    let mut cache = Cache::default();
    with_spec_dirs(&[directory])(&mut cache);
    cache.refresh().map_err(|error| anyhow!("read {directory}: {error}"))?;
    let mut container = runtime::Spec::default();
    cache
        .inject_devices(Some(&mut container), ids.to_vec())
        .map_err(|error| anyhow!("inject: {error}"))?;
    has_absolute_paths(&container)?;
    Ok(serde_json::to_string_pretty(&container)?)
}

fn spec_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(directory).with_context(|| format!("list {}", directory.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("json" | "yaml")) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// A version above the lowest that suffices is valid, yet refused for nothing by older runtimes.
fn declares_the_lowest_version(spec: &Spec, file: &Path) -> Result<()> {
    // The fields of a parsed spec are private.
    let text: Value = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let declared = text.get("cdiVersion").and_then(Value::as_str).unwrap_or_default();
    let lowest = minimum_required_version(&spec.cdi_spec)?.to_string();
    ensure!(declared == lowest, "cdiVersion is {declared:?}, {lowest:?} would do");
    Ok(())
}

/// Relative paths are not caught by the validation.
fn has_absolute_paths(container: &runtime::Spec) -> Result<()> {
    let linux = container.linux().iter();
    let devices = linux.flat_map(|linux| linux.devices().iter().flatten()).map(LinuxDevice::path);
    // Of other mounts the source is a file system's name.
    let is_bind = |mount: &&Mount| mount.options().iter().flatten().any(|o| o.ends_with("bind"));
    let mounts = container.mounts().iter().flatten().filter(is_bind);
    let mounts = mounts.flat_map(|mount| mount.source().iter().chain([mount.destination()]));
    for path in devices.chain(mounts) {
        ensure!(path.is_absolute(), "path {} is not absolute", path.display());
    }
    Ok(())
}
