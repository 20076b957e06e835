//! Decisions on one node and on many: feasible, tight and infeasible, and the ratio of a cold to a warm index.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group};
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

/// A cluster of one node.
fn one(per_switch: usize, held: Held) -> (Cluster, Vec<Candidate>) {
    let mut cluster = cluster(&[("n", switches(8, per_switch, per_switch))]);
    hold(&mut cluster, "n", per_switch, held);
    let candidates = candidates(&cluster);
    (cluster, candidates)
}

fn one_node(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("one-node");
    for (label, per_switch) in NODES {
        for k in [1, 4, 8] {
            for held in [Held::Nothing, Held::AllButTheLast(k), Held::OneTooMany(k)] {
                let (cluster, candidates) = one(per_switch, held);
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

/// Depth first over requests and devices, the first solution wins: the method of the upstream allocator, without its selectors
/// and its copying. GPUs are asked for first, then NICs, each NIC on the switch of its GPU.
struct FirstFit<'a> {
    /// Switch of each free device.
    gpus: &'a [usize],
    nics: &'a [usize],
    pairs: usize,
    taken: Vec<usize>,
    calls: u64,
}

/// Calls after which the baseline gives up, as upstream does after ten seconds.
const MOST_CALLS: u64 = 20_000_000;

impl FirstFit<'_> {
    fn fits(&mut self) -> Option<bool> {
        self.calls += 1;
        if self.calls > MOST_CALLS {
            return None;
        }
        let done = self.taken.len();
        if done == 2 * self.pairs {
            return Some(true);
        }
        let (devices, offset) =
            if done < self.pairs { (self.gpus, 0) } else { (self.nics, self.gpus.len()) };
        for (index, switch) in devices.iter().enumerate() {
            let mate = done.checked_sub(self.pairs).map(|pair| self.gpus[self.taken[pair]]);
            if self.taken.contains(&(offset + index)) || mate.is_some_and(|mate| mate != *switch) {
                continue;
            }
            self.taken.push(offset + index);
            if self.fits()? {
                return Some(true);
            }
            self.taken.pop();
        }
        Some(false)
    }
}

/// Free devices by switch, as [`hold`] leaves them.
fn free_switches(per_switch: usize, held: Held) -> (Vec<usize>, Vec<usize>) {
    let all: Vec<usize> = (0..8 * per_switch).map(|index| index / per_switch).collect();
    let free = match held {
        Held::Nothing => all.len(),
        Held::AllButTheLast(pairs) => pairs,
        Held::OneTooMany(pairs) => pairs - 1,
    };
    (all.clone(), all[all.len() - free..].to_vec())
}

/// Median time of some runs.
fn median(runs: usize, mut run: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[runs / 2]
}

/// Prints how many times faster a decision is than the baseline on the same input, in this run.
fn ratios() {
    println!("\nagainst first fit, depth first (median of one decision, same input, same run)");
    println!(
        "{:8} {:20} {:>2} {:>12} {:>12} {:>9}",
        "node", "held", "k", "ours", "first fit", "ratio"
    );
    for (label, per_switch) in NODES {
        for k in [1, 4, 8] {
            for held in [Held::Nothing, Held::AllButTheLast(k), Held::OneTooMany(k)] {
                let (cluster, candidates) = one(per_switch, held);
                let claim = pairs(u32::try_from(k).unwrap());
                let mut evaluations = Evaluations::default();
                let ours = median(301, || {
                    let claims = [&claim];
                    let decision =
                        decide(&cluster, &mut evaluations, &claims, &candidates, SEARCH_BUDGET);
                    black_box(decision.unwrap());
                });
                let (gpus, nics) = free_switches(per_switch, held);
                let mut gave_up = false;
                let theirs = median(3, || {
                    let (gpus, nics) = (gpus.as_slice(), nics.as_slice());
                    let mut search = FirstFit { gpus, nics, pairs: k, taken: Vec::new(), calls: 0 };
                    gave_up = black_box(search.fits()).is_none();
                });
                let ratio = theirs.as_secs_f64() / ours.as_secs_f64();
                let more = if gave_up { ">" } else { "" };
                let (held, theirs) = (format!("{held:?}"), format!("{more}{theirs:.1?}"));
                let (ours, ratio) = (format!("{ours:.1?}"), format!("{more}{ratio:.2}"));
                println!("{label:8} {held:20} {k:>2} {ours:>12} {theirs:>12} {ratio:>9}");
            }
        }
    }
}

criterion_group!(benches, one_node, many_nodes);

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
    // `cargo test --benches` only asks whether it runs.
    if std::env::args().any(|argument| argument == "--bench") {
        ratios();
    }
}
