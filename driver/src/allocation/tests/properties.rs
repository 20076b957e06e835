//! Random small nodes and claims: the search finds exactly what the oracle finds.

use serde_json::{Value, json};

use super::oracle::Oracle;
use crate::allocation::node::Answer;
use crate::allocation::{Cluster, Grant, Shortage, State, solve};
use crate::claim::Claim;
use crate::pool::DeviceSet;
use crate::testing::cluster::{
    TestDevice, claim_value, classes, cluster, decided, parse, unit_class,
};

/// A small generator with a seed (xorshift64*), so that a failure can be run again.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d);
        usize::try_from(mixed >> 33).unwrap() % bound
    }

    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

pub(super) fn devices(random: &mut Random, most: usize) -> Vec<TestDevice> {
    let roots = 1 + random.below(4);
    let islands = random.below(3);
    let nested = random.one_in(3);
    let flat = random.one_in(6);
    let mut devices = Vec::new();
    for index in 0..2 + random.below(most - 1) {
        let root = random.below(roots);
        let kind = random.pick(&["gpu", "nic"]);
        let mut place = format!("pci0000:{root:02x}/01.0/{root:02x}:10.0");
        if flat {
            place = format!("pci0000:00/{index:02x}.0");
        } else if nested && random.one_in(2) {
            place += &format!("/{root:02x}:2{}.0", random.below(2));
        } else if random.one_in(8) {
            place = format!("pci0000:{root:02x}/02.0");
        }
        devices.push(TestDevice {
            name: format!("{kind}-{index}"),
            kind,
            place,
            numa: i64::try_from(root / 2).unwrap(),
            island: (kind == "gpu" && islands > 0).then(|| format!("i{}", index % islands)),
            color: random.pick(&[None, Some("red"), Some("blue")]),
            tainted: random.one_in(12),
        });
    }
    devices
}

fn locality(random: &mut Random) -> Value {
    let words = ["PIX", "PXB", "PHB", "NODE", "SYS"];
    let mut limit = |default: usize| {
        let required = if random.one_in(2) { default } else { random.below(5) };
        let mut limit = json!({"required": words[required]});
        if random.one_in(3) {
            limit["preferred"] = json!(words[random.below(required + 1)]);
        }
        limit
    };
    json!({"within": limit(1), "across": limit(4)})
}

/// A claim of at most `most` devices.
pub(super) fn claim(random: &mut Random, name: &str, most: u32) -> (Value, Vec<Value>) {
    let count = |random: &mut Random, size: u32| {
        1 + u32::try_from(random.below((most / size).max(1) as usize)).unwrap()
    };
    let class = format!("unit-{name}");
    match random.below(6) {
        0 | 1 => {
            let size = random.pick(&[(1, 1), (1, 1), (2, 1), (1, 2), (2, 0), (0, 2)]);
            let unit = unit_class(&class, size, locality(random));
            let mut value = claim_value(name, &[("u", &class, count(random, size.0 + size.1))]);
            if random.one_in(3) {
                let attribute = random.pick(&["lanemate.dev/pcieSwitch", "lanemate.dev/color"]);
                value["spec"]["devices"]["constraints"] =
                    json!([{"requests": ["u"], "matchAttribute": attribute}]);
            }
            (value, vec![unit])
        }
        2 => (claim_value(name, &[("g", "gpu.lanemate.dev", count(random, 1))]), Vec::new()),
        3 => {
            let (g, n) = (count(random, 2), count(random, 2));
            let requests = [("g", "gpu.lanemate.dev", g), ("n", "nic.lanemate.dev", n)];
            let mut value = claim_value(name, &requests);
            if random.one_in(2) {
                let attribute = random.pick(&["lanemate.dev/pcieSwitch", "lanemate.dev/color"]);
                value["spec"]["devices"]["constraints"] = json!([{"matchAttribute": attribute}]);
            }
            (value, Vec::new())
        }
        4 => {
            let k = count(random, 2);
            let names: Vec<String> =
                (0..k).flat_map(|i| [format!("g{i}"), format!("n{i}")]).collect();
            let requests: Vec<(&str, &str, u32)> = names
                .iter()
                .map(|name| {
                    let class = if name.starts_with('g') { "gpu" } else { "nic" };
                    (name.as_str(), class, 1)
                })
                .map(|(name, class, count)| match class {
                    "gpu" => (name, "gpu.lanemate.dev", count),
                    _ => (name, "nic.lanemate.dev", count),
                })
                .collect();
            let mut value = claim_value(name, &requests);
            let constraints: Vec<Value> = (0..k)
                .map(|i| {
                    let requests = [format!("g{i}"), format!("n{i}")];
                    json!({"requests": requests, "matchAttribute": "lanemate.dev/pcieSwitch"})
                })
                .collect();
            value["spec"]["devices"]["constraints"] = json!(constraints);
            (value, Vec::new())
        }
        _ => {
            let (g, n) = random.pick(&[(1, 1), (2, 1), (1, 2)]);
            let k = count(random, g + n);
            let requests = [("g", "gpu.lanemate.dev", g * k), ("n", "nic.lanemate.dev", n * k)];
            let mut value = claim_value(name, &requests);
            let limits = locality(random);
            value["spec"]["devices"]["config"] = json!([{"opaque": {"driver": "lanemate.dev", "parameters": {
                "apiVersion": "lanemate.dev/v1alpha1", "kind": "Placement",
                "unit": [{"request": "g", "count": g}, {"request": "n", "count": n}],
                "within": limits["within"], "across": limits["across"],
            }}}]);
            (value, Vec::new())
        }
    }
}

/// One random node and the claims of one pod.
struct Case {
    cluster: Cluster,
    claims: Vec<Claim>,
    free: DeviceSet,
    resting: DeviceSet,
}

fn case(seed: u64) -> Case {
    let mut random = Random::new(seed);
    let cluster = cluster(&[("n", devices(&mut random, 9))]);
    let length = cluster.node("n").map_or(0, |node| node.layout.len());
    let free = (0..length).filter(|_| !random.one_in(6)).collect();
    let resting = (0..length).filter(|_| random.one_in(8)).collect();
    let two = random.one_in(3);
    let mut values = vec![claim(&mut random, "a", if two { 3 } else { 5 })];
    if two {
        values.push(claim(&mut random, "b", 2));
    }
    let unit_classes: Vec<Value> = values.iter().flat_map(|(_, c)| c.clone()).collect();
    let mut classes = classes(&unit_classes);
    let claims = values.into_iter().map(|(value, _)| parse(value, &mut classes).unwrap()).collect();
    Case { cluster, claims, free, resting }
}

/// Devices in the order of the oracle's slots.
fn in_slots(
    oracle: &Oracle<'_>,
    problem: &crate::allocation::Problem,
    grant: &Grant,
) -> Vec<usize> {
    // Units of a request one after another, then the requests' other devices, each list in its own order.
    let mut by_unit: Vec<((usize, usize), Vec<usize>)> = Vec::new();
    let mut by_request: Vec<((usize, usize), Vec<usize>)> = Vec::new();
    for (item, sets) in problem.items.iter().zip(&grant.sets) {
        let mut sets = sets.iter();
        for owner in &item.owners {
            for set in sets.by_ref().take(owner.count as usize) {
                for (request, part) in owner.requests.iter().zip(set) {
                    let key = (owner.claim, *request);
                    let list = match item.rule {
                        crate::allocation::problem::Rule::Unit { .. } => &mut by_unit,
                        crate::allocation::problem::Rule::Loose(_) => &mut by_request,
                    };
                    match list.iter_mut().find(|(other, _)| *other == key) {
                        Some((_, devices)) => devices.extend(part),
                        None => list.push((key, part.clone())),
                    }
                }
            }
        }
    }
    let mut taken: Vec<((usize, usize, bool), usize)> = Vec::new();
    oracle
        .slots
        .iter()
        .map(|slot| {
            let list = if slot.unit.is_some() { &by_unit } else { &by_request };
            let key = (slot.claim, slot.request);
            let devices = &list.iter().find(|(other, _)| *other == key).unwrap().1;
            let cursor = (slot.claim, slot.request, slot.unit.is_some());
            match taken.iter_mut().find(|(other, _)| *other == cursor) {
                Some((_, next)) => {
                    *next += 1;
                    devices[*next - 1]
                }
                None => {
                    taken.push((cursor, 1));
                    devices[0]
                }
            }
        })
        .collect()
}

#[test]
fn the_search_finds_what_the_oracle_finds() {
    let (mut fits, mut refusals) = (0, 0);
    for seed in 1..=3000 {
        let case = case(seed);
        let node = case.cluster.node("n").unwrap();
        let claims: Vec<&Claim> = case.claims.iter().collect();
        let oracle = Oracle::new(&node.layout, case.free, case.resting, &claims);
        let problem = crate::allocation::Problem::new(&claims).unwrap();
        let filters: Vec<_> = problem.filters.iter().map(|wanted| &wanted.filter).collect();
        let acceptance = crate::allocation::Evaluations::default().accept(&filters, node);
        let state = State {
            layout: &node.layout,
            accepted_by: &acceptance.accepted_by,
            free: case.free,
            resting: case.resting,
        };
        let found = solve(&problem, state, 1_000_000);
        let best = oracle.best();
        match (&found, best) {
            (Ok(grant), Some(best)) => {
                assert!(grant.optimal, "seed {seed}");
                assert_eq!(grant.score, best, "seed {seed}: {problem:?}");
                let devices = in_slots(&oracle, &problem, grant);
                assert_eq!(oracle.score(&devices), Some(best), "seed {seed}: {grant:?}");
                fits += 1;
            }
            (Err(shortage), None) => {
                assert_ne!(*shortage, Shortage::Budget, "seed {seed}");
                refusals += 1;
            }
            other => panic!("seed {seed}: {other:?}"),
        }
    }
    assert!(fits > 500 && refusals > 500, "{fits} fits, {refusals} refusals");
}

#[test]
fn a_free_device_more_never_turns_a_fit_into_a_refusal() {
    for seed in 1..=600 {
        let mut case = case(seed);
        let claims: Vec<Claim> = std::mem::take(&mut case.claims);
        let claims: Vec<&Claim> = claims.iter().collect();
        let ids = |cluster: &Cluster, held: &dyn Fn(usize) -> bool| {
            let node = cluster.node("n").unwrap();
            let positions = (0..node.layout.len()).filter(|position| held(*position));
            positions.map(|position| node.device_id(position)).collect::<Vec<_>>()
        };
        let held = ids(&case.cluster, &|position| !case.free.contains(position));
        assert!(case.cluster.reserve("ns/other", &held).is_empty());
        let fits = |cluster: &Cluster| decided(cluster, &claims).chosen.is_some();
        let before = fits(&case.cluster);
        for device in &held {
            case.cluster.release("ns/other", std::slice::from_ref(device));
            assert!(!before || fits(&case.cluster), "seed {seed}: {device:?}");
            case.cluster.reserve("ns/other", std::slice::from_ref(device));
        }
        case.cluster.release("ns/other", &held);
        let node = case.cluster.node("n").unwrap();
        assert_eq!(node.free.len(), node.layout.len(), "release undoes reserve");
        assert!(node.holders.is_empty());
    }
}

#[test]
fn every_answer_but_a_fit_has_a_reason() {
    for seed in 1..=600 {
        let case = case(seed);
        let claims: Vec<&Claim> = case.claims.iter().collect();
        let decision = decided(&case.cluster, &claims);
        for (name, answer) in &decision.answers {
            let reason = decision.reason(&case.cluster, name, answer);
            assert_eq!(reason.is_none(), matches!(answer, Answer::Fits(_)), "seed {seed}");
            assert!(reason.is_none_or(|reason| !reason.trim().is_empty()), "seed {seed}");
        }
    }
}
