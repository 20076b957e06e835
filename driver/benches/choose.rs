//! A day at a large cluster: decisions among 5,000 nodes of mixed occupancy, each followed by what changes, against judging
//! every node for each decision.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};

use lanemate_driver::allocation::{
    Cluster, DeviceId, Evaluations, Problem, SEARCH_BUDGET, choose, decide, node::Candidate, refuse,
};
use lanemate_driver::claim::Claim;
use lanemate_driver::testing::cluster::{
    claim_value, classes, cluster, parse, switches, unit_class,
};
use serde_json::json;

/// xorshift64* with a fixed seed: every run sees the same history.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33).unwrap() % bound
    }
}

/// The claims that pods of this cluster have, and one that fits nowhere.
fn shapes() -> Vec<(&'static str, Claim)> {
    let class = unit_class("pair", (1, 1), json!({"within": {"required": "PXB"}}));
    let mut known = classes(&[class]);
    let mut pairs = |count| parse(claim_value("c", &[("p", "pair", count)]), &mut known).unwrap();
    let (one, four, eight, nine) = (pairs(1), pairs(4), pairs(8), pairs(9));
    let mut tied = claim_value("c", &[("g", "gpu.lanemate.dev", 1), ("n", "nic.lanemate.dev", 1)]);
    tied["spec"]["devices"]["constraints"] = json!([{"matchAttribute": "lanemate.dev/pcieSwitch"}]);
    let tied = parse(tied, &mut known).unwrap();
    vec![
        ("pair x1", one),
        ("pair x4", four),
        ("pair x8", eight),
        ("matchAttribute", tied),
        ("pair x9 (none fits)", nine),
    ]
}

/// Nodes of eight switches with a GPU and a NIC each, from empty to full, every free set as good as unique.
fn mixed(nodes: usize, random: &mut Random) -> Cluster {
    let names: Vec<String> = (0..nodes).map(|index| format!("node-{index:04}")).collect();
    let devices = switches(8, 1, 1);
    let all: Vec<_> = names.iter().map(|name| (name.as_str(), devices.clone())).collect();
    let mut cluster = cluster(&all);
    for name in &names {
        let quarters = random.below(5);
        let held: Vec<DeviceId> = devices
            .iter()
            .filter(|_| random.below(4) < quarters)
            .map(|device| ("lanemate.dev".to_owned(), name.clone(), device.name.clone()))
            .collect();
        cluster.reserve("ns/other", &held);
    }
    cluster
}

/// Runs of the same history. The least time of each decision counts: what else runs on the machine seldom hits one decision in
/// all of them.
const RUNS: usize = 3;

/// What one run of the history left behind.
struct History {
    cluster: Cluster,
    evaluations: Evaluations,
    /// Shape and time of each decision.
    times: Vec<(usize, Duration)>,
}

/// The first decision of every shape, then decisions by chance; pods end as new ones come.
fn history(nodes: usize, decisions: usize, shapes: &[(&'static str, Claim)]) -> History {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut cluster = mixed(nodes, &mut random);
    let mut evaluations = Evaluations::default();
    let mut times = Vec::new();
    let mut granted: VecDeque<(String, Vec<DeviceId>)> = VecDeque::new();
    for decision in 0..decisions {
        let shape = if decision < shapes.len() { decision } else { random.below(shapes.len()) };
        let start = Instant::now();
        let problem = Problem::new(&[&shapes[shape].1]).unwrap();
        // Every tenth node has no room for the pod.
        let mut fits = |name: &str| !name.ends_with('7');
        let choice = choose(&cluster, &mut evaluations, &problem, &mut fits, SEARCH_BUDGET);
        times.push((shape, start.elapsed()));
        if let Some((name, grant)) = choice.chosen {
            let node = cluster.node(&name).unwrap();
            let positions = grant.sets.iter().flatten().flatten().flatten();
            let devices: Vec<DeviceId> = positions.map(|p| node.device_id(*p)).collect();
            let holder = format!("ns/c{decision}");
            assert!(cluster.reserve(&holder, &devices).is_empty());
            granted.push_back((holder, devices));
        }
        // Pods end in another order than they came.
        if granted.len() > nodes / 10 {
            let ended = random.below(granted.len());
            let (holder, devices) = granted.swap_remove_back(ended).unwrap();
            cluster.release(&holder, &devices);
        }
    }
    History { cluster, evaluations, times }
}

/// The time that a share of the runs, in percent, stays below.
fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort();
    times[(times.len() * percent / 100).min(times.len() - 1)]
}

/// Median time of some runs.
fn median<T>(runs: usize, mut run: impl FnMut() -> T) -> Duration {
    let timed = (0..runs).map(|_| {
        let start = Instant::now();
        black_box(run());
        start.elapsed()
    });
    percentile(&mut timed.collect::<Vec<_>>(), 50)
}

fn main() {
    // `cargo test --benches` only asks whether it runs.
    let measured = std::env::args().any(|argument| argument == "--bench");
    let (nodes, decisions, anew) = if measured { (5_000, 20_000, 9) } else { (20, 50, 1) };
    let shapes = shapes();
    let mut last = history(nodes, decisions, &shapes);
    for _ in 1..RUNS {
        let mut run = history(nodes, decisions, &shapes);
        for ((_, least), (_, time)) in run.times.iter_mut().zip(&last.times) {
            *least = (*least).min(*time);
        }
        last = run;
    }
    let History { cluster, mut evaluations, times } = last;
    let (first, later) = times.split_at(shapes.len());
    let names: Vec<String> = cluster.nodes().map(|(name, _)| name.to_owned()).collect();
    let candidates: Vec<Candidate> =
        names.iter().map(|name| Candidate { name: name.clone(), unfit: None }).collect();
    println!("\n{nodes} nodes x (8 GPU + 8 NIC), mixed occupancy, {decisions} decisions");
    let heads = ["median", "p99", "first", "every node"];
    println!(
        "{:20} {:>10} {:>10} {:>10} {:>12} ratio",
        "claim", heads[0], heads[1], heads[2], heads[3]
    );
    for (index, (label, claim)) in shapes.iter().enumerate() {
        let each = median(anew, || {
            decide(&cluster, &mut evaluations, &[claim], &candidates, SEARCH_BUDGET).unwrap()
        });
        let own = later.iter().filter(|(shape, _)| *shape == index);
        let mut own: Vec<Duration> = own.map(|(_, time)| *time).collect();
        let (median, p99) = (percentile(&mut own, 50), percentile(&mut own, 99));
        let ratio = each.as_secs_f64() / median.as_secs_f64();
        let [median, p99, first, each] =
            [median, p99, first[index].1, each].map(|time| format!("{time:.1?}"));
        println!("{label:20} {median:>10} {p99:>10} {first:>10} {each:>12} {ratio:.0}");
    }
    let problem = Problem::new(&[&shapes[shapes.len() - 1].1]).unwrap();
    let words = median(anew, || {
        let mut order = names.iter().map(String::as_str);
        refuse(&cluster, &mut evaluations, &problem, &mut order, &mut |_| None, SEARCH_BUDGET)
    });
    println!("a refusal in words: {words:.1?}");
}
