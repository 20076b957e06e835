//! What people ask for, and what they get.

use serde_json::{Value, json};

use crate::allocation::node::Answer;
use crate::allocation::{Allocation, Cluster, Decision, DeviceId, allocations};
use crate::claim::{Claim, Classes};
use crate::testing::cluster::{
    TestDevice, claim_value, classes, cluster, decided, parse, switches, unit_class,
};

fn pair_class() -> Value {
    unit_class("pair", (1, 1), json!({}))
}

fn pairs(count: u32) -> Claim {
    parse(claim_value("c", &[("pair", "pair", count)]), &mut classes(&[pair_class()])).unwrap()
}

/// Holds devices of a node for `ns/other`.
fn hold(cluster: &mut Cluster, node: &str, names: &[&str]) {
    let devices: Vec<DeviceId> = names
        .iter()
        .map(|name| ("lanemate.dev".to_owned(), node.to_owned(), (*name).to_owned()))
        .collect();
    assert!(cluster.reserve("ns/other", &devices).is_empty());
}

fn granted(cluster: &Cluster, claims: &[&Claim]) -> (String, Vec<Allocation>) {
    let decision = decided(cluster, claims);
    let (name, grant) = decision.chosen.as_ref().expect("fits");
    let node = (name.as_str(), cluster.node(name).unwrap());
    (name.clone(), allocations(claims, &decision.problem, grant, node, None).unwrap())
}

/// Devices of a grant, by request.
fn devices(allocation: &Allocation) -> Vec<(String, String)> {
    let results = allocation.result.devices.clone().unwrap().results.unwrap_or_default();
    results.into_iter().map(|result| (result.request, result.device)).collect()
}

fn names(allocation: &Allocation) -> Vec<String> {
    devices(allocation).into_iter().map(|(_, device)| device).collect()
}

fn reason(cluster: &Cluster, decision: &Decision) -> String {
    assert!(decision.chosen.is_none());
    decision.summary(cluster)
}

fn check_refusal(cluster: &Cluster, claim: &Claim, expect: &str) {
    assert_eq!(reason(cluster, &decided(cluster, &[claim])), expect);
}

fn device(name: &str, place: &str) -> TestDevice {
    TestDevice {
        name: name.to_owned(),
        kind: if name.starts_with("gpu") { "gpu" } else { "nic" },
        place: place.to_owned(),
        numa: 0,
        island: None,
        color: None,
        tainted: false,
    }
}

#[test]
fn pairs_share_a_switch_and_the_grant_says_so() {
    let cluster = cluster(&[("n", switches(4, 1, 1))]);
    let (node, grants) = granted(&cluster, &[&pairs(2)]);
    assert_eq!(node, "n");
    let units = &grants[0].units;
    let shown: Vec<String> = units
        .iter()
        .map(|unit| {
            let names: Vec<&str> = unit.devices.iter().map(|d| d.device.as_str()).collect();
            let class = unit.class.unwrap();
            format!("{} {class} {}", names.join("+"), unit.via.clone().unwrap())
        })
        .collect();
    assert_eq!(shown, ["gpu-0-0+nic-0-0 PIX 0000:00:00.0", "gpu-1-0+nic-1-0 PIX 0000:01:00.0"]);
    assert_eq!(names(&grants[0]), ["gpu-0-0", "nic-0-0", "gpu-1-0", "nic-1-0"]);
}

#[test]
fn single_gpus_leave_the_pairs_for_those_who_need_them() {
    // Four switches with two GPUs and one NIC each: two GPUs can be taken without losing a pair.
    let cluster = cluster(&[("n", switches(4, 2, 1))]);
    let claim = parse(claim_value("c", &[("g", "gpu.lanemate.dev", 2)]), &mut classes(&[]));
    let decision = decided(&cluster, &[&claim.unwrap()]);
    assert_eq!(decision.chosen.unwrap().1.score.pairs_lost, 0);
}

#[test]
fn a_refusal_names_what_is_left_and_who_holds_the_rest() {
    let mut cluster = cluster(&[("n", switches(4, 1, 1))]);
    hold(&mut cluster, "n", &["nic-2-0", "gpu-3-0", "nic-3-0"]);
    check_refusal(
        &cluster,
        &pairs(3),
        "node n: request pair (nic): needs 3 NICs; 4 of 8 devices match, 2 are free; \
         nic-2-0, nic-3-0 are held by ns/other",
    );
    hold(&mut cluster, "n", &["gpu-0-0"]);
    check_refusal(
        &cluster,
        &pairs(2),
        "node n: needs 2 GPU-NIC pairs within PXB; 1 left: switch 0000:01:00.0; switch 0000:00:00.0 has nic-0-0 free but no free GPU: gpu-0-0 is \
         held by ns/other; switch 0000:02:00.0 has gpu-2-0 free but no free NIC: nic-2-0 is held \
         by ns/other",
    );
}

#[test]
fn devices_that_have_no_mate_near_are_said_to_have_none() {
    let apart = vec![
        device("gpu-a", "pci0000:00/01.0"),
        device("gpu-b", "pci0000:10/01.0"),
        device("nic-a", "pci0000:20/01.0"),
    ];
    check_refusal(
        &cluster(&[("n", apart)]),
        &pairs(1),
        "node n: needs 1 GPU-NIC pair within PXB; 0 left; no GPU is near enough to nic-a; \
         no NIC is near enough to gpu-a, gpu-b",
    );
}

#[test]
fn selectors_and_taints_are_named_when_they_are_what_is_missing() {
    let mut devices = switches(2, 1, 1);
    devices[3].tainted = true;
    let cluster = cluster(&[("n", devices)]);
    let ask = |count: u32| {
        parse(claim_value("c", &[("n", "nic.lanemate.dev", count)]), &mut classes(&[])).unwrap()
    };
    check_refusal(
        &cluster,
        &ask(2),
        "node n: request n: needs 2 NICs; 2 of 4 devices match, 1 with a taint that is not tolerated \
         (lanemate.dev/port-down), 1 is free",
    );
    let mut tolerant = claim_value("c", &[("n", "nic.lanemate.dev", 2)]);
    tolerant["spec"]["devices"]["requests"][0]["exactly"]["tolerations"] =
        json!([{"key": "lanemate.dev/port-down", "operator": "Exists"}]);
    let (_, grants) = granted(&cluster, &[&parse(tolerant, &mut classes(&[])).unwrap()]);
    let results = grants[0].result.devices.clone().unwrap().results.unwrap();
    assert!(results.iter().all(|result| result.tolerations.as_ref().unwrap().len() == 1));
}

#[test]
fn two_claims_of_a_pod_are_served_together_or_not_at_all() {
    let mut cluster = cluster(&[("n", switches(2, 1, 1))]);
    let mut known = classes(&[pair_class()]);
    let mut claim =
        |name: &str| parse(claim_value(name, &[("pair", "pair", 1)]), &mut known).unwrap();
    let (a, b) = (claim("a"), claim("b"));
    let (_, grants) = granted(&cluster, &[&a, &b]);
    assert_eq!(names(&grants[0]), ["gpu-0-0", "nic-0-0"]);
    assert_eq!(names(&grants[1]), ["gpu-1-0", "nic-1-0"]);
    hold(&mut cluster, "n", &["gpu-1-0"]);
    assert!(decided(&cluster, &[&a, &b]).chosen.is_none());
    assert!(decided(&cluster, &[&a]).chosen.is_some());
}

#[test]
fn a_placement_pairs_the_devices_of_plain_requests_in_order() {
    let cluster = cluster(&[("n", switches(4, 1, 2))]);
    let mut claim =
        claim_value("c", &[("nic", "nic.lanemate.dev", 4), ("gpu", "gpu.lanemate.dev", 2)]);
    claim["spec"]["devices"]["config"] = json!([{"opaque": {"driver": "lanemate.dev", "parameters": {
        "apiVersion": "lanemate.dev/v1alpha1", "kind": "Placement",
        "unit": [{"request": "gpu"}, {"request": "nic", "count": 2}],
    }}}]);
    let claim = parse(claim, &mut classes(&[])).unwrap();
    let (_, grants) = granted(&cluster, &[&claim]);
    let got: Vec<String> =
        devices(&grants[0]).iter().map(|(request, device)| format!("{request}={device}")).collect();
    assert_eq!(
        got,
        ["nic=nic-0-0", "nic=nic-0-1", "nic=nic-1-0", "nic=nic-1-1", "gpu=gpu-0-0", "gpu=gpu-1-0"]
    );
    let config = grants[0].result.devices.clone().unwrap().config.unwrap();
    let last = &config.last().unwrap();
    assert_eq!(last.source, "FromClass");
    assert_eq!(last.requests, Some(vec!["gpu".to_owned(), "nic".to_owned()]));
    let units = &last.opaque.as_ref().unwrap().parameters.0;
    assert_eq!(units["kind"], "AllocatedUnits");
    assert_eq!(units["units"][1]["devices"][0]["device"], "gpu-1-0");
    assert_eq!(units["units"][1]["via"], "0000:01:00.0");
}

#[test]
fn units_under_long_names_are_spread_over_entries_that_the_api_server_takes() {
    let node = format!("{}.example.com", "n".repeat(240));
    let cluster = cluster(&[(&node, switches(16, 1, 1))]);
    let (_, grants) = granted(&cluster, &[&pairs(16)]);
    let config = grants[0].result.devices.clone().unwrap().config.unwrap();
    let parameters: Vec<Value> =
        config.into_iter().map(|entry| entry.opaque.unwrap().parameters.0).collect();
    assert_eq!(parameters.len(), 2);
    assert!(parameters.iter().all(|p| p.to_string().len() <= 10 * 1024));
    let units = parameters.iter().map(|p| p["units"].as_array().unwrap().len()).sum::<usize>();
    assert_eq!(units, 16);
}

#[test]
fn wishes_come_before_everything_else() {
    let nested = vec![
        device("gpu-a", "pci0000:00/01.0/01:00.0/02:00.0"),
        device("gpu-b", "pci0000:10/01.0/11:00.0/12:00.0"),
        device("nic-a", "pci0000:00/01.0/01:00.0/03:00.0"),
        device("nic-b", "pci0000:10/01.0/11:00.0/12:00.0"),
    ];
    let cluster = cluster(&[("n", nested)]);
    let wish =
        unit_class("near", (1, 1), json!({"within": {"required": "SYS", "preferred": "PIX"}}));
    let claim = parse(claim_value("c", &[("p", "near", 1)]), &mut classes(&[wish])).unwrap();
    let (_, grants) = granted(&cluster, &[&claim]);
    assert_eq!(names(&grants[0]), ["gpu-b", "nic-b"]);
}

#[test]
fn a_class_that_allows_it_falls_back_to_farther_devices() {
    let mut cluster = cluster(&[("n", switches(4, 1, 1))]);
    hold(&mut cluster, "n", &["nic-0-0", "nic-1-0", "gpu-2-0", "gpu-3-0"]);
    let far = unit_class("far", (1, 1), json!({"within": {"required": "SYS"}}));
    let claim = parse(claim_value("c", &[("p", "far", 2)]), &mut classes(&[far])).unwrap();
    let (_, grants) = granted(&cluster, &[&claim]);
    let classes: Vec<_> = grants[0].units.iter().map(|unit| unit.class.unwrap()).collect();
    assert_eq!(classes, [lanemate_api::PathClass::Sys; 2]);
    assert!(decided(&cluster, &[&pairs(1)]).chosen.is_none());
}

#[test]
fn units_that_must_stay_together_are_refused_when_they_cannot() {
    let mut cluster = cluster(&[("n", switches(4, 1, 1))]);
    let near = unit_class("near", (1, 1), json!({"across": {"required": "NODE"}}));
    let mut known = classes(&[near]);
    let mut ask =
        |count: u32| parse(claim_value("c", &[("p", "near", count)]), &mut known).unwrap();
    let (two, three) = (ask(2), ask(3));
    hold(&mut cluster, "n", &["gpu-0-0"]);
    let (_, grants) = granted(&cluster, &[&two]);
    assert_eq!(names(&grants[0]), ["gpu-2-0", "nic-2-0", "gpu-3-0", "nic-3-0"]);
    assert!(decided(&cluster, &[&three]).chosen.is_none());
}

#[test]
fn a_refusal_says_how_units_have_to_stand_to_each_other() {
    let flat = vec![
        device("gpu-a", "pci0000:00/01.0"),
        device("gpu-b", "pci0000:00/02.0"),
        device("nic-a", "pci0000:00/03.0"),
    ];
    let near = unit_class("near", (1, 1), json!({"within": {"required": "PHB"}}));
    let across = unit_class("across", (1, 1), json!({"across": {"required": "NODE"}}));
    let mut known = classes(&[near, across]);
    let ask = |class: &str, count: u32| claim_value("c", &[("p", class, count)]);
    let two = parse(ask("near", 2), &mut known).unwrap();
    let mut free = cluster(&[("n", flat)]);
    check_refusal(
        &free,
        &two,
        "node n: request p (nic): needs 2 NICs; 1 of 3 devices match, 1 is free",
    );
    free = cluster(&[("n", switches(4, 1, 1))]);
    check_refusal(
        &free,
        &parse(ask("across", 3), &mut known).unwrap(),
        "node n: needs 3 GPU-NIC pairs within PXB, all within NODE of each other; enough are \
         free, but too far from each other",
    );
    let mut bound = ask("across", 2);
    bound["spec"]["devices"]["constraints"] =
        json!([{"requests": ["p"], "matchAttribute": "lanemate.dev/pcieSwitch"}]);
    let text = reason(&free, &decided(&free, &[&parse(bound, &mut known).unwrap()]));
    assert!(text.contains("all with one lanemate.dev/pcieSwitch; 1 left"), "{text}");
}

#[test]
fn the_node_that_is_fuller_already_is_chosen() {
    let mut cluster =
        cluster(&[("a", switches(4, 1, 1)), ("b", switches(4, 1, 1)), ("c", switches(4, 1, 1))]);
    hold(&mut cluster, "b", &["gpu-0-0", "nic-0-0"]);
    let (node, _) = granted(&cluster, &[&pairs(1)]);
    assert_eq!(node, "b");
    let (node, _) = granted(&cluster, &[&pairs(4)]);
    assert_ne!(node, "b");
}

#[test]
fn devices_that_rest_are_taken_last() {
    let mut devices = switches(2, 1, 0);
    devices.iter_mut().for_each(|device| device.numa = 0);
    let cluster = cluster(&[("n", devices)]);
    let claim =
        parse(claim_value("c", &[("g", "gpu.lanemate.dev", 1)]), &mut classes(&[])).unwrap();
    let node = cluster.node("n").unwrap();
    let problem = crate::allocation::Problem::new(&[&claim]).unwrap();
    let state = crate::allocation::State {
        layout: &node.layout,
        accepted_by: &[1, 1],
        free: node.free,
        resting: [0].into_iter().collect(),
    };
    let grant = crate::allocation::solve(&problem, state, 1000).unwrap();
    assert_eq!(grant.sets[0][0][0], [1]);
}

#[test]
fn a_selector_that_fails_is_an_error_only_where_nothing_else_fits() {
    let select = |cluster: &Cluster, known: &mut Classes| {
        let mut claim = claim_value("c", &[("g", "any", 1)]);
        claim["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = json!(
            [{"cel": {"expression": "device.attributes[\"lanemate.dev\"].color == \"red\""}}]
        );
        decided(cluster, &[&parse(claim, known).unwrap()])
    };
    let mut devices = switches(2, 1, 0);
    let plain = cluster(&[("n", devices.clone())]);
    let failed = select(&plain, &mut classes(&[]));
    assert!(failed.failed());
    let text = failed.summary(&plain);
    assert!(text.contains("gpu-0-0") && text.contains("lanemate.dev/color"), "{text}");
    devices[1].color = Some("red");
    let mixed = cluster(&[("n", devices)]);
    let decision = select(&mixed, &mut classes(&[]));
    assert!(matches!(decision.answers[0].1, Answer::Fits(_)));
}

#[test]
fn a_spent_budget_is_said() {
    let cluster = cluster(&[("n", switches(8, 2, 2))]);
    let claim = pairs(4);
    let node = cluster.node("n").unwrap();
    let problem = crate::allocation::Problem::new(&[&claim]).unwrap();
    let filters: Vec<_> = problem.filters.iter().map(|wanted| &wanted.filter).collect();
    let accepted = crate::allocation::Evaluations::default().accept(&filters, node).accepted_by;
    let state = crate::allocation::State {
        layout: &node.layout,
        accepted_by: &accepted,
        free: node.free,
        resting: node.resting,
    };
    let answer = crate::allocation::solve(&problem, state, 10);
    assert_eq!(answer, Err(crate::allocation::Shortage::Budget));
}

#[test]
fn captured_hosts_never_exhaust_the_budget() {
    for (switch_count, gpus, nics) in [(8, 1, 1), (8, 2, 2), (4, 2, 2), (4, 4, 1), (2, 4, 4)] {
        for hold_every in [0, 2, 3, 5] {
            let mut cluster = cluster(&[("n", switches(switch_count, gpus, nics))]);
            let ids: Vec<String> = {
                let layout = &cluster.node("n").unwrap().layout;
                let held = layout.devices.iter().enumerate();
                held.filter(|(index, _)| hold_every > 0 && index % hold_every == 0)
                    .map(|(_, device)| device.name.clone())
                    .collect()
            };
            hold(&mut cluster, "n", &ids.iter().map(String::as_str).collect::<Vec<_>>());
            for locality in [json!({}), json!({"within": {"required": "SYS", "preferred": "PIX"}})]
            {
                for count in [1, 2, 4, 8] {
                    let class = unit_class("u", (1, 1), locality.clone());
                    let claim =
                        parse(claim_value("c", &[("u", "u", count)]), &mut classes(&[class]));
                    let decision = decided(&cluster, &[&claim.unwrap()]);
                    assert!(decision.optimal, "{switch_count} x ({gpus}, {nics}), {count} units");
                }
            }
        }
    }
}
