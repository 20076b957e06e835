//! A small API server, the index that watches it and the planner: objects are kept as the server keeps them, changes are
//! written as the writer writes them, and the watch tells of them when a test says so.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use lanemate_api::ResourceClass;
use lanemate_api::names::PLACEMENT_GATE;
use lanemate_driver::testing::cluster::{self, from_json, switches};
use serde_json::{Value, json};

use crate::change::{Change, ClaimWrite, Generations, Outcome, Place, Report, Write};
use crate::id::{Id, Key, Version};
use crate::index::{Index, Kind, Object, Update};
use crate::plan::{Planned, Planner, Settings, timing};

/// Everything there is.
pub struct World {
    pub index: Index,
    pub planner: Planner,
    pub now: Timestamp,
    pub pods: BTreeMap<Key, Pod>,
    pub claims: BTreeMap<Key, ResourceClaim>,
    version: u64,
    uids: u64,
    /// What the watch has not told yet.
    untold: Vec<Update>,
}

/// What becomes of a change in the test's hands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    /// It is written.
    Write,
    /// Only so many of its parts are, and then somebody else has been faster.
    Stop(usize),
}

impl World {
    /// A world of the given nodes with so many switches of one GPU and one NIC each, and the classes `pair`, `gpu` and
    /// `nic`.
    pub fn new(nodes: &[(&str, usize)]) -> Self {
        let mut world = Self {
            index: Index::new(Generations::default()),
            planner: Planner::new(Settings::default()),
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            pods: BTreeMap::new(),
            claims: BTreeMap::new(),
            version: 1000,
            uids: 0,
            untold: Vec::new(),
        };
        let of_node = |(name, _): &(&str, usize)| Object::Node(Box::new(node(name)));
        let of_slice =
            |(name, count): &(&str, usize)| Object::Slice(Box::new(our_slice(name, *count)));
        for (kind, objects) in [
            (Kind::Node, nodes.iter().map(of_node).collect()),
            (Kind::Slice, nodes.iter().map(of_slice).collect()),
            (Kind::DeviceClass, device_classes()),
            (Kind::ResourceClass, vec![unit_class()]),
            (Kind::Pod, vec![]),
            (Kind::Claim, vec![]),
            (Kind::NodeState, vec![]),
            (Kind::TaintRule, vec![]),
            (Kind::Volume, vec![]),
            (Kind::VolumeClaim, vec![]),
        ] {
            list(&mut world.index, kind, objects, world.now);
        }
        world
    }

    /// Time goes by.
    pub fn wait(&mut self, seconds: i64) {
        self.now = timing::after(self.now, SignedDuration::from_secs(seconds));
    }

    /// Adds or changes a pod; what the server fills in is filled in.
    pub fn pod(&mut self, value: Value) -> Id {
        let mut pod: Pod = from_json(value);
        let known = Key::of(&pod.metadata).and_then(|key| self.pods.get(&key).cloned());
        self.stamp(&mut pod.metadata, known.map(|known| known.metadata));
        self.put_pod(pod)
    }

    /// Adds or changes a claim.
    pub fn claim(&mut self, value: Value) -> Id {
        let mut claim: ResourceClaim = from_json(value);
        let known = Key::of(&claim.metadata).and_then(|key| self.claims.get(&key).cloned());
        self.stamp(&mut claim.metadata, known.map(|known| known.metadata));
        self.put_claim(claim)
    }

    fn stamp(&mut self, metadata: &mut ObjectMeta, known: Option<ObjectMeta>) {
        self.version += 1;
        metadata.namespace.get_or_insert_with(|| "ns".to_owned());
        metadata.resource_version = Some(self.version.to_string());
        if let Some(known) = known {
            metadata.uid = known.uid;
            metadata.creation_timestamp = known.creation_timestamp;
            return;
        }
        self.uids += 1;
        metadata.uid.get_or_insert_with(|| format!("uid-{}", self.uids));
        let time = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(self.now);
        metadata.creation_timestamp.get_or_insert(time);
    }

    fn put_pod(&mut self, pod: Pod) -> Id {
        let id = Id::of(&pod.metadata).unwrap();
        self.untold.push(Update::Apply(Object::Pod(Box::new(pod.clone()))));
        self.pods.insert(id.key.clone(), pod);
        id
    }

    fn put_claim(&mut self, claim: ResourceClaim) -> Id {
        let id = Id::of(&claim.metadata).unwrap();
        self.untold.push(Update::Apply(Object::Claim(Box::new(claim.clone()))));
        self.claims.insert(id.key.clone(), claim);
        id
    }

    /// Changes a pod in place.
    pub fn change_pod(&mut self, key: &Key, change: impl FnOnce(&mut Pod)) {
        let Some(mut pod) = self.pods.get(key).cloned() else { return };
        change(&mut pod);
        self.version += 1;
        pod.metadata.resource_version = Some(self.version.to_string());
        self.put_pod(pod);
    }

    /// Changes a claim in place.
    pub fn change_claim(&mut self, key: &Key, change: impl FnOnce(&mut ResourceClaim)) {
        let Some(mut claim) = self.claims.get(key).cloned() else { return };
        change(&mut claim);
        self.version += 1;
        claim.metadata.resource_version = Some(self.version.to_string());
        self.put_claim(claim);
    }

    pub fn delete_pod(&mut self, key: &Key) {
        if self.pods.remove(key).is_some() {
            self.untold.push(Update::Delete(Kind::Pod, key.clone()));
        }
    }

    /// Tells the index something beside pods and claims, at once.
    pub fn tell(&mut self, object: Object) {
        self.index.apply(Update::Apply(object), self.now);
    }

    /// The watch tells of the first changes that it has not told yet.
    pub fn watch(&mut self, most: usize) {
        let most = most.min(self.untold.len());
        for update in self.untold.drain(..most) {
            self.index.apply(update, self.now);
        }
    }

    /// One round of placing alone: repairs and classes have tests of their own.
    pub fn plan(&mut self) -> Planned {
        self.plan_at_most(usize::MAX)
    }

    /// The same, with room for so many changes.
    pub fn plan_at_most(&mut self, most: usize) -> Planned {
        let mut planned = Planned::default();
        self.planner.placing.plan(&mut self.index, self.now, most, &mut planned);
        planned
    }

    /// Rounds, each written and told in full, until nothing is left to do; all that was planned.
    pub fn settle(&mut self) -> Planned {
        let mut all = Planned::default();
        for _ in 0..20 {
            self.watch(usize::MAX);
            let planned = self.plan();
            all.notices.extend(planned.notices);
            all.next = planned.next;
            all.stats = planned.stats;
            if planned.changes.is_empty() {
                return all;
            }
            for change in planned.changes {
                self.write(&change, Fate::Write);
                all.changes.push(change);
            }
        }
        panic!("no end: {:#?}", all.changes);
    }

    /// Writes a change and reports it.
    pub fn write(&mut self, change: &Change, fate: Fate) {
        let parts = match fate {
            Fate::Write => usize::MAX,
            Fate::Stop(parts) => parts,
        };
        let (written, outcome) = match change {
            Change::Place(place) => self.write_place(place, parts),
            Change::Ungate(ungate) => self.patch_pod(&ungate.pod, &ungate.version, parts, None),
            Change::Clear(clear) => self.write_clear(&clear.claim, &clear.version, parts),
            Change::DeletePod(delete) => {
                self.delete_pod(&delete.pod.key);
                (Vec::new(), Outcome::Done)
            }
            Change::Protect(_) | Change::Class(_) => (Vec::new(), Outcome::Done),
        };
        let report = Report { change: change.clone(), written, outcome };
        self.index.finish(&report, self.now);
    }

    fn write_place(&mut self, place: &Place, parts: usize) -> (Vec<(Id, Version)>, Outcome) {
        let mut written = Vec::new();
        let late = || Outcome::Superseded("somebody else was faster".to_owned());
        for ClaimWrite { claim, write } in &place.claims {
            if written.len() >= parts {
                return (written, late());
            }
            match self.write_claim(claim, write, &place.pod) {
                Some(version) => written.push((claim.clone(), version)),
                None => return (written, late()),
            }
        }
        let Some(release) = &place.release else { return (written, Outcome::Done) };
        let left = parts.saturating_sub(written.len());
        let version = Version::of(&release.pod.metadata);
        let pin = release.pin.clone();
        let (patched, outcome) = self.patch_pod(&place.pod, &version, left, pin);
        written.extend(patched);
        (written, outcome)
    }

    fn write_claim(&mut self, id: &Id, write: &Write, pod: &Id) -> Option<Version> {
        let claim = self.claims.get(&id.key)?;
        let same = claim.metadata.uid.as_ref() == Some(&id.uid.0);
        let version = claim.metadata.resource_version.clone();
        let user = json!({"resource": "pods", "name": pod.key.name, "uid": pod.uid.0});
        let allocation = match write {
            Write::Allocate { object, .. } if object.metadata.resource_version != version => {
                return None;
            }
            Write::Allocate { allocation, .. } => Some((**allocation).clone()),
            Write::Reserve => None,
        };
        let status = claim.status.clone().unwrap_or_default();
        let is_allocated = status.allocation.is_some();
        if !same || is_allocated == allocation.is_some() {
            return None;
        }
        self.change_claim(&id.key, |claim| {
            let status = claim.status.get_or_insert_default();
            if let Some(allocation) = allocation {
                status.allocation = Some(allocation);
                claim.metadata.finalizers =
                    Some(vec!["resource.kubernetes.io/delete-protection".to_owned()]);
                claim.metadata.managed_fields = Some(from_json(json!([{
                    "manager": "lanemate-controller", "operation": "Update",
                    "subresource": "status", "apiVersion": "resource.k8s.io/v1",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:status": {"f:allocation": {}}},
                }])));
            }
            status.reserved_for.get_or_insert_default().push(from_json(user));
        });
        self.claims.get(&id.key).map(|claim| Version::of(&claim.metadata))
    }

    fn write_clear(
        &mut self,
        id: &Id,
        version: &Version,
        parts: usize,
    ) -> (Vec<(Id, Version)>, Outcome) {
        let late = (Vec::new(), Outcome::Superseded("changed".to_owned()));
        let Some(claim) = self.claims.get(&id.key) else { return late };
        if Version::of(&claim.metadata) != *version || parts == 0 {
            return late;
        }
        self.change_claim(&id.key, |claim| {
            claim.status = None;
            claim.metadata.managed_fields = None;
        });
        let version = self.claims.get(&id.key).map(|claim| Version::of(&claim.metadata));
        (version.map(|version| (id.clone(), version)).into_iter().collect(), Outcome::Done)
    }

    /// Takes our gate off, and pins the pod.
    fn patch_pod(
        &mut self,
        id: &Id,
        version: &Version,
        parts: usize,
        pin: Option<String>,
    ) -> (Vec<(Id, Version)>, Outcome) {
        let late = (Vec::new(), Outcome::Superseded("changed".to_owned()));
        let Some(pod) = self.pods.get(&id.key) else { return late };
        let same = pod.metadata.uid.as_ref() == Some(&id.uid.0);
        if !same || Version::of(&pod.metadata) != *version || parts == 0 {
            return late;
        }
        self.change_pod(&id.key, |pod| {
            let spec = pod.spec.get_or_insert_default();
            let gates = spec.scheduling_gates.get_or_insert_default();
            gates.retain(|gate| gate.name != PLACEMENT_GATE);
            if let Some(node) = pin {
                spec.affinity = Some(from_json(json!({"nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                        {"matchFields": [
                            {"key": "metadata.name", "operator": "In", "values": [node]},
                        ]},
                    ]},
                }})));
            }
        });
        let version = self.pods.get(&id.key).map(|pod| Version::of(&pod.metadata));
        (version.map(|version| (id.clone(), version)).into_iter().collect(), Outcome::Done)
    }

    /// The node that a claim is allocated for.
    pub fn node_of(&self, claim: &str) -> Option<String> {
        let status = self.claims.get(&key(claim))?.status.as_ref()?;
        let selector = status.allocation.as_ref()?.node_selector.as_ref()?;
        let fields = selector.node_selector_terms.first()?.match_fields.as_ref()?;
        fields.first()?.values.as_ref()?.first().cloned()
    }

    /// Names of the pods that a claim is reserved for.
    pub fn users_of(&self, claim: &str) -> Vec<String> {
        let status = self.claims.get(&key(claim)).and_then(|claim| claim.status.clone());
        let users = status.and_then(|status| status.reserved_for).unwrap_or_default();
        users.into_iter().map(|user| user.name).collect()
    }

    /// Names of the gates of a pod.
    pub fn gates_of(&self, pod: &str) -> Vec<String> {
        let spec = self.pods.get(&key(pod)).and_then(|pod| pod.spec.as_ref());
        let gates = spec.and_then(|spec| spec.scheduling_gates.as_deref()).unwrap_or_default();
        gates.iter().map(|gate| gate.name.clone()).collect()
    }

    /// Where a pod is pinned to.
    pub fn pin_of(&self, pod: &str) -> Option<String> {
        let spec = self.pods.get(&key(pod))?.spec.as_ref()?;
        let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
        let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
        let fields = required.node_selector_terms.first()?.match_fields.as_ref()?;
        fields.first()?.values.as_ref()?.first().cloned()
    }
}

/// A whole list, as a watch hands it on.
pub fn list(index: &mut Index, kind: Kind, objects: Vec<Object>, now: Timestamp) {
    let names = objects.iter().filter_map(Object::key).collect();
    objects.into_iter().for_each(|object| index.apply(Update::Apply(object), now));
    index.apply(Update::Listed(kind, names), now);
}

/// A name in the namespace of all tests.
pub fn key(name: &str) -> Key {
    Key { namespace: "ns".to_owned(), name: name.to_owned() }
}

/// A gated pod that names some claims.
pub fn gated(name: &str, claims: &[&str]) -> Value {
    let mut pod = ungated(name, claims);
    pod["spec"]["schedulingGates"] = json!([{"name": PLACEMENT_GATE}]);
    pod
}

/// A pod without a gate that names some claims.
pub fn ungated(name: &str, claims: &[&str]) -> Value {
    let entries: Vec<Value> = claims
        .iter()
        .map(|claim| json!({"name": format!("of-{claim}"), "resourceClaimName": claim}))
        .collect();
    json!({
        "metadata": {"namespace": "ns", "name": name},
        "spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            "resourceClaims": entries,
        },
    })
}

/// A claim for so many counts of a class.
pub fn claim(name: &str, class: &str, count: u32) -> Value {
    cluster::claim_value(name, &[("r", class, count)])
}

/// A node with room for eight pods of one CPU.
pub fn node(name: &str) -> Node {
    from_json(json!({
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1",
            "labels": {"kubernetes.io/hostname": name},
        },
        "status": {
            "allocatable": {"cpu": "8", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }))
}

/// The slice of a node with switches of one GPU and one NIC each.
pub fn our_slice(node: &str, count: usize) -> ResourceSlice {
    let mut slice = cluster::slice(node, &switches(count, 1, 1));
    slice.metadata.resource_version = Some("1".to_owned());
    slice.metadata.uid = Some(format!("uid-slice-{node}"));
    slice
}

/// A slice of another driver with so many devices.
pub fn other_slice(node: &str, count: usize) -> ResourceSlice {
    let devices: Vec<Value> = (0..count).map(|d| json!({"name": format!("d{d}")})).collect();
    from_json(json!({
        "metadata": {"name": format!("other-{node}"), "uid": format!("uid-other-{node}"),
            "resourceVersion": "1"},
        "spec": {
            "driver": "other.example.com", "nodeName": node, "devices": devices,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        },
    }))
}

fn device_classes() -> Vec<Object> {
    let class = |name: &str, expression: &str| {
        let class: DeviceClass = from_json(json!({
            "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "1"},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        }));
        Object::DeviceClass(Box::new(class))
    };
    let ours = |kind: &str| {
        format!(
            "device.driver == \"lanemate.dev\" && device.attributes[\"lanemate.dev\"].type == \"{kind}\""
        )
    };
    vec![
        class("gpu.lanemate.dev", &ours("gpu")),
        class("nic.lanemate.dev", &ours("nic")),
        class("other", "device.driver == \"other.example.com\""),
        class("by-attribute", "device.attributes[\"lanemate.dev\"].?type.orValue(\"\") == \"gpu\""),
        class("any", "true"),
    ]
}

fn unit_class() -> Object {
    let mut class: ResourceClass = from_json(cluster::unit_class("pair", (1, 1), json!({})));
    class.metadata.uid = Some("uid-pair".to_owned());
    class.metadata.resource_version = Some("1".to_owned());
    Object::ResourceClass(Box::new(class))
}
