//! What each check says of what was found.

use serde_json::{Value, json};

use super::policies::{
    Compared, Standing, apply, fence_check, gate_check, in_namespace, no_fence_check,
    no_gate_check, objects, standing,
};
use super::probes::{definitions_check, releases_check, taints_check};
use super::rights::{CONTROLLER, PLUGIN, Right, is_forbidden, rights};
use super::*;
use crate::cluster::devices::Devices;
use crate::cluster::leader::Leader;
use crate::cluster::read::Seen;

mod installed;
mod objects_found;

/// A cluster with one node that is as it ought to be.
fn cluster() -> Value {
    let device = |name: &str, kind: &str, pci: &str| {
        json!({ "name": name,
            "attributes": { "type": { "string": kind }, "resource.kubernetes.io/pciBusID": { "string": pci },
                "pciePath": { "string": "pci0000:15/01.0/16:00.0" } },
            "taints": [{ "key": "lanemate.dev/allocator", "value": "controller", "effect": "NoSchedule" }],
        })
    };
    json!({
        "nodes": [node("n1")],
        "slices": [{ "metadata": { "name": "s" }, "spec": {
            "driver": "lanemate.dev", "nodeName": "n1",
            "pool": { "name": "n1", "generation": 1, "resourceSliceCount": 1 },
            "devices": [device("gpu-0", "gpu", "0000:1b:00.0"), device("gpu-1", "gpu", "0000:1c:00.0"),
                device("nic-0", "nic", "0000:1d:00.0")],
        } }],
        "foreign": [],
        "states": [{ "apiVersion": "lanemate.dev/v1alpha1", "kind": "NodeState",
            "metadata": { "name": "n1" } }],
        "deviceClasses": objects(include_str!("../../../../deploy/deviceclasses.yaml")).unwrap(),
        "classes": [{
            "apiVersion": "lanemate.dev/v1alpha1", "kind": "ResourceClass",
            "metadata": { "name": "pair", "generation": 3 }, "spec": { "members": [
                { "name": "gpu", "deviceClassName": "gpu.lanemate.dev" },
                { "name": "nic", "deviceClassName": "nic.lanemate.dev" },
            ] },
            "status": { "conditions": [{ "type": "Ready", "status": "True", "reason": "Compiled",
                "message": "", "observedGeneration": 3,
                "lastTransitionTime": "2026-01-01T00:00:00Z" }] },
        }],
        "claims": [claim("a", "gpu-0")],
        "pods": [pod("DaemonSet", "lanemate-kubelet-plugin", ready())],
        "plugin": {
            "spec": { "selector": {}, "template": { "spec": { "containers": [{ "name": "plugin",
                "image": format!("example.com/lanemate-kubelet-plugin:{}", env!("CARGO_PKG_VERSION")) }] } } },
            "status": { "desiredNumberScheduled": 1, "numberReady": 1, "currentNumberScheduled": 1,
                "numberMisscheduled": 0 },
        },
        "controller": null,
        "lease": { "spec": { "holderIdentity": "c-1", "leaseDurationSeconds": 15,
            "renewTime": "2026-01-01T00:00:55.000000Z" } },
    })
}

/// A node that is ready.
fn node(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "status": {
        "conditions": [{ "type": "Ready", "status": "True" }],
        "nodeInfo": { "kubeletVersion": "v1.36.1", "architecture": "", "bootID": "",
            "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "",
            "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": "" },
    } })
}

/// A claim that has a device of node n1.
fn claim(name: &str, device: &str) -> Value {
    json!({ "metadata": { "name": name, "namespace": "ml" },
        "status": { "allocation": { "devices": { "results": [{ "request": "r",
            "driver": "lanemate.dev", "pool": "n1", "device": device }] } } } })
}

/// A pod of ours on node n1.
fn pod(kind: &str, owner: &str, status: Value) -> Value {
    json!({ "metadata": { "name": format!("{owner}-x"), "namespace": "lanemate-system", "ownerReferences":
            [{ "apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "u" }] },
        "spec": { "nodeName": "n1", "containers": [] }, "status": status })
}

fn ready() -> Value {
    json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] })
}

/// What is read of it.
fn read(value: &Value) -> Found {
    fn part<T: serde::de::DeserializeOwned>(value: &Value, name: &str) -> T {
        serde_json::from_value(value[name].clone())
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    }
    let objects = crate::objects::Objects {
        slices: part(value, "slices"),
        claims: part(value, "claims"),
        device_classes: part(value, "deviceClasses"),
        resource_classes: part(value, "classes"),
        nodes: part(value, "nodes"),
        pods: part(value, "pods"),
        ..Default::default()
    };
    let seen = Seen { objects, node_states: part(value, "states"), lease: part(value, "lease") };
    Found {
        devices: Devices::of(&seen),
        leader: Leader::of(seen.lease.as_ref(), "2026-01-01T00:01:00Z".parse().unwrap()),
        seen,
        foreign: part(value, "foreign"),
        plugin: part(value, "plugin"),
        controller: part(value, "controller"),
        system: "lanemate-system".to_owned(),
    }
}

/// What is not ok after a change of that cluster: `F` or `N`, the name, and what was found.
fn check_after(change: impl FnOnce(&mut Value), told: Option<Mode>, expect: &[&str]) {
    let mut value = cluster();
    change(&mut value);
    let found = read(&value);
    let (mode, of_mode) = mode::mode(told, &found, versions::WITH_CONTROLLER);
    let all = [of_mode].into_iter().chain(of(&found, mode));
    let wrong = all.filter(|check| check.result != Outcome::Ok);
    let words: Vec<String> = wrong
        .map(|check| {
            assert!(check.todo.is_some(), "{check:?}");
            let mark = if check.is_failed() { "F" } else { "N" };
            format!("{mark} {}: {}", check.name, check.found)
        })
        .collect();
    assert_eq!(words, expect);
}

#[test]
fn the_version_has_to_be_one_in_which_the_mode_works() {
    for (major, minor, expect) in [
        ("1", "36", Some((1, 36))),
        ("1", "37+", Some((1, 37))),
        ("2", "0", Some((2, 0))),
        ("1", "", None),
        ("", "36", None),
    ] {
        assert_eq!(versions::parse(major, minor), expect, "{major}.{minor}");
    }
    for (version, mode, expect) in [
        ((1, 34), Mode::Controller, Outcome::Failed),
        ((1, 35), Mode::Controller, Outcome::Failed),
        ((1, 34), Mode::Scheduler, Outcome::Ok),
        ((1, 36), Mode::Controller, Outcome::Ok),
        ((2, 0), Mode::Scheduler, Outcome::Ok),
    ] {
        let found = versions::server(version, "v", mode);
        assert_eq!(found.result, expect, "{version:?} {mode:?}");
        assert_eq!(found.todo.is_some(), expect == Outcome::Failed);
    }
    assert!(versions::too_old("v1.33.1").is_failed());
}

#[test]
fn a_kind_that_is_not_served_is_named() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let all = names(&["resourceclasses", "resourceclasses/status", "nodestates"]);
    assert_eq!(definitions_check(&all, Mode::Controller).result, Outcome::Ok);
    let old = definitions_check(&names(&["resourceclasses", "nodestates"]), Mode::Controller);
    assert!(old.is_failed());
    assert_eq!(old.found, "not served: resourceclasses/status");
    assert!(definitions_check(&[], Mode::Controller).is_failed());
    assert!(definitions_check(&[], Mode::Scheduler).is_failed());
    let of_nodes = definitions_check(&names(&["nodestates"]), Mode::Scheduler);
    assert_eq!(of_nodes.result, Outcome::Ok);
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
        let found = gate_check(labelled, wrong, "lanemate-system");
        assert_eq!(found.result, expect, "{labelled} {wrong:?}");
    }
    let policy = ["MutatingAdmissionPolicy a".to_owned()];
    for (labelled, present, expect) in [
        (0, &policy[..], Outcome::Ok),
        (2, &[][..], Outcome::Ok),
        (2, &policy[..], Outcome::Failed),
    ] {
        assert_eq!(no_gate_check(labelled, present).result, expect, "{labelled} {present:?}");
    }
}

#[test]
fn a_fence_is_needed_in_mode_controller_and_in_the_way_in_mode_scheduler() {
    let policy = |standing: Standing| vec![Compared { object: "Policy a".to_owned(), standing }];
    let (same, missing) = (policy(Standing::Same), policy(Standing::Missing));
    let differs = policy(Standing::Differs("spec.x".to_owned()));
    let check = |found: Check, result: Outcome, words: &str| {
        assert_eq!((found.result, found.found.as_str()), (result, words));
    };
    let fence = |all: &[Compared]| fence_check("lanemate-system", all);
    check(fence(&same), Outcome::Ok, "1 policies and bindings as shipped");
    check(fence(&missing), Outcome::Failed, "Policy a is not there");
    let words = "Policy a differs from the shipped one at spec.x";
    check(fence(&differs), Outcome::Failed, words);
    let none = |of_claims: &[Compared], of_nodes: &[Compared]| {
        no_fence_check("lanemate-system", of_claims, of_nodes)
    };
    let words =
        "mode scheduler: kube-scheduler may allocate, and plugins write of their node alone";
    check(none(&missing, &same), Outcome::Ok, words);
    let words = "mode scheduler: kube-scheduler may allocate; Policy a is not there";
    check(none(&missing, &missing), Outcome::Note, words);
    for present in [&same, &differs] {
        let words = "kube-scheduler is kept from allocating by Policy a";
        check(none(present, &same), Outcome::Failed, words);
    }
}

#[test]
fn what_is_shipped_is_compared_for_the_namespace_of_the_installation() {
    let shipped = rights(CONTROLLER.manifest).unwrap();
    let moved = rights(&in_namespace(CONTROLLER.manifest, "gpu-system")).unwrap();
    let lease = |all: &[Right], namespace: &str| {
        let mut leases = all.iter().filter(|right| right.resource == "leases");
        leases.all(|right| right.namespace.as_deref() == Some(namespace))
    };
    assert!(lease(&shipped, "lanemate-system") && lease(&moved, "gpu-system"));
    assert_eq!(shipped.len(), moved.len());
    let fence = include_str!("../../../../deploy/admission/fence.yaml");
    let text = format!("{:?}", objects(&in_namespace(fence, "gpu-system")).unwrap());
    assert!(text.contains("system:serviceaccount:gpu-system:lanemate-controller"));
    assert!(!text.contains("lanemate-system"));
    let files = ["a.yaml", "b.yaml"];
    assert_eq!(apply(&files, "lanemate-system"), "kubectl apply -f a.yaml -f b.yaml");
    let moved = "sed -s 's/lanemate-system/gpu-system/' a.yaml b.yaml | kubectl apply -f -";
    assert_eq!(apply(&files, "gpu-system"), moved);
}

#[test]
fn a_right_that_is_missing_is_named_with_its_manifest() {
    let found = PLUGIN.check(&[], 17, "gpu-system");
    let words = "gpu-system/lanemate-kubelet-plugin has all 17 that it needs";
    assert_eq!((found.result, found.found.as_str()), (Outcome::Ok, words));
    let found = CONTROLLER.check(&["patch pods".to_owned()], 52, "lanemate-system");
    assert_eq!(found.found, "lanemate-system/lanemate-controller may not patch pods");
    assert_eq!(found.todo.unwrap(), "kubectl apply -f deploy/rbac/controller.yaml");
    assert!(found.result == Outcome::Failed);
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
    let forbidden = || {
        let (deed, message) = ("list Pods".to_owned(), "pods is forbidden".to_owned());
        anyhow::Error::from(CallError::Forbidden { deed, message })
    };
    assert!(is_forbidden(&forbidden()));
    let check = told("Objects", Err(forbidden()));
    assert_eq!(check.found, "cannot be told: pods is forbidden");
}
