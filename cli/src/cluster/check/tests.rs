//! What each check says of what was found.

use serde_json::{Value, json};

use super::policies::{Standing, gate_check, objects, standing};
use super::probes::{definitions_check, releases_check, taints_check, version_check};
use super::rights::{Right, rights};
use super::*;

fn now() -> Timestamp {
    "2026-01-01T00:01:00Z".parse().unwrap()
}

#[test]
fn the_version_has_to_be_one_with_taints_and_policies() {
    for (major, minor, expect) in [
        ("1", "36", Outcome::Ok),
        ("1", "37+", Outcome::Ok),
        ("2", "0", Outcome::Ok),
        ("1", "35", Outcome::Failed),
        ("1", "", Outcome::Failed),
    ] {
        let found = version_check(major, minor, "v");
        assert_eq!(found.result, expect, "{major}.{minor}");
        assert_eq!(found.todo.is_some(), expect == Outcome::Failed);
    }
}

#[test]
fn a_kind_that_is_not_served_is_named() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let all = names(&["resourceclasses", "resourceclasses/status", "nodestates"]);
    assert_eq!(definitions_check(&all).result, Outcome::Ok);
    let old = definitions_check(&names(&["resourceclasses", "nodestates"]));
    assert!(old.is_failed());
    assert_eq!(old.found, "not served: resourceclasses/status");
    assert!(definitions_check(&[]).is_failed());
}

#[test]
fn a_taint_that_does_not_come_back_fails() {
    let slice = |taints: Value| {
        serde_json::from_value(json!({ "metadata": {}, "spec": {
            "driver": "lanemate.dev",
            "pool": { "name": "p", "generation": 1, "resourceSliceCount": 1 },
            "devices": [{ "name": "d", "taints": taints }],
        } }))
        .unwrap()
    };
    let sent = slice(json!([{ "key": "k", "effect": "NoSchedule" }]));
    let added =
        json!([{ "key": "k", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z" }]);
    assert_eq!(taints_check(&sent, &slice(added)).result, Outcome::Ok);
    assert!(taints_check(&sent, &slice(Value::Null)).is_failed());
}

#[test]
fn claims_are_freed_by_one_of_two_names() {
    assert_eq!(releases_check(Some("a"), Some("b")).found, "a frees claims; the fence lets it");
    assert_eq!(releases_check(None, Some("b")).found, "b frees claims; the fence lets it");
    assert!(releases_check(None, None).is_failed());
}

#[test]
fn a_gate_is_needed_where_a_namespace_asks_for_it() {
    let wrong = ["it is not there".to_owned()];
    for (labelled, wrong, expect) in [
        (0, &[][..], Outcome::Note),
        (2, &[][..], Outcome::Ok),
        (0, &wrong[..], Outcome::Note),
        (2, &wrong[..], Outcome::Failed),
    ] {
        assert_eq!(gate_check(labelled, wrong).result, expect, "{labelled} {wrong:?}");
    }
}

#[test]
fn a_policy_is_compared_field_by_field_and_defaults_do_not_count() {
    let shipped =
        json!({ "spec": { "failurePolicy": "Fail", "validations": [{ "expression": "a\n" }] } });
    let check = |found: Value, expect: Standing| {
        assert_eq!(standing(&shipped, Some(&found)), expect, "{found}");
    };
    assert_eq!(standing(&shipped, None), Standing::Missing);
    let added = json!({ "status": {}, "spec": { "failurePolicy": "Fail",
        "matchPolicy": "Equivalent", "validations": [{ "expression": "a", "reason": "Invalid" }] } });
    check(added, Standing::Same);
    let differs = |field: &str| Standing::Differs(field.to_owned());
    let validations =
        |list: Value| json!({ "spec": { "failurePolicy": "Fail", "validations": list } });
    let other = json!([{ "expression": "b" }]);
    check(validations(other), differs("spec.validations[0].expression"));
    check(validations(json!([])), differs("spec.validations"));
    let two = json!([{ "expression": "a" }, { "expression": "true" }]);
    check(validations(two), differs("spec.validations"));
    check(json!({ "spec": { "validations": [] } }), differs("spec.failurePolicy"));
    check(json!({}), differs("spec"));
}

#[test]
fn the_shipped_manifests_can_be_read() {
    let fence = objects(include_str!("../../../../deploy/admission/fence.yaml")).unwrap();
    let kinds = fence.iter().filter(|o| o["kind"] == "ValidatingAdmissionPolicyBinding").count();
    assert!(kinds >= 4 && fence.len() == 2 * kinds, "{kinds} of {}", fence.len());
    assert!(fence.iter().all(|object| object["spec"].is_object()), "{fence:?}");
    let rights = rights(include_str!("../../../../deploy/rbac/controller.yaml")).unwrap();
    let right = |namespace: Option<&str>, group: &str, resource: &str, verb: &str| Right {
        namespace: namespace.map(str::to_owned),
        group: group.to_owned(),
        resource: resource.to_owned(),
        verb: verb.to_owned(),
    };
    assert!(rights.contains(&right(None, "lanemate.dev", "allocations", "write")));
    assert!(rights.contains(&right(None, "", "pods", "patch")));
    let lease = right(Some("lanemate-system"), "coordination.k8s.io", "leases", "update");
    assert!(rights.contains(&lease));
}

/// A cluster with one node that is as it ought to be.
fn seen() -> Value {
    json!({
        "slices": [{ "metadata": { "name": "s" }, "spec": {
            "driver": "lanemate.dev", "nodeName": "n1",
            "pool": { "name": "n1", "generation": 1, "resourceSliceCount": 1 },
            "devices": [{ "name": "gpu-0", "taints": [
                { "key": "lanemate.dev/allocator", "value": "controller", "effect": "NoSchedule" },
            ] }],
        } }],
        "states": [{ "apiVersion": "lanemate.dev/v1alpha1", "kind": "NodeState",
            "metadata": { "name": "n1" } }],
        "classes": [{
            "apiVersion": "lanemate.dev/v1alpha1", "kind": "ResourceClass",
            "metadata": { "name": "pair", "generation": 3 }, "spec": { "members": [] },
            "status": { "conditions": [{ "type": "Ready", "status": "True", "reason": "Compiled",
                "message": "", "observedGeneration": 3,
                "lastTransitionTime": "2026-01-01T00:00:00Z" }] },
        }],
        "claims": [{ "metadata": { "name": "a", "namespace": "ml" },
            "status": { "allocation": { "devices": { "results": [{ "request": "r",
                "driver": "lanemate.dev", "pool": "n1", "device": "gpu-0" }] } } } }],
        "lease": { "spec": { "holderIdentity": "c-1", "leaseDurationSeconds": 15,
            "renewTime": "2026-01-01T00:00:55.000000Z" } },
    })
}

/// What fails after a change of that cluster.
fn check_failed(change: impl FnOnce(&mut Value), expect: &[&str]) {
    let mut value = seen();
    change(&mut value);
    let read = |name: &str| value[name].clone();
    let objects = crate::objects::Objects {
        slices: serde_json::from_value(read("slices")).unwrap(),
        claims: serde_json::from_value(read("claims")).unwrap(),
        resource_classes: serde_json::from_value(read("classes")).unwrap(),
        ..Default::default()
    };
    let seen = Seen {
        objects,
        node_states: serde_json::from_value(read("states")).unwrap(),
        lease: serde_json::from_value(read("lease")).unwrap(),
    };
    let failed = of(&seen, now()).into_iter().filter(Check::is_failed);
    let failed: Vec<String> =
        failed.map(|check| format!("{}: {}", check.name, check.found)).collect();
    assert_eq!(failed, expect);
}

#[test]
fn objects_that_are_wrong_are_named() {
    check_failed(|_| (), &[]);
    check_failed(
        |value| value["slices"][0]["spec"]["devices"][0]["taints"] = json!([]),
        &["Devices: without the controller's taint: n1/gpu-0"],
    );
    check_failed(
        |value| value["slices"] = json!([]),
        &["Devices: no slice of lanemate.dev offers any"],
    );
    check_failed(|value| value["states"] = json!([]), &["NodeStates: none of n1"]);
    check_failed(|value| value["states"] = Value::Null, &["NodeStates: the kind is not served"]);
    check_failed(
        |value| {
            let mut second = value["claims"][0].clone();
            second["metadata"]["name"] = json!("b");
            value["claims"].as_array_mut().unwrap().push(second);
        },
        &["Grants: in two claims: n1/gpu-0 (ml/a, ml/b)"],
    );
    check_failed(
        |value| value["classes"][0]["metadata"]["generation"] = json!(4),
        &["ResourceClasses: not ready: pair (Compiled)"],
    );
    check_failed(
        |value| value["classes"][0]["status"] = Value::Null,
        &["ResourceClasses: not ready: pair (no condition yet)"],
    );
    check_failed(
        |value| value["lease"] = Value::Null,
        &["Controller: none: nobody holds the lease"],
    );
}

#[test]
fn the_table_marks_what_failed_and_says_what_to_do() {
    let checks = [
        Check::ok("API", "it is served"),
        Check::failed("Fence", "a policy is not there", "kubectl apply -f fence.yaml"),
    ];
    let expect = "\
ok    API              it is served
FAIL  Fence            a policy is not there
                       -> kubectl apply -f fence.yaml

1 of 2 checks failed
";
    let paint = crate::paint::Paint::new(crate::args::Color::Never);
    assert_eq!(table::render(&checks, paint), expect);
    assert!(table::render(&checks[..1], paint).ends_with("\nThe cluster is set up right.\n"));
}

#[test]
fn what_cannot_be_told_has_failed() {
    let check = told("Fence", Err(anyhow::anyhow!("forbidden")));
    assert!(check.is_failed());
    assert_eq!(check.found, "cannot be told: forbidden");
}
