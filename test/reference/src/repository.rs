//! Files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The directory that holds the workspace's `Cargo.toml`.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads a file below the root.
///
/// # Errors
/// When it cannot be read.
pub fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(root().join(path)).map_err(|error| format!("read {path}: {error}"))
}

/// The documents of a YAML file below the root.
///
/// # Errors
/// When it cannot be read, or is no YAML.
pub fn yaml(path: &str) -> Result<Vec<Value>, String> {
    serde_saphyr::from_multiple(&read(path)?).map_err(|error| format!("read {path}: {error}"))
}

/// Files below a directory and its directories with this ending, as paths from the root, sorted.
///
/// # Errors
/// When a directory cannot be read.
pub fn files(directory: &str, ending: &str) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_owned()];
    // Ends: links are not followed, so directories are a tree.
    while let Some(directory) = pending.pop() {
        let failed = |error| format!("list {directory}: {error}");
        for entry in fs::read_dir(root().join(&directory)).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = format!("{directory}/{}", entry.file_name().to_string_lossy());
            match entry.file_type().map_err(failed)? {
                kind if kind.is_dir() => pending.push(path),
                _ if path.ends_with(ending) => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    Ok(found)
}
