//! Takes the decisions one after another, each on what the ones before have left.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use anyhow::bail;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeSelector, Pod};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use lanemate_driver::allocation::{
    self, Allocation, Candidate, Evaluations, Rank, SEARCH_BUDGET, Shortage, allocations, decide,
    device_of,
};
use lanemate_driver::claim::{Claim, Wants};
use lanemate_driver::node_fit::{NodeView, fits, node_selector_matches};
use lanemate_driver::pending::{ClaimRef, Decision, Pending, PodRef, allocation_of};

use super::origin::Origins;
use super::outcome::{Answer, Considered, Outcome, Placed, RefusalKind, Refused, Timing, Verdict};
use super::scene::Scene;
use crate::args::Mode;

/// What the decisions depend on beside the scene.
pub struct Settings {
    /// Who allocates in the cluster.
    pub mode: Mode,
    /// The time that allocations carry.
    pub now: Timestamp,
    /// How often to take the first decision.
    pub repeat: Option<u32>,
    /// Which decisions need a word on every node: on many nodes that takes longer than deciding.
    pub explained: Explained,
}

/// Decisions of which every candidate is judged in words.
#[derive(Clone, PartialEq, Eq)]
pub enum Explained {
    None,
    /// Refused ones; where claims are given, those of them alone.
    Refused(Option<BTreeSet<ClaimRef>>),
    All,
}

impl Explained {
    fn covers(&self, decision: &Decision, is_refused: bool) -> bool {
        match self {
            Self::None => false,
            Self::Refused(None) => is_refused,
            Self::Refused(Some(claims)) => {
                is_refused && decision.claims.iter().any(|claim| claims.contains(claim))
            }
            Self::All => true,
        }
    }
}

/// Takes decisions.
pub struct Planner<'a> {
    pending: &'a Pending,
    origins: Origins<'a>,
    pods: BTreeMap<PodRef, &'a Pod>,
    scene: Scene,
    settings: Settings,
    evaluations: Evaluations,
    /// What became of the claims that were decided here.
    fates: BTreeMap<ClaimRef, Fate>,
    outcome: Outcome,
}

enum Fate {
    /// Allocated, for the nodes that the selector selects; without one, for all.
    Placed(Option<NodeSelector>),
    Refused(RefusalKind),
}

/// A decision that can be taken.
struct Prepared {
    claims: Vec<Claim>,
    candidates: Vec<Candidate>,
}

/// A settled claim that restricts the node.
struct Bound<'a> {
    claim: &'a ClaimRef,
    selector: &'a NodeSelector,
}

impl<'a> Planner<'a> {
    /// A planner for what is pending in a scene.
    pub fn new(
        pending: &'a Pending,
        origins: Origins<'a>,
        pods: &'a [Pod],
        scene: Scene,
        settings: Settings,
    ) -> Self {
        Self {
            pending,
            origins,
            pods: pods.iter().map(|pod| (PodRef::of(&pod.metadata), pod)).collect(),
            scene,
            settings,
            evaluations: Evaluations::default(),
            fates: BTreeMap::new(),
            outcome: Outcome::default(),
        }
    }

    /// Takes all decisions.
    pub fn run(mut self) -> anyhow::Result<Outcome> {
        self.outcome.timing = self.measure();
        for decision in &self.pending.decisions {
            self.take(decision)?;
        }
        for refusal in &self.pending.refused {
            let refused =
                Refused { kind: RefusalKind::Error, reason: self.origins.refusal(refusal) };
            self.refuse(refusal.pod.as_ref(), vec![refusal.claim.clone()], refused);
        }
        Ok(self.outcome)
    }

    /// Takes the first decision that can be taken again and again; nothing is reserved.
    fn measure(&mut self) -> Option<Timing> {
        let repeat = self.settings.repeat?;
        let decisions = self.pending.decisions.iter();
        let prepared = decisions.into_iter().find_map(|decision| {
            let claims = self.parse(decision).ok()?;
            let candidates = self.candidates(decision, &[]);
            Some(Prepared { claims, candidates })
        })?;
        let claims: Vec<&Claim> = prepared.claims.iter().collect();
        let mut durations = Vec::new();
        for _ in 0..repeat {
            let start = Instant::now();
            let (cluster, candidates) = (&self.scene.cluster, &prepared.candidates);
            decide(cluster, &mut self.evaluations, &claims, candidates, SEARCH_BUDGET).ok()?;
            durations.push(start.elapsed());
        }
        Timing::of(durations)
    }

    fn take(&mut self, decision: &Decision) -> anyhow::Result<()> {
        let pod = decision.pod.as_ref();
        let prepared = match self.prepare(decision) {
            Ok(prepared) => prepared,
            Err(refusals) => {
                for (claims, refused) in refusals {
                    self.refuse(pod, claims, refused);
                }
                return Ok(());
            }
        };
        let claims: Vec<&Claim> = prepared.claims.iter().collect();
        let (cluster, candidates) = (&self.scene.cluster, &prepared.candidates);
        let decided =
            match decide(cluster, &mut self.evaluations, &claims, candidates, SEARCH_BUDGET) {
                Ok(decided) => decided,
                Err(error) => {
                    let refused = Refused { kind: RefusalKind::Error, reason: error.to_string() };
                    self.refuse(pod, decision.claims.clone(), refused);
                    return Ok(());
                }
            };
        let is_explained = self.settings.explained.covers(decision, decided.chosen.is_none());
        let considered = if is_explained { self.considered(&decided) } else { Vec::new() };
        let answer = match &decided.chosen {
            None => Answer::Refused(self.refusal(decision, &decided)),
            Some((name, grant)) => {
                let allocations = self.reserve(&claims, &decided, (name, grant))?;
                let (node, optimal) = (name.clone(), decided.optimal);
                let claims = self.allocated(&decision.claims, &allocations);
                Answer::Placed(Placed { node, claims, allocations, optimal })
            }
        };
        self.conclude(Verdict {
            pod: decision.pod.clone(),
            claims: decision.claims.clone(),
            answer,
            considered,
        });
        Ok(())
    }

    /// Parses the claims and lists the candidates, or says who is refused and why.
    fn prepare(&mut self, decision: &Decision) -> Result<Prepared, Vec<(Vec<ClaimRef>, Refused)>> {
        let claims = self.parse(decision)?;
        let refuse_all = |kind, reason| vec![(decision.claims.clone(), Refused { kind, reason })];
        let unit =
            |request: &lanemate_driver::claim::Request| matches!(request.wants, Wants::Unit(_));
        let mut requests = claims.iter().flat_map(|claim| &claim.requests);
        if self.settings.mode == Mode::Scheduler
            && let Some(request) = requests.find(|request| unit(request))
        {
            let reason = format!(
                "mode scheduler: kube-scheduler cannot satisfy ResourceClass {:?}; only our \
                 controller can",
                request.class.name
            );
            return Err(refuse_all(RefusalKind::NoFit, reason));
        }
        let bounds = self.bounds(decision).map_err(|(kind, reason)| refuse_all(kind, reason))?;
        let candidates = self.candidates(decision, &bounds);
        Ok(Prepared { claims, candidates })
    }

    /// The claims of a decision; one that is wrong takes the others with it.
    fn parse(&mut self, decision: &Decision) -> Result<Vec<Claim>, Vec<(Vec<ClaimRef>, Refused)>> {
        let (mut claims, mut faults) = (Vec::new(), Vec::new());
        let pod = decision.pod.as_ref().and_then(|pod| self.pods.get(pod)).copied();
        for name in &decision.claims {
            let Some(object) = self.pending.claims.get(name) else { continue };
            match Claim::parse(object, &mut self.scene.classes) {
                Ok(claim) => claims.push(claim),
                Err(error) => faults.push((name, self.origins.explain(object, pod, &error))),
            }
        }
        let Some((first, _)) = faults.first() else { return Ok(claims) };
        let because = format!("claim {first} of the same pod cannot be decided");
        let refusals = decision.claims.iter().map(|name| {
            let own = faults.iter().find(|(faulty, _)| *faulty == name);
            let reason = own.map_or_else(|| because.clone(), |(_, reason)| reason.clone());
            (vec![name.clone()], Refused { kind: RefusalKind::Error, reason })
        });
        Err(refusals.collect())
    }

    /// The pod's claims that are settled already and restrict the node.
    fn bounds<'s>(
        &'s self,
        decision: &'s Decision,
    ) -> Result<Vec<Bound<'s>>, (RefusalKind, String)> {
        let mut bounds = Vec::new();
        for claim in &decision.settled {
            let selector = match self.fates.get(claim) {
                Some(Fate::Refused(kind)) => {
                    let reason = format!("claim {claim}, which the pod needs too, is refused");
                    return Err((*kind, reason));
                }
                Some(Fate::Placed(selector)) => selector.as_ref(),
                None => self
                    .pending
                    .claims
                    .get(claim)
                    .and_then(allocation_of)
                    .and_then(|allocation| allocation.node_selector.as_ref()),
            };
            bounds.extend(selector.map(|selector| Bound { claim, selector }));
        }
        Ok(bounds)
    }

    fn candidates(&self, decision: &Decision, bounds: &[Bound<'_>]) -> Vec<Candidate> {
        let pod = decision.pod.as_ref().and_then(|pod| self.pods.get(pod)).copied();
        let candidate = |(name, view): (&String, &NodeView)| Candidate {
            name: name.clone(),
            unfit: unfit(pod, bounds, view),
        };
        self.scene.nodes.iter().map(candidate).collect()
    }

    fn considered(&self, decided: &allocation::Decision) -> Vec<Considered> {
        let considered = decided.answers.iter().map(|(name, answer)| {
            let rank = match (answer, self.scene.cluster.node(name)) {
                (allocation::Answer::Fits(grant), Some(node)) => Ok(Rank::of(node, grant)),
                _ => {
                    let reason = decided.reason(&self.scene.cluster, name, answer);
                    Err(reason.unwrap_or_default())
                }
            };
            Considered { node: name.clone(), rank }
        });
        considered.collect()
    }

    /// Why no candidate was chosen; what a person has to mend is named with its file.
    fn refusal(&self, decision: &Decision, decided: &allocation::Decision) -> Refused {
        if self.scene.nodes.is_empty() {
            let reason = "there is no node: expected a Node or a ResourceSlice, or --host FILE";
            return Refused { kind: RefusalKind::NoFit, reason: reason.to_owned() };
        }
        let mut reason = decided.summary(&self.scene.cluster);
        if decided.failed() {
            let pod = decision.pod.as_ref().and_then(|pod| self.pods.get(pod)).copied();
            if let [only] = decision.claims.as_slice()
                && let Some(claim) = self.pending.claims.get(only)
                && let Some(place) = self.origins.claim(claim, pod)
            {
                reason = format!("{place}: {reason}");
            }
            return Refused { kind: RefusalKind::Error, reason };
        }
        let left_out: Vec<&str> = self.scene.left_out.iter().map(String::as_str).collect();
        if !left_out.is_empty() && decided.answers.iter().all(|(_, answer)| lacks_devices(answer)) {
            let drivers = left_out.join(", ");
            reason += &format!("; devices of {drivers} take part only with --any-driver");
        }
        Refused { kind: RefusalKind::NoFit, reason }
    }

    fn reserve(
        &mut self,
        claims: &[&Claim],
        decided: &allocation::Decision,
        (name, grant): (&str, &allocation::Grant),
    ) -> anyhow::Result<Vec<Allocation>> {
        let Some(node) = self.scene.cluster.node(name) else {
            bail!("node {name} was chosen, but does not exist");
        };
        let now = Some(Time(self.settings.now));
        let allocations = allocations(claims, &decided.problem, grant, (name, node), now)?;
        for (claim, allocation) in claims.iter().zip(&allocations) {
            let results = allocation.result.devices.iter();
            let results = results.flat_map(|devices| devices.results.iter().flatten());
            let devices: Vec<_> = results.map(device_of).collect();
            if let Some((_, _, device)) =
                self.scene.cluster.reserve(&claim.full_name(), &devices).first()
            {
                bail!("device {device} of node {name} was granted, but another claim holds it");
            }
        }
        Ok(allocations)
    }

    /// The claims as they are, with `status.allocation`.
    fn allocated(&self, names: &[ClaimRef], allocations: &[Allocation]) -> Vec<ResourceClaim> {
        let objects = names.iter().filter_map(|name| self.pending.claims.get(name));
        let allocated = objects.zip(allocations).map(|(claim, allocation)| {
            let mut claim = claim.clone();
            let status = claim.status.get_or_insert_with(ResourceClaimStatus::default);
            status.allocation = Some(allocation.result.clone());
            claim
        });
        allocated.collect()
    }

    fn refuse(&mut self, pod: Option<&PodRef>, claims: Vec<ClaimRef>, refused: Refused) {
        let (answer, considered) = (Answer::Refused(refused), Vec::new());
        self.conclude(Verdict { pod: pod.cloned(), claims, answer, considered });
    }

    fn conclude(&mut self, verdict: Verdict) {
        for (index, claim) in verdict.claims.iter().enumerate() {
            let fate = match &verdict.answer {
                Answer::Refused(refused) => Fate::Refused(refused.kind),
                Answer::Placed(placed) => {
                    let allocation = placed.allocations.get(index);
                    Fate::Placed(allocation.and_then(|a| a.result.node_selector.clone()))
                }
            };
            self.fates.insert(claim.clone(), fate);
        }
        self.outcome.verdicts.push(verdict);
    }
}

/// Devices of other drivers might help.
fn lacks_devices(answer: &allocation::Answer) -> bool {
    match answer {
        allocation::Answer::Short(shortage) => matches!(**shortage, Shortage::Devices { .. }),
        allocation::Answer::Empty | allocation::Answer::Unfit(_) => true,
        allocation::Answer::Failed(_) | allocation::Answer::Fits(_) => false,
    }
}

/// Why a pod cannot run on a node.
fn unfit(pod: Option<&Pod>, bounds: &[Bound<'_>], view: &NodeView) -> Option<String> {
    if let Some(Err(unfit)) = pod.map(|pod| fits(pod, view)) {
        return Some(unfit.reason);
    }
    let elsewhere = bounds.iter().find(|bound| !node_selector_matches(bound.selector, view))?;
    Some(format!("its claim {} is allocated for another node", elsewhere.claim))
}
