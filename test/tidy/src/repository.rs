//! The repository's text files, without build output.

use std::fs;
use std::path::{Path, PathBuf};

/// A text file and its path below the root, with `/` between the parts.
#[derive(Clone, Debug)]
pub struct TextFile {
    pub path: String,
    pub text: String,
}

impl TextFile {
    /// Tests and benchmarks: their files and functions may be longer, and may touch the world.
    pub fn is_test(&self) -> bool {
        let parts: Vec<&str> = self.path.split('/').collect();
        parts.iter().any(|part| ["tests", "benches"].contains(part))
            || self.path.ends_with("/tests.rs")
    }

    /// Written by a program, and compared by a test: what it looks like is the program's choice.
    pub fn is_generated(&self) -> bool {
        self.path.split('/').rev().skip(1).any(|part| part == "generated")
    }

    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// The directory that holds the workspace's `Cargo.toml`.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads a file below the root.
pub fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(root().join(path)).map_err(|error| format!("read {path}: {error}"))
}

/// All text files, sorted by path; `target`, `.git` and files that are not UTF-8 are skipped.
pub fn text_files() -> Result<Vec<TextFile>, String> {
    let mut files = Vec::new();
    let mut pending = vec![(root(), String::new())];
    // Ends: directories are a tree, as links are not followed.
    while let Some((directory, prefix)) = pending.pop() {
        let failed = |error| format!("list {}: {error}", directory.display());
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
            let kind = entry.file_type().map_err(failed)?;
            if ["target", ".git"].contains(&name.as_str()) {
                continue;
            }
            if kind.is_dir() {
                pending.push((entry.path(), path));
            } else if kind.is_file()
                && let Ok(text) = fs::read_to_string(entry.path())
            {
                files.push(TextFile { path, text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}
