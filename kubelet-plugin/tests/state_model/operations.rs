//! What can happen to a node.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

use jiff::SignedDuration;
use k8s_openapi::api::resource::v1::ResourceClaim;
use lanemate_kubelet_plugin::fault::{Point, Unwound, inject};
use lanemate_kubelet_plugin::state::{Consumer, Fate, Fetched, Node, PrepareError};
use serde_json::json;

use super::disk::Kind;
use super::expect::Expected;
use super::world::{DEVICES, Late, World, id, uid};

/// How an operation of a plugin ended.
enum End<T> {
    Done(T),
    /// The plugin died, and the next one has started in its place.
    Died,
}

/// Claims of the API server at a time.
const CLAIMS: usize = 6;

impl World {
    pub fn step(&mut self) {
        match self.random.below(100) {
            0..12 => self.create(),
            12..18 => self.edit_api(),
            18..44 => self.call(),
            44..54 => self.begin_late(),
            54..62 => self.end_late(),
            62..78 => self.unprepare(),
            78..86 => self.reconcile(),
            86..89 => self.restart(),
            89..91 => self.toggle_second(),
            91..93 => self.wipe(),
            93..95 => self.spoil(),
            95..96 => self.reboot(),
            96..97 => self.lose_state(),
            _ => self.wait(),
        }
    }

    fn note(&mut self, what: String) {
        self.history.push(format!("{:4} {what}", self.operation));
    }

    fn create(&mut self) {
        if self.api.len() >= CLAIMS {
            return;
        }
        let name = (0..CLAIMS).map(|n| format!("c{n}")).find(|n| !self.api.contains_key(n));
        let (name, uid) = (name.unwrap(), format!("uid-{}", self.operation));
        let mut results = Vec::new();
        let first = self.random.below(DEVICES.len());
        for offset in 0..=self.random.below(3) {
            let device = DEVICES[(first + offset) % DEVICES.len()];
            let admin = self.random.percent(10);
            results.push(json!({
                "driver": "lanemate.dev", "pool": "n1", "request": format!("r{}", offset / 2),
                "device": device, "adminAccess": admin,
            }));
        }
        let claim: ResourceClaim = serde_json::from_value(json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"namespace": "ml", "name": name, "uid": uid},
            "spec": {},
            "status": {
                "allocation": {"devices": {"results": results}},
                "reservedFor": [{"resource": "pods", "name": "p", "uid": "p-1"}],
            },
        }))
        .unwrap();
        self.note(format!("create {name} {uid} {results:?}"));
        self.ever.insert(uid, claim.clone());
        self.api.insert(name, claim);
    }

    /// A claim is deleted, or begins to be, or loses its pod or its allocation.
    fn edit_api(&mut self) {
        let names: Vec<String> = self.api.keys().cloned().collect();
        let Some(name) = self.random.pick(&names).cloned() else { return };
        let kind = self.random.below(4);
        self.note(format!("edit {kind} of {name}"));
        let claim = self.api.get_mut(&name).unwrap();
        let is_gone = match kind {
            0 => {
                let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(self.now);
                claim.metadata.deletion_timestamp = Some(now);
                false
            }
            1 => {
                if let Some(status) = &mut claim.status {
                    status.reserved_for = None;
                }
                false
            }
            2 => {
                claim.status = None;
                true
            }
            _ => true,
        };
        let uid = uid(claim).to_owned();
        if is_gone {
            self.gone.entry(uid).or_insert(self.now);
        }
        if kind == 3 {
            self.api.remove(&name);
        }
    }

    fn some_plugin(&mut self) -> usize {
        let alive: Vec<usize> = (0..2).filter(|index| self.plugins[*index].is_some()).collect();
        *self.random.pick(&alive).unwrap()
    }

    /// Faults for one operation: mostly none.
    fn faults(&mut self) -> String {
        let action = match self.random.below(100) {
            0..15 => "unwind",
            15..20 => "ENOSPC",
            20..25 => "EIO",
            _ => return String::new(),
        };
        let point = self.random.pick(Point::ALL).unwrap().name();
        format!("{point}:{}={action}", 1 + self.random.below(3))
    }

    /// Runs an operation of a plugin with faults. A plugin that dies is started again.
    fn act<T>(&mut self, index: usize, faults: &str, act: impl FnOnce(&mut Node) -> T) -> End<T> {
        let mut node = self.plugins[index].take().unwrap();
        let injection = inject(faults).unwrap();
        let end = catch_unwind(AssertUnwindSafe(|| act(&mut node)));
        drop(injection);
        match end {
            Ok(done) => {
                self.plugins[index] = Some(node);
                End::Done(done)
            }
            Err(payload) => {
                let Some(Unwound(point)) = payload.downcast_ref::<Unwound>() else {
                    std::panic::resume_unwind(payload);
                };
                self.note(format!("     died at {}", point.name()));
                drop(node);
                self.faults += 1;
                self.begin_anew(index);
                End::Died
            }
        }
    }

    /// A plugin starts: what was being released is gone, and files are there again.
    fn begin_anew(&mut self, index: usize) {
        self.plugins[index] = Some(self.start(index));
        self.lacks_files = false;
        for (_, entry) in self.model.iter_mut().filter(|(_, entry)| entry.kind == Kind::Releasing) {
            entry.kind = Kind::Absent;
        }
    }

    /// What may become of a claim whose operation was cut short.
    fn settle_one(&mut self, uid: &str, kinds: &[Kind]) {
        self.settle(&BTreeMap::from([(uid.to_owned(), kinds.to_vec())]));
    }

    fn fetch(&mut self, index: usize, claim: &ResourceClaim) -> Late {
        let uid = uid(claim);
        let node = self.plugins[index].as_ref().unwrap();
        let ticket = node.ticket(&uid.parse().unwrap(), self.now);
        let is_reserved = claim.status.as_ref().is_some_and(|status| status.reserved_for.is_some());
        let consumer = match (&ticket.tombstone, is_reserved) {
            (None, _) => Consumer::NotAsked,
            (Some(_), true) => Consumer::Alive,
            (Some(_), false) => Consumer::Gone("nobody".to_owned()),
        };
        self.kubelet.insert(uid.to_owned());
        self.write_checkpoint();
        Late { fetched: Fetched { claim: claim.clone(), ticket, consumer }, begun: self.operation }
    }

    fn call(&mut self) {
        let claims: Vec<ResourceClaim> = self.api.values().cloned().collect();
        let Some(claim) = self.random.pick(&claims).cloned() else { return };
        let index = self.some_plugin();
        let late = self.fetch(index, &claim);
        self.prepare(index, &late);
    }

    fn begin_late(&mut self) {
        let claims: Vec<ResourceClaim> = self.api.values().cloned().collect();
        let Some(claim) = self.random.pick(&claims).cloned() else { return };
        let index = self.some_plugin();
        let late = self.fetch(index, &claim);
        self.note(format!("begin a call for {}", uid(&claim)));
        self.late.push(late);
    }

    fn end_late(&mut self) {
        if !self.late.is_empty() {
            let at = self.random.below(self.late.len());
            let late = self.late.swap_remove(at);
            let index = self.some_plugin();
            self.prepare(index, &late);
        }
    }

    fn prepare(&mut self, index: usize, late: &Late) {
        let uid = uid(&late.fetched.claim).to_owned();
        let faults = self.faults();
        let expected = self.expected(late);
        let before = self.kind(&uid);
        self.note(format!("plugin {index} prepares {uid}, begun {} {faults}", late.begun));
        let now = self.now;
        let end = self.act(index, &faults, |node| {
            let reading = node.read(now);
            node.prepare(&late.fetched, &reading, now)
        });
        match end {
            End::Died => self.settle_one(&uid, cut_short(before, &[Kind::Prepared, Kind::Absent])),
            End::Done(Err(PrepareError::Failed(_))) if !faults.is_empty() => {
                self.faults += 1;
                self.lacks_files |= before == Kind::Lost;
                self.settle_one(&uid, cut_short(before, &[Kind::Absent, Kind::Releasing]));
            }
            End::Done(result) => {
                self.check_prepared(late, expected, &result);
                if result.is_ok() {
                    self.prepared += 1;
                    self.settle_one(&uid, &[Kind::Prepared]);
                    let spec = format!("cdi/lanemate.dev-claim_{uid}.json");
                    if !self.path(&spec).exists() {
                        self.fail("prepared without a CDI file");
                    }
                } else {
                    // What was being released may be gone before another thing stands against it.
                    let gone = expected != Expected::Stale && before == Kind::Releasing;
                    self.settle_one(&uid, if gone { &[Kind::Absent] } else { &[] });
                }
            }
        }
        // Of a claim that is not allocated it looks at nothing else.
        if late.fetched.claim.status.is_some() {
            self.check_held(self.plugins[index].as_ref().unwrap());
        }
    }

    fn unprepare(&mut self) {
        let mut claims: Vec<String> = self.ever.keys().rev().take(12).cloned().collect();
        claims.extend(self.model.keys().cloned());
        let Some(uid) = self.random.pick(&claims).cloned() else { return };
        let claim = id(&self.ever[&uid]);
        let index = self.some_plugin();
        let faults = self.faults();
        self.note(format!("plugin {index} unprepares {uid} {faults}"));
        let now = self.now;
        match self.act(index, &faults, |node| node.unprepare(&claim, now)) {
            End::Died => self.settle_one(&uid, &[Kind::Absent]),
            End::Done(Ok(())) => {
                self.kubelet.remove(&uid);
                self.write_checkpoint();
                self.unprepared.insert(uid.clone(), (self.operation, self.now));
                self.model.remove(&uid);
                self.settle(&BTreeMap::new());
            }
            End::Done(Err(error)) if faults.is_empty() => self.fail(&format!("{error}")),
            End::Done(Err(_)) => {
                self.faults += 1;
                self.settle_one(&uid, &[Kind::Releasing, Kind::Absent]);
            }
        }
        self.check_held(self.plugins[index].as_ref().unwrap());
    }

    fn reconcile(&mut self) {
        let index = self.some_plugin();
        let faults = self.faults();
        let is_deaf = self.random.percent(20);
        self.note(format!("plugin {index} reconciles, deaf: {is_deaf} {faults}"));
        let allowed =
            self.after_reconcile(|uid| !is_deaf && self.is_allocated(uid), !faults.is_empty());
        let finished: Vec<String> = self.model.keys().cloned().collect();
        let finished: Vec<String> =
            finished.into_iter().filter(|uid| self.kind(uid) == Kind::Releasing).collect();
        let (api, now) = (self.fates(), self.now);
        let end = self.act(index, &faults, |node| {
            let fates = node.claims().into_iter().map(|claim| {
                let fate = api.get(&claim.name).cloned().unwrap_or(Fate::Gone);
                let unknown = Fate::Unknown("no answer".to_owned());
                (claim, if is_deaf { unknown } else { fate })
            });
            let fates = fates.collect();
            let reading = node.read(now);
            node.reconcile(fates, &reading, now)
        });
        if matches!(end, End::Done(_)) && faults.is_empty() {
            self.lacks_files = false;
            for uid in finished {
                self.model.remove(&uid);
            }
        } else if matches!(end, End::Done(_)) {
            self.faults += 1;
            self.lacks_files = true;
        }
        self.settle(&allowed);
        self.check_held(self.plugins[index].as_ref().unwrap());
    }

    fn is_allocated(&self, uid: &str) -> bool {
        let name = &self.ever[uid].metadata.name;
        let claim = name.as_ref().and_then(|name| self.api.get(name));
        claim.is_some_and(|claim| super::world::uid(claim) == uid && claim.status.is_some())
    }

    fn fates(&self) -> BTreeMap<String, Fate> {
        self.api.keys().map(|name| (name.clone(), self.fate(name))).collect()
    }

    fn restart(&mut self) {
        let index = self.some_plugin();
        let faults = self.faults();
        self.note(format!("plugin {index} starts anew {faults}"));
        self.plugins[index] = None;
        let injection = inject(&faults).unwrap();
        let started = catch_unwind(AssertUnwindSafe(|| self.start(index)));
        drop(injection);
        let is_whole = started.is_ok() && faults.is_empty();
        let allowed = self.after_reconcile(|_| false, !faults.is_empty());
        match started {
            Ok(node) => self.plugins[index] = Some(node),
            Err(_) => self.begin_anew(index),
        }
        if is_whole {
            self.lacks_files = false;
        }
        self.settle(&allowed);
        self.check_held(self.plugins[index].as_ref().unwrap());
    }

    fn toggle_second(&mut self) {
        self.note("the second plugin comes or goes".to_owned());
        if self.plugins[1].take().is_none() {
            self.begin_anew(1);
        }
        self.settle(&BTreeMap::new());
    }

    /// A claim without record may have had nothing but its CDI file.
    fn may_vanish(&self) -> BTreeMap<String, Vec<Kind>> {
        let lost = self.model.iter().filter(|(_, entry)| entry.kind == Kind::Lost);
        lost.map(|(uid, _)| (uid.clone(), vec![Kind::Absent])).collect()
    }

    fn wipe(&mut self) {
        self.note("files are wiped".to_owned());
        for directory in ["cdi", "metadata"] {
            if self.random.percent(60) {
                let _ = fs::remove_dir_all(self.path(directory));
                self.lacks_files = true;
            }
        }
        self.settle(&self.may_vanish());
    }

    /// A bit of a record flips.
    fn spoil(&mut self) {
        let recorded = self.model.iter().filter(|(_, entry)| entry.kind == Kind::Prepared);
        let recorded: Vec<String> = recorded.map(|(uid, _)| uid.clone()).collect();
        let Some(uid) = self.random.pick(&recorded).cloned() else { return };
        self.note(format!("the record of {uid} is spoilt"));
        let path = self.path(&format!("state/claims/{uid}.json"));
        let mut bytes = fs::read(&path).unwrap();
        let (at, bit) = (self.random.below(bytes.len()), self.random.below(8));
        bytes[at] ^= 1 << bit;
        fs::write(path, bytes).unwrap();
        self.settle_one(&uid, &[Kind::Lost]);
    }

    fn reboot(&mut self) {
        self.note("the machine is started anew".to_owned());
        self.plugins = [None, None];
        self.boot += 1;
        self.late.clear();
        if self.random.percent(80) {
            let _ = fs::remove_dir_all(self.path("cdi"));
        }
        self.begin_anew(0);
        let allowed = self.model.keys().map(|uid| (uid.clone(), vec![Kind::Absent])).collect();
        self.settle(&allowed);
        if self.model.values().any(|entry| entry.kind == Kind::Prepared) {
            self.fail("a claim of before the machine was started anew is prepared");
        }
    }

    fn lose_state(&mut self) {
        if self.random.percent(50) {
            return;
        }
        self.note("the state directory is lost".to_owned());
        let _ = fs::remove_dir_all(self.path("state"));
        self.unprepared.clear();
        let kinds = vec![Kind::Lost, Kind::Absent];
        let allowed = self.model.keys().map(|uid| (uid.clone(), kinds.clone())).collect();
        self.settle(&allowed);
    }

    /// Time passes, and kubelet may forget a claim.
    fn wait(&mut self) {
        let seconds = [1, 20, 61, 700][self.random.below(4)];
        self.note(format!("{seconds} s pass"));
        self.now += SignedDuration::from_secs(seconds);
        let known: Vec<String> = self.kubelet.iter().cloned().collect();
        if let Some(uid) = self.random.pick(&known).filter(|_| seconds > 60) {
            self.kubelet.remove(uid);
            self.write_checkpoint();
        }
    }

    /// All claims go, and nothing may stay.
    pub fn tear_down(&mut self) {
        self.note("all is torn down".to_owned());
        self.kubelet.clear();
        self.write_checkpoint();
        self.plugins = [None, None];
        let mut node = self.start(0);
        for _ in 0..2 {
            let fates = node.claims().into_iter().map(|claim| (claim, Fate::Gone)).collect();
            let reading = node.read(self.now);
            node.reconcile(fates, &reading, self.now);
            self.now += SignedDuration::from_secs(100);
        }
        for directory in ["cdi", "metadata", "state/claims"] {
            let left = super::disk::names(&self.path(directory));
            if !left.is_empty() || !node.held().is_empty() {
                self.fail(&format!("left in {directory}: {left:?}; held: {:?}", node.held()));
            }
        }
    }
}

/// What a Prepare that is cut short may make of a claim. Containers may run with what is prepared or
/// lost, so that is never freed.
fn cut_short(before: Kind, fresh: &[Kind]) -> &[Kind] {
    match before {
        Kind::Prepared => &[],
        Kind::Lost => &[Kind::Prepared],
        _ => fresh,
    }
}
