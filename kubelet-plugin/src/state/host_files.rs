//! The files of claims on the host, found by their names alone: for claims whose record is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;

use lanemate_driver::claim::allocated::ClaimUid;
use lanemate_driver::files::{FilesError, Roots, remove, sweep};
use lanemate_driver::prepare::cdi::{
    CLAIM_NAME, CLAIM_NAMESPACE, HELD_DEVICES, claim_of_file, file_name,
};
use lanemate_driver::prepare::{Base, PlannedPath};
use serde::Deserialize;

use super::record::Readable;
use super::records::{self, RecordsError, read_bounded};

/// Endings of the files in the metadata directory of a claim.
const METADATA: [&str; 2] = [".metadata", ".xml"];

/// What matters of a CDI file.
#[derive(Deserialize)]
struct Annotated {
    annotations: BTreeMap<String, String>,
}

/// The claims that have a CDI file.
///
/// # Errors
/// The directory cannot be listed, which says nothing about the claims.
pub fn claims_with_spec(roots: &Roots) -> Result<BTreeSet<ClaimUid>, RecordsError> {
    let names = match records::names(&roots.cdi) {
        Err(RecordsError::Step { error, .. }) if error.kind() == ErrorKind::NotADirectory => vec![],
        names => names?,
    };
    Ok(names.iter().filter_map(|name| claim_of_file(name)).collect())
}

/// The claims that have a metadata directory.
pub fn claims_with_metadata(roots: &Roots) -> BTreeSet<ClaimUid> {
    names(&roots.metadata).iter().filter_map(|name| name.parse().ok()).collect()
}

/// What the CDI file of a claim tells of it.
///
/// # Errors
/// The file cannot be read, which says nothing about the claim.
pub fn told_by_spec(uid: &ClaimUid, roots: &Roots) -> Result<Option<Readable>, RecordsError> {
    Ok(read_bounded(&roots.cdi.join(file_name(uid)))?.ok().as_deref().and_then(told))
}

fn told(spec: &[u8]) -> Option<Readable> {
    let Annotated { mut annotations } = serde_json::from_slice(spec).ok()?;
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

/// Those of a directory that cannot be listed stay until it can be.
fn names(directory: &Path) -> Vec<String> {
    records::names(directory).unwrap_or_default()
}
