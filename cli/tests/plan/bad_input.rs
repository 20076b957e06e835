//! What is wrong is told with file, field and expectation, and does not stop the other claims.

use crate::program::{capture, lanemate};
use crate::scene::{Scene, claim, claim_with, list, pair_class, text};

/// One broken claim beside a good one: the good one is placed, the broken one is an error.
fn check_claim(broken: &str, expect: &[&str]) {
    let answer = Scene::of("dgx-h100", &[claim("good", "gpu-rdma-pair", 1), broken.to_owned()]);
    let answer = answer.json(1);
    assert_eq!(text(&answer, "/allocations/0/claim"), "default/good");
    let [refused] = list(&answer, "/refused") else { panic!("{answer}") };
    assert_eq!(text(refused, "/kind"), "error", "{refused}");
    let reason = text(refused, "/reason");
    assert!(reason.starts_with("claims.yaml: document 2 (line "), "{reason}");
    assert!(!reason.contains('\n'), "{reason}");
    for part in expect {
        assert!(reason.contains(part), "{part:?} is not in: {reason}");
    }
}

/// Files or arguments that stop everything: one line on stderr.
fn check_all(scene: Scene, expect: &[&str]) {
    let answer = scene.run();
    assert_eq!((answer.status, answer.stdout.as_str()), (1, ""), "{}", answer.stderr);
    assert_eq!(answer.stderr.lines().count(), 1, "{}", answer.stderr);
    for part in expect {
        assert!(answer.stderr.contains(part), "{part:?} is not in: {}", answer.stderr);
    }
}

fn cel(expression: &str) -> String {
    let selector = format!(", selectors: [{{cel: {{expression: '{expression}'}}}}]");
    claim_with("bad", "gpu.lanemate.dev", 1, &selector)
}

#[test]
fn a_claim_that_names_a_missing_class() {
    check_claim(
        &claim("bad", "gpu-rmda-pair", 1),
        &["spec.devices.requests[0].exactly.deviceClassName", "\"gpu-rmda-pair\"", "expected"],
    );
}

#[test]
fn a_cel_error_names_expression_device_and_attribute() {
    let expression = "device.attributes[\"lanemate.dev\"].fabric == \"east\"";
    check_claim(
        &cel(expression),
        &["dgx-h100", expression, "device gpu-0000-", "lanemate.dev/fabric"],
    );
}

#[test]
fn a_cel_syntax_error_names_field_and_position() {
    check_claim(
        &cel("device.driver == "),
        &["spec.devices.requests[0].exactly.selectors[0].cel.expression", "device.driver ==", "1:"],
    );
    check_claim(&cel("device.drivers == \"x\""), &["selectors[0]", "drivers"]);
}

#[test]
fn counts_of_none_and_of_too_many() {
    check_claim(
        &claim("bad", "gpu-rdma-pair", 0),
        &["spec.devices.requests[0].exactly.count", "expected at least 1", "0"],
    );
    check_claim(&claim("bad", "gpu.lanemate.dev", 33), &["spec.devices.requests", "33", "32"]);
    check_claim(&claim("bad", "gpu-rdma-pair", 17), &["spec.devices.requests", "34", "32"]);
}

fn placement(parameters: &str) -> String {
    format!(
        "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {{name: bad}}\n\
         spec:\n  devices:\n    requests:\n    \
         - {{name: gpu, exactly: {{deviceClassName: gpu.lanemate.dev, count: 4}}}}\n    \
         - {{name: nic, exactly: {{deviceClassName: nic.lanemate.dev, count: 2}}}}\n    config:\n    \
         - opaque:\n        driver: lanemate.dev\n        parameters: {{apiVersion: \
         lanemate.dev/v1alpha1, kind: Placement, {parameters}}}\n"
    )
}

#[test]
fn a_placement_that_does_not_go_with_its_requests() {
    let field = "spec.devices.config[0].opaque.parameters";
    check_claim(
        &placement("unit: [{request: gpu, count: 2}, {request: fpga}]"),
        &[field, "unit[1].request", "\"fpga\""],
    );
    check_claim(
        &placement("unit: [{request: gpu, count: 3}, {request: nic}]"),
        &[field, "unit[0].count", "asks for 4", "3", "expected"],
    );
    check_claim(
        &placement("unit: [{request: gpu}, {request: nic}]"),
        &[field, "unit[1].count", "expected the same number of whole units"],
    );
    check_claim(
        &placement("unit: [{request: gpu, count: 2}, {request: nic}], within: {required: NEAR}"),
        &[field, "within.required", "NEAR", "PIX"],
    );
    check_claim(
        &placement("unit: [{request: gpu, count: 2}, {request: nic}], unlike: 1"),
        &[field, "unlike"],
    );
}

#[test]
fn unknown_fields_and_features() {
    check_claim(
        &claim_with("bad", "gpu.lanemate.dev", 1, ", size: 3"),
        &["spec.devices.requests[0].exactly.size: unknown field"],
    );
    check_claim(
        &claim_with("bad", "gpu.lanemate.dev", 1, ", adminAccess: true"),
        &["exactly.adminAccess", "not supported yet"],
    );
}

#[test]
fn a_broken_class_is_named_with_its_file() {
    let class =
        pair_class().replace("gpu-rdma-pair", "broken").replace("nic.lanemate.dev", "nic.x");
    let scene = Scene::of("dgx-h100", &[claim("bad", "broken", 1)]).file("other.yaml", &class);
    let answer = scene.json(1);
    let reason = text(&answer, "/refused/0/reason");
    for part in
        ["claims.yaml: document 1", "spec.members[1].deviceClassName", "\"nic.x\"", "other.yaml"]
    {
        assert!(reason.contains(part), "{part:?} is not in: {reason}");
    }
    let class = pair_class().replace("required: PXB", "required: NEAR");
    let scene = Scene::new().host("dgx-h100").file("class.yaml", &class);
    check_all(scene, &["class.yaml: document 1", "spec.locality.within.required", "NEAR", "PIX"]);
}

#[test]
fn a_device_class_with_a_wrong_configuration_is_not_ignored() {
    let class = "---\napiVersion: resource.k8s.io/v1\nkind: DeviceClass\n\
        metadata: {name: broken}\nspec: {config: [{opaque: {driver: lanemate.dev, parameters: \
        {apiVersion: lanemate.dev/v1alpha1, kind: Environment, ncl: true}}}]}\n";
    check_claim(
        &(claim("bad", "broken", 1) + class),
        &[
            "class \"broken\": spec.config[0].opaque.parameters",
            "unknown field `ncl`",
            "document 3 (line 11)",
        ],
    );
}

#[test]
fn two_machines_with_one_name() {
    let scene = Scene::of("dgx-h100", &[]).host("dgx-h100");
    check_all(scene, &["metadata.name", "expected a name of its own", "\"dgx-h100\""]);
    let scene = Scene::of("dgx-h100", &[]).host_as("dgx-h100", "dgx-a100");
    check_all(scene, &["--host", "expected a name of its own", "\"dgx-h100\""]);
    let slices = lanemate(&["slices", "--host", &capture("dgx-h100")]).stdout;
    let scene = Scene::of("dgx-h100", &[]).file("s.yaml", &String::from_utf8(slices).unwrap());
    check_all(scene, &["--host", "\"dgx-h100\"", "expected a name of its own"]);
}

#[test]
fn files_that_cannot_be_read() {
    check_all(Scene::new().args(&["-f", "/nonexistent"]), &["/nonexistent", "No such file"]);
    check_all(
        Scene::new().file("t.yaml", "kind: Pod\nmetadata: {name: [\n"),
        &["t.yaml: line 2 \"metadata: {name: [\": "],
    );
    check_all(
        Scene::new().file("t.yaml", "apiVersion: resource.k8s.io/v1beta1\nkind: ResourceClaim\n"),
        &["t.yaml", "resource.k8s.io/v1beta1", "resource.k8s.io/v1"],
    );
}

#[test]
fn without_any_node_nothing_fits_and_the_reason_says_what_to_give() {
    let scene = Scene::new().file("c.yaml", &claim("c", "gpu.lanemate.dev", 1));
    let answer = scene.json(3);
    assert!(text(&answer, "/refused/0/reason").starts_with("there is no node: expected a Node"));
}

#[test]
fn wrong_usage_is_status_2() {
    for args in [
        &["plan"] as &[&str],
        &["plan", "-f", "x", "--repeat", "0"],
        &["plan", "-f", "x", "--now", "yesterday"],
        &["plan", "-f", "x", "--override", "o.xml"],
        &["plan", "-f", "x", "-n", "My Space"],
        &["plan", "-f", "x", "--host", ""],
        &["plan", "-f", "x", "--host", "n1="],
    ] {
        assert_eq!(lanemate(args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn errors_are_on_stderr_where_stdout_is_for_programs() {
    let claims = [claim("bad", "nowhere", 1), claim("big", "gpu.lanemate.dev", 9)];
    let json = Scene::of("dgx-h100", &claims).args(&["-o", "json"]).run();
    assert!(json.stderr.starts_with("lanemate: claim default/bad: claims.yaml: document 1"));
    assert_eq!((json.status, json.stderr.lines().count()), (1, 1));
    let yaml = Scene::of("dgx-h100", &claims).args(&["-o", "yaml"]).run();
    assert_eq!((yaml.status, yaml.stderr.lines().count()), (1, 2), "{}", yaml.stderr);
}
