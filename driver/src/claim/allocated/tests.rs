//! Claims as kubelet's plugin gets them from the API server, good and bad.

use serde_json::{Value, json};

use super::*;

fn claim(edit: impl FnOnce(&mut Value)) -> ResourceClaim {
    let mut object = json!({
        "metadata": {
            "namespace": "ml", "name": "train-0-pair", "uid": "3f1c8a54-0b3f-4d6e-9d0e-6d1f0d0b9a11",
            "annotations": {"resource.kubernetes.io/pod-claim-name": "pair"},
        },
        "status": {"allocation": {"devices": {
            "results": [
                {"request": "pair", "driver": "lanemate.dev", "pool": "n1", "device": "gpu-0000-1b-00-0"},
                {"request": "cpu", "driver": "cpu.example.com", "pool": "n1", "device": "cpu-0"},
                {"request": "pair", "driver": "lanemate.dev", "pool": "n1", "device": "nic-0000-18-00-0"},
                {"request": "eye/wide", "driver": "lanemate.dev", "pool": "n1", "device": "gpu-0000-43-00-0",
                 "adminAccess": true},
            ],
            "config": [],
        }}},
    });
    edit(&mut object);
    serde_json::from_value(object).unwrap()
}

fn with_configs(configs: Value) -> ResourceClaim {
    claim(|object| object["status"]["allocation"]["devices"]["config"] = configs)
}

fn opaque(requests: Value, mut parameters: Value) -> Value {
    parameters["apiVersion"] = json!("lanemate.dev/v1alpha1");
    json!({"source": "FromClaim", "requests": requests,
           "opaque": {"driver": "lanemate.dev", "parameters": parameters}})
}

fn refusal(claim: &ResourceClaim) -> String {
    AllocatedClaim::parse(claim).unwrap_err().to_string()
}

#[test]
fn only_the_results_of_our_driver_are_kept_in_their_order() {
    let parsed = AllocatedClaim::parse(&claim(|_| {})).unwrap();
    let shown: Vec<String> = parsed
        .results
        .iter()
        .map(|result| format!("{} {} {}", result.request, result.device, result.admin_access))
        .collect();
    assert_eq!(
        shown,
        [
            "pair gpu-0000-1b-00-0 false",
            "pair nic-0000-18-00-0 false",
            "eye/wide gpu-0000-43-00-0 true"
        ]
    );
    assert_eq!(parsed.pod_claim_name.as_deref(), Some("pair"));
    assert_eq!(parsed.results[2].request.request(), "eye");
    assert_eq!(parsed.results[2].request.subrequest(), Some("wide"));
}

#[test]
fn a_claim_without_an_allocation_says_so() {
    let bare = claim(|object| object["status"] = json!({}));
    assert_eq!(
        refusal(&bare),
        "claim ml/train-0-pair is not allocated: status.allocation is missing"
    );
}

#[test]
fn more_results_than_the_api_admits_are_refused() {
    let of = |count: usize| {
        claim(|object| {
            let results = &mut object["status"]["allocation"]["devices"]["results"];
            *results = Value::Array(vec![results[0].clone(); count]);
        })
    };
    assert_eq!(AllocatedClaim::parse(&of(32)).map(|claim| claim.results.len()), Ok(32));
    assert!(refusal(&of(33)).ends_with("33 entries, at most 32 are allowed"));
}

#[test]
fn names_that_could_leave_a_directory_are_refused() {
    let set = |path: &'static str, value: &'static str| {
        claim(move |object| *object.pointer_mut(path).unwrap() = json!(value))
    };
    let long = "a".repeat(64);
    let request = "/status/allocation/devices/results/0/request";
    for (path, value) in [
        ("/metadata/uid", "../../etc/passwd"),
        ("/metadata/uid", ""),
        ("/metadata/uid", "-a"),
        ("/metadata/name", "a/b"),
        ("/metadata/name", ".."),
        ("/metadata/namespace", "Ml"),
        ("/metadata/annotations/resource.kubernetes.io~1pod-claim-name", "../x"),
        ("/metadata/annotations/resource.kubernetes.io~1pod-claim-name", "a.b"),
        (request, "pair/wide/more"),
        (request, "pair/"),
        (request, "pa.ir"),
        ("/status/allocation/devices/results/0/device", "gpu_0"),
        ("/status/allocation/devices/results/0/pool", "n1//"),
    ] {
        let message = refusal(&set(path, value));
        assert!(message.contains(&format!("{value:?} is not ")), "{path} {value}: {message}");
    }
    let long = claim(|object| *object.pointer_mut(request).unwrap() = json!(long));
    assert!(refusal(&long).contains("is not a DNS label"));
}

#[test]
fn an_environment_entry_applies_to_its_requests_and_any_entry_turns_a_thing_on() {
    let parsed = AllocatedClaim::parse(&with_configs(json!([
        opaque(json!(null), json!({"kind": "Environment", "nccl": true})),
        opaque(json!(["eye"]), json!({"kind": "Environment", "nccl": false, "umad": true})),
        opaque(json!(["eye/wide"]), json!({"kind": "Environment", "ucx": true})),
        opaque(json!(["eye/narrow"]), json!({"kind": "Environment", "gdrcopy": true})),
        opaque(json!(null), json!({"kind": "Placement", "unit": [{"request": "pair"}]})),
        {"source": "FromClaim", "opaque": {"driver": "gpu.example.com", "parameters": {"kind": "Odd"}}},
    ])))
    .unwrap();
    let of = |request: &str| parsed.environment_of(&request.parse().unwrap());
    assert_eq!(of("pair"), Environment { nccl: true, ..Environment::default() });
    let expect = Environment { nccl: true, ucx: true, umad: true, ..Environment::default() };
    assert_eq!(of("eye/wide"), expect);
}

#[test]
fn the_units_of_all_entries_make_one_list() {
    let unit = |device: &str| {
        json!({"devices": [{"driver": "lanemate.dev", "pool": "n1", "device": device}], "class": "PXB",
               "via": "0000:16:00.0"})
    };
    let entry = |units: Value| {
        let mut entry = opaque(json!(null), json!({"kind": "AllocatedUnits", "units": units}));
        entry["source"] = json!("FromClass");
        entry
    };
    let parsed = AllocatedClaim::parse(&with_configs(json!([
        entry(json!([unit("gpu-0000-1b-00-0"), unit("gpu-0000-43-00-0")])),
        entry(json!([unit("gpu-0000-52-00-0")])),
    ])))
    .unwrap();
    assert_eq!(parsed.units.len(), 3);
    assert_eq!(parsed.units[2].via.as_deref(), Some("0000:16:00.0"));
}

#[test]
fn a_configuration_of_ours_that_cannot_be_read_is_named_by_its_index() {
    let fine = opaque(json!(null), json!({"kind": "Environment"}));
    for (parameters, expect) in [
        (json!({"kind": "Sharing"}), "kind: unknown value \"Sharing\""),
        (json!({}), "kind: is missing"),
        (json!({"kind": "AllocatedUnits", "units": []}), "written by the allocator"),
        (json!({"kind": "Environment", "nccl": "yes"}), "invalid type"),
        (json!({"kind": "Environment", "ncl": true}), "unknown field `ncl`"),
    ] {
        let message = refusal(&with_configs(json!([fine, opaque(json!(null), parameters)])));
        assert!(message.contains("config[1]: ") && message.contains(expect), "{message}");
    }
    let mut other = fine;
    other["opaque"]["parameters"]["apiVersion"] = json!("lanemate.dev/v2");
    assert!(refusal(&with_configs(json!([other]))).contains("\"lanemate.dev/v2\": expected"));
}
