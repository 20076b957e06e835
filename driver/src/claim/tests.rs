//! Tests of claims.

use serde_json::{Value, json};

use crate::testing::cluster::{claim_value, classes, parse, unit_class};

fn request(exactly: Value) -> Value {
    json!({
        "metadata": {"namespace": "ns", "name": "c"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    })
}

fn placement(parameters: Value) -> Value {
    let mut claim =
        claim_value("c", &[("gpu", "gpu.lanemate.dev", 4), ("nic", "nic.lanemate.dev", 2)]);
    let mut all = json!({"apiVersion": "lanemate.dev/v1alpha1", "kind": "Placement"});
    all.as_object_mut().unwrap().extend(parameters.as_object().unwrap().clone());
    claim["spec"]["devices"]["config"] =
        json!([{"opaque": {"driver": "lanemate.dev", "parameters": all}}]);
    claim
}

fn check_error(claim: Value, expect: &str) {
    let mut known = classes(&[unit_class("pair", (1, 1), json!({}))]);
    let error = parse(claim, &mut known).expect_err(expect).to_string();
    assert!(error.contains(expect), "{error:?} does not contain {expect:?}");
}

#[test]
fn what_is_wrong_is_named_by_its_field() {
    let class = "gpu.lanemate.dev";
    for (exactly, expect) in [
        (
            json!({"deviceClassName": "gone"}),
            "spec.devices.requests[0].exactly.deviceClassName: class \"gone\" does not exist",
        ),
        (
            json!({"deviceClassName": class, "count": 0}),
            "spec.devices.requests[0].exactly.count: 0: expected a count of at least 1",
        ),
        (
            json!({"deviceClassName": class, "selectors": [{"cel": {"expression": "device."}}]}),
            "spec.devices.requests[0].exactly.selectors[0].cel.expression: ",
        ),
        (
            json!({"deviceClassName": class, "allocationMode": "All"}),
            "spec.devices.requests[0].exactly.allocationMode: All: not supported yet",
        ),
        (
            json!({"deviceClassName": "pair", "adminAccess": true}),
            "exactly.adminAccess: not allowed on a request for a ResourceClass",
        ),
        (json!({"deviceClassName": class, "count": 33}), "33 devices asked for: at most 32"),
        (json!({"deviceClassName": "pair", "count": 17}), "34 devices asked for: at most 32"),
    ] {
        check_error(request(exactly), expect);
    }
}

#[test]
fn a_placement_that_makes_no_whole_units_is_refused() {
    for (parameters, expect) in [
        (
            json!({"unit": [{"request": "gpu"}, {"request": "eth"}]}),
            "unit[1].request: no request is named \"eth\"",
        ),
        (
            json!({"unit": [{"request": "gpu", "count": 3}, {"request": "nic"}]}),
            "unit[0].count: request \"gpu\" asks for 4, one unit takes 3",
        ),
        (
            json!({"unit": [{"request": "gpu"}, {"request": "nic"}]}),
            "unit[1].count: request \"nic\" asks for 2, one unit takes 1",
        ),
        (json!({"unit": [{"request": "gpu"}], "within": {"required": "NEAR"}}), "within.required"),
        (json!({"units": []}), "units"),
    ] {
        check_error(placement(parameters), expect);
    }
    let two = placement(json!({"unit": [{"request": "gpu", "count": 2}, {"request": "nic"}]}));
    let parsed = parse(two, &mut classes(&[])).unwrap();
    assert_eq!(parsed.placements[0].count, 2);
    assert_eq!(parsed.placements[0].unit, [(0, 2), (1, 1)]);
}

#[test]
fn classes_that_cannot_serve_are_refused_with_the_reason() {
    let nested = json!({
        "apiVersion": "lanemate.dev/v1alpha1", "kind": "ResourceClass",
        "metadata": {"name": "nested"},
        "spec": {"members": [{"name": "p", "deviceClassName": "pair"}]},
    });
    let mut known = classes(&[unit_class("pair", (1, 1), json!({})), nested]);
    let mut error = |class: &str| {
        parse(request(json!({"deviceClassName": class})), &mut known).unwrap_err().to_string()
    };
    assert!(error("nested").contains("\"pair\" is a ResourceClass: expected a DeviceClass"));
    let taken = crate::testing::cluster::from_json(json!({"metadata": {"name": "pair"}}));
    known.apply_device_class(taken);
    let error = parse(request(json!({"deviceClassName": "pair"})), &mut known).unwrap_err();
    assert!(error.to_string().contains("name taken"), "{error}");
}

#[test]
fn one_expression_is_compiled_once() {
    let mut known = classes(&[]);
    let a = known.step("device.driver == \"x\"").unwrap();
    let b = known.step("device.driver == \"x\"").unwrap();
    assert_eq!(a.id, b.id);
}
