//! One claim, from what was read and decided.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{DeviceRequestAllocationResult, ResourceClaim};
use lanemate_driver::allocation::device_of;
use lanemate_driver::claim::allocated::AllocatedClaim;
use lanemate_driver::pending::{ClaimRef, PodRef, allocation_of};

use lanemate_api::names;

use super::subject::{Target, entries, find};
use super::{DeviceReport, Explanation, NodesReason, PodReport, State, UnitReport};
use crate::cluster::devices::Devices;
use crate::cluster::leader::Leader;
use crate::cluster::read::Seen;
use crate::plan::outcome::{Answer, Outcome, Verdict};

/// Everything that an explanation is made of.
pub struct Facts<'a> {
    pub seen: &'a Seen,
    pub devices: &'a Devices,
    pub outcome: &'a Outcome,
    pub controller: &'a Leader,
}

impl Facts<'_> {
    /// Explains one claim.
    pub fn explain(&self, target: &Target) -> Explanation {
        let mut explanation =
            Explanation { claim: target.claim.to_string(), ..Explanation::default() };
        let pods = self.users(target);
        explanation.pods = pods.iter().map(|pod| pod_report(pod)).collect();
        explanation.subjects = pods
            .iter()
            .filter_map(|pod| Some((target.claim.namespace.clone(), pod.metadata.uid.clone()?)))
            .collect();
        let claim = find(&self.seen.objects, &target.claim);
        if let Some(uid) = claim.and_then(|claim| claim.metadata.uid.clone()) {
            explanation.subjects.push((target.claim.namespace.clone(), uid));
        }
        match claim {
            Some(claim) if allocation_of(claim).is_some() => self.sits(claim, &mut explanation),
            Some(claim) if claim.metadata.deletion_timestamp.is_some() => {
                explanation.state = State::Deleting;
                explanation.reason = Some("it is being deleted, and gets no devices".to_owned());
            }
            Some(_) => self.waits(target, &mut explanation),
            None => {
                self.waits(target, &mut explanation);
                explanation.state = State::NotMade;
            }
        }
        explanation
    }

    /// Unfinished pods that name the claim.
    fn users(&self, target: &Target) -> Vec<&Pod> {
        let uses = |pod: &&Pod| {
            let name = PodRef::of(&pod.metadata);
            let is_for_it = target.to_be_made.as_ref().is_some_and(|(pod, _)| *pod == name);
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            let is_over = matches!(phase, Some("Succeeded" | "Failed"));
            let names_it = || {
                let claims = entries(pod).into_iter().filter_map(|(_, claim)| claim);
                name.namespace == target.claim.namespace
                    && claims.into_iter().any(|claim| claim == target.claim.name)
            };
            !is_over && (is_for_it || names_it())
        };
        self.seen.objects.pods.iter().filter(uses).collect()
    }

    fn sits(&self, claim: &ResourceClaim, explanation: &mut Explanation) {
        explanation.state = State::Allocated;
        let allocation = allocation_of(claim);
        let results = allocation.and_then(|allocation| allocation.devices.as_ref());
        let results = results.into_iter().flat_map(|devices| devices.results.iter().flatten());
        explanation.devices =
            results.map(|result| self.device(result, &explanation.claim)).collect();
        let pool = explanation.devices.first().map(|device| device.pool.clone());
        let id = allocation.and_then(|allocation| {
            device_of(allocation.devices.as_ref()?.results.as_ref()?.first()?).into()
        });
        let offered = id.and_then(|id| self.devices.get(&id)?.node.clone());
        explanation.node = offered.or(pool);
        let parsed = AllocatedClaim::parse(claim);
        let units = parsed.iter().flat_map(|claim| &claim.units);
        explanation.units = units
            .map(|unit| UnitReport {
                devices: unit.devices.iter().map(|device| device.device.clone()).collect(),
                class: unit.class,
                via: unit.via.clone(),
            })
            .collect();
        let reserved = claim.status.iter().flat_map(|status| status.reserved_for.iter().flatten());
        explanation.reserved_for =
            reserved.map(|user| format!("{}/{}", user.resource, user.name)).collect();
    }

    fn device(&self, result: &DeviceRequestAllocationResult, claim: &str) -> DeviceReport {
        let facts = self.devices.get(&device_of(result));
        let on_node = facts.iter().flat_map(|facts| &facts.on_node);
        let own = on_node.clone().find(|(holder, _)| holder == claim);
        let others = on_node.map(|(holder, _)| holder);
        let mut also: Vec<String> = others
            .chain(facts.iter().flat_map(|facts| &facts.claims))
            .filter(|holder| *holder != claim && result.admin_access != Some(true))
            .cloned()
            .collect();
        also.sort();
        also.dedup();
        DeviceReport {
            request: result.request.clone(),
            pool: result.pool.clone(),
            device: result.device.clone(),
            pci: facts.and_then(|facts| facts.pci.clone()),
            on_node: own.map(|(_, state)| state.as_str()),
            also_held_by: also,
            is_gone: result.driver == lanemate_api::names::DRIVER
                && facts.is_none_or(|facts| facts.node.is_none()),
        }
    }

    fn waits(&self, target: &Target, explanation: &mut Explanation) {
        let verdict = self.verdict(target);
        if let Some(verdict) = verdict {
            explanation.nodes = grouped(verdict);
        }
        explanation.reason = Some(self.why(target, verdict, explanation));
    }

    fn verdict(&self, target: &Target) -> Option<&Verdict> {
        let name: &ClaimRef = &target.claim;
        let by_claim = |verdict: &&Verdict| verdict.claims.contains(name);
        self.outcome.verdicts.iter().find(by_claim)
    }

    /// The first thing that keeps it waiting.
    fn why(&self, target: &Target, verdict: Option<&Verdict>, explanation: &Explanation) -> String {
        let gates = explanation.pods.iter().flat_map(|pod| &pod.gates);
        let others: Vec<&str> =
            gates.map(String::as_str).filter(|gate| *gate != names::PLACEMENT_GATE).collect();
        if explanation.pods.is_empty() {
            return "no unfinished pod names it: a claim gets its devices with its first pod"
                .to_owned();
        }
        if !others.is_empty() {
            return format!(
                "its pod has the scheduling gate {}: nothing is allocated before whoever put it there removes it",
                others.join(", ")
            );
        }
        match verdict.map(|verdict| &verdict.answer) {
            Some(Answer::Refused(refused)) => refused.reason.clone(),
            Some(Answer::Placed(placed)) if self.controller.is_fresh => format!(
                "it fits on node {}: the controller places it when its turn comes",
                placed.node
            ),
            Some(Answer::Placed(placed)) => format!(
                "it fits on node {}, but no controller is at work ({})",
                placed.node,
                self.controller.words()
            ),
            None => match &target.to_be_made {
                Some((_, entry)) => format!(
                    "kube-controller-manager has not made it yet, for entry {entry} of the pod"
                ),
                None => "its pod is ending, or it waits for an earlier one".to_owned(),
            },
        }
    }
}

/// Nodes by reason: the most common reason first.
fn grouped(verdict: &Verdict) -> Vec<NodesReason> {
    let mut by_reason = BTreeMap::<&str, Vec<String>>::new();
    for considered in &verdict.considered {
        if let Err(reason) = &considered.rank {
            by_reason.entry(reason).or_default().push(considered.node.clone());
        }
    }
    let mut groups: Vec<NodesReason> = by_reason
        .into_iter()
        .map(|(reason, nodes)| NodesReason { reason: reason.to_owned(), nodes })
        .collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.nodes.len()));
    groups
}

fn pod_report(pod: &Pod) -> PodReport {
    let spec = pod.spec.as_ref();
    let gates = spec.into_iter().flat_map(|spec| spec.scheduling_gates.iter().flatten());
    let status = pod.status.as_ref();
    let conditions = status.into_iter().flat_map(|status| status.conditions.iter().flatten());
    let mut unscheduled = conditions.filter(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    });
    PodReport {
        name: pod.metadata.name.clone().unwrap_or_default(),
        phase: status.and_then(|status| status.phase.clone()).unwrap_or_default(),
        node: spec.and_then(|spec| spec.node_name.clone()),
        gates: gates.map(|gate| gate.name.clone()).collect(),
        unscheduled: unscheduled.next().and_then(|condition| condition.message.clone()),
    }
}
