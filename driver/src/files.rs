//! Applies planned files: the one place that writes and removes files for the core.
//!
//! A file appears whole or not at all: it is written beside its place under another name and renamed.
//! What of it survives a loss of power is for the caller to say, by [`Durability`]. Callers see to it
//! that no two writers work on one file at a time.
// The core is free of IO; this file is the place where its plans reach the file system.
#![allow(clippy::disallowed_methods)]

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use crate::prepare::{Base, PlannedFile, PlannedPath};

/// Ends the name of a file that is not complete. Container runtimes read `.json` and `.yaml` only.
const TEMPORARY: &str = ".lanemate-tmp";
/// Most entries that [`sweep`] looks at: far more than files of ours, and not without end.
const MAX_SWEPT: usize = 65_536;

/// The directories that planned files lie in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// Of [`Base::Cdi`].
    pub cdi: PathBuf,
    /// Of [`Base::Metadata`].
    pub metadata: PathBuf,
}

/// What a loss of power may take of a file that was written. The end of a process takes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// All of it, and what is there afterwards may be broken. Nothing is flushed.
    Volatile,
    /// The file as a whole: what is there afterwards is what was written or what was there before.
    /// The bytes are flushed, and so are directories that were missing.
    Whole,
    /// Nothing. The directory of the file is flushed as well.
    Kept,
}

/// A step that failed, on a path.
#[derive(Debug, thiserror::Error)]
#[error("{step} {path}: {error}")]
pub struct FilesError {
    /// What was tried, e.g. `rename to`.
    pub step: &'static str,
    /// On what.
    pub path: PathBuf,
    /// What the operating system says. The message has it, so it is no source of its own.
    pub error: io::Error,
}

impl Roots {
    fn of(&self, base: Base) -> &Path {
        match base {
            Base::Cdi => &self.cdi,
            Base::Metadata => &self.metadata,
        }
    }

    /// True when something is at the place of a file.
    pub fn has(&self, path: &PlannedPath) -> bool {
        self.locate(path).is_ok_and(|path| fs::symlink_metadata(path).is_ok())
    }

    fn locate(&self, path: &PlannedPath) -> Result<PathBuf, FilesError> {
        let relative = Path::new(&path.path);
        let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
        if !plain || relative.file_name().is_none() {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "leaves its directory");
            return Err(FilesError { step: "locate", path: relative.to_owned(), error });
        }
        Ok(self.of(path.base).join(relative))
    }
}

/// Writes the files in their order, and makes the directories that are missing.
///
/// # Errors
/// The first step that fails. The files that this call has made are removed again; one that it has
/// replaced keeps its new content, since it is whole and belongs to the same claim.
pub fn apply(
    files: &[PlannedFile],
    roots: &Roots,
    durability: Durability,
) -> Result<(), FilesError> {
    let mut made = Vec::new();
    for file in files {
        let written = roots.locate(&file.path).and_then(|path| {
            // Noted before it is made: its directories may be all that comes of it.
            if fs::symlink_metadata(&path).is_err() {
                made.push(&file.path);
            }
            write_atomically(&path, file.mode, &file.bytes, durability)
        });
        if let Err(error) = written {
            // The first error is the one to tell.
            let _ = remove(made, roots);
            return Err(error);
        }
    }
    Ok(())
}

/// Removes files in reverse order, and the directories below the roots that become empty. What is
/// gone already is no error.
///
/// # Errors
/// The first step that fails.
pub fn remove<'a>(
    paths: impl IntoIterator<Item = &'a PlannedPath, IntoIter: DoubleEndedIterator>,
    roots: &Roots,
) -> Result<(), FilesError> {
    for planned in paths.into_iter().rev() {
        let path = roots.locate(planned)?;
        remove_file(&path)?;
        remove_empty_parents(&path, roots.of(planned.base))?;
    }
    Ok(())
}

/// Writes a file atomically, mode included, and makes the directories that are missing.
///
/// A file that is the same already is left alone: runtimes watch the CDI directories and read all
/// specs again upon each change, and kubelet repeats a Prepare for every pod of a claim.
///
/// # Errors
/// The step that failed. The file is then as it was before, or, when its directory could not be flushed,
/// as it should be.
pub fn write_atomically(
    path: &Path,
    mode: u32,
    bytes: &[u8],
    durability: Durability,
) -> Result<(), FilesError> {
    let directory = parent(path);
    create_directories(directory, durability)?;
    if is_same(path, mode, bytes) {
        return Ok(());
    }
    let temporary = temporary_of(path);
    // Left by a writer that died. A fresh file cannot be a link to somewhere else.
    remove_file(&temporary)?;
    let written = write_new(&temporary, mode, bytes, durability)
        .and_then(|()| fs::rename(&temporary, path).map_err(failed("rename to", path)));
    if written.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&temporary);
    }
    written?;
    if durability == Durability::Kept { sync_directory(directory) } else { Ok(()) }
}

/// Removes a file for good. What is gone already is no error.
///
/// # Errors
/// The step that failed.
pub fn remove_file(path: &Path) -> Result<(), FilesError> {
    match fs::remove_file(path) {
        // A file system that is read-only says so even of a file that is not there.
        Err(error) if is_gone(&error) || is_absent(path) => Ok(()),
        removed => {
            removed.map_err(failed("remove", path))?;
            sync_directory(parent(path))
        }
    }
}

/// True when a file is there as planned, mode included.
pub fn is_applied(file: &PlannedFile, roots: &Roots) -> bool {
    roots.locate(&file.path).is_ok_and(|path| is_same(&path, file.mode, &file.bytes))
}

/// Removes what writers that died have left in a directory. A missing directory is no error.
///
/// # Errors
/// The step that failed.
pub fn sweep(directory: &Path) -> Result<(), FilesError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed("list", directory))?,
    };
    for entry in entries.take(MAX_SWEPT) {
        let entry = entry.map_err(failed("list", directory))?;
        if is_temporary(&entry.path()) {
            remove_file(&entry.path())?;
        }
    }
    Ok(())
}

fn failed(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FilesError {
    let path = path.to_owned();
    move |error| FilesError { step, path, error }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn temporary_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}{TEMPORARY}"))
}

fn is_temporary(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with('.') && name.ends_with(TEMPORARY)
}

fn is_same(path: &Path, mode: u32, bytes: &[u8]) -> bool {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return false;
    };
    if !metadata.is_file()
        || metadata.permissions().mode() & 0o7777 != mode
        || metadata.len() != bytes.len() as u64
    {
        return false;
    }
    let mut found = Vec::with_capacity(bytes.len());
    // One more byte than expected, should it grow meanwhile.
    let read =
        File::open(path).and_then(|file| file.take(bytes.len() as u64 + 1).read_to_end(&mut found));
    read.is_ok() && found == bytes
}

fn write_new(
    path: &Path,
    mode: u32,
    bytes: &[u8],
    durability: Durability,
) -> Result<(), FilesError> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(failed("create", path))?;
    file.write_all(bytes).map_err(failed("write", path))?;
    // Set apart from creating, which the umask would narrow.
    file.set_permissions(Permissions::from_mode(mode)).map_err(failed("set the mode of", path))?;
    if durability == Durability::Volatile {
        return Ok(());
    }
    file.sync_all().map_err(failed("flush", path))
}

/// Makes a directory and those above it that are missing. A new entry is kept by a flush of the
/// directory above it.
fn create_directories(directory: &Path, durability: Durability) -> Result<(), FilesError> {
    let missing: Vec<&Path> = directory
        .ancestors()
        .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
        .collect();
    for path in missing.into_iter().rev() {
        match DirBuilder::new().mode(0o755).create(path) {
            // Someone else was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(failed("create directory", path))?,
        }
        if durability != Durability::Volatile {
            sync_directory(parent(path))?;
        }
    }
    Ok(())
}

fn sync_directory(directory: &Path) -> Result<(), FilesError> {
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(failed("flush directory", directory))
}

fn remove_empty_parents(path: &Path, root: &Path) -> Result<(), FilesError> {
    let below = |path: &&Path| path.starts_with(root) && *path != root;
    for directory in path.ancestors().skip(1).take_while(below) {
        match fs::remove_dir(directory) {
            Ok(()) => sync_directory(parent(directory))?,
            Err(error) if is_gone(&error) || is_absent(directory) => {}
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => break,
            Err(error) => return Err(failed("remove directory", directory)(error)),
        }
    }
    Ok(())
}

fn is_absent(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| is_gone(&error))
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests;
