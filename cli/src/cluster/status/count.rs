//! Counts, by the core of the controller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use lanemate_driver::allocation::capacity::{NodeCapacity, capacity, units_left};
use lanemate_driver::allocation::{Evaluations, Node as Devices};
use lanemate_driver::claim::Class;
use lanemate_driver::pending::{ClaimRef, PodRef, allocation_of};

use super::{BrokenClass, Kind, NodeReport, TaintReport, Total, Units, WaitingPod};
use crate::cluster::age;
use crate::cluster::devices;
use crate::cluster::explain::entries;
use crate::cluster::read::Seen;
use crate::plan::scene_of_cluster;

/// The nodes that have devices.
pub fn nodes(seen: &Seen) -> anyhow::Result<Vec<NodeReport>> {
    let devices = devices::Devices::of(seen);
    let mut scene = scene_of_cluster(&seen.objects, &devices.held_on_nodes())?;
    let names = seen.objects.resource_classes.iter();
    let names: BTreeSet<&str> = names.filter_map(|class| class.metadata.name.as_deref()).collect();
    // Claims of a class that is broken get nothing, so that none of its units fits.
    let classes: Vec<(&str, Option<Arc<Class>>)> =
        names.into_iter().map(|name| (name, scene.classes.get(name).ok())).collect();
    let states = seen.node_states.iter().flatten();
    let states: BTreeSet<&str> =
        states.filter_map(|state| state.metadata.name.as_deref()).collect();
    let objects = seen.objects.nodes.iter();
    let objects: BTreeMap<&str, &Node> =
        objects.filter_map(|node| Some((node.metadata.name.as_deref()?, node))).collect();
    let taints = taints(&devices);
    let mut evaluations = Evaluations::default();
    let with_devices = scene
        .cluster
        .nodes()
        .filter(|(_, node)| !node.layout.is_empty() || !node.unusable.is_empty());
    let mut report = |(name, node): (&str, &Devices)| NodeReport {
        name: name.to_owned(),
        units: units(node, &classes, &mut evaluations),
        has_node_state: states.contains(name),
        conditions: objects.get(name).map(|node| conditions(node)).unwrap_or_default(),
        taints: taints.get(name).map(reports).unwrap_or_default(),
        problems: node
            .unusable
            .iter()
            .map(|pool| format!("pool {}: {}", pool.pool, pool.reason))
            .collect(),
        ..counted(capacity(node))
    };
    Ok(with_devices.map(&mut report).collect())
}

fn units(
    node: &Devices,
    classes: &[(&str, Option<Arc<Class>>)],
    evaluations: &mut Evaluations,
) -> Vec<Units> {
    let fit = |class: &Option<Arc<Class>>, evaluations: &mut Evaluations| {
        class.as_ref().map_or(0, |class| units_left(node, evaluations, class))
    };
    classes
        .iter()
        .map(|(name, class)| Units { class: (*name).to_owned(), fit: fit(class, evaluations) })
        .collect()
}

fn counted(capacity: NodeCapacity) -> NodeReport {
    let NodeCapacity { offered, held, tainted, free, stranded, .. } = capacity;
    NodeReport {
        name: String::new(),
        gpus: Kind {
            offered: offered.gpus,
            free: free.gpus,
            held: held.gpus,
            stranded: stranded.gpus,
            tainted: tainted.gpus,
        },
        nics: Kind {
            offered: offered.nics,
            free: free.nics,
            held: held.nics,
            stranded: stranded.nics,
            tainted: tainted.nics,
        },
        units: Vec::new(),
        has_node_state: false,
        conditions: Vec::new(),
        taints: Vec::new(),
        problems: Vec::new(),
    }
}

type Taints<'a> = BTreeMap<&'a str, BTreeMap<&'a str, Vec<&'a str>>>;

fn taints(devices: &devices::Devices) -> Taints<'_> {
    let mut taints = Taints::new();
    for ((_, _, device), facts) in devices.iter() {
        let Some(node) = &facts.node else { continue };
        for taint in &facts.taints {
            taints.entry(node).or_default().entry(taint).or_default().push(device);
        }
    }
    taints
}

fn reports(taints: &BTreeMap<&str, Vec<&str>>) -> Vec<TaintReport> {
    let report = |(taint, devices): (&&str, &Vec<&str>)| TaintReport {
        taint: (*taint).to_owned(),
        devices: devices.iter().map(|device| (*device).to_owned()).collect(),
    };
    taints.iter().map(report).collect()
}

/// What keeps pods from being started on a node: `NotReady`, `cordoned`.
pub fn conditions(node: &Node) -> Vec<&'static str> {
    let status = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut ready = status.filter(|condition| condition.type_ == "Ready");
    let is_ready = ready.next().is_some_and(|condition| condition.status == "True");
    let is_cordoned = node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true));
    let words = [(!is_ready, "NotReady"), (is_cordoned, "cordoned")];
    words.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect()
}

/// Sums over all nodes.
pub fn total(nodes: &[NodeReport]) -> Total {
    let mut total = Total::default();
    for node in nodes {
        total.gpus = total.gpus.plus(node.gpus);
        total.nics = total.nics.plus(node.nics);
        total.with_node_state += usize::from(node.has_node_state);
        for units in &node.units {
            match total.units.iter_mut().find(|sum| sum.class == units.class) {
                Some(sum) => sum.fit += units.fit,
                None => total.units.push(units.clone()),
            }
        }
    }
    total
}

impl Kind {
    fn plus(self, other: Self) -> Self {
        Self {
            offered: self.offered + other.offered,
            free: self.free + other.free,
            held: self.held + other.held,
            stranded: self.stranded + other.stranded,
            tainted: self.tainted + other.tainted,
        }
    }
}

/// Unfinished pods without a node, or with a claim that has no devices yet.
pub fn waiting(seen: &Seen, now: Timestamp) -> Vec<WaitingPod> {
    let claims = seen.objects.claims.iter();
    let allocated: BTreeSet<ClaimRef> = claims
        .filter(|claim| allocation_of(claim).is_some())
        .map(|claim| ClaimRef::of(&claim.metadata))
        .collect();
    let mut waiting: Vec<WaitingPod> =
        seen.objects.pods.iter().filter_map(|pod| waits(pod, &allocated, now)).collect();
    waiting.sort_by(|a, b| (a.since, &a.pod).cmp(&(b.since, &b.pod)));
    waiting
}

fn waits(pod: &Pod, allocated: &BTreeSet<ClaimRef>, now: Timestamp) -> Option<WaitingPod> {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let is_over = matches!(phase, Some("Succeeded" | "Failed"));
    if is_over || pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let name = PodRef::of(&pod.metadata);
    let is_allocated = |claim: &String| {
        let (namespace, name) = (name.namespace.clone(), claim.clone());
        allocated.contains(&ClaimRef { namespace, name })
    };
    let claims: Vec<String> = entries(pod)
        .into_iter()
        .filter(|(_, claim)| !claim.as_ref().is_some_and(is_allocated))
        .map(|(entry, claim)| claim.unwrap_or(entry))
        .collect();
    let since = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    (!claims.is_empty()).then(|| WaitingPod {
        pod: name.to_string(),
        claims,
        age: since.map(|since| age::words(since, now)),
        since,
    })
}

/// Classes whose condition says so.
pub fn broken_classes(seen: &Seen) -> Vec<BrokenClass> {
    let broken = seen.objects.resource_classes.iter().filter_map(|class| {
        let ready = class.ready().filter(|ready| ready.status != "True")?;
        Some(BrokenClass { class: class.metadata.name.clone()?, reason: ready.reason.clone() })
    });
    broken.collect()
}
