//! Rows of slices and what is wrong with them.

use serde_json::{Value, json};

use super::*;

/// Changes a good slice and expects exactly these errors.
fn check(change: impl FnOnce(&mut Value), expect: &[&str]) {
    let mut slice = json!({
        "metadata": {"name": "s1"},
        "spec": {
            "driver": "lanemate.dev", "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "devices": [device("gpu-0")]}});
    change(&mut slice);
    let result = validate_slice(&serde_json::from_value(slice).unwrap());
    let errors = result.err().unwrap_or_default();
    assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expect);
}

/// The same for a field of the device.
fn check_device(field: &str, value: Value, expect: &[&str]) {
    let expect: Vec<String> =
        expect.iter().map(|error| format!("spec.devices[0].{error}")).collect();
    let expect: Vec<&str> = expect.iter().map(String::as_str).collect();
    check(|slice| slice["spec"]["devices"][0][field] = value, &expect);
}

fn check_value(value: Value, expect: &[&str]) {
    let expect: Vec<String> = expect.iter().map(|error| format!("attributes.a: {error}")).collect();
    let expect: Vec<&str> = expect.iter().map(String::as_str).collect();
    check_device("attributes", json!({"a": value}), &expect);
}

fn device(name: &str) -> Value {
    json!({"name": name, "attributes": {"type": {"string": "gpu"}, "a.dev/x": {"int": 1}},
        "capacity": {"memory": {"value": "80Gi"}}})
}

fn devices(count: usize, more: Value) -> Value {
    let device = |index| {
        let mut device = device(&format!("d{index}"));
        device.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        device
    };
    (0..count).map(device).collect()
}

#[test]
fn a_slice_names_driver_pool_and_nodes() {
    check(|_| {}, &[]);
    check(
        |slice| slice["spec"] = json!({"driver": "", "pool": {}}),
        &[
            "spec.driver: required: a DRA driver name",
            "spec.pool.name: required: DNS subdomains with / between them, at most 253 bytes",
            "spec.pool.resourceSliceCount: expected at least 1, found 0",
            "spec: expected exactly one of nodeName, nodeSelector, allNodes and \
             perDeviceNodeSelection, found 0",
        ],
    );
    check(|slice| slice["spec"]["pool"]["name"] = json!("rack-1/n1.example"), &[]);
    check(
        |slice| {
            slice["spec"]["pool"] = json!({"name": "a//b", "generation": -1});
            slice["spec"]["allNodes"] = json!(true);
        },
        &[
            "spec.pool.name: expected DNS subdomains with / between them, at most 253 bytes, \
             found \"a//b\"",
            "spec.pool.generation: expected at least 0, found -1",
            "spec.pool.resourceSliceCount: expected at least 1, found 0",
            "spec: expected exactly one of nodeName, nodeSelector, allNodes and \
             perDeviceNodeSelection, found 2",
        ],
    );
    check(|slice| slice["spec"]["allNodes"] = json!(false), &[]);
    check(
        |slice| slice["spec"]["nodeName"] = json!("N1"),
        &["spec.nodeName: expected a DNS subdomain (a-z, 0-9, inner - and .), found \"N1\""],
    );
}

#[test]
fn devices_are_named_and_counted() {
    let set = |list: Value| move |slice: &mut Value| slice["spec"]["devices"] = list;
    check(set(devices(128, json!({}))), &[]);
    check(set(devices(129, json!({}))), &["spec.devices: expected at most 128 entries, found 129"]);
    for elaborate in [
        json!({"taints": [{"key": "k", "effect": "NoSchedule"}]}),
        json!({"attributes": {"a": {"strings": ["x"]}}}),
        json!({"consumesCounters": [{"counterSet": "c", "counters": {}}]}),
    ] {
        check(set(devices(64, elaborate.clone())), &[]);
        let expect = "spec.devices: expected at most 64 entries, found 65";
        check(set(devices(65, elaborate)), &[expect]);
    }
    let label = "a DNS label (a-z, 0-9 and inner -, at most 63)";
    check(
        set(json!([{"name": "a"}, {"name": ""}, {"name": "A.b"}, {"name": "a"}])),
        &[
            "spec.devices[3].name: duplicate \"a\"",
            &format!("spec.devices[1].name: required: {label}"),
            &format!("spec.devices[2].name: expected {label}, found \"A.b\""),
        ],
    );
}

#[test]
fn attributes_have_one_value_within_the_limits() {
    let name = "expected a name such as memory or example.com/memory";
    check_device("attributes", json!({"a-b": {"int": 1}}), &[&format!("attributes.a-b: {name}")]);
    check_value(json!({}), &["expected exactly one value, found 0"]);
    check_value(json!({"int": 1, "bool": true}), &["expected exactly one value, found 2"]);
    check_value(json!({"string": "x".repeat(64)}), &[]);
    check_value(json!({"string": "x".repeat(65)}), &["expected at most 64 bytes, found 65"]);
    check_value(json!({"strings": ["", "x".repeat(65)]}), &["expected at most 64 bytes, found 65"]);
    check_value(json!({"version": "1.2.3-rc.1+build"}), &[]);
    check_value(
        json!({"versions": ["1.2.3", "1.2"]}),
        &["expected a semantic version such as 1.2.3, found \"1.2\""],
    );
    let many = |count: usize| -> Value {
        (0..count).map(|index| (format!("a{index}"), json!({"int": 1}))).collect()
    };
    check_device("attributes", many(31), &[]);
    check_device(
        "attributes",
        many(32),
        &["attributes: expected at most 32 attributes and capacities, found 33"],
    );
}

#[test]
fn capacities_are_quantities() {
    let name = "expected a name such as memory or example.com/memory";
    check_device(
        "capacity",
        json!({"a b": {"value": "1"}}),
        &[&format!("capacity[\"a b\"]: {name}")],
    );
    let unknown = "unknown suffix \"Gb\": expected n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, \
                   Ei or an exponent such as e3";
    check_device(
        "capacity",
        json!({"memory": {"value": "80Gb"}}),
        &[&format!("capacity.memory.value: not a quantity: \"80Gb\": {unknown}")],
    );
}

#[test]
fn taints_use_the_words_of_the_api() {
    let good = json!([
        {"key": "lanemate.dev/port-down", "effect": "NoSchedule"},
        {"key": "k", "value": "v", "effect": "NoExecute"},
        {"key": "k", "effect": "None"},
    ]);
    check_device("taints", good, &[]);
    check_device(
        "taints",
        json!([{"key": "", "value": "a b", "effect": "noSchedule"}, {"key": "k", "effect": ""}]),
        &[
            "taints[0].key: required: a label name",
            "taints[0].value: expected a label value, found \"a b\"",
            "taints[0].effect: expected NoSchedule, NoExecute or None, found \"noSchedule\"",
            "taints[1].effect: required: NoSchedule, NoExecute or None",
        ],
    );
    check_device(
        "taints",
        vec![json!({"key": "k", "effect": "None"}); 17].into(),
        &["taints: expected at most 16 entries, found 17"],
    );
}
