//! `plan -o json`: the field names are a contract with users; unknown things are absent.

use lanemate_api::{AllocatedUnit, PathClass};
use lanemate_driver::allocation::{Allocation, Rank};
use serde::Serialize;

use super::outcome::{Considered, Outcome, Placed, RefusalKind, Refused, Timing, Verdict};

/// The whole answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    allocations: Vec<AllocationReport>,
    refused: Vec<RefusedReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    considered: Vec<ConsideredReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timing: Option<TimingReport>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AllocationReport {
    claim: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<String>,
    node: String,
    results: Vec<ResultReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    units: Vec<UnitReport>,
    optimal: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResultReport {
    request: String,
    driver: String,
    pool: String,
    device: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UnitReport {
    devices: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<PathClass>,
    #[serde(skip_serializing_if = "Option::is_none")]
    via: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RefusedReport {
    claim: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<String>,
    kind: &'static str,
    reason: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<NodeReason>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeReason {
    node: String,
    reason: String,
}

/// With `--explain`: every node that one decision looked at.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConsideredReport {
    claims: Vec<String>,
    nodes: Vec<NodeReport>,
}

/// A node's rank, or why it does not fit.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeReport {
    node: String,
    chosen: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<RankReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RankReport {
    wishes_within: u32,
    wishes_across: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    worst_class: Option<PathClass>,
    rank_sum: u32,
    switch_hops: u32,
    nics_left: usize,
    gpus_left: usize,
    groups_broken: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TimingReport {
    decisions: usize,
    min_ns: u64,
    median_ns: u64,
    p99_ns: u64,
}

impl Report {
    /// The answer in JSON's words; `explain` adds what was considered.
    pub fn of(outcome: &Outcome, explain: bool) -> Self {
        let placed = outcome.placed().flat_map(|(verdict, placed)| allocations(verdict, placed));
        let refused = outcome.refused().flat_map(|(verdict, refused)| refusals(verdict, refused));
        let looked_at = outcome.verdicts.iter().filter(|verdict| !verdict.considered.is_empty());
        Self {
            allocations: placed.collect(),
            refused: refused.collect(),
            considered: looked_at.filter(|_| explain).map(considered).collect(),
            timing: outcome.timing.as_ref().map(timing),
        }
    }
}

fn allocations(verdict: &Verdict, placed: &Placed) -> Vec<AllocationReport> {
    let claims = verdict.claims.iter().zip(&placed.allocations);
    let report = |(claim, allocation): (&_, &Allocation)| AllocationReport {
        claim: ToString::to_string(claim),
        pod: verdict.pod.as_ref().map(ToString::to_string),
        node: placed.node.clone(),
        results: results(allocation),
        units: allocation.units.iter().map(unit).collect(),
        optimal: placed.optimal,
    };
    claims.map(report).collect()
}

fn results(allocation: &Allocation) -> Vec<ResultReport> {
    let results = allocation.result.devices.iter();
    let results = results.flat_map(|devices| devices.results.iter().flatten());
    let report = |result: &k8s_openapi::api::resource::v1::DeviceRequestAllocationResult| {
        let (request, driver) = (result.request.clone(), result.driver.clone());
        ResultReport { request, driver, pool: result.pool.clone(), device: result.device.clone() }
    };
    results.map(report).collect()
}

fn unit(unit: &AllocatedUnit) -> UnitReport {
    UnitReport {
        devices: unit.devices.iter().map(|device| device.device.clone()).collect(),
        class: unit.class,
        via: unit.via.clone(),
    }
}

fn refusals(verdict: &Verdict, refused: &Refused) -> Vec<RefusedReport> {
    let kind = match refused.kind {
        RefusalKind::NoFit => "noFit",
        RefusalKind::Error => "error",
    };
    let reasons = verdict.considered.iter().filter_map(|considered| {
        let reason = considered.rank.as_ref().err()?.clone();
        Some((considered.node.clone(), reason))
    });
    let reasons: Vec<_> = reasons.collect();
    let report = |claim: String| RefusedReport {
        claim,
        pod: verdict.pod.as_ref().map(ToString::to_string),
        kind,
        reason: refused.reason.clone(),
        nodes: reasons
            .iter()
            .map(|(node, reason)| NodeReason { node: node.clone(), reason: reason.clone() })
            .collect(),
    };
    verdict.claim_names().into_iter().map(report).collect()
}

fn considered(verdict: &Verdict) -> ConsideredReport {
    let node = |considered: &Considered| NodeReport {
        node: considered.node.clone(),
        chosen: verdict.chosen() == Some(considered.node.as_str()),
        rank: considered.rank.as_ref().ok().map(rank),
        reason: considered.rank.as_ref().err().cloned(),
    };
    ConsideredReport {
        claims: verdict.claim_names(),
        nodes: verdict.considered.iter().map(node).collect(),
    }
}

fn rank(rank: &Rank) -> RankReport {
    RankReport {
        wishes_within: rank.wishes.0.within,
        wishes_across: rank.wishes.0.across,
        worst_class: worst_class(rank),
        rank_sum: rank.rating.sum,
        switch_hops: rank.rating.hops,
        nics_left: rank.nics_left,
        gpus_left: rank.gpus_left,
        groups_broken: rank.groups_broken,
    }
}

/// The farthest rated pair's class; without any pair the sums are all 0 as well.
pub fn worst_class(rank: &Rank) -> Option<PathClass> {
    let rating = rank.rating;
    let rated = rating.sum > 0 || rating.hops > 0;
    PathClass::ALL.into_iter().find(|class| rated && class.rank() == rating.worst)
}

fn timing(timing: &Timing) -> TimingReport {
    let nanos = |duration: std::time::Duration| u64::try_from(duration.as_nanos());
    TimingReport {
        decisions: timing.decisions,
        min_ns: nanos(timing.min).unwrap_or(u64::MAX),
        median_ns: nanos(timing.median).unwrap_or(u64::MAX),
        p99_ns: nanos(timing.p99).unwrap_or(u64::MAX),
    }
}
