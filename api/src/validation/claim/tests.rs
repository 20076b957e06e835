//! Rows of claims and what is wrong with them.

use serde_json::{Value, json};

use super::*;

const LABEL: &str = "a DNS label (a-z, 0-9 and inner -, at most 63)";
const SUBDOMAIN: &str = "a DNS subdomain (a-z, 0-9, inner - and .)";

fn errors_of(claim: Value) -> Vec<String> {
    told(validate_claim(&serde_json::from_value(claim).unwrap()))
}

fn errors_of_template(template: Value) -> Vec<String> {
    told(validate_claim_template(&serde_json::from_value(template).unwrap()))
}

fn told(result: Result<(), Vec<ValidationError>>) -> Vec<String> {
    result.err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

/// Errors of a claim with the given `spec.devices`; a template with the same claim has the same
/// errors one level deeper.
fn check(devices: Value, expect: &[&str]) {
    let metadata = json!({"name": "c", "namespace": "ns"});
    let errors = errors_of(json!({"metadata": metadata, "spec": {"devices": devices.clone()}}));
    assert_eq!(errors, expect, "{devices}");
    let template = json!({"metadata": metadata, "spec": {"spec": {"devices": devices}}});
    let deeper: Vec<String> = errors.iter().map(|error| format!("spec.{error}")).collect();
    assert_eq!(errors_of_template(template), deeper);
}

/// Errors of a claim with one exact request, whose path is left out.
fn check_exactly(request: Value, expect: &[&str]) {
    let mut exactly = json!({"deviceClassName": "gpu.lanemate.dev"});
    exactly.as_object_mut().unwrap().extend(request.as_object().unwrap().clone());
    let expect: Vec<String> =
        expect.iter().map(|e| format!("spec.devices.requests[0].exactly.{e}")).collect();
    let expect: Vec<&str> = expect.iter().map(String::as_str).collect();
    check(json!({"requests": [{"name": "r", "exactly": exactly}]}), &expect);
}

/// Two requests: `gpu`, and `nic` with the alternatives `fast` and `slow`.
fn with_requests(rest: Value) -> Value {
    let class = "nic.lanemate.dev";
    let mut devices = json!({"requests": [
        {"name": "gpu", "exactly": {"deviceClassName": "gpu.lanemate.dev"}},
        {"name": "nic", "firstAvailable": [
            {"name": "fast", "deviceClassName": class},
            {"name": "slow", "deviceClassName": class}]}]});
    devices.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    devices
}

fn exact(name: &str) -> Value {
    json!({"name": name, "exactly": {"deviceClassName": "gpu.lanemate.dev"}})
}

#[test]
fn good_claims_have_no_errors() {
    check(json!(null), &[]);
    check(json!({"requests": []}), &[]);
    check(json!({"requests": [exact("r")]}), &[]);
    check(
        with_requests(json!({
            "constraints": [
                {"matchAttribute": "lanemate.dev/pcieSwitch"},
                {"distinctAttribute": "lanemate.dev/uuid", "requests": ["gpu", "nic/fast"]}],
            "config": [
                {"requests": ["nic", "nic/slow"],
                 "opaque": {"driver": "lanemate.dev", "parameters": {"kind": "Environment"}}}]})),
        &[],
    );
}

#[test]
fn names_are_checked() {
    let claim = |metadata: Value| errors_of(json!({"metadata": metadata, "spec": {}}));
    assert_eq!(claim(json!({"name": "a.b"})), [""; 0]);
    assert_eq!(claim(json!({})), [format!("metadata.name: required: {SUBDOMAIN}")]);
    assert_eq!(
        claim(json!({"name": "A", "namespace": "a.b"})),
        [
            format!("metadata.name: expected {SUBDOMAIN}, found \"A\""),
            format!("metadata.namespace: expected {LABEL}, found \"a.b\""),
        ]
    );
}

#[test]
fn a_template_gives_its_claims_labels_and_annotations_only() {
    let template = |metadata: Value| {
        errors_of_template(json!({"metadata": {"name": "t"}, "spec": {"metadata": metadata}}))
    };
    assert_eq!(template(json!({"labels": {"a": "b"}, "annotations": {"c": "d"}})), [""; 0]);
    assert_eq!(template(json!({"creationTimestamp": null})), [""; 0]);
    let expect = ["spec.metadata: expected labels and annotations only"];
    assert_eq!(template(json!({"name": "n"})), expect);
    assert_eq!(template(json!({"labels": {}, "finalizers": ["f"]})), expect);
}

#[test]
fn requests_are_named_and_counted() {
    let list = |count: usize| json!({"requests": (0..count).map(|i| exact(&format!("r{i}"))).collect::<Vec<_>>()});
    check(list(32), &[]);
    check(list(33), &["spec.devices.requests: expected at most 32 entries, found 33"]);
    check(
        json!({"requests": [exact("a"), exact("A"), exact(""), exact("a"), exact("")]}),
        &[
            "spec.devices.requests[3].name: duplicate \"a\"",
            &format!("spec.devices.requests[1].name: expected {LABEL}, found \"A\""),
            &format!("spec.devices.requests[2].name: required: {LABEL}"),
            &format!("spec.devices.requests[4].name: required: {LABEL}"),
        ],
    );
}

#[test]
fn a_request_is_exact_or_has_alternatives() {
    let sub = |name: &str| json!({"name": name, "deviceClassName": "c"});
    let subs = |count: usize| {
        let list: Vec<Value> = (0..count).map(|i| sub(&format!("s{i}"))).collect();
        json!({"requests": [{"name": "r", "firstAvailable": list}]})
    };
    let exactly = json!({"deviceClassName": "c"});
    let neither = "spec.devices.requests[0]: \
                   expected one of exactly and firstAvailable, found neither";
    check(json!({"requests": [{"name": "r"}]}), &[neither]);
    check(subs(0), &[neither]);
    check(subs(1), &[]);
    check(subs(8), &[]);
    check(
        subs(9),
        &["spec.devices.requests[0].firstAvailable: expected at most 8 entries, found 9"],
    );
    check(
        json!({"requests": [{"name": "r", "exactly": exactly, "firstAvailable": [sub("a")]}]}),
        &["spec.devices.requests[0]: expected one of exactly and firstAvailable, found both"],
    );
    check(json!({"requests": [{"name": "r", "exactly": exactly, "firstAvailable": []}]}), &[]);
    check(
        json!({"requests": [{"name": "r", "firstAvailable": [sub("a"), sub("a"), sub("B"),
            {"name": "d", "deviceClassName": "c", "count": 0}, {"name": "e"}]}]}),
        &[
            "spec.devices.requests[0].firstAvailable[1].name: duplicate \"a\"",
            &format!(
                "spec.devices.requests[0].firstAvailable[2].name: expected {LABEL}, found \"B\""
            ),
            "spec.devices.requests[0].firstAvailable[3].count: expected at least 1, found 0",
            "spec.devices.requests[0].firstAvailable[4].deviceClassName: \
             required: the name of a DeviceClass or ResourceClass",
        ],
    );
}

#[test]
fn a_class_is_named() {
    check_exactly(json!({"deviceClassName": "gpu-rdma-pair"}), &[]);
    check_exactly(
        json!({"deviceClassName": ""}),
        &["deviceClassName: required: the name of a DeviceClass or ResourceClass"],
    );
    check_exactly(
        json!({"deviceClassName": "Pair"}),
        &["deviceClassName: expected the name of a DeviceClass or ResourceClass, found \"Pair\""],
    );
}

#[test]
fn counts_belong_to_the_exact_mode() {
    for good in [
        json!({"count": 1}),
        json!({"count": 33}),
        json!({"allocationMode": "ExactCount"}),
        json!({"allocationMode": "ExactCount", "count": 2}),
        json!({"allocationMode": "All"}),
        json!({"allocationMode": "All", "count": 0}),
    ] {
        check_exactly(good, &[]);
    }
    check_exactly(json!({"count": 0}), &["count: expected at least 1, found 0"]);
    check_exactly(json!({"count": -1}), &["count: expected at least 1, found -1"]);
    check_exactly(
        json!({"allocationMode": "ExactCount", "count": 0}),
        &["count: expected at least 1, found 0"],
    );
    check_exactly(
        json!({"allocationMode": "All", "count": 2}),
        &["count: expected no count with allocationMode All, found 2"],
    );
    check_exactly(
        json!({"allocationMode": "Some"}),
        &["allocationMode: expected ExactCount or All, found \"Some\""],
    );
}

#[test]
fn selectors_are_cel_of_bounded_number_and_length() {
    let list = |count: usize, length: usize| json!({"selectors": vec![json!({"cel": {"expression": "x".repeat(length)}}); count]});
    check_exactly(list(32, 10_240), &[]);
    check_exactly(list(33, 1), &["selectors: expected at most 32 entries, found 33"]);
    check_exactly(
        list(1, 10_241),
        &["selectors[0].cel.expression: expected at most 10240 bytes, found 10241"],
    );
    check_exactly(
        json!({"selectors": [{"cel": {"expression": ""}}, {}]}),
        &[
            "selectors[0].cel.expression: required: a CEL expression",
            "selectors[1].cel.expression: required: a CEL expression",
        ],
    );
}

#[test]
fn tolerations_use_the_words_of_the_api() {
    let good = json!([
        {"operator": "Exists"},
        {"key": "lanemate.dev/port-down", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "k", "value": "v", "effect": "NoExecute", "tolerationSeconds": 60},
        {"key": "k", "operator": "Equal"},
    ]);
    check_exactly(json!({"tolerations": good}), &[]);
    check_exactly(
        json!({"tolerations": vec![json!({"key": "k"}); 17]}),
        &["tolerations: expected at most 16 entries, found 17"],
    );
    for (toleration, expect) in [
        (json!({}), "key: required with operator Equal"),
        (json!({"value": "v"}), "key: required with operator Equal"),
        (json!({"key": "a b"}), "key: expected a label name, found \"a b\""),
        (json!({"key": "k", "value": "a b"}), "value: expected a label value, found \"a b\""),
        (
            json!({"operator": "Exists", "value": "v"}),
            "value: expected no value with operator Exists, found \"v\"",
        ),
        (
            json!({"key": "k", "operator": "exists"}),
            "operator: expected Exists or Equal, found \"exists\"",
        ),
        (
            json!({"key": "k", "effect": "PreferNoSchedule"}),
            "effect: expected NoSchedule or NoExecute, found \"PreferNoSchedule\"",
        ),
    ] {
        check_exactly(json!({"tolerations": [toleration]}), &[&format!("tolerations[0].{expect}")]);
    }
}

#[test]
fn capacities_are_named_like_attributes() {
    let capacity = |names: Vec<String>| {
        let requests: serde_json::Map<String, Value> =
            names.into_iter().map(|name| (name, json!("1"))).collect();
        json!({"capacity": {"requests": requests}})
    };
    check_exactly(capacity(vec!["memory".into(), "lanemate.dev/bandwidth".into()]), &[]);
    check_exactly(
        capacity(vec!["a-b".into()]),
        &["capacity.requests.a-b: expected a name such as memory or example.com/memory"],
    );
    check_exactly(capacity((0..32).map(|i| format!("c{i}")).collect()), &[]);
    check_exactly(
        capacity((0..33).map(|i| format!("c{i}")).collect()),
        &["capacity.requests: expected at most 32 entries, found 33"],
    );
}

#[test]
fn a_constraint_names_one_attribute_and_known_requests() {
    let attribute = "lanemate.dev/pcieSwitch";
    let rows = [
        (
            json!({"requests": ["gpu", "cpu", "nic/fast", "nic/none", "gpu/fast", "gpu"],
                "matchAttribute": attribute}),
            vec![
                ".requests[1]: expected a request of this claim, found \"cpu\"",
                ".requests[3]: expected a request of this claim, found \"nic/none\"",
                ".requests[4]: expected a request of this claim, found \"gpu/fast\"",
                ".requests[5]: duplicate \"gpu\"",
            ],
        ),
        (
            json!({"requests": vec!["gpu"; 33], "matchAttribute": attribute}),
            vec![".requests: expected at most 32 entries, found 33"],
        ),
        (json!({}), vec![": expected one of matchAttribute and distinctAttribute, found neither"]),
        (
            json!({"matchAttribute": attribute, "distinctAttribute": attribute}),
            vec![": expected one of matchAttribute and distinctAttribute, found both"],
        ),
        (
            json!({"matchAttribute": ""}),
            vec![
                ".matchAttribute: \
                 required: a full attribute name such as lanemate.dev/pcieSwitch",
            ],
        ),
        (
            json!({"distinctAttribute": "pcieSwitch"}),
            vec![
                ".distinctAttribute: expected a full attribute name such as \
                 lanemate.dev/pcieSwitch, found \"pcieSwitch\"",
            ],
        ),
    ];
    for (constraint, expect) in rows {
        let many = constraint["requests"].as_array().is_some_and(|refs| refs.len() > 32);
        let expect: Vec<String> =
            expect.iter().map(|e| format!("spec.devices.constraints[0]{e}")).collect();
        let mut expect: Vec<&str> = expect.iter().map(String::as_str).collect();
        let duplicates: Vec<String> = (1..32)
            .map(|i| format!("spec.devices.constraints[0].requests[{i}]: duplicate \"gpu\""))
            .collect();
        if many {
            expect.extend(duplicates.iter().map(String::as_str));
        }
        check(with_requests(json!({"constraints": [constraint]})), &expect);
    }
    let many = vec![json!({"matchAttribute": attribute}); 33];
    check(
        with_requests(json!({"constraints": many})),
        &["spec.devices.constraints: expected at most 32 entries, found 33"],
    );
}

#[test]
fn a_derived_attribute_may_be_named_without_a_domain() {
    let request = json!({"name": "r", "exactly": {"deviceClassName": "c",
        "derivedAttributes": [{"name": "numa", "expression": "1"}]}});
    check(json!({"requests": [request], "constraints": [{"matchAttribute": "numa"}]}), &[]);
}

#[test]
fn a_config_is_for_a_driver_and_known_requests() {
    let opaque = |length: usize| {
        let text = "x".repeat(length - r#"{"a":""}"#.len());
        json!({"opaque": {"driver": "lanemate.dev", "parameters": {"a": text}}})
    };
    let rows = [
        (opaque(10_240), None),
        (opaque(10_241), Some(".opaque.parameters: expected at most 10240 bytes, found 10241")),
        (json!({}), Some(".opaque: required: a driver and its parameters")),
        (
            json!({"opaque": {"driver": "lanemate.dev"}}),
            Some(".opaque.parameters: expected an object"),
        ),
        (
            json!({"opaque": {"driver": "lanemate.dev", "parameters": [1]}}),
            Some(".opaque.parameters: expected an object"),
        ),
        (
            json!({"opaque": {"parameters": {}}}),
            Some(".opaque.driver: required: a DRA driver name"),
        ),
        (
            json!({"opaque": {"driver": "Lane", "parameters": {}}}),
            Some(".opaque.driver: expected a DRA driver name, found \"Lane\""),
        ),
        (
            json!({"requests": ["x"], "opaque": {"driver": "a", "parameters": {}}}),
            Some(".requests[0]: expected a request of this claim, found \"x\""),
        ),
    ];
    for (config, expect) in rows {
        let expect: Vec<String> =
            expect.iter().map(|e| format!("spec.devices.config[0]{e}")).collect();
        let expect: Vec<&str> = expect.iter().map(String::as_str).collect();
        check(with_requests(json!({"config": [config]})), &expect);
    }
    let many = vec![opaque(20); 33];
    check(
        with_requests(json!({"config": many})),
        &["spec.devices.config: expected at most 32 entries, found 33"],
    );
}
