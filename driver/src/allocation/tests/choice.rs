//! Random clusters and histories: the kept answers give what judging every node anew gives.

use k8s_openapi::api::resource::v1::DeviceAttribute;

use super::properties::{Random, claim, devices};
use crate::allocation::node::Candidate;
use crate::allocation::{Cluster, DeviceId, Evaluations, Problem, choose, decide, refuse};
use crate::claim::Claim;
use crate::pool::Slices;
use crate::testing::cluster::{TestDevice, classes, parse, slice};

const STEPS: u32 = 50_000;

fn apply(cluster: &mut Cluster, name: &str, devices: &[TestDevice]) {
    let mut own = slice(name, devices);
    // Each device has an identity: nodes are alike all the same.
    for (index, device) in own.spec.devices.iter_mut().flatten().enumerate() {
        let uuid =
            DeviceAttribute { string: Some(format!("{name}-{index}")), ..Default::default() };
        device.attributes.get_or_insert_default().insert("uuid".to_owned(), uuid);
    }
    let slices = [own];
    let index = Slices::new(&slices, |_| true);
    cluster.apply_node(name, index.of_node(name, |_| false)).unwrap();
}

/// Devices of a node, by chance.
fn some(random: &mut Random, cluster: &Cluster, name: &str) -> Vec<DeviceId> {
    let Some(node) = cluster.node(name) else { return Vec::new() };
    let picked = (0..node.layout.len()).filter(|_| random.one_in(3));
    picked.map(|position| node.device_id(position)).collect()
}

/// Changes the cluster in one way or another.
fn change(
    random: &mut Random,
    cluster: &mut Cluster,
    models: &[Vec<TestDevice>],
    names: &[String],
) {
    let name = &names[random.below(names.len())];
    let devices = some(random, cluster, name);
    match random.below(7) {
        0 => apply(cluster, name, &models[random.below(models.len())]),
        1 => cluster.remove_node(name),
        2 => cluster.set_resting(&devices, true),
        3 => cluster.set_resting(&devices, false),
        4 => cluster.release("ns/a", &devices),
        _ => {
            cluster.reserve("ns/a", &devices);
        }
    }
}

fn compare(
    random: &mut Random,
    cluster: &Cluster,
    evaluations: &mut Evaluations,
    claims: &[&Claim],
    (names, steps): (&[String], u32),
) -> bool {
    let unfit: Vec<bool> = names.iter().map(|_| random.one_in(3)).collect();
    let index = |name: &str| names.iter().position(|other| other == name).unwrap();
    let why = |name: &str| unfit[index(name)].then(|| format!("{name} is full"));
    let candidates: Vec<_> =
        names.iter().map(|name| Candidate { name: name.clone(), unfit: why(name) }).collect();
    let expect = decide(cluster, &mut Evaluations::default(), claims, &candidates, steps).unwrap();
    let problem = Problem::new(claims).unwrap();
    let found = choose(cluster, evaluations, &problem, &mut |name| why(name).is_none(), steps);
    assert_eq!(found.chosen, expect.chosen);
    assert_eq!(found.optimal, expect.optimal);
    if expect.chosen.is_none() {
        let mut order = names.iter().map(String::as_str);
        let told = refuse(cluster, evaluations, &problem, &mut order, &mut |name| why(name), steps);
        assert_eq!(told.reason, expect.summary(cluster));
        assert_eq!(told.failed, expect.failed());
    }
    expect.chosen.is_some()
}

#[test]
fn kept_answers_are_those_of_judging_every_node() {
    let (mut fits, mut refusals) = (0, 0);
    for seed in 1..=120_u64 {
        let mut random = Random::new(seed);
        let models: Vec<_> = (0..3).map(|_| devices(&mut random, 8)).collect();
        let names: Vec<String> = (0..8).map(|index| format!("n{index}")).collect();
        let mut cluster = Cluster::default();
        for name in &names[..6] {
            apply(&mut cluster, name, &models[random.below(models.len())]);
        }
        let mut values: Vec<_> = (0..4).map(|i| claim(&mut random, &format!("c{i}"), 5)).collect();
        // A selector that reads what is unique to a node, and one that fails on some devices.
        for (index, expression) in [
            r#"device.attributes["lanemate.dev"].uuid.matches("n[1-4]-[0-3]")"#,
            r#"device.attributes["lanemate.dev"].color == "red""#,
        ]
        .iter()
        .enumerate()
        {
            let request = &mut values[index].0["spec"]["devices"]["requests"][0]["exactly"];
            request["selectors"] = serde_json::json!([{"cel": {"expression": expression}}]);
        }
        let units: Vec<_> = values.iter().flat_map(|(_, classes)| classes.clone()).collect();
        let mut classes = classes(&units);
        let claims: Vec<Claim> =
            values.into_iter().map(|(value, _)| parse(value, &mut classes).unwrap()).collect();
        let mut evaluations = Evaluations::default();
        for _ in 0..30 {
            change(&mut random, &mut cluster, &models, &names);
            let first = &claims[random.below(claims.len())];
            let second = &claims[random.below(claims.len())];
            let of_pod = if random.one_in(4) { vec![first, second] } else { vec![first] };
            let steps = if random.one_in(5) { 3 } else { STEPS };
            if compare(&mut random, &cluster, &mut evaluations, &of_pod, (&names, steps)) {
                fits += 1;
            } else {
                refusals += 1;
            }
        }
    }
    assert!(fits > 300 && refusals > 300, "{fits} fits, {refusals} refusals");
}

#[test]
fn equal_nodes_are_taken_by_the_hash_of_their_names_and_fits_is_asked_for_few() {
    let mut cluster = Cluster::default();
    let names: Vec<String> = (0..50).map(|index| format!("n{index:02}")).collect();
    for name in &names {
        apply(&mut cluster, name, &crate::testing::cluster::switches(2, 1, 1));
    }
    let claim = parse(
        crate::testing::cluster::claim_value("c", &[("g", "gpu.lanemate.dev", 1)]),
        &mut classes(&[]),
    );
    let problem = Problem::new(&[&claim.unwrap()]).unwrap();
    let mut by_hash = names.clone();
    by_hash.sort_by_key(|name| crate::stable_hash::stable_hash(name.as_bytes()));
    let mut asked = Vec::new();
    let mut evaluations = Evaluations::default();
    let found = choose(
        &cluster,
        &mut evaluations,
        &problem,
        &mut |name| {
            asked.push(name.to_owned());
            asked.len() == 3
        },
        STEPS,
    );
    assert_eq!(asked, by_hash[..3]);
    assert_eq!(found.chosen.unwrap().0, by_hash[2]);
}

#[test]
fn the_version_of_capacity_rises_when_something_may_fit_that_did_not() {
    let mut cluster = Cluster::default();
    let devices = crate::testing::cluster::switches(1, 1, 1);
    let id = |name: &str| ("lanemate.dev".to_owned(), "n".to_owned(), name.to_owned());
    let (gpu, nic) = ([id("gpu-0-0")], [id("nic-0-0")]);
    let mut last = cluster.capacity_version();
    let mut rises = |cluster: &Cluster| {
        let version = cluster.capacity_version();
        std::mem::replace(&mut last, version) < version
    };
    cluster.reserve("ns/a", &gpu);
    assert_eq!(cluster.holder(&gpu[0]), Some("ns/a"), "on a node that is not known yet");
    assert!(!rises(&cluster));
    cluster.set_resting(&nic, true);
    assert!(rises(&cluster));
    apply(&mut cluster, "n", &devices);
    assert!(rises(&cluster));
    let node = cluster.node("n").unwrap();
    assert_eq!((node.free.len(), node.resting.len()), (1, 1), "both were known before the node");
    assert_eq!(cluster.reserve("ns/b", &gpu), gpu);
    cluster.release("ns/b", &gpu);
    cluster.set_resting(&nic, true);
    assert!(!rises(&cluster), "nothing was freed");
    cluster.release("ns/a", &gpu);
    assert!(rises(&cluster));
    assert_eq!((cluster.holder(&gpu[0]), cluster.held().count()), (None, 0));
    cluster.set_resting(&nic, false);
    assert!(rises(&cluster));
    cluster.reserve("ns/a", &gpu);
    cluster.remove_node("n");
    assert!(rises(&cluster));
    cluster.remove_node("n");
    assert!(!rises(&cluster));
    apply(&mut cluster, "n", &devices);
    assert!(!cluster.node("n").unwrap().free.contains(0), "what is held stays held");
}
