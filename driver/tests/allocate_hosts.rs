//! Claims on the captured machines: every decision is proved optimal within the search budget.
#![allow(clippy::unwrap_used, reason = "a fixture that does not parse fails the test")]

use k8s_openapi::api::resource::v1::AllocationResult;
use lanemate_api::validation::format::{is_dns_label, is_dns_subdomain};
use lanemate_driver::allocation::{Allocation, Cluster, DeviceId, allocations};
use lanemate_driver::claim::{Claim, Classes};
use lanemate_driver::inventory::Policy;
use lanemate_driver::machine::Machine;
use lanemate_driver::resource_slice::{Mode, RenderOptions, render};
use lanemate_driver::testing::cluster::{
    claim_value, classes, cluster_of, decided, parse, unit_class,
};
use lanemate_driver::testing::{HOSTS, host};
use lanemate_driver::topology::Override;
use serde_json::{Value, json};

/// A captured machine as a cluster of one node.
fn cluster(name: &str, with_override: bool) -> Cluster {
    let capture = host(name);
    let text = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../test/hosts/overrides/{name}.xml"));
    #[allow(clippy::disallowed_methods)]
    let xml = with_override.then(|| std::fs::read_to_string(text).unwrap());
    let parsed = xml.map(|xml| Override::parse(&xml).unwrap());
    let machine =
        Machine::read(name, &capture.host(), &capture, parsed.as_ref(), &Policy::default());
    let options = RenderOptions { mode: Mode::Controller, generation: 1 };
    cluster_of(&render(&machine.inventory, options))
}

/// Claims of every form, for `count` of them.
fn claims(count: u32) -> Vec<Claim> {
    let localities = [
        json!({}),
        json!({"within": {"required": "PXB", "preferred": "PIX"},
               "across": {"required": "SYS", "preferred": "NODE"}}),
        json!({"within": {"required": "SYS", "preferred": "PXB"}}),
        json!({"within": {"required": "NODE"}, "across": {"required": "NODE"}}),
    ];
    let mut known = classes(&[]);
    let mut all = Vec::new();
    for (number, locality) in localities.into_iter().enumerate() {
        for size in [(1, 1), (2, 1), (1, 2), (2, 2)] {
            let name = format!("u{number}-{}-{}", size.0, size.1);
            known.apply_resource_class(
                serde_json::from_value(unit_class(&name, size, locality.clone())).unwrap(),
            );
            add(&mut all, claim_value(&name, &[("u", &name, count)]), &mut known);
        }
    }
    let (gpu, nic) = ("gpu.lanemate.dev", "nic.lanemate.dev");
    add(&mut all, claim_value("gpus", &[("g", gpu, count)]), &mut known);
    add(&mut all, claim_value("nics", &[("n", nic, count)]), &mut known);
    let both = claim_value("both", &[("g", gpu, count), ("n", nic, count)]);
    add(&mut all, both.clone(), &mut known);
    for attribute in ["lanemate.dev/pcieSwitch", "resource.kubernetes.io/numaNode"] {
        let mut tied = both.clone();
        tied["metadata"]["name"] = json!(attribute);
        tied["spec"]["devices"]["constraints"] = json!([{"matchAttribute": attribute}]);
        add(&mut all, tied, &mut known);
    }
    all
}

fn add(all: &mut Vec<Claim>, claim: Value, known: &mut Classes) {
    // More than 32 devices are refused before any search.
    all.extend(parse(claim, known));
}

/// What the API server would refuse in an allocation of a claim.
fn violations(claim: &Claim, allocation: &Allocation, node: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut demand = |holds: bool, what: &str| {
        if !holds {
            found.push(format!("{}: {what}", claim.name));
        }
    };
    let devices = allocation.result.devices.clone().unwrap();
    let results = devices.results.unwrap_or_default();
    let requests: Vec<&str> = claim.requests.iter().map(|r| r.name.as_str()).collect();
    demand(!results.is_empty() && results.len() <= 32, "1 to 32 results");
    for result in &results {
        demand(requests.contains(&result.request.as_str()), "results name requests");
        demand(is_dns_subdomain(&result.driver) && result.driver.len() <= 63, "driver name");
        demand(result.pool.split('/').all(is_dns_subdomain), "pool name");
        demand(is_dns_label(&result.device), "device name");
        let tolerations = result.tolerations.as_ref().map_or(0, Vec::len);
        demand(tolerations <= 16, "at most 16 tolerations");
    }
    let config = devices.config.unwrap_or_default();
    demand(config.len() <= 64, "at most 64 configurations");
    for entry in &config {
        demand(["FromClass", "FromClaim"].contains(&entry.source.as_str()), "source");
        let named = entry.requests.clone().unwrap_or_default();
        let known = named.iter().all(|name| requests.contains(&name.as_str()));
        demand(known && named.len() <= 32, "configurations name requests");
        let parameters = &entry.opaque.as_ref().unwrap().parameters.0;
        demand(parameters.is_object(), "parameters are an object");
        demand(parameters.to_string().len() <= 10 * 1024, "parameters of at most 10 KiB");
    }
    // The one form from which the API server derives the node (resource.k8s.io, associated-node verbs).
    let selector = serde_json::to_value(&allocation.result.node_selector).unwrap();
    let wanted = json!({"nodeSelectorTerms": [{"matchFields":
        [{"key": "metadata.name", "operator": "In", "values": [node]}]}]});
    demand(selector == wanted, "nodeSelector");
    found
}

#[test]
fn allocations_stay_within_the_limits_of_the_api() {
    let mut found = Vec::new();
    let mut checked = 0;
    for name in HOSTS {
        let cluster = cluster(name, false);
        for claim in [1, 4, 8].into_iter().flat_map(claims) {
            let decision = decided(&cluster, &[&claim]);
            let Some((_, grant)) = &decision.chosen else { continue };
            let node = (name, cluster.node(name).unwrap());
            let all = allocations(&[&claim], &decision.problem, grant, node, None).unwrap();
            found.extend(violations(&claim, &all[0], name));
            let text = serde_json::to_string(&all[0].result).unwrap();
            let read: AllocationResult = serde_json::from_str(&text).unwrap();
            assert_eq!(read, all[0].result);
            checked += 1;
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(checked > 100, "{checked} allocations");
}

#[test]
fn no_captured_machine_exhausts_the_search_budget() {
    let overridden = ["aws-p4d", "azure-ndv5-h100"].map(|name| (name, true));
    let machines = HOSTS.map(|name| (name, false)).into_iter().chain(overridden);
    let mut spent = Vec::new();
    for (name, with_override) in machines {
        for hold_every in [0, 2, 3, 5] {
            let mut cluster = cluster(name, with_override);
            let node = cluster.node(name).unwrap();
            let held: Vec<DeviceId> = (0..node.layout.len())
                .filter(|position| hold_every > 0 && position % hold_every == 0)
                .map(|position| node.device_id(position))
                .collect();
            assert!(cluster.reserve("ns/other", &held).is_empty());
            for count in [1, 2, 3, 4, 8] {
                for claim in claims(count) {
                    if !decided(&cluster, &[&claim]).optimal {
                        spent.push(format!(
                            "{name} {with_override} /{hold_every}: {} x {count}",
                            claim.name
                        ));
                    }
                }
            }
        }
    }
    assert!(spent.is_empty(), "{}", spent.join("\n"));
}
