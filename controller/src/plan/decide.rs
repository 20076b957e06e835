//! The node and the devices for the open claims of one pod, ready to be written.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::resource::v1::ResourceClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use lanemate_api::PathClass;
use lanemate_driver::allocation::{
    Allocation, Choice, Cluster, Evaluations, Problem, SEARCH_BUDGET, allocations, choose, judge,
    refuse,
};
use lanemate_driver::claim::Claim;

use super::assignment::{self, Entry};
use super::back_off::BackOffs;
use super::notices::Waiting;
use super::pod::Work;
use crate::change::{ClaimWrite, Write};
use crate::id::Id;
use crate::index::{Index, PodFacts};

/// The open claims of a pod, read against the classes as they are.
pub struct Question {
    /// In the order in which the pod names them.
    claims: Vec<Claim>,
    objects: Vec<(String, Id, Arc<ResourceClaim>)>,
    /// What they ask for.
    pub problem: Problem,
}

/// The claims of other drivers that a pod still waits for.
pub enum Others {
    /// There is none.
    None,
    /// They are judged beside ours.
    Judged(Box<Problem>),
    /// They ask for something that is not judged here: kube-scheduler decides.
    Unjudged,
}

/// What keeps nodes from a pod, beside devices.
pub struct Nodes<'a> {
    /// What the cluster looks like.
    pub index: &'a Index,
    /// The pod.
    pub pod: &'a PodFacts,
    /// What it needs.
    pub work: &'a Work,
    /// Claims of other drivers.
    pub others: &'a Others,
    /// Nodes that pods are kept off.
    pub back_offs: &'a BackOffs,
    /// The node that is kept for a pod before this one.
    pub kept: Option<&'a str>,
    /// The time.
    pub now: Timestamp,
}

/// Answers of nodes that are kept from one decision to the next, for each of the two clusters.
#[derive(Debug, Default)]
pub struct Memories {
    /// Of our devices.
    pub ours: Evaluations,
    /// Of the devices of others.
    pub others: Evaluations,
}

/// Devices for all open claims of a pod.
pub struct Decided {
    /// The node.
    pub node: String,
    /// What is to be written, claim by claim.
    pub writes: Vec<ClaimWrite>,
    /// For the annotation.
    pub entries: Vec<Entry>,
    /// For the event.
    pub words: String,
}

impl Question {
    /// Reads the open claims.
    ///
    /// # Errors
    /// What is wrong with one of them, or with a class that it names.
    pub fn read(index: &mut Index, work: &Work) -> Result<Self, Waiting> {
        let mut objects = Vec::new();
        for (entry, id) in &work.open {
            let object = index.claim(&id.key).and_then(|claim| claim.object.clone());
            let Some(object) = object else {
                return Err(Waiting::for_now(format!("claim {id} is being read")).of(id));
            };
            objects.push((entry.clone(), id.clone(), object));
        }
        let mut claims = Vec::new();
        for (_, id, object) in &objects {
            let claim = Claim::parse(object, index.classes());
            claims.push(claim.map_err(|e| Waiting::broken(format!("claim {id}: {e}")).of(id))?);
        }
        let all: Vec<&Claim> = claims.iter().collect();
        let problem = Problem::new(&all).map_err(|e| Waiting::broken(e.to_string()))?;
        Ok(Self { claims, objects, problem })
    }

    /// Chooses a node and devices; absent where nothing fits. Also says whether any node was refused for another reason
    /// than its devices.
    pub fn answer(&self, memories: &mut Memories, nodes: &Nodes<'_>) -> (Option<Decided>, bool) {
        let cluster = nodes.index.cluster();
        let mut was_unfit = false;
        let others = &mut memories.others;
        let mut fits = |name: &str| {
            let fits = nodes.unfit(name, others).is_none();
            was_unfit |= !fits;
            fits
        };
        let ours = &mut memories.ours;
        let Choice { chosen, .. } = choose(cluster, ours, &self.problem, &mut fits, SEARCH_BUDGET);
        let decided = chosen.and_then(|(name, grant)| {
            let node = cluster.node(&name)?;
            let claims: Vec<&Claim> = self.claims.iter().collect();
            let time = Time(whole_seconds(nodes.now));
            let place = (name.as_str(), node);
            let allocations =
                allocations(&claims, &self.problem, &grant, place, Some(time)).ok()?;
            Some(self.decided(nodes.index, &name, allocations))
        });
        (decided, was_unfit)
    }

    /// Why nothing fits.
    pub fn refusal(&self, memories: &mut Memories, nodes: &Nodes<'_>) -> Waiting {
        let index = nodes.index;
        let others = &mut memories.others;
        let names: Vec<&str> = match &nodes.work.place.only {
            Some(only) => index.node(only).map(|node| node.name.as_str()).into_iter().collect(),
            None => index.nodes().map(|node| node.name.as_str()).collect(),
        };
        let mut unfit = |name: &str| nodes.unfit(name, others);
        let refusal = refuse(
            index.cluster(),
            &mut memories.ours,
            &self.problem,
            &mut names.into_iter(),
            &mut unfit,
            SEARCH_BUDGET,
        );
        // Where selectors fail, waiting for devices is of no use.
        let words = if refusal.failed { Waiting::broken } else { Waiting::for_now };
        words(refusal.reason)
    }

    fn decided(&self, index: &Index, node: &str, allocations: Vec<Allocation>) -> Decided {
        let generations = index.generations_of(node);
        let words = words(node, &allocations);
        let (mut writes, mut entries) = (Vec::new(), Vec::new());
        for ((entry, id, object), allocation) in self.objects.iter().zip(allocations) {
            if let Some(node) = index.cluster().node(node) {
                entries.extend(assignment::of_allocation(entry, &allocation, node));
            }
            let write = Write::Allocate {
                object: Arc::clone(object),
                allocation: Box::new(allocation.result),
                generations: generations.clone(),
            };
            writes.push(ClaimWrite { claim: id.clone(), write });
        }
        Decided { node: node.to_owned(), writes, entries, words }
    }
}

impl Others {
    /// Reads the claims of other drivers.
    pub fn read(index: &mut Index, work: &Work) -> Self {
        let mut claims = Vec::new();
        for id in &work.others {
            let object = index.claim(&id.key).and_then(|claim| claim.object.clone());
            let claim = object.and_then(|object| Claim::parse(&object, index.classes()).ok());
            match claim {
                Some(claim) => claims.push(claim),
                None => return Self::Unjudged,
            }
        }
        let all: Vec<&Claim> = claims.iter().collect();
        // Claims that are too many for one decision are kube-scheduler's to judge.
        match (all.is_empty(), Problem::new(&all)) {
            (true, _) => Self::None,
            (false, Ok(problem)) => Self::Judged(Box::new(problem)),
            (false, Err(_)) => Self::Unjudged,
        }
    }

    /// Why the claims do not fit a node with what is free there; absent where they do.
    fn unfit(&self, cluster: &Cluster, known: &mut Evaluations, node: &str) -> Option<String> {
        let Self::Judged(problem) = self else { return None };
        judge(cluster, known, problem, node, SEARCH_BUDGET).1
    }
}

impl Nodes<'_> {
    /// Why the pod cannot have a node, whatever is free there; absent where it can.
    pub fn unfit(&self, name: &str, others: &mut Evaluations) -> Option<String> {
        if self.kept == Some(name) && self.work.place.only.is_none() {
            return Some("it is kept for a pod that has waited longer".to_owned());
        }
        if self.back_offs.covers(&self.pod.id.uid, name, self.now) {
            return Some("kube-scheduler could not place the pod there a while ago".to_owned());
        }
        self.unfit_in_itself(name, others)
    }

    /// The same, without what other pods and earlier tries have to say.
    pub fn unfit_in_itself(&self, name: &str, others: &mut Evaluations) -> Option<String> {
        let Some(node) = self.index.node(name) else {
            return Some("the node does not exist".to_owned());
        };
        if !self.work.place.allows(&node.view) {
            return Some("the pod's allocated claims are for another node".to_owned());
        }
        if !self.work.is_settled
            && let Err(unfit) = self.index.fits(self.pod, name)
        {
            return Some(unfit.reason);
        }
        let unfit = self.others.unfit(self.index.other_cluster(), others, name)?;
        Some(format!("the pod's claims for other drivers do not fit: {unfit}"))
    }
}

/// The API server keeps whole seconds.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// "node n1: 4 units, all PXB or nearer".
fn words(node: &str, allocations: &[Allocation]) -> String {
    let units: Vec<_> = allocations.iter().flat_map(|allocation| &allocation.units).collect();
    let results = allocations.iter().flat_map(|allocation| &allocation.result.devices);
    let devices: usize = results.map(|devices| devices.results.as_ref().map_or(0, Vec::len)).sum();
    let count = |number: usize, noun: &str| match number {
        1 => format!("1 {noun}"),
        many => format!("{many} {noun}s"),
    };
    let farthest: Option<PathClass> = units.iter().filter_map(|unit| unit.class).max();
    match (units.len(), farthest) {
        (0, _) => format!("node {node}: {}", count(devices, "device")),
        (some, None) => format!("node {node}: {}", count(some, "unit")),
        (1, Some(class)) => format!("node {node}: 1 unit, {class}"),
        (some, Some(class)) => {
            format!("node {node}: {}, all {class} or nearer", count(some, "unit"))
        }
    }
}
