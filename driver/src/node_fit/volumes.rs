//! Where bound volumes can be reached from: node affinity and zone labels of PersistentVolumes, by claim.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelector, PersistentVolume};

use super::{NodeView, PodNeeds, Unfit, node_selector_matches, unfit, why_unmet};

/// Labels of volumes that say where they are; the older two stand for the newer two.
const PLACE_LABELS: [(&str, &str); 4] = [
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
];

/// Between the zones of a volume that is in several.
const ZONE_SEPARATOR: &str = "__";

/// The volumes of PersistentVolumeClaims that are bound, by namespace and name of the claim.
#[derive(Clone, Debug, Default)]
pub struct Volumes {
    by_claim: BTreeMap<String, BTreeMap<String, BoundVolume>>,
}

/// What a pod needs to know of a volume.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BoundVolume {
    /// `spec.nodeAffinity.required`.
    pub node_affinity: Option<NodeSelector>,
    /// Allowed values by label of the node, from the volume's own labels.
    pub places: Vec<(String, Vec<String>)>,
    /// One pod at a time may use it.
    pub read_write_once_pod: bool,
}

impl BoundVolume {
    /// What a PersistentVolume says.
    pub fn of(volume: &PersistentVolume) -> Self {
        let spec = volume.spec.as_ref();
        let labels = volume.metadata.labels.as_ref();
        let place = |(label, of_node): &(&str, &str)| {
            let values = labels?.get(*label)?.split(ZONE_SEPARATOR).map(str::to_owned).collect();
            Some(((*of_node).to_owned(), values))
        };
        let mut modes = spec.iter().flat_map(|spec| spec.access_modes.iter().flatten());
        Self {
            node_affinity: spec
                .and_then(|spec| spec.node_affinity.as_ref())
                .and_then(|affinity| affinity.required.clone()),
            places: PLACE_LABELS.iter().filter_map(place).collect(),
            read_write_once_pod: modes.any(|mode| mode == "ReadWriteOncePod"),
        }
    }
}

impl Volumes {
    /// Records that a claim is bound to a volume.
    pub fn bind(&mut self, namespace: &str, claim: &str, volume: BoundVolume) {
        let of_namespace = self.by_claim.entry(namespace.to_owned()).or_default();
        of_namespace.insert(claim.to_owned(), volume);
    }

    /// Forgets a claim: it is gone, or not bound.
    pub fn unbind(&mut self, namespace: &str, claim: &str) {
        if let Some(of_namespace) = self.by_claim.get_mut(namespace) {
            of_namespace.remove(claim);
            if of_namespace.is_empty() {
                self.by_claim.remove(namespace);
            }
        }
    }

    /// The volume of a claim; absent when it is not bound.
    pub fn get(&self, namespace: &str, claim: &str) -> Option<&BoundVolume> {
        self.by_claim.get(namespace)?.get(claim)
    }

    /// Says whether the pod's bound volumes can be reached from the node.
    pub(super) fn reachable(&self, pod: &PodNeeds, node: &NodeView) -> Result<(), Unfit> {
        for claim in &pod.volume_claims {
            let Some(volume) = self.get(&pod.namespace, claim) else { continue };
            if let Some(selector) = &volume.node_affinity
                && !node_selector_matches(selector, node)
            {
                let unmet = why_unmet(selector, node);
                return Err(unfit(format!("volume of {claim} cannot be reached: {unmet}")));
            }
            volume.in_place(claim, node)?;
        }
        Ok(())
    }
}

impl BoundVolume {
    /// A node that says nothing of its place is good for every volume (so upstream).
    fn in_place(&self, claim: &str, node: &NodeView) -> Result<(), Unfit> {
        let of_node = |label: &str| {
            let same = PLACE_LABELS.iter().filter(|(_, newer)| *newer == label);
            let mut values = same.filter_map(|(own, _)| node.labels.get(*own));
            values.next()
        };
        if PLACE_LABELS.iter().all(|(label, _)| !node.labels.contains_key(*label)) {
            return Ok(());
        }
        let elsewhere = self
            .places
            .iter()
            .find(|(label, values)| of_node(label).is_none_or(|value| !values.contains(value)));
        match elsewhere {
            Some((label, values)) => {
                let has = super::describe_label(node, label);
                let wanted = values.join(" or ");
                Err(unfit(format!("volume of {claim} is in {label}={wanted} ({has})")))
            }
            None => Ok(()),
        }
    }
}
