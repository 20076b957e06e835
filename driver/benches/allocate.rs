//! Decisions on one node and on many: feasible, tight and infeasible, and the ratio of a cold to a warm index.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use lanemate_driver::allocation::{Cluster, Evaluations, SEARCH_BUDGET, decide, node::Candidate};
use lanemate_driver::claim::Claim;
use lanemate_driver::testing::cluster::{
    claim_value, classes, cluster, parse, switches, unit_class,
};
use serde_json::json;

/// Devices of one kind per switch; a node has eight switches.
const NODES: [(&str, usize); 2] = [("8+8", 1), ("16+16", 2)];

fn pairs(count: u32) -> Claim {
    let class = unit_class("pair", (1, 1), json!({}));
    parse(claim_value("c", &[("pair", "pair", count)]), &mut classes(&[class])).unwrap()
}

/// The same wish in plain DRA, as upstream's allocator is measured: k GPUs, k NICs, k constraints.
fn plain_pairs(count: u32) -> Claim {
    let names: Vec<String> = (0..count).flat_map(|i| [format!("g{i}"), format!("n{i}")]).collect();
    let requests: Vec<(&str, &str, u32)> = names
        .iter()
        .map(|name| {
            let gpu = name.starts_with('g');
            (name.as_str(), if gpu { "gpu.lanemate.dev" } else { "nic.lanemate.dev" }, 1)
        })
        .collect();
    let mut claim = claim_value("c", &requests);
    let constraints: Vec<_> = (0..count)
        .map(|i| {
            json!({"requests": [format!("g{i}"), format!("n{i}")],
                   "matchAttribute": "lanemate.dev/pcieSwitch"})
        })
        .collect();
    claim["spec"]["devices"]["constraints"] = json!(constraints);
    parse(claim, &mut classes(&[])).unwrap()
}

/// What is held before the decision.
#[derive(Clone, Copy, Debug)]
enum Held {
    Nothing,
    /// NICs are free on the last switches only, so that exactly k pairs exist.
    AllButTheLast(usize),
    /// One NIC fewer than that.
    OneTooMany(usize),
}

fn hold(cluster: &mut Cluster, node: &str, per_switch: usize, held: Held) {
    let free = match held {
        Held::Nothing => return,
        Held::AllButTheLast(pairs) => pairs,
        Held::OneTooMany(pairs) => pairs - 1,
    };
    let nics = 8 * per_switch;
    let name = |nic: usize| format!("nic-{}-{}", nic / per_switch, nic % per_switch);
    let taken: Vec<_> = (0..nics - free)
        .map(|nic| ("lanemate.dev".to_owned(), node.to_owned(), name(nic)))
        .collect();
    assert!(cluster.reserve("ns/other", &taken).is_empty());
}

fn candidates(cluster: &Cluster) -> Vec<Candidate> {
    let names = cluster.nodes().map(|(name, _)| name.to_owned());
    names.map(|name| Candidate { name, unfit: None }).collect()
}

fn one_node(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("one-node");
    for (label, per_switch) in NODES {
        for k in [1, 4, 8] {
            for held in [Held::Nothing, Held::AllButTheLast(k), Held::OneTooMany(k)] {
                let mut cluster = cluster(&[("n", switches(8, per_switch, per_switch))]);
                hold(&mut cluster, "n", per_switch, held);
                let candidates = candidates(&cluster);
                let k = u32::try_from(k).unwrap();
                for (form, claim) in [("class", pairs(k)), ("plain", plain_pairs(k))] {
                    let mut evaluations = Evaluations::default();
                    let id = BenchmarkId::new(format!("{label} {form} {held:?}"), k);
                    group.bench_function(id, |bencher| {
                        bencher.iter(|| {
                            let claims = [&claim];
                            let decision = decide(
                                &cluster,
                                &mut evaluations,
                                &claims,
                                &candidates,
                                SEARCH_BUDGET,
                            );
                            black_box(decision.unwrap())
                        });
                    });
                }
            }
        }
    }
    group.finish();
}

fn many_nodes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("many-nodes");
    group.sample_size(20);
    for nodes in [500_usize, 5_000] {
        for (label, fits) in [("infeasible", 0), ("only the last fits", 1), ("all fit", nodes)] {
            let names: Vec<String> = (0..nodes).map(|index| format!("node-{index:04}")).collect();
            let devices = switches(8, 1, 1);
            let all: Vec<_> = names.iter().map(|name| (name.as_str(), devices.clone())).collect();
            let mut cluster = cluster(&all);
            for name in &names[..nodes - fits] {
                hold(&mut cluster, name, 1, Held::OneTooMany(2));
            }
            let candidates = candidates(&cluster);
            let claim = pairs(2);
            let mut evaluations = Evaluations::default();
            group.bench_function(BenchmarkId::new(label, nodes), |bencher| {
                bencher.iter(|| {
                    let claims = [&claim];
                    let decision =
                        decide(&cluster, &mut evaluations, &claims, &candidates, SEARCH_BUDGET);
                    black_box(decision.unwrap())
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, one_node, many_nodes);
criterion_main!(benches);
