//! Claims against the answers of the upstream allocator: every case in `test/cases`.
//!
//! What fits upstream has to fit here, with the same selector, the same configuration and as many results. What is not
//! supported yet has to be refused by name.
#![allow(clippy::disallowed_methods, reason = "the cases are files")]
#![allow(clippy::unwrap_used, reason = "a case that does not parse fails the test")]

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::Node as NodeObject;
use k8s_openapi::api::resource::v1 as resource;
use lanemate_driver::allocation::{
    Allocation, Cluster, Decision, Evaluations, SEARCH_BUDGET, allocations, decide, node::Candidate,
};
use lanemate_driver::claim::{Claim, ClaimError, Classes};
use lanemate_driver::node_fit::{NodeView, node_selector_matches};
use lanemate_driver::pool::Slices;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Where we differ on purpose, and why.
const DIFFERENT: [(&str, &str); 7] = [
    ("missing-key-error", ONE_DEVICE),
    ("missing-key-second-node", ONE_DEVICE),
    ("missing-key-all-nodes", ONE_DEVICE),
    ("cel-quantity-missing", ONE_DEVICE),
    ("claim-already-allocated", "a claim that is allocated already is left as it is"),
    ("match-list-gate-on", "lists match nothing but themselves, as with their (alpha) gate off"),
    ("match-unknown-request", "the API server would not store such a claim"),
];

const ONE_DEVICE: &str = "a selector that fails on a device makes that device of no use, not all";

/// How a case ends.
enum Answer {
    Fits(Vec<Allocation>),
    Refused(String),
    Failed(String),
    Unsupported(String),
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fits(_) => f.write_str("fits"),
            Self::Refused(reason) => write!(f, "refused: {reason}"),
            Self::Failed(reason) => write!(f, "failed: {reason}"),
            Self::Unsupported(reason) => write!(f, "unsupported: {reason}"),
        }
    }
}

#[test]
fn what_fits_upstream_fits_here_and_the_rest_is_refused() {
    let mut wrong = Vec::new();
    let mut unsupported: BTreeMap<String, usize> = BTreeMap::new();
    let mut compared = 0;
    for name in case_names() {
        let expected = read(&format!("{name}.expected.json"));
        let differs = DIFFERENT.iter().any(|(known, _)| *known == name);
        let complaint = match answer(&read(&format!("{name}.json"))) {
            Answer::Unsupported(what) => {
                let family = name.split('-').next().unwrap_or_default().to_owned();
                *unsupported.entry(family).or_default() += 1;
                let named = what.contains("not supported yet").then_some(());
                named.is_none().then(|| format!("refused without a name: {what}"))
            }
            answer => {
                compared += 1;
                compare(&answer, &expected)
            }
        };
        match (complaint, differs) {
            (Some(text), false) => wrong.push(format!("{name}: {text}")),
            (None, true) => wrong.push(format!("{name}: no difference any more")),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared >= 100, "{compared} cases compared");
    let families: Vec<&str> = unsupported.keys().map(String::as_str).collect();
    assert_eq!(
        families,
        [
            "admin", "all", "config", "counter", "distinct", "first", "ordinary", "pool", "sel",
            "share"
        ]
    );
}

fn compare(answer: &Answer, expected: &Value) -> Option<String> {
    let fits = expected["fit"] == Value::Bool(true);
    let fatal = expected["errorKind"] == "fatal";
    match answer {
        Answer::Fits(allocations) if fits => differences(allocations, expected),
        Answer::Refused(_) if !fits && !fatal => None,
        Answer::Failed(_) if fatal => None,
        other => {
            let upstream = expected.get("error").unwrap_or(&expected["fit"]);
            Some(format!("{other}, upstream {upstream}"))
        }
    }
}

fn differences(allocations: &[Allocation], expected: &Value) -> Option<String> {
    for (index, allocation) in allocations.iter().enumerate() {
        let ours = serde_json::to_value(&allocation.result).unwrap();
        let results = |results: &Value| -> Vec<(Value, Value)> {
            let list = results.as_array().cloned().unwrap_or_default();
            list.iter().map(|r| (r["request"].clone(), r["tolerations"].clone())).collect()
        };
        let (ours_results, theirs) =
            (results(&ours["devices"]["results"]), results(&expected["results"][index]));
        if ours_results != theirs {
            return Some(format!("results {ours_results:?}, upstream {theirs:?}"));
        }
        let (config, theirs) = (&ours["devices"]["config"], &expected["configs"][index]);
        if config != theirs {
            return Some(format!("config {config}, upstream {theirs}"));
        }
        let (selector, theirs) = (&ours["nodeSelector"], &expected["nodeSelectors"][index]);
        if selector != theirs {
            return Some(format!("nodeSelector {selector}, upstream {theirs}"));
        }
    }
    None
}

fn answer(case: &Value) -> Answer {
    let slices: Vec<resource::ResourceSlice> = typed_list(&case["slices"]);
    let nodes: Vec<NodeObject> = nodes(case);
    let mut classes = Classes::default();
    let defined: Vec<resource::DeviceClass> = typed_list(&case["classes"]);
    defined.into_iter().for_each(|class| classes.apply_device_class(class));
    let cluster = match cluster(&slices, &nodes, case) {
        Ok(cluster) => cluster,
        Err(reason) => return Answer::Failed(reason),
    };
    let pending: Vec<resource::ResourceClaim> = typed_list(&case["claims"]);
    let is_pending = |claim: &&resource::ResourceClaim| {
        claim.status.as_ref().is_none_or(|status| status.allocation.is_none())
    };
    let mut claims = Vec::new();
    for claim in pending.iter().filter(is_pending) {
        match Claim::parse(claim, &mut classes) {
            Ok(claim) => claims.push(claim),
            Err(error @ ClaimError::Unsupported { .. }) => {
                return Answer::Unsupported(error.to_string());
            }
            Err(error) => return Answer::Failed(error.to_string()),
        }
    }
    let claims: Vec<&Claim> = claims.iter().collect();
    let candidates: Vec<Candidate> = nodes
        .iter()
        .map(|node| Candidate { name: node.metadata.name.clone().unwrap(), unfit: None })
        .collect();
    let mut evaluations = Evaluations::default();
    let decision = decide(&cluster, &mut evaluations, &claims, &candidates, SEARCH_BUDGET).unwrap();
    conclude(&cluster, &claims, &decision)
}

fn conclude(cluster: &Cluster, claims: &[&Claim], decision: &Decision) -> Answer {
    let Some((name, grant)) = &decision.chosen else {
        let reason = decision.summary(cluster);
        return match reason {
            reason if decision.failed() => Answer::Failed(reason),
            reason if reason.contains("not supported yet") => Answer::Unsupported(reason),
            reason => Answer::Refused(reason),
        };
    };
    let node = (name.as_str(), cluster.node(name).unwrap());
    Answer::Fits(allocations(claims, &decision.problem, grant, node, None).unwrap())
}

fn cluster(
    slices: &[resource::ResourceSlice],
    nodes: &[NodeObject],
    case: &Value,
) -> Result<Cluster, String> {
    let index = Slices::new(slices, |_| true);
    let mut cluster = Cluster::default();
    for node in nodes {
        let view = NodeView::of(node);
        let name = node.metadata.name.clone().unwrap();
        let seen = index.of_node(&name, |selector| node_selector_matches(selector, &view));
        cluster.apply_node(&name, seen).map_err(|error| error.to_string())?;
    }
    let allocated: Vec<resource::ResourceClaim> = typed_list(&case["allocated"]);
    for claim in allocated {
        let allocation = claim.status.and_then(|status| status.allocation);
        let results = allocation.and_then(|allocation| allocation.devices?.results);
        let holds = results.into_iter().flatten().filter(|r| r.admin_access != Some(true));
        let devices: Vec<_> = holds.map(|r| (r.driver, r.pool, r.device)).collect();
        cluster.reserve(&claim.metadata.name.unwrap(), &devices);
    }
    Ok(cluster)
}

/// The nodes of a case: names, or an object with labels.
fn nodes(case: &Value) -> Vec<NodeObject> {
    let listed = case["nodes"].as_array().cloned().unwrap_or_else(|| vec![case["node"].clone()]);
    let object = |node: Value| match node {
        Value::String(name) => serde_json::json!({"metadata": {"name": name}}),
        object => object,
    };
    listed.into_iter().map(|node| serde_json::from_value(object(node)).unwrap()).collect()
}

fn typed_list<T: DeserializeOwned>(list: &Value) -> Vec<T> {
    let objects = list.as_array().cloned().unwrap_or_default();
    objects.into_iter().map(|object| serde_json::from_value(object).unwrap()).collect()
}

fn cases() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../test/cases")
}

fn case_names() -> Vec<String> {
    let files = fs::read_dir(cases()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> =
        names.filter_map(|name| name.strip_suffix(".expected.json").map(str::to_owned)).collect();
    names.sort();
    names
}

fn read(name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(cases().join(name)).unwrap()).unwrap()
}
