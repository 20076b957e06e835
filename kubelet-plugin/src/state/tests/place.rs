//! A node with its directories, and claims for it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::resource::v1::ResourceClaim;
use lanemate_driver::files::Roots;
use lanemate_driver::inventory::Policy;
use lanemate_driver::machine::Machine;
use lanemate_driver::prepare::PrepareOptions;
use lanemate_driver::resource_slice::Mode;
use lanemate_driver::testing;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;

use crate::claim_id::ClaimId;
use crate::kubernetes::events::{Event, Events};
use crate::state::{
    Consumer, Fetched, HeldState, Node, PrepareError, Prepared, Reading, Settings, UnprepareError,
};
use crate::telemetry::metrics::Metrics;

pub const GPU: &str = "gpu-0000-1b-00-0";
pub const NIC: &str = "nic-0000-18-00-0";
pub const GPU_2: &str = "gpu-0000-43-00-0";
pub const NODE: &str = "n1";

/// Directories, machine and clock of a node, which outlive the plugins that work on them.
pub struct Place {
    pub directory: TempDir,
    pub reading: Arc<Mutex<Reading>>,
    pub now: Timestamp,
    pub mode: Mode,
}

/// A plugin at work in a place.
pub struct Plugin {
    pub node: Node,
    pub events: mpsc::Receiver<Event>,
    registry: Registry,
}

/// One result: request, device.
pub type Result_<'a> = (&'a str, &'a str);

pub fn machine() -> Machine {
    Machine::from_facts(NODE, testing::facts("dgx-h100"), None, &Policy::default())
}

impl Place {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let capture = testing::host("dgx-h100");
        let machine = machine();
        let metadata = directory.path().join("metadata").to_str().unwrap().to_owned();
        let (options, _) = PrepareOptions::read(&capture.host(), &machine.facts, "", metadata);
        let reading = Reading {
            machine: Arc::new(machine),
            options: Arc::new(options),
            boot_id: Some("boot-1".to_owned()),
        };
        Self {
            directory,
            reading: Arc::new(Mutex::new(reading)),
            now: Timestamp::from_second(1_800_000_000).unwrap(),
            mode: Mode::Controller,
        }
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    pub fn settings(&self, instance: &str) -> Settings {
        Settings {
            directory: self.path("state"),
            roots: Roots { cdi: self.path("cdi"), metadata: self.path("metadata") },
            kubelet_checkpoint: self.path("dra_manager_state"),
            lock_wait: Duration::from_millis(20),
            gone_grace: Settings::GONE_GRACE,
            mode: self.mode,
            instance: instance.to_owned(),
        }
    }

    /// A plugin that has started.
    pub fn plugin(&self) -> Plugin {
        let reading = Arc::clone(&self.reading);
        let source = Box::new(move || reading.lock().unwrap().clone());
        let (events, receiver) = Events::channel();
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        let mut node = Node::new(self.settings("a"), source, metrics, events);
        let reading = node.read(self.now);
        node.start(&reading);
        Plugin { node, events: receiver, registry }
    }

    /// The clock goes on.
    pub fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    /// Another machine from now on.
    pub fn change(&self, edit: impl FnOnce(&mut lanemate_driver::discovery::Facts)) {
        let mut reading = self.reading.lock().unwrap();
        let mut facts = reading.machine.facts.clone();
        edit(&mut facts);
        reading.machine = Arc::new(Machine::from_facts(NODE, facts, None, &Policy::default()));
    }

    pub fn set_boot(&self, id: Option<&str>) {
        self.reading.lock().unwrap().boot_id = id.map(str::to_owned);
    }

    /// Names below a directory of the place, with `/` at the end of directories, sorted.
    pub fn names(&self, path: &str) -> Vec<String> {
        names_below(&self.path(path))
    }

    /// What kubelet has in its checkpoint.
    pub fn kubelet_remembers(&self, text: &str) {
        fs::write(self.path("dra_manager_state"), format!("{{\"data\":\"{text}\"}}")).unwrap();
    }

    pub fn prepare(
        &self,
        plugin: &mut Plugin,
        claim: &ResourceClaim,
    ) -> Result<Prepared, PrepareError> {
        let uid = claim.metadata.uid.as_deref().unwrap().parse().unwrap();
        let fetched = Fetched {
            claim: claim.clone(),
            ticket: plugin.node.ticket(&uid, self.now),
            consumer: Consumer::Alive,
        };
        self.prepare_fetched(plugin, &fetched)
    }

    pub fn prepare_fetched(
        &self,
        plugin: &mut Plugin,
        fetched: &Fetched,
    ) -> Result<Prepared, PrepareError> {
        let reading = plugin.node.read(self.now);
        plugin.node.prepare(fetched, &reading, self.now)
    }

    pub fn unprepare(&self, plugin: &mut Plugin, claim: &ClaimId) -> Result<(), UnprepareError> {
        plugin.node.unprepare(claim, self.now)
    }
}

impl Plugin {
    /// UID, devices and state of what is held.
    pub fn held(&self) -> Vec<(String, Vec<String>, HeldState)> {
        let held = self.node.held().into_iter();
        held.map(|held| (held.claim.uid.to_string(), held.devices, held.state)).collect()
    }

    pub fn told(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.events.try_recv().ok()).collect()
    }

    /// The value of a metric, by the beginning of its line.
    pub fn metric(&self, line: &str) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        let found = text.lines().find_map(|found| found.strip_prefix(line));
        found.unwrap_or_default().trim().to_owned()
    }
}

/// An allocated claim `ml/<name>`, created a while ago and reserved for a pod.
pub fn claim(name: &str, uid: &str, results: &[Result_<'_>]) -> ResourceClaim {
    let results: Vec<Value> = results
        .iter()
        .map(|(request, device)| {
            json!({"driver": "lanemate.dev", "pool": NODE, "request": request, "device": device})
        })
        .collect();
    serde_json::from_value(json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "namespace": "ml", "name": name, "uid": uid, "creationTimestamp": "2020-01-01T00:00:00Z",
        },
        "spec": {},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "p-1"}],
        },
    }))
    .unwrap()
}

/// A claim for a GPU and a NIC.
pub fn pair(uid: &str) -> ResourceClaim {
    claim("pair", uid, &[("pair", GPU), ("pair", NIC)])
}

pub fn id(claim: &ResourceClaim) -> ClaimId {
    ClaimId {
        namespace: claim.metadata.namespace.clone().unwrap(),
        name: claim.metadata.name.clone().unwrap(),
        uid: claim.metadata.uid.as_deref().unwrap().parse().unwrap(),
    }
}

pub fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Content of all files below a directory, by path.
pub fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = names_below(directory).into_iter().filter(|name| !name.ends_with('/'));
    files.map(|name| (name.clone(), fs::read(directory.join(name)).unwrap())).collect()
}

fn names_below(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            let below = names_below(&entry.path());
            names.push(format!("{name}/"));
            names.extend(below.into_iter().map(|below| format!("{name}/{below}")));
        } else {
            names.push(name);
        }
    }
    names.sort_unstable();
    names
}
