//! The forms of the answer. `UPDATE_GOLDEN=1 cargo test` rewrites the golden files; the diff is the review.

use k8s_openapi::api::resource::v1::ResourceClaim;
use serde_json::Value;

use crate::golden::check_golden;
use crate::scene::{Scene, claim, claim_with, example, list, text};

const NOW: &str = "2026-01-02T03:04:05Z";

fn check_table(name: &str, text: &str) {
    check_golden(name, text);
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or_default();
    assert!(widest <= 80, "{name}: {widest} columns");
}

fn mixed() -> Scene {
    let claims = [
        claim("pairs", "gpu-rdma-pair", 3),
        claim("gpus", "gpu.lanemate.dev", 5),
        claim("more", "gpu-rdma-pair", 4),
        claim("typo", "gpu-rmda-pair", 1),
        example("shared-nic.yaml"),
    ];
    Scene::of("dgx-h100", &claims)
}

#[test]
fn tables_are_as_reviewed() {
    check_table("plan-mixed.txt", &mixed().run().stdout);
    let explained = mixed().host_as("a100", "dgx-a100").host_as("l40s", "l40s-4to1");
    check_table("plan-explain.txt", &explained.args(&["--explain"]).run().stdout);
    let wish = example("shared-nic.yaml").replace("{required: NODE}", "{preferred: PIX}");
    let wishful = Scene::of("dgx-h100", &[wish]).host_as("l40s", "l40s-4to1");
    let wishful = wishful.host_as("dell", "dell-xe9680-h200");
    check_table("plan-wishes.txt", &wishful.args(&["--explain"]).run().stdout);
}

#[test]
fn json_is_the_contract() {
    let answer = mixed().args(&["-o", "json"]).run();
    check_golden("plan-mixed.json", &answer.stdout);
    let text = answer.stdout;
    assert!(!text.contains("null") && !text.contains("\"\""), "unknown is absent");
}

fn yaml(scene: Scene) -> Value {
    let answer = scene.args(&["-o", "yaml", "--now", NOW]).run();
    serde_saphyr::from_str(&answer.stdout).unwrap()
}

/// A claim as the API types take it; what they do not know would be lost, and seen.
fn typed(value: &Value) -> ResourceClaim {
    let claim: ResourceClaim = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(&claim).unwrap(), *value);
    claim
}

#[test]
fn yaml_is_the_claims_with_their_allocation() {
    let only = yaml(Scene::of("dgx-h100", &[claim("c", "gpu-rdma-pair", 2)]));
    let claim_ = typed(&only);
    let allocation = claim_.status.unwrap().allocation.unwrap();
    assert_eq!(allocation.allocation_timestamp.unwrap().0.to_string(), NOW);
    assert_eq!(allocation.devices.unwrap().results.unwrap().len(), 4);

    let several = yaml(mixed());
    assert_eq!((text(&several, "/apiVersion"), text(&several, "/kind")), ("v1", "List"));
    let claims: Vec<ResourceClaim> = list(&several, "/items").iter().map(typed).collect();
    assert!(claims.len() > 1);

    let none = yaml(Scene::of("dgx-h100", &[]));
    assert_eq!(none["items"], Value::Array(Vec::new()));
}

#[test]
fn what_was_planned_holds_when_it_is_read_again() {
    let claims = claim("c", "gpu-rdma-pair", 6);
    let scene = Scene::of("dgx-h100", &[claims]).args(&["-o", "yaml"]).run();
    let again = Scene::of("dgx-h100", &[scene.stdout, claim("d", "gpu-rdma-pair", 3)]).json(3);
    assert!(text(&again, "/refused/0/reason").contains("held by default/c"));
}

#[test]
fn finalizers_and_other_fields_of_a_claim_stay() {
    let finalized = claim_with("c", "gpu-rdma-pair", 1, "").replace(
        "metadata: {name: c}",
        "metadata: {name: c, uid: u, finalizers: [example.dev/x], annotations: {a: b}}",
    );
    let claim = typed(&yaml(Scene::of("dgx-h100", &[finalized])));
    assert_eq!(claim.metadata.finalizers.unwrap(), ["example.dev/x"]);
    assert_eq!(claim.metadata.annotations.unwrap()["a"], "b");
}

#[test]
fn repeating_tells_how_long_a_decision_takes() {
    let claims = [claim("a", "gpu-rdma-pair", 4), claim("b", "gpu-rdma-pair", 4)];
    let answer = Scene::of("dgx-h100", &claims).args(&["--repeat", "20"]).json(0);
    let nanos = |field: &str| answer["timing"][field].as_u64().unwrap();
    assert_eq!(nanos("decisions"), 20);
    assert!(0 < nanos("minNs"));
    assert!(nanos("minNs") <= nanos("medianNs") && nanos("medianNs") <= nanos("p99Ns"));
    // The repetitions reserve nothing.
    assert_eq!(list(&answer, "/allocations").len(), 2);
}

#[test]
fn explaining_marks_the_chosen_node_and_ranks_the_others() {
    let scene = Scene::of("dgx-h100", &[claim("c", "gpu-rdma-pair", 2)]);
    let answer = scene.host_as("l40s", "l40s-4to1").args(&["--explain"]).json(0);
    let nodes = list(&answer, "/considered/0/nodes");
    let chosen: Vec<&str> = nodes
        .iter()
        .filter(|node| node["chosen"] == true)
        .map(|node| text(node, "/node"))
        .collect();
    assert_eq!(chosen, ["dgx-h100"]);
    assert_eq!(nodes[0]["rank"]["worstClass"], "PXB");
    assert_eq!(nodes[0]["rank"]["gpusLeft"], 6);
    assert!(text(&nodes[1], "/reason").contains("needs 2 devices"));
}

#[test]
fn a_claim_without_requests_gets_no_devices_and_says_so() {
    let empty =
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\nspec: {}\n";
    let answer = Scene::of("dgx-h100", &[empty.to_owned()]).run();
    assert_eq!(answer.stdout, "default/c on dgx-h100\n  no devices\n\n1 claim placed\n");
}

#[test]
fn the_explanation_keeps_to_80_columns_with_long_names_too() {
    let scene = Scene::new()
        .host_as("ip-10-0-100-200.eu-west-1.compute.internal", "dgx-h100")
        .host_as("ip-10-0-100-201.eu-west-1.compute.internal", "l40s-4to1")
        .file("class.yaml", &crate::scene::pair_class())
        .file("claims.yaml", &claim("c", "gpu-rdma-pair", 2));
    let answer = scene.args(&["--explain"]).run();
    assert!(answer.stdout.lines().all(|line| line.chars().count() <= 80), "{}", answer.stdout);
    let expect = "  > ip-10-0-100-200.eu-west-1.compute.internal\n                            PXB";
    assert!(answer.stdout.contains(expect), "{}", answer.stdout);
}
