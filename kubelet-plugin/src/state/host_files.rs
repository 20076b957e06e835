//! The files of claims on the host, found by their names alone: for claims whose record is lost.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use lanemate_driver::claim::allocated::ClaimUid;
use lanemate_driver::files::{FilesError, Roots, remove, sweep};
use lanemate_driver::prepare::cdi::{
    CLAIM_NAME, CLAIM_NAMESPACE, HELD_DEVICES, claim_of_file, file_name,
};
use lanemate_driver::prepare::{Base, PlannedPath};
use serde::Deserialize;
use std::collections::BTreeMap;

use super::record::Readable;

/// Most entries of a directory that are looked at.
const MAX_ENTRIES: usize = 65_536;
/// Largest CDI file that is read, as for those of others.
const MAX_BYTES: u64 = 1 << 20;
/// Endings of the files in the metadata directory of a claim.
const METADATA: [&str; 2] = [".metadata", ".xml"];

/// What matters of a CDI file.
#[derive(Deserialize)]
struct Annotated {
    annotations: BTreeMap<String, String>,
}

/// The claims that have a CDI file. A directory that cannot be listed has none that could be told.
pub fn claims_with_spec(roots: &Roots) -> BTreeSet<ClaimUid> {
    names(&roots.cdi).iter().filter_map(|name| claim_of_file(name)).collect()
}

/// The claims that have a metadata directory.
pub fn claims_with_metadata(roots: &Roots) -> BTreeSet<ClaimUid> {
    names(&roots.metadata).iter().filter_map(|name| name.parse().ok()).collect()
}

/// What the CDI file of a claim tells of it.
pub fn told_by_spec(uid: &ClaimUid, roots: &Roots) -> Option<Readable> {
    let path = roots.cdi.join(file_name(uid));
    let mut text = String::new();
    // Anything but a file, such as a pipe, could be waited for without end.
    fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?;
    File::open(path).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    let Annotated { mut annotations } = serde_json::from_str(&text).ok()?;
    let devices = annotations.remove(HELD_DEVICES)?;
    Some(Readable {
        namespace: annotations.remove(CLAIM_NAMESPACE)?,
        name: annotations.remove(CLAIM_NAME)?,
        devices: devices.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
    })
}

/// Places of all files of a claim in the order in which they were made.
pub fn of_claim(uid: &ClaimUid, roots: &Roots) -> Vec<PlannedPath> {
    let ours = |name: &&String| METADATA.iter().any(|ending| name.ends_with(ending));
    let in_metadata = |name| PlannedPath { base: Base::Metadata, path: format!("{uid}/{name}") };
    let names = names(&roots.metadata.join(uid.as_str()));
    let mut paths: Vec<PlannedPath> = names.iter().filter(ours).map(in_metadata).collect();
    paths.push(PlannedPath { base: Base::Cdi, path: file_name(uid) });
    paths
}

/// Removes the metadata directory of a claim: only files such as are written there.
///
/// # Errors
/// The step that failed.
pub fn remove_metadata(uid: &ClaimUid, roots: &Roots) -> Result<(), FilesError> {
    sweep_metadata(uid, roots)?;
    let mut paths = of_claim(uid, roots);
    paths.retain(|path| path.base == Base::Metadata);
    // Takes along the directory that a writer has made before it died.
    paths.push(PlannedPath { base: Base::Metadata, path: format!("{uid}/none") });
    remove(&paths, roots)
}

/// Removes what writers that died have left in the metadata directory of a claim.
///
/// # Errors
/// The step that failed.
pub fn sweep_metadata(uid: &ClaimUid, roots: &Roots) -> Result<(), FilesError> {
    sweep(&roots.metadata.join(uid.as_str()))
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().take(MAX_ENTRIES);
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}
