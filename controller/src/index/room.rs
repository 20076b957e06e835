//! What runs on each node, and what pods need to know of each other.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use lanemate_driver::node_fit::{
    Around, BoundVolume, NodeLoad, NodeView, PodNeeds, Surroundings, Unfit, Volumes, fits_fully,
};

use crate::id::{Key, Uid};

/// Loads of nodes, rules between pods, volumes.
#[derive(Debug, Default)]
pub struct Room {
    homes: BTreeMap<Uid, Home>,
    loads: BTreeMap<String, NodeLoad>,
    /// In a cell, since the pod that is judged is taken out meanwhile.
    surroundings: RefCell<Surroundings>,
    volumes: Volumes,
    by_name: BTreeMap<String, BoundVolume>,
    /// Names of volumes by the claims that they are bound to…
    bound: BTreeMap<Key, String>,
    /// …and the other way round.
    bound_by: BTreeMap<String, BTreeSet<Key>>,
    namespaces: BTreeSet<String>,
    version: u64,
    /// What is around the pod that was asked about last: it is asked about node after node.
    around: RefCell<Option<Known>>,
}

/// What is around a pod, while nothing changes.
#[derive(Debug)]
struct Known {
    version: u64,
    uid: Uid,
    around: Around,
}

/// Where a pod counts.
#[derive(Debug)]
struct Home {
    key: Key,
    node: String,
    needs: Arc<PodNeeds>,
}

impl Room {
    /// Rises with each change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Says where a pod counts, or that it counts nowhere.
    pub fn settle(&mut self, uid: &Uid, key: &Key, home: Option<String>, needs: &Arc<PodNeeds>) {
        let is_same = match (self.homes.get(uid), &home) {
            (None, None) => true,
            (Some(known), Some(node)) => known.node == *node && known.needs == *needs,
            _ => false,
        };
        if is_same {
            return;
        }
        self.leave(uid);
        if let Some(node) = home {
            self.version += 1;
            self.loads.entry(node.clone()).or_default().add(needs);
            let id = (key.namespace.clone(), key.name.clone());
            self.surroundings.get_mut().apply_pod(id, &node, needs);
            let home = Home { key: key.clone(), node, needs: Arc::clone(needs) };
            self.homes.insert(uid.clone(), home);
        }
    }

    /// A pod is gone.
    pub fn leave(&mut self, uid: &Uid) {
        let Some(Home { key, node, needs }) = self.homes.remove(uid) else { return };
        self.version += 1;
        if let Some(load) = self.loads.get_mut(&node) {
            load.remove(&needs);
            if load.pods() == 0 {
                self.loads.remove(&node);
            }
        }
        self.surroundings.get_mut().remove_pod(&(key.namespace, key.name));
    }

    /// A node has changed.
    pub fn apply_node(&mut self, view: &Arc<NodeView>) {
        self.version += 1;
        self.surroundings.get_mut().apply_node(Arc::clone(view));
    }

    /// A node is gone.
    pub fn remove_node(&mut self, name: &str) {
        self.version += 1;
        self.surroundings.get_mut().remove_node(name);
    }

    /// Labels of a namespace.
    pub fn apply_namespace(&mut self, name: &str, labels: BTreeMap<String, String>) {
        self.version += 1;
        self.namespaces.insert(name.to_owned());
        self.namespaces.insert(name.to_owned());
        self.surroundings.get_mut().apply_namespace(name, labels);
    }

    /// A namespace is gone.
    pub fn remove_namespace(&mut self, name: &str) {
        self.version += 1;
        self.namespaces.remove(name);
        self.namespaces.remove(name);
        self.surroundings.get_mut().remove_namespace(name);
    }

    /// A volume, new or changed.
    pub fn apply_volume(&mut self, name: &str, volume: &PersistentVolume) {
        self.version += 1;
        self.by_name.insert(name.to_owned(), BoundVolume::of(volume));
        self.bind_claims_of(name);
    }

    /// A volume is gone.
    pub fn remove_volume(&mut self, name: &str) {
        self.version += 1;
        self.by_name.remove(name);
        self.bind_claims_of(name);
    }

    /// A claim for a volume, new or changed.
    pub fn apply_volume_claim(&mut self, key: &Key, claim: &PersistentVolumeClaim) {
        self.version += 1;
        self.unbind(key);
        let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.clone());
        if let Some(volume) = volume.filter(|name| !name.is_empty()) {
            self.bound_by.entry(volume.clone()).or_default().insert(key.clone());
            self.bound.insert(key.clone(), volume);
        }
        self.bind(key);
    }

    /// A claim for a volume is gone.
    pub fn remove_volume_claim(&mut self, key: &Key) {
        self.version += 1;
        self.unbind(key);
        self.bind(key);
    }

    fn unbind(&mut self, key: &Key) {
        let Some(volume) = self.bound.remove(key) else { return };
        if let Some(claims) = self.bound_by.get_mut(&volume) {
            claims.remove(key);
            if claims.is_empty() {
                self.bound_by.remove(&volume);
            }
        }
    }

    fn bind_claims_of(&mut self, volume: &str) {
        let keys: Vec<Key> = self.bound_by.get(volume).into_iter().flatten().cloned().collect();
        keys.iter().for_each(|key| self.bind(key));
    }

    fn bind(&mut self, key: &Key) {
        match self.bound.get(key).and_then(|volume| self.by_name.get(volume)) {
            Some(volume) => self.volumes.bind(&key.namespace, &key.name, volume.clone()),
            None => self.volumes.unbind(&key.namespace, &key.name),
        }
    }

    /// Names of all volumes, for a reset.
    pub fn volumes(&self) -> Vec<String> {
        self.by_name.keys().cloned().collect()
    }

    /// All claims for volumes that are bound, for a reset.
    pub fn volume_claims(&self) -> Vec<Key> {
        self.bound.keys().cloned().collect()
    }

    /// Names of all namespaces, for a reset.
    pub fn namespaces(&self) -> Vec<String> {
        self.namespaces.iter().cloned().collect()
    }

    /// The first constraint of a pod that is not judged here.
    pub fn unmodelled(&self, needs: &PodNeeds) -> Option<String> {
        needs.unmodelled(&self.volumes)
    }

    /// Whether a pod may run on a node, beside all others: itself it does not count.
    ///
    /// # Errors
    /// The first reason why not.
    pub fn fits(&self, uid: &Uid, needs: &PodNeeds, node: &NodeView) -> Result<(), Unfit> {
        let mut load = self.loads.get(&node.name).cloned().unwrap_or_default();
        let home = self.homes.get(uid);
        if let Some(home) = home.filter(|home| home.node == node.name) {
            load.remove(&home.needs);
        }
        let mut around = self.around.borrow_mut();
        let known = around.take().filter(|known| known.is_of(uid, self.version));
        let known = known.unwrap_or_else(|| Known {
            version: self.version,
            uid: uid.clone(),
            around: self.around(home, needs),
        });
        fits_fully(needs, node, &load, &around.insert(known).around, &self.volumes)
    }

    fn around(&self, home: Option<&Home>, needs: &PodNeeds) -> Around {
        let mut surroundings = self.surroundings.borrow_mut();
        let Some(home) = home else { return surroundings.around(needs) };
        let id = (home.key.namespace.clone(), home.key.name.clone());
        surroundings.remove_pod(&id);
        let around = surroundings.around(needs);
        surroundings.apply_pod(id, &home.node, &home.needs);
        around
    }
}

impl Known {
    fn is_of(&self, uid: &Uid, version: u64) -> bool {
        self.version == version && self.uid == *uid
    }
}
