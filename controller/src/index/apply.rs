//! What a watch tells, taken in; and what follows from it for devices, loads and users.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use lanemate_api::{NodeState, names};
use lanemate_driver::allocation::DeviceId;

use super::devices::Touched;
use super::{
    ClaimEntry, ClaimFacts, ClaimOver, Holder, Index, Kind, NodeFacts, Object, PodEntry, PodFacts,
    Stage, Update,
};
use crate::id::{Key, Uid};

impl Index {
    /// Takes in what a watch tells.
    pub fn apply(&mut self, update: Update, now: Timestamp) {
        match update {
            Update::Apply(object) => {
                let touched = self.apply_object(object, now);
                self.rebuild(touched, now);
            }
            Update::Delete(kind, key) => {
                let touched = self.delete(kind, &key, now);
                self.rebuild(touched, now);
            }
            Update::Listed(kind, names) => self.listed(kind, &names, now),
        }
    }

    /// What is not in the list is gone.
    fn listed(&mut self, kind: Kind, names: &BTreeSet<Key>, now: Timestamp) {
        let gone: Vec<Key> =
            self.keys(kind).into_iter().filter(|key| !names.contains(key)).collect();
        let touched = gone.iter().map(|key| self.delete(kind, key, now));
        let touched = touched.fold(Touched::default(), Touched::and);
        self.rebuild(touched, now);
        self.listed.insert(kind);
    }

    fn apply_object(&mut self, object: Object, now: Timestamp) -> Touched {
        let Some(key) = object.key() else { return nameless() };
        match object {
            Object::Pod(pod) => match PodFacts::of(&pod) {
                Some(facts) => self.apply_pod(facts),
                None => return nameless(),
            },
            Object::Claim(claim) => match ClaimFacts::of(&claim) {
                Some(facts) => self.apply_claim(facts, now),
                None => return nameless(),
            },
            Object::Node(node) => {
                return NodeFacts::of(&node)
                    .map(|facts| self.apply_node(facts))
                    .unwrap_or_default();
            }
            Object::Slice(slice) => return self.devices.apply_slice(*slice),
            Object::DeviceClass(class) => self.classes.apply_device(*class),
            Object::ResourceClass(class) => self.classes.apply_resource(*class),
            Object::NodeState(state) => self.apply_node_state(&key.name, Some(*state), now),
            Object::TaintRule(rule) => return self.devices.set_rule(&key.name, Some(*rule)),
            Object::Volume(volume) => self.room.apply_volume(&key.name, &volume),
            Object::VolumeClaim(claim) => self.room.apply_volume_claim(&key, &claim),
            Object::Namespace(namespace) => {
                let labels = namespace.metadata.labels.unwrap_or_default();
                self.room.apply_namespace(&key.name, labels);
            }
        }
        Touched::default()
    }

    fn delete(&mut self, kind: Kind, key: &Key, now: Timestamp) -> Touched {
        match kind {
            Kind::Pod => self.remove_pod(key),
            Kind::Claim => self.remove_claim(key, now),
            Kind::Node => return self.remove_node(&key.name),
            Kind::Slice => return self.devices.remove_slice(&key.name),
            Kind::DeviceClass => self.classes.remove_device(&key.name),
            Kind::ResourceClass => self.classes.remove_resource(&key.name),
            Kind::NodeState => self.apply_node_state(&key.name, None, now),
            Kind::TaintRule => return self.devices.set_rule(&key.name, None),
            Kind::Volume => self.room.remove_volume(&key.name),
            Kind::VolumeClaim => self.room.remove_volume_claim(key),
            Kind::Namespace => self.room.remove_namespace(&key.name),
        }
        Touched::default()
    }

    /// All that is known of a kind.
    fn keys(&self, kind: Kind) -> Vec<Key> {
        let named = |names: Vec<String>| {
            names.into_iter().map(|name| Key { namespace: String::new(), name }).collect()
        };
        match kind {
            Kind::Pod => self.pod_keys.keys().cloned().collect(),
            Kind::Claim => self.claim_keys.keys().cloned().collect(),
            Kind::Node => named(self.nodes.keys().cloned().collect()),
            Kind::Slice => named(self.devices.slices()),
            Kind::DeviceClass => named(self.classes.devices.keys().cloned().collect()),
            Kind::ResourceClass => named(self.classes.resources.keys().cloned().collect()),
            Kind::NodeState => named(self.node_states.keys().cloned().collect()),
            Kind::TaintRule => named(self.devices.rules()),
            Kind::Volume => named(self.room.volumes()),
            Kind::VolumeClaim => self.room.volume_claims(),
            Kind::Namespace => named(self.room.namespaces()),
        }
    }

    /// Reads the pools of nodes anew.
    fn rebuild(&mut self, touched: Touched, now: Timestamp) {
        self.devices.note_generations(&touched.pools);
        let all = touched.all.then(|| self.nodes.keys().cloned()).into_iter().flatten();
        let nodes: BTreeSet<String> = touched.nodes.into_iter().chain(all).collect();
        for name in nodes {
            let view = self.nodes.get(&name).map(|node| Arc::clone(&node.view));
            self.devices.rebuild(&name, view.as_deref(), &self.holders, now);
        }
    }

    fn apply_node(&mut self, facts: NodeFacts) -> Touched {
        let mut touched = Touched::default();
        let known = self.nodes.get(&facts.name);
        let is_new = known.is_none_or(|known| known.uid != facts.uid);
        let is_changed = known.is_none_or(|known| known.view != facts.view);
        if is_changed {
            self.room.apply_node(&facts.view);
        }
        if is_new || (is_changed && self.devices.depends_on_labels()) {
            touched.nodes.insert(facts.name.clone());
        }
        self.nodes.insert(facts.name.clone(), facts);
        touched
    }

    fn remove_node(&mut self, name: &str) -> Touched {
        self.nodes.remove(name);
        self.room.remove_node(name);
        Touched { nodes: BTreeSet::from([name.to_owned()]), ..Touched::default() }
    }

    fn apply_node_state(&mut self, node: &str, state: Option<NodeState>, now: Timestamp) {
        let old = self.node_states.get(node).map(|state| held(node, state)).unwrap_or_default();
        let new = state.as_ref().map(|state| held(node, state)).unwrap_or_default();
        match state {
            Some(mut state) => {
                state.metadata.managed_fields = None;
                self.node_states.insert(node.to_owned(), state);
            }
            None => drop(self.node_states.remove(node)),
        }
        for (device, holder, words) in new.difference(&old) {
            self.hold(device, holder.clone(), words, now);
        }
        let kept: BTreeSet<_> = new.iter().map(|(device, holder, _)| (device, holder)).collect();
        for (device, holder, _) in &old {
            if !kept.contains(&(device, holder)) {
                self.let_go(device, holder, now);
            }
        }
    }

    fn apply_pod(&mut self, facts: PodFacts) {
        let (uid, key) = (facts.id.uid.clone(), facts.id.key.clone());
        let known = self.pods.get(&uid).map(|entry| &entry.seen.version);
        // What is older than what we wrote changes nothing: better is known.
        if known.is_some_and(|known| !facts.version.reaches(known)) {
            return;
        }
        if self.pod_keys.get(&key).is_some_and(|known| *known != uid) {
            self.remove_pod(&key);
        }
        self.forget_users(&uid);
        if facts.stage != Stage::Finished {
            for claim in facts.claim_keys() {
                self.users.entry(claim).or_default().insert(uid.clone());
            }
        }
        self.pod_keys.insert(key, uid.clone());
        match self.pods.get_mut(&uid) {
            Some(entry) => {
                entry.seen = facts;
                entry.refresh();
            }
            None => {
                let entry = PodEntry { seen: facts, shown: None, over: None };
                self.pods.insert(uid.clone(), entry);
            }
        }
        self.settle(&uid);
    }

    fn remove_pod(&mut self, key: &Key) {
        let Some(uid) = self.pod_keys.remove(key) else { return };
        self.forget_users(&uid);
        self.pods.remove(&uid);
        self.waiting.remove(&uid);
        self.room.leave(&uid);
    }

    fn forget_users(&mut self, uid: &Uid) {
        let Some(entry) = self.pods.get(uid) else { return };
        for claim in entry.seen.claim_keys() {
            if let Some(users) = self.users.get_mut(&claim) {
                users.remove(uid);
                if users.is_empty() {
                    self.users.remove(&claim);
                }
            }
        }
    }

    /// Lets a pod count where it counts now, and wait while it waits.
    pub(super) fn settle(&mut self, uid: &Uid) {
        let Some(pod) = self.pod(uid) else { return };
        let (key, needs, home) = (pod.id.key.clone(), Arc::clone(&pod.needs), self.home(pod));
        if self.is_waiting(pod) {
            self.waiting.insert(uid.clone());
        } else {
            self.waiting.remove(uid);
        }
        self.room.settle(uid, &key, home, &needs);
    }

    fn apply_claim(&mut self, facts: ClaimFacts, now: Timestamp) {
        let (uid, key) = (facts.id.uid.clone(), facts.id.key.clone());
        if self.claim_keys.get(&key).is_some_and(|known| *known != uid) {
            self.remove_claim(&key, now);
        }
        self.claim_keys.insert(key, uid.clone());
        if !self.claims.contains_key(&uid) {
            let empty = ClaimFacts { grant: None, ..facts.clone() };
            self.claims.insert(uid.clone(), ClaimEntry { seen: empty, shown: None, over: None });
        }
        self.change_claim(&uid, now, |entry| {
            // What is older than what we wrote changes nothing: better is known.
            if facts.version.reaches(&entry.seen.version) {
                entry.seen = facts;
            }
        });
    }

    fn remove_claim(&mut self, key: &Key, now: Timestamp) {
        let Some(uid) = self.claim_keys.remove(key) else { return };
        self.change_claim(&uid, now, |entry| {
            entry.seen.grant = None;
            entry.over = None;
        });
        self.claims.remove(&uid);
    }

    /// Changes a claim, and with it what it holds and where its pods count.
    pub(super) fn change_claim(
        &mut self,
        uid: &Uid,
        now: Timestamp,
        change: impl FnOnce(&mut ClaimEntry),
    ) {
        let Some(entry) = self.claims.get_mut(uid) else { return };
        let (old, old_others) = (entry.devices(), entry.others());
        change(entry);
        entry.refresh();
        let (new, new_others) = (entry.devices(), entry.others());
        let key = entry.seen.id.key.clone();
        let words: Arc<str> = key.to_string().into();
        for device in new.difference(&old) {
            self.hold(device, Holder::Claim(uid.clone()), &words, now);
        }
        for device in old.difference(&new) {
            self.let_go(device, &Holder::Claim(uid.clone()), now);
        }
        let others = self.devices.others_mut();
        let gone: Vec<DeviceId> = old_others.difference(&new_others).cloned().collect();
        let come: Vec<DeviceId> = new_others.difference(&old_others).cloned().collect();
        others.release(&words, &gone);
        others.reserve(&words, &come);
        let users: Vec<Uid> = self.users.get(&key).into_iter().flatten().cloned().collect();
        users.iter().for_each(|pod| self.settle(pod));
    }

    fn hold(&mut self, device: &DeviceId, holder: Holder, words: &Arc<str>, now: Timestamp) {
        self.holders.hold(device, holder, words, self.devices.ours_mut());
        self.devices.note_presence(device, now);
    }

    fn let_go(&mut self, device: &DeviceId, holder: &Holder, now: Timestamp) {
        if self.holders.let_go(device, holder, self.devices.ours_mut()) {
            let is_told = self.node_states.contains_key(&device.1);
            self.devices.freed(device, is_told, now);
        }
    }
}

impl ClaimEntry {
    /// Devices of ours that it may hold.
    fn devices(&self) -> BTreeSet<DeviceId> {
        self.grants().flat_map(|grant| grant.devices.iter().cloned()).collect()
    }

    /// Devices of other drivers that it holds.
    fn others(&self) -> BTreeSet<DeviceId> {
        self.grants().flat_map(|grant| grant.others.iter().cloned()).collect()
    }

    /// In flight both what was seen and what is to come: nobody knows which of them is true.
    fn grants(&self) -> impl Iterator<Item = &super::Grant> {
        let (seen, over) = match &self.over {
            None | Some(ClaimOver::Changing) => (self.seen.grant.as_ref(), None),
            Some(ClaimOver::Granting { grant, .. }) => (self.seen.grant.as_ref(), grant.as_ref()),
            Some(ClaimOver::Written { grant, .. }) => (None, grant.as_ref()),
        };
        seen.into_iter().chain(over)
    }
}

impl Object {
    /// Its name.
    pub fn key(&self) -> Option<Key> {
        Key::of(self.metadata())
    }

    fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Pod(object) => &object.metadata,
            Self::Claim(object) => &object.metadata,
            Self::Node(object) => &object.metadata,
            Self::Slice(object) => &object.metadata,
            Self::DeviceClass(object) => &object.metadata,
            Self::ResourceClass(object) => &object.metadata,
            Self::NodeState(object) => &object.metadata,
            Self::TaintRule(object) => &object.metadata,
            Self::Volume(object) => &object.metadata,
            Self::VolumeClaim(object) => &object.metadata,
            Self::Namespace(object) => &object.metadata,
        }
    }
}

/// An object without a name or a UID cannot be told from others. No API server sends one.
fn nameless() -> Touched {
    tracing::warn!("an object came without a name or a UID, and is not looked at");
    Touched::default()
}

/// Devices that a node holds, for whom, and in words.
fn held(node: &str, state: &NodeState) -> BTreeSet<(DeviceId, Holder, Arc<str>)> {
    let mut held = BTreeSet::new();
    for entry in &state.status.held {
        let claim = &entry.claim;
        let name = match (&claim.namespace, &claim.name) {
            (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
            _ => format!("claim {}", claim.uid),
        };
        let words: Arc<str> = format!("{name}, still prepared on its node").into();
        for device in &entry.devices {
            let device = (names::DRIVER.to_owned(), node.to_owned(), device.clone());
            held.insert((device, Holder::Node(Uid(claim.uid.clone())), Arc::clone(&words)));
        }
    }
    held
}

#[cfg(test)]
mod tests;
