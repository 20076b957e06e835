//! Random pods, claims, deletions, failed writes and late watches: whatever happens, no device is in two claims, and in
//! the end every pod that can be served is, with all of its claims or none.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::json;

use super::world::*;
use crate::change::Change;
use crate::plan::{Planner, Settings};

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    /// A pod comes with a claim of its own for each count; it may be gated, and share an earlier pod's claim.
    Come { counts: Vec<u32>, is_gated: bool, shares: Option<u8>, priority: i32 },
    /// A pod goes, and what only it used is freed, as kube-controller-manager does.
    Go(u8),
    /// kube-scheduler calls an ungated pod unschedulable.
    Stuck(u8),
    /// A round, and the fate of each of its changes in turn: written, or in part.
    Round(Vec<Option<u8>>),
    /// Changes that wait for the writer are written.
    Write,
    /// The watch tells of some changes.
    Watch(u8),
    /// Time goes by.
    Wait(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let come = (
        proptest::collection::vec(1..4_u32, 1..3),
        any::<bool>(),
        proptest::option::weighted(0.2, any::<u8>()),
        0..3_i32,
    );
    let come = come.prop_map(|(counts, is_gated, shares, priority)| Step::Come {
        counts,
        is_gated,
        shares,
        priority,
    });
    let fate = proptest::option::weighted(0.3, 0..3_u8);
    let step = prop_oneof![
        4 => come,
        3 => any::<u8>().prop_map(Step::Go),
        1 => any::<u8>().prop_map(Step::Stuck),
        5 => proptest::collection::vec(fate, 0..4).prop_map(Step::Round),
        3 => Just(Step::Write),
        4 => (0..6_u8).prop_map(Step::Watch),
        2 => (1..400_u16).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 0..60)
}

/// The world, and what its people remember.
struct Simulation {
    world: World,
    pods: Vec<String>,
    claims_of: BTreeMap<String, Vec<String>>,
    with_writer: Vec<(Change, Fate)>,
}

impl Simulation {
    fn step(&mut self, step: Step) {
        match step {
            Step::Come { counts, is_gated, shares, priority } => {
                self.come(&counts, is_gated, shares, priority);
            }
            Step::Go(which) => {
                if let Some(pod) = self.pick(which) {
                    self.go(&pod);
                }
            }
            Step::Stuck(which) => {
                let Some(pod) = self.pick(which) else { return };
                let condition = json!({
                    "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                });
                self.world.change_pod(&key(&pod), |pod| {
                    let is_gated = pod.spec.as_ref().is_some_and(|spec| {
                        spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty())
                    });
                    if !is_gated {
                        pod.status = Some(
                            serde_json::from_value(json!({"conditions": [condition]})).unwrap(),
                        );
                    }
                });
            }
            Step::Round(fates) => {
                let planned = self.world.plan();
                let fates = fates.into_iter().chain(std::iter::repeat(None));
                for (change, fate) in planned.changes.into_iter().zip(fates) {
                    let fate = fate.map_or(Fate::Write, |parts| Fate::Stop(parts.into()));
                    self.with_writer.push((change, fate));
                }
            }
            Step::Write => self.write(),
            Step::Watch(most) => self.world.watch(most.into()),
            Step::Wait(seconds) => self.world.wait(seconds.into()),
        }
        self.no_device_is_in_two_claims();
    }

    fn come(&mut self, counts: &[u32], is_gated: bool, shares: Option<u8>, priority: i32) {
        let name = format!("p{}", self.claims_of.len());
        let mut claims = Vec::new();
        if let Some(other) = shares.and_then(|which| self.pick(which))
            && let Some(first) = self.claims_of[&other].first()
        {
            claims.push(first.clone());
        }
        for (number, count) in counts.iter().enumerate() {
            let own = format!("{name}-c{number}");
            self.world.claim(claim(&own, "pair", *count));
            claims.push(own);
        }
        let names: Vec<&str> = claims.iter().map(String::as_str).collect();
        let mut pod = if is_gated { gated(&name, &names) } else { ungated(&name, &names) };
        pod["spec"]["priority"] = json!(priority);
        self.world.pod(pod);
        self.pods.push(name.clone());
        self.claims_of.insert(name, claims);
    }

    fn pick(&self, which: u8) -> Option<String> {
        let count = self.pods.len().max(1);
        self.pods.get(usize::from(which) % count).cloned()
    }

    fn go(&mut self, pod: &str) {
        self.pods.retain(|other| other != pod);
        self.world.delete_pod(&key(pod));
        self.collect();
    }

    /// Takes pods that are gone out of the users of claims, and frees claims without users.
    fn collect(&mut self) {
        let lives: Vec<Option<String>> =
            self.world.pods.values().map(|pod| pod.metadata.uid.clone()).collect();
        let keys: Vec<_> = self.world.claims.keys().cloned().collect();
        for claim in keys {
            let status = self.world.claims[&claim].status.clone().unwrap_or_default();
            let users = status.reserved_for.clone().unwrap_or_default();
            let mut left = users.clone();
            left.retain(|user| lives.contains(&Some(user.uid.clone())));
            if left.len() == users.len() || status.allocation.is_none() {
                continue;
            }
            self.world.change_claim(&claim, |claim| match left.is_empty() {
                true => claim.status = None,
                false => claim.status.get_or_insert_default().reserved_for = Some(left),
            });
        }
    }

    fn write(&mut self) {
        for (change, fate) in std::mem::take(&mut self.with_writer) {
            self.world.write(&change, fate);
            // A pod may have gone before its claim was written.
            self.collect();
        }
    }

    fn no_device_is_in_two_claims(&self) {
        let mut held = BTreeMap::new();
        for (claim, object) in &self.world.claims {
            let status = object.status.clone().unwrap_or_default();
            let allocation = status.allocation.and_then(|allocation| allocation.devices);
            for result in allocation.and_then(|devices| devices.results).unwrap_or_default() {
                let device = (result.pool, result.device);
                let other = held.insert(device.clone(), claim.clone());
                assert_eq!(other, None, "{device:?} is in {claim} too");
            }
        }
    }

    /// Nobody interferes any more, and enough time goes by for every back-off to end.
    fn come_to_rest(&mut self) {
        self.write();
        for _ in 0..4 {
            for pod in self.pods.clone() {
                self.world.change_pod(&key(&pod), |pod| pod.status = None);
            }
            self.world.settle();
            self.collect();
            self.world.wait(301);
        }
        self.world.settle();
        self.no_device_is_in_two_claims();
    }

    fn all_or_nothing_and_nobody_forgotten(&mut self) {
        for pod in self.pods.clone() {
            let claims = self.claims_of[&pod].clone();
            let users = |claim: &String| self.world.users_of(claim);
            let has_all = claims.iter().all(|claim| users(claim).contains(&pod));
            // What another pod uses by now can no longer be taken back.
            let alone = claims.iter().filter(|claim| users(claim) == [pod.clone()]).count();
            assert!(has_all || alone == 0, "{pod} has {alone} of {claims:?}");
            let nodes: Vec<_> = claims.iter().map(|claim| self.world.node_of(claim)).collect();
            if has_all {
                assert!(nodes.iter().all(|node| *node == nodes[0]), "{pod} {nodes:?}");
                assert_eq!(self.world.gates_of(&pod), Vec::<String>::new());
                continue;
            }
            // It was refused: then it does not fit, also for one who looks with fresh eyes.
            let mut fresh = patient();
            let planned = fresh.plan(&mut self.world.index, self.world.now, usize::MAX);
            assert!(planned.changes.is_empty(), "{pod} was forgotten: {:?}", planned.changes);
            let claims: Vec<_> =
                claims.iter().filter(|c| self.world.node_of(c).is_none()).collect();
            let wanted: usize = claims.iter().map(|claim| self.pairs_wanted(claim)).sum();
            let free = self.free_pairs();
            let shared = nodes.iter().flatten().next();
            let fits = free.iter().any(|(node, pairs)| {
                shared.is_none_or(|shared| shared == node) && *pairs >= wanted
            });
            assert!(!fits, "{pod} wants {wanted} of {free:?} at {shared:?}");
        }
    }

    fn pairs_wanted(&self, claim: &str) -> usize {
        let spec = serde_json::to_value(&self.world.claims[&key(claim)].spec).unwrap();
        let count = &spec["devices"]["requests"][0]["exactly"]["count"];
        usize::try_from(count.as_u64().unwrap_or(1)).unwrap()
    }

    fn free_pairs(&self) -> BTreeMap<String, usize> {
        let mut free: BTreeMap<String, usize> =
            NODES.iter().map(|(name, pairs)| ((*name).to_owned(), *pairs)).collect();
        for object in self.world.claims.values() {
            let status = object.status.clone().unwrap_or_default();
            let allocation = status.allocation.and_then(|allocation| allocation.devices);
            for result in allocation.and_then(|devices| devices.results).unwrap_or_default() {
                if result.device.starts_with("gpu") {
                    *free.get_mut(&result.pool).unwrap() -= 1;
                }
            }
        }
        free
    }
}

/// A planner that keeps no node for a pod that waits: then whatever is free serves whoever comes.
fn patient() -> Planner {
    Planner::new(Settings { head_waits: SignedDuration::MAX })
}

const NODES: [(&str, usize); 3] = [("n1", 2), ("n2", 4), ("n3", 4)];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_granted_twice_and_in_the_end_all_is_served(steps in steps()) {
        let mut simulation = Simulation {
            world: World::new(&NODES),
            pods: Vec::new(),
            claims_of: BTreeMap::new(),
            with_writer: Vec::new(),
        };
        simulation.world.planner = patient();
        for step in steps {
            simulation.step(step);
        }
        simulation.come_to_rest();
        simulation.all_or_nothing_and_nobody_forgotten();
    }
}
