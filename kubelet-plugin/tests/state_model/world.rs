//! A node, its kubelet and its API server, and what the model believes of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::resource::v1::ResourceClaim;
use lanemate_driver::files::Roots;
use lanemate_driver::inventory::Policy;
use lanemate_driver::machine::Machine;
use lanemate_driver::prepare::PrepareOptions;
use lanemate_driver::resource_slice::Mode;
use lanemate_driver::testing;
use lanemate_kubelet_plugin::claim_id::ClaimId;
use lanemate_kubelet_plugin::kubernetes::events::Events;
use lanemate_kubelet_plugin::state::{Fetched, Node, Reading, Settings};
use lanemate_kubelet_plugin::telemetry::metrics::Metrics;
use prometheus_client::registry::Registry;
use tempfile::TempDir;

use super::disk::{self, Disk, Kind};
use super::random::Random;

/// Few, so that claims meet.
pub const DEVICES: [&str; 6] = [
    "gpu-0000-1b-00-0",
    "gpu-0000-43-00-0",
    "gpu-0000-52-00-0",
    "nic-0000-18-00-0",
    "nic-0000-40-00-0",
    "nic-0000-4f-00-0",
];
const NODE: &str = "n1";

/// The machine, read once.
pub struct Host {
    machine: Arc<Machine>,
    options: PrepareOptions,
}

/// A call that was begun and comes late.
pub struct Late {
    pub fetched: Fetched,
    pub begun: u64,
}

/// What the model believes of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub kind: Kind,
    /// Devices that nobody else may have. Of a lost claim without a CDI file the plugin may not know.
    pub devices: Vec<String>,
}

pub struct World {
    pub seed: u64,
    pub random: Random,
    pub operation: u64,
    pub history: Vec<String>,
    directory: TempDir,
    host: Arc<Host>,
    options: Arc<PrepareOptions>,
    pub boot: u32,
    pub now: Timestamp,
    pub plugins: [Option<Node>; 2],
    /// By name.
    pub api: BTreeMap<String, ResourceClaim>,
    /// All claims that were ever made, by UID.
    pub ever: BTreeMap<String, ResourceClaim>,
    /// When a claim was deleted or lost its allocation.
    pub gone: BTreeMap<String, Timestamp>,
    /// UIDs in kubelet's checkpoint.
    pub kubelet: BTreeSet<String>,
    pub late: Vec<Late>,
    /// When a claim was unprepared: operation and time.
    pub unprepared: BTreeMap<String, (u64, Timestamp)>,
    pub model: BTreeMap<String, Entry>,
    /// Files were removed behind the plugin's back, or a fault has kept it from writing those of a lost
    /// claim, whose record comes first; the next start or reconciliation without a fault writes them.
    pub lacks_files: bool,
    disk: Disk,
    pub prepared: u64,
    pub faults: u64,
}

impl Host {
    pub fn read() -> Self {
        let capture = testing::host("dgx-h100");
        let facts = testing::facts("dgx-h100");
        let mut machine = Machine::from_facts(NODE, facts, None, &Policy::default());
        // Attributes make metadata files long, and say nothing about who holds what.
        for device in &mut machine.inventory.devices {
            device.attributes.clear();
        }
        let (options, _) = PrepareOptions::read(&capture.host(), &machine.facts, "", String::new());
        Self { machine: Arc::new(machine), options }
    }
}

impl World {
    pub fn new(seed: u64, host: &Arc<Host>) -> Self {
        // A flush costs nothing there.
        let memory = Path::new("/dev/shm");
        let directory = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).unwrap();
        let metadata = directory.path().join("metadata").to_str().unwrap().to_owned();
        let options = PrepareOptions { metadata_dir: metadata, ..host.options.clone() };
        let mut world = Self {
            seed,
            random: Random::new(seed),
            operation: 0,
            history: Vec::new(),
            directory,
            host: Arc::clone(host),
            options: Arc::new(options),
            boot: 0,
            now: Timestamp::from_second(1_800_000_000).unwrap(),
            plugins: [None, None],
            api: BTreeMap::new(),
            ever: BTreeMap::new(),
            gone: BTreeMap::new(),
            kubelet: BTreeSet::new(),
            late: Vec::new(),
            unprepared: BTreeMap::new(),
            model: BTreeMap::new(),
            lacks_files: false,
            disk: Disk::default(),
            prepared: 0,
            faults: 0,
        };
        world.plugins[0] = Some(world.start(0));
        world
    }

    /// Runs so many operations, and tears all down. Gives how many claims were prepared, and how many
    /// faults were met.
    pub fn run(mut self, operations: u64) -> [u64; 2] {
        while self.operation < operations {
            self.operation += 1;
            self.now += SignedDuration::from_secs(i64::try_from(self.random.below(5)).unwrap());
            self.step();
        }
        self.tear_down();
        [self.prepared, self.faults]
    }

    pub fn root(&self) -> &Path {
        self.directory.path()
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    /// A plugin that has started. Its records are in order, and all files are there again.
    pub fn start(&self, index: usize) -> Node {
        let settings = Settings {
            directory: self.path("state"),
            roots: Roots { cdi: self.path("cdi"), metadata: self.path("metadata") },
            kubelet_checkpoint: self.path("dra_manager_state"),
            lock_wait: Duration::ZERO,
            gone_grace: Settings::GONE_GRACE,
            mode: Mode::Controller,
            instance: format!("{index} {}", self.operation),
        };
        let reading = self.reading();
        let source = Box::new(move || reading.clone());
        let metrics = Metrics::new(&mut Registry::default());
        let (events, _) = Events::channel();
        let mut node = Node::new(settings, source, metrics, events);
        let reading = node.read(self.now);
        node.start(&reading);
        node
    }

    fn reading(&self) -> Reading {
        Reading {
            machine: Arc::clone(&self.host.machine),
            options: Arc::clone(&self.options),
            boot_id: Some(format!("boot-{}", self.boot)),
        }
    }

    pub fn write_checkpoint(&self) {
        let text: Vec<&str> = self.kubelet.iter().map(String::as_str).collect();
        fs::write(self.path("dra_manager_state"), format!("{{{}}}", text.join(","))).unwrap();
    }

    pub fn kind(&self, uid: &str) -> Kind {
        self.model.get(uid).map_or(Kind::Absent, |entry| entry.kind)
    }

    /// The model follows the disk for claims of which it allows what is found there, and must agree
    /// with it on all others.
    pub fn settle(&mut self, allowed: &BTreeMap<String, Vec<Kind>>) {
        let found = self.disk.claims(self.directory.path());
        let uids: BTreeSet<String> = found.keys().chain(self.model.keys()).cloned().collect();
        for uid in uids {
            let kind = found.get(&uid).map_or(Kind::Absent, |found| found.kind);
            let believed = self.kind(&uid);
            let may_be = allowed.get(&uid).is_some_and(|kinds| kinds.contains(&kind));
            if kind != believed && !may_be {
                self.fail(&format!(
                    "claim {uid} is {kind:?}, expected {believed:?} or {allowed:?}"
                ));
            }
            if kind == Kind::Absent {
                self.model.remove(&uid);
                continue;
            }
            let devices = held_by(&self.ever[&uid]);
            if kind != Kind::Lost && found[&uid].devices != devices {
                self.fail(&format!("claim {uid} holds {:?}, expected {devices:?}", found[&uid]));
            }
            self.model.insert(uid, Entry { kind, devices });
        }
        self.check();
    }

    /// What holds at any time between operations.
    fn check(&self) {
        let (specs, metadata) = (disk::specs(self.root()), disk::metadata(self.root()));
        let mut holders: BTreeMap<&str, &str> = BTreeMap::new();
        for (uid, entry) in &self.model {
            let is_sure = entry.kind != Kind::Lost || specs.contains(uid);
            for device in entry.devices.iter().filter(|_| is_sure) {
                if let Some(other) = holders.insert(device, uid) {
                    self.fail(&format!("{device} is held by {other} and by {uid}"));
                }
            }
            let has_files = specs.contains(uid) && metadata.contains(uid);
            if entry.kind == Kind::Prepared && !self.lacks_files && !has_files {
                self.fail(&format!("claim {uid} is prepared and has no files"));
            }
        }
        for uid in &specs {
            if self.kind(uid) == Kind::Absent {
                self.fail(&format!("claim {uid} is not there and has a CDI file"));
            }
        }
    }

    /// What a plugin publishes after its operation.
    pub fn check_held(&self, node: &Node) {
        let held = node.held();
        let specs = disk::specs(self.root());
        for (uid, entry) in &self.model {
            let found = held.iter().find(|held| held.claim.uid.as_str() == uid);
            if entry.kind == Kind::Lost && !specs.contains(uid) {
                continue;
            }
            if found.is_none_or(|held| held.devices != entry.devices) {
                self.fail(&format!("claim {uid}: {entry:?} is published as {found:?}"));
            }
        }
        if held.iter().any(|held| self.kind(held.claim.uid.as_str()) == Kind::Absent) {
            self.fail(&format!("published and not there: {held:?}"));
        }
    }

    pub fn fail(&self, what: &str) -> ! {
        let history = &self.history[self.history.len().saturating_sub(25)..];
        panic!(
            "{what}\noperation {} of the world of LANEMATE_MODEL_SEED={}\n{}",
            self.operation,
            self.seed,
            history.join("\n")
        );
    }
}

/// The devices that nobody else may have while a claim is prepared, sorted.
pub fn held_by(claim: &ResourceClaim) -> Vec<String> {
    let allocation = claim.status.as_ref().unwrap().allocation.as_ref().unwrap();
    let results = allocation.devices.as_ref().unwrap().results.as_ref().unwrap().iter();
    let held = results.filter(|result| result.admin_access != Some(true));
    let mut devices: Vec<String> = held.map(|result| result.device.clone()).collect();
    devices.sort_unstable();
    devices
}

pub fn id(claim: &ResourceClaim) -> ClaimId {
    ClaimId {
        namespace: claim.metadata.namespace.clone().unwrap(),
        name: claim.metadata.name.clone().unwrap(),
        uid: uid(claim).parse().unwrap(),
    }
}

pub fn uid(claim: &ResourceClaim) -> &str {
    claim.metadata.uid.as_deref().unwrap()
}
