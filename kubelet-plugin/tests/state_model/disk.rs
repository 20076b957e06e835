//! What the directories say, read without the plugin.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use lanemate_kubelet_plugin::state::record::{Record, RecordState};

/// How a claim stands on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Absent,
    Reserved,
    Prepared,
    Releasing,
    /// It has a bad record, one in quarantine, or a CDI file alone.
    Lost,
}

/// A claim on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnDisk {
    pub kind: Kind,
    /// Devices of the record, those with adminAccess left out, sorted.
    pub devices: Vec<String>,
}

/// Reads records, and keeps what they were for the same bytes.
#[derive(Default)]
pub struct Disk {
    decoded: BTreeMap<String, (Vec<u8>, OnDisk)>,
}

impl Disk {
    /// All claims of which there is a trace that holds devices, by UID.
    pub fn claims(&mut self, root: &Path) -> BTreeMap<String, OnDisk> {
        let mut found = BTreeMap::new();
        for name in names(&root.join("state/claims")) {
            let Some(uid) = name.strip_suffix(".json") else { continue };
            let bytes = fs::read(root.join("state/claims").join(&name)).unwrap();
            let on_disk = match self.decoded.get(uid) {
                Some((same, on_disk)) if *same == bytes => on_disk.clone(),
                _ => decode(&bytes),
            };
            self.decoded.insert(uid.to_owned(), (bytes, on_disk.clone()));
            found.insert(uid.to_owned(), on_disk);
        }
        let quarantine = names(&root.join("state/quarantine"));
        let open =
            quarantine.iter().filter_map(|name| name.strip_suffix(".json")?.split('.').next());
        for uid in open.map(str::to_owned).chain(specs(root)) {
            found.entry(uid).or_insert_with(lost);
        }
        found
    }
}

fn decode(bytes: &[u8]) -> OnDisk {
    let Ok(record) = Record::decode(bytes) else { return lost() };
    let kind = match record.state {
        RecordState::Reserved => Kind::Reserved,
        RecordState::Prepared => Kind::Prepared,
        RecordState::Releasing => Kind::Releasing,
    };
    let mut devices: Vec<String> = record.held().map(|device| device.device.clone()).collect();
    devices.sort_unstable();
    devices.dedup();
    OnDisk { kind, devices }
}

/// The claims that have a CDI file.
pub fn specs(root: &Path) -> BTreeSet<String> {
    let names = names(&root.join("cdi")).into_iter();
    names
        .map(|name| {
            let uid = name.strip_prefix("lanemate.dev-claim_").unwrap().strip_suffix(".json");
            uid.unwrap_or_else(|| panic!("{name} stays in the CDI directory")).to_owned()
        })
        .collect()
}

/// The claims that have a metadata directory.
pub fn metadata(root: &Path) -> BTreeSet<String> {
    names(&root.join("metadata")).into_iter().collect()
}

fn lost() -> OnDisk {
    OnDisk { kind: Kind::Lost, devices: Vec::new() }
}

pub fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}
