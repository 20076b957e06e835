//! Decoding, defaults and errors of the opaque configuration kinds.

use serde_json::json;

use super::*;

fn with_header(kind: &str, body: Value) -> Value {
    let mut object = json!({ "apiVersion": "lanemate.dev/v1alpha1", "kind": kind });
    if let (Value::Object(object), Value::Object(body)) = (&mut object, body) {
        object.extend(body);
    }
    object
}

fn check_error(value: Value, expect: &str) {
    match OpaqueConfig::parse(&value) {
        Ok(found) => panic!("{value} was accepted as {found:?}"),
        Err(error) => assert_eq!(error.to_string(), expect, "{value}"),
    }
}

fn check_round_trip(config: OpaqueConfig, expect: Value) {
    let encoded = config.encode().unwrap();
    assert_eq!(encoded, expect);
    assert_eq!(OpaqueConfig::parse(&encoded), Ok(config));
}

#[test]
fn a_placement_gets_the_defaults() {
    let value = with_header("Placement", json!({ "unit": [{ "request": "gpu" }] }));
    let expect = Placement {
        unit: vec![UnitPart { request: "gpu".to_owned(), count: 1 }],
        within: Within { required: PathClass::Pxb, preferred: None },
        across: Across { required: PathClass::Sys, preferred: None },
    };
    assert_eq!(OpaqueConfig::parse(&value), Ok(OpaqueConfig::Placement(expect)));
}

#[test]
fn a_partly_given_locality_keeps_the_default_of_its_own_level() {
    let value = with_header(
        "Placement",
        json!({
            "unit": [{ "request": "gpu", "count": 2 }, { "request": "nic" }],
            "within": { "preferred": "PIX" },
            "across": { "preferred": "NODE" },
        }),
    );
    let Ok(OpaqueConfig::Placement(found)) = OpaqueConfig::parse(&value) else { panic!() };
    assert_eq!(found.within.required, PathClass::Pxb);
    assert_eq!(found.across.required, PathClass::Sys);
    assert_eq!(found.across.preferred, Some(PathClass::Node));
}

#[test]
fn every_kind_is_written_with_its_header_and_reads_back() {
    check_round_trip(
        OpaqueConfig::Placement(Placement {
            unit: vec![UnitPart { request: "gpu".to_owned(), count: 2 }],
            within: Within { required: PathClass::Phb, preferred: Some(PathClass::Pix) },
            across: Across::default(),
        }),
        json!({
            "apiVersion": "lanemate.dev/v1alpha1",
            "kind": "Placement",
            "unit": [{ "request": "gpu", "count": 2 }],
            "within": { "required": "PHB", "preferred": "PIX" },
            "across": { "required": "SYS" },
        }),
    );
    check_round_trip(
        OpaqueConfig::Environment(Environment { nccl: true, ..Environment::default() }),
        json!({
            "apiVersion": "lanemate.dev/v1alpha1",
            "kind": "Environment",
            "nccl": true,
            "ucx": false,
            "cudaDeviceOrder": false,
            "topologyFile": false,
            "gdrcopy": false,
            "umad": false,
        }),
    );
    let device = |name: &str| DeviceRef {
        driver: "lanemate.dev".to_owned(),
        pool: "node-a".to_owned(),
        device: name.to_owned(),
    };
    check_round_trip(
        OpaqueConfig::AllocatedUnits(AllocatedUnits {
            units: vec![
                AllocatedUnit {
                    devices: vec![device("gpu-0000-1b-00-0"), device("nic-0000-18-00-0")],
                    class: Some(PathClass::Pxb),
                    via: Some("0000:16:00.0".to_owned()),
                },
                AllocatedUnit { devices: vec![device("gpu-0000-43-00-0")], class: None, via: None },
            ],
        }),
        json!({
            "apiVersion": "lanemate.dev/v1alpha1",
            "kind": "AllocatedUnits",
            "units": [
                {
                    "devices": [
                        { "driver": "lanemate.dev", "pool": "node-a", "device": "gpu-0000-1b-00-0" },
                        { "driver": "lanemate.dev", "pool": "node-a", "device": "nic-0000-18-00-0" },
                    ],
                    "class": "PXB",
                    "via": "0000:16:00.0",
                },
                {
                    "devices": [
                        { "driver": "lanemate.dev", "pool": "node-a", "device": "gpu-0000-43-00-0" },
                    ],
                },
            ],
        }),
    );
}

#[test]
fn the_header_is_read_first() {
    for (value, expect) in [
        (json!(null), "expected an object with apiVersion and kind, found null"),
        (json!([]), "expected an object with apiVersion and kind, found a list"),
        (json!({}), "apiVersion: is missing: expected lanemate.dev/v1alpha1"),
        (json!({ "apiVersion": 1 }), "apiVersion: is a number: expected lanemate.dev/v1alpha1"),
        (
            json!({ "apiVersion": "lanemate.dev/v1", "kind": "Placement" }),
            "apiVersion: unknown value \"lanemate.dev/v1\": expected lanemate.dev/v1alpha1",
        ),
        (
            json!({ "apiVersion": "lanemate.dev/v1alpha1" }),
            "kind: is missing: expected Placement, Environment or AllocatedUnits",
        ),
        (
            with_header("placement", json!({})),
            "kind: unknown value \"placement\": expected Placement, Environment or AllocatedUnits",
        ),
    ] {
        check_error(value, expect);
    }
}

#[test]
fn a_field_that_cannot_be_read_is_named_with_what_was_expected() {
    for (kind, body, expect) in [
        ("Placement", json!({}), "Placement: missing field `unit`"),
        (
            "Placement",
            json!({ "unit": [{ "request": "gpu" }], "withn": {} }),
            "Placement: withn: unknown field `withn`, expected one of `unit`, `within`, `across`",
        ),
        (
            "Placement",
            json!({ "unit": [{ "request": "gpu", "number": 1 }] }),
            "Placement: unit[0].number: unknown field `number`, expected `request` or `count`",
        ),
        (
            "Placement",
            json!({ "unit": [{ "request": "gpu" }, { "request": "nic", "count": "2" }] }),
            "Placement: unit[1].count: invalid type: string \"2\", expected u32",
        ),
        (
            "Placement",
            json!({ "unit": [{ "request": "gpu", "count": -1 }] }),
            "Placement: unit[0].count: invalid value: integer `-1`, expected u32",
        ),
        (
            "Placement",
            json!({ "unit": [{ "request": "gpu" }], "within": { "required": "PIXX" } }),
            "Placement: within.required: unknown variant `PIXX`, expected one of `PIX`, `PXB`, \
             `PHB`, `NODE`, `SYS`",
        ),
        (
            "Environment",
            json!({ "nccl": "yes" }),
            "Environment: nccl: invalid type: string \"yes\", expected a boolean",
        ),
        (
            "Environment",
            json!({ "NCCL": true }),
            "Environment: NCCL: unknown field `NCCL`, expected one of `nccl`, `ucx`, \
             `cudaDeviceOrder`, `topologyFile`, `gdrcopy`, `umad`",
        ),
        (
            "AllocatedUnits",
            json!({ "units": [{ "devices": [{ "driver": "lanemate.dev", "pool": "a" }] }] }),
            "AllocatedUnits: units[0].devices[0]: missing field `device`",
        ),
    ] {
        check_error(with_header(kind, body), expect);
    }
}

#[test]
fn a_placement_that_can_be_read_is_checked_field_by_field() {
    for (body, expect) in [
        (json!({ "unit": [] }), "unit: expected at least one request, found none"),
        (
            json!({ "unit": [{ "request": "gpu" }, { "request": "nic", "count": 0 }] }),
            "unit[1].count: expected at least 1, found 0",
        ),
        (
            json!({ "unit": [{ "request": "gpu", "count": 32 }, { "request": "nic" }] }),
            "unit: expected at most 32 devices in one unit, found 33",
        ),
        (
            json!({ "unit": [
                { "request": "a", "count": u32::MAX }, { "request": "b", "count": u32::MAX },
            ] }),
            "unit: expected at most 32 devices in one unit, found 8589934590",
        ),
        (
            json!({ "unit": [{ "request": "gpu" }, { "request": "gpu" }] }),
            "unit[1].request: duplicate \"gpu\"",
        ),
        (
            json!({ "unit": [{ "request": "gpu/big" }] }),
            "unit[0].request: expected a DNS label (a-z, 0-9 and inner -, at most 63), \
             found \"gpu/big\"",
        ),
        (
            json!({ "unit": [{ "request": "gpu" }], "within": { "preferred": "PHB" } }),
            "within.preferred: expected PXB (what is required) or nearer, found PHB",
        ),
        (
            json!({
                "unit": [{ "request": "gpu" }],
                "within": { "required": "PIX", "preferred": "PXB" },
                "across": { "required": "NODE", "preferred": "SYS" },
            }),
            "within.preferred: expected PIX (what is required) or nearer, found PXB; \
             across.preferred: expected NODE (what is required) or nearer, found SYS",
        ),
    ] {
        check_error(with_header("Placement", body), &format!("Placement: {expect}"));
    }
}

#[test]
fn allocated_units_hold_each_device_once_and_no_more_than_the_api_allows() {
    let device = |name: &str| json!({ "driver": "lanemate.dev", "pool": "a", "device": name });
    let many: Vec<Value> = (0..33).map(|index| device(&format!("gpu-{index}"))).collect();
    for (units, expect) in [
        (json!([{ "devices": [] }]), "units[0].devices: expected a device, found none"),
        (
            json!([{ "devices": [device("x")] }, { "devices": [device("x")] }]),
            "units[1].devices[0]: duplicate device",
        ),
        (
            json!([{ "devices": [device("")], "via": "" }]),
            "units[0].via: required: an address; \
             units[0].devices[0].device: required: a name",
        ),
        (json!([{ "devices": many }]), "units: expected at most 32 devices, found 33"),
    ] {
        let value = with_header("AllocatedUnits", json!({ "units": units }));
        check_error(value, &format!("AllocatedUnits: {expect}"));
    }
}
