//! A grant in the words of the API: `status.allocation` of each claim, with the units it carries.

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use k8s_openapi::api::resource::v1 as resource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use lanemate_api::{AllocatedUnit, AllocatedUnits, ConfigError, DeviceRef, OpaqueConfig, names};

use crate::allocation::Node;
use crate::allocation::problem::{Owner, Problem, Rule};
use crate::allocation::solve::{Grant, GrantedSet};
use crate::claim::Claim;
use crate::ids::Kind;
use crate::pool::Reach;

/// What one claim gets.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// `status.allocation`.
    pub result: resource::AllocationResult,
    /// All units, in the order of the claim's requests.
    pub units: Vec<AllocatedUnit>,
}

/// Devices of one claim, as published positions.
struct ClaimDevices {
    by_request: Vec<Vec<usize>>,
    /// Units, with the names of the requests that they belong to.
    units: Vec<(Vec<String>, Vec<AllocatedUnit>)>,
}

/// The allocations of the claims that were decided together.
///
/// # Errors
/// When the units do not encode, which no grant causes.
pub fn allocations(
    claims: &[&Claim],
    problem: &Problem,
    grant: &Grant,
    (name, node): (&str, &Node),
    now: Option<Time>,
) -> Result<Vec<Allocation>, ConfigError> {
    let mut devices: Vec<ClaimDevices> = claims
        .iter()
        .map(|claim| ClaimDevices {
            by_request: vec![Vec::new(); claim.requests.len()],
            units: Vec::new(),
        })
        .collect();
    for (item, sets) in problem.items.iter().zip(&grant.sets) {
        let mut sets = sets.iter();
        for owner in &item.owners {
            let own: Vec<&GrantedSet> = sets.by_ref().take(owner.count as usize).collect();
            hand_out(claims, node, (owner, &item.rule), &own, &mut devices[owner.claim]);
        }
    }
    let claims = claims.iter().zip(devices);
    claims.map(|(claim, devices)| allocation(claim, devices, (name, node), now.clone())).collect()
}

fn hand_out(
    claims: &[&Claim],
    node: &Node,
    (owner, rule): (&Owner, &Rule),
    sets: &[&GrantedSet],
    devices: &mut ClaimDevices,
) {
    for set in sets {
        for (request, part) in owner.requests.iter().zip(set.iter()) {
            devices.by_request[*request].extend(part);
        }
    }
    match rule {
        Rule::Unit { .. } => {
            let claim = claims[owner.claim];
            let mut requests: Vec<String> = owner
                .requests
                .iter()
                .map(|request| claim.requests[*request].name.clone())
                .collect();
            requests.dedup();
            devices.units.push((requests, sets.iter().map(|set| unit(node, set)).collect()));
        }
        Rule::Loose(_) => {
            owner.requests.iter().for_each(|request| devices.by_request[*request].sort_unstable());
        }
    }
}

fn unit(node: &Node, set: &GrantedSet) -> AllocatedUnit {
    let layout = &node.layout;
    let devices: Vec<usize> = set.iter().flatten().copied().collect();
    let of_kind = |kind: Kind| devices.iter().filter(move |d| layout.kinds[**d] == Some(kind));
    let pairs = of_kind(Kind::Gpu).flat_map(|g| of_kind(Kind::Nic).map(move |n| (*g, *n)));
    // The farthest pair meets at the deepest switch that all of them share.
    let farthest = pairs.max_by_key(|(g, n)| layout.nearness(*g, *n));
    let path = farthest.map(|(g, n)| layout.path(g, n));
    let device = |position: &usize| {
        let (driver, pool, device) = node.device_id(*position);
        DeviceRef { driver, pool, device }
    };
    AllocatedUnit {
        devices: devices.iter().map(device).collect(),
        class: path.as_ref().map(|path| path.class),
        via: path.and_then(|path| path.via),
    }
}

fn allocation(
    claim: &Claim,
    devices: ClaimDevices,
    (name, node): (&str, &Node),
    now: Option<Time>,
) -> Result<Allocation, ConfigError> {
    let mut results = Vec::new();
    for (request, positions) in claim.requests.iter().zip(&devices.by_request) {
        for position in positions {
            let (driver, pool, device) = node.device_id(*position);
            results.push(resource::DeviceRequestAllocationResult {
                request: request.name.clone(),
                driver,
                pool,
                device,
                tolerations: Some(request.tolerations.clone()).filter(|list| !list.is_empty()),
                ..Default::default()
            });
        }
    }
    let mut config = class_config(claim);
    config.extend(claim_config(claim));
    for (requests, units) in &devices.units {
        config.extend(units_config(requests, units)?);
    }
    let positions: Vec<usize> = devices.by_request.into_iter().flatten().collect();
    let result = resource::AllocationResult {
        devices: Some(resource::DeviceAllocationResult {
            results: Some(results).filter(|list| !list.is_empty()),
            config: Some(config).filter(|list| !list.is_empty()),
        }),
        node_selector: node_selector(name, node, &positions),
        allocation_timestamp: now,
    };
    let units = devices.units.into_iter().flat_map(|(_, units)| units).collect();
    Ok(Allocation { result, units })
}

/// Configuration of the classes, each where it is first used, for the requests that use it.
fn class_config(claim: &Claim) -> Vec<resource::DeviceAllocationConfiguration> {
    let mut config = Vec::new();
    for (index, request) in claim.requests.iter().enumerate() {
        let class = &request.class;
        let uses = |other: &&crate::claim::Request| other.class.name == class.name;
        if claim.requests[..index].iter().any(|other| uses(&other)) {
            continue;
        }
        let users: Vec<_> = claim.requests.iter().filter(uses).map(|r| r.name.clone()).collect();
        for entry in &class.config {
            config.push(resource::DeviceAllocationConfiguration {
                opaque: entry.opaque.clone(),
                requests: scope(&users, claim),
                source: "FromClass".to_owned(),
            });
        }
    }
    config
}

/// Configuration of the claim, as written.
fn claim_config(claim: &Claim) -> Vec<resource::DeviceAllocationConfiguration> {
    let entries = claim.config.iter().map(|entry| resource::DeviceAllocationConfiguration {
        opaque: entry.opaque.clone(),
        requests: entry.requests.as_ref().and_then(|requests| scope(requests, claim)),
        source: "FromClaim".to_owned(),
    });
    entries.collect()
}

/// The requests that an entry names; none when it covers all.
fn scope(requests: &[String], claim: &Claim) -> Option<Vec<String>> {
    let covers_all = claim.requests.iter().all(|request| requests.contains(&request.name));
    (!covers_all && !requests.is_empty()).then(|| requests.to_vec())
}

/// Bytes of opaque parameters that the API server accepts (`OpaqueParametersMaxLength`).
const MAX_PARAMETERS: usize = 10 * 1024;

/// One entry for the units of a request or Placement; more only where long names make it too large for the API server.
fn units_config(
    requests: &[String],
    units: &[AllocatedUnit],
) -> Result<Vec<resource::DeviceAllocationConfiguration>, ConfigError> {
    let config = AllocatedUnits { units: units.to_vec() };
    let parameters = OpaqueConfig::AllocatedUnits(config).encode()?;
    if parameters.to_string().len() > MAX_PARAMETERS && units.len() > 1 {
        let (first, second) = units.split_at(units.len() / 2);
        let mut entries = units_config(requests, first)?;
        entries.extend(units_config(requests, second)?);
        return Ok(entries);
    }
    Ok(vec![resource::DeviceAllocationConfiguration {
        opaque: Some(resource::OpaqueDeviceConfiguration {
            driver: names::DRIVER.to_owned(),
            parameters: RawExtension(parameters),
        }),
        requests: Some(requests.to_vec()),
        source: "FromClass".to_owned(),
    }])
}

/// The nodes where the devices can be used: this one as soon as a device is local to it, else those that all selectors
/// select; none means every node.
fn node_selector(name: &str, node: &Node, positions: &[usize]) -> Option<NodeSelector> {
    let mut expressions: Vec<NodeSelectorRequirement> = Vec::new();
    let mut fields: Vec<NodeSelectorRequirement> = Vec::new();
    for position in positions {
        match &node.layout.devices[*position].reach {
            Reach::Local => return Some(only_node(name)),
            Reach::AllNodes => {}
            Reach::Selected(selector) => {
                let terms = selector.node_selector_terms.iter();
                for term in terms {
                    merge(&mut expressions, term.match_expressions.as_deref());
                    merge(&mut fields, term.match_fields.as_deref());
                }
            }
        }
    }
    if expressions.is_empty() && fields.is_empty() {
        return None;
    }
    let term = NodeSelectorTerm {
        match_expressions: Some(expressions).filter(|list| !list.is_empty()),
        match_fields: Some(fields).filter(|list| !list.is_empty()),
    };
    Some(NodeSelector { node_selector_terms: vec![term] })
}

fn merge(known: &mut Vec<NodeSelectorRequirement>, more: Option<&[NodeSelectorRequirement]>) {
    for requirement in more.unwrap_or_default() {
        if !known.contains(requirement) {
            known.push(requirement.clone());
        }
    }
}

/// Exactly the form from which the API server derives the node of a claim.
fn only_node(name: &str) -> NodeSelector {
    let requirement = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![name.to_owned()]),
    };
    let term = NodeSelectorTerm { match_expressions: None, match_fields: Some(vec![requirement]) };
    NodeSelector { node_selector_terms: vec![term] }
}
