//! Rows of objects, and the decisions and refusals that follow from them.

use serde_json::{Value, json};

use super::*;

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn claim(name: &str) -> ResourceClaim {
    typed(json!({"metadata": {"name": name, "namespace": "ns"}, "spec": {}}))
}

fn allocated(name: &str) -> ResourceClaim {
    typed(json!({"metadata": {"name": name, "namespace": "ns"}, "spec": {},
        "status": {"allocation": {}}}))
}

fn template(name: &str) -> ResourceClaimTemplate {
    typed(json!({"metadata": {"name": name, "namespace": "ns"}, "spec": {
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "n"}},
        "spec": {"devices": {"requests": [
            {"name": "r", "exactly": {"deviceClassName": "gpu.lanemate.dev"}}]}}}}))
}

/// A pod of namespace `ns` whose entries are `name in pod=claim` or `name in pod:template`.
fn pod(name: &str, entries: &[&str]) -> Pod {
    let entries: Vec<Value> = entries
        .iter()
        .map(|entry| match entry.split_once('=') {
            Some((name, claim)) => json!({"name": name, "resourceClaimName": claim}),
            None => {
                let (name, template) = entry.split_once(':').unwrap();
                json!({"name": name, "resourceClaimTemplateName": template})
            }
        })
        .collect();
    typed(json!({"metadata": {"name": name, "namespace": "ns"}, "spec": {
        "containers": [], "resourceClaims": entries}}))
}

/// `pod: claims | settled` of each decision, and `claim (pod): reason` of each refusal.
fn told(pending: &Pending) -> Vec<String> {
    let list = |claims: &[ClaimRef]| {
        claims.iter().map(|claim| claim.name.clone()).collect::<Vec<_>>().join(" ")
    };
    let pod = |pod: &Option<PodRef>| pod.as_ref().map_or("-".to_owned(), |pod| pod.name.clone());
    let decisions = pending
        .decisions
        .iter()
        .map(|d| format!("{}: {} | {}", pod(&d.pod), list(&d.claims), list(&d.settled)));
    let refusals =
        pending.refused.iter().map(|r| format!("{} ({}): {}", r.claim.name, pod(&r.pod), r.reason));
    decisions.map(|line| line.trim_end().to_owned()).chain(refusals).collect()
}

fn check(
    pods: &[Pod],
    claims: &[ResourceClaim],
    templates: &[ResourceClaimTemplate],
    expect: &[&str],
) {
    let pending = order(pods, claims, templates, &Broken::default());
    assert_eq!(told(&pending), expect);
    let backwards: Vec<Pod> = pods.iter().rev().cloned().collect();
    let claims: Vec<ResourceClaim> = claims.iter().rev().cloned().collect();
    assert_eq!(order(&backwards, &claims, templates, &Broken::default()), pending);
}

#[test]
fn claims_of_no_pod_come_alone_by_namespace_and_name() {
    let mut other = claim("a");
    other.metadata.namespace = Some("a-first".to_owned());
    let mut bare = claim("c");
    bare.metadata.namespace = None;
    let pending = order(&[], &[claim("b"), bare, claim("a"), other], &[], &Broken::default());
    let names: Vec<String> = pending.decisions.iter().map(|d| d.claims[0].to_string()).collect();
    assert_eq!(names, ["a-first/a", "default/c", "ns/a", "ns/b"]);
}

#[test]
fn pods_come_by_priority_then_age_then_name() {
    let with = |name: &str, priority: Value, created: Value| {
        let mut pod = pod(name, &[&format!("c={name}")]);
        pod.spec.as_mut().unwrap().priority = typed(priority);
        pod.metadata.creation_timestamp = typed(created);
        pod
    };
    let pods = [
        with("plain-b", json!(null), json!("2026-01-02T00:00:00Z")),
        with("unborn", json!(0), json!(null)),
        with("plain-a", json!(0), json!("2026-01-02T00:00:00Z")),
        with("older", json!(0), json!("2026-01-01T00:00:00Z")),
        with("low", json!(-5), json!("2020-01-01T00:00:00Z")),
        with("high", json!(100), json!(null)),
    ];
    let claims: Vec<ResourceClaim> =
        ["plain-a", "plain-b", "unborn", "older", "low", "high"].map(claim).to_vec();
    check(
        &pods,
        &claims,
        &[],
        &[
            "high: high |",
            "older: older |",
            "plain-a: plain-a |",
            "plain-b: plain-b |",
            "unborn: unborn |",
            "low: low |",
        ],
    );
}

#[test]
fn claims_of_a_pod_are_decided_together_in_the_order_in_which_it_names_them() {
    check(
        &[pod("p", &["x=b", "y=a", "z=b"])],
        &[claim("a"), claim("b"), claim("c")],
        &[],
        &["p: b a |", "-: c |"],
    );
}

#[test]
fn allocated_claims_are_settled_and_alone_need_no_decision() {
    check(
        &[pod("p", &["x=a", "y=b"]), pod("q", &["x=a"]), pod("r", &[])],
        &[allocated("a"), claim("b"), allocated("c")],
        &[],
        &["p: b | a"],
    );
}

#[test]
fn a_shared_claim_is_decided_with_its_first_pod() {
    check(
        &[pod("p", &["x=s"]), pod("q", &["x=s", "y=a"])],
        &[claim("a"), claim("s")],
        &[],
        &["p: s |", "q: a | s"],
    );
}

#[test]
fn a_shared_claim_is_decided_with_the_first_pod_that_can_be_decided() {
    check(
        &[pod("p", &["x=s", "y=missing", "z=own"]), pod("q", &["x=s"])],
        &[claim("own"), claim("s")],
        &[],
        &[
            "q: s |",
            "missing (p): claim ns/missing is not among the objects",
            "own (p): pod ns/p cannot be decided: claim ns/missing is not among the objects",
        ],
    );
}

#[test]
fn finished_and_deleted_pods_and_deleted_claims_wait_for_nothing() {
    let phase = |name: &str, phase: &str| {
        let mut pod = pod(name, &["x=a"]);
        pod.status = typed(json!({"phase": phase}));
        pod
    };
    let mut deleting = pod("deleting", &["x=a"]);
    deleting.metadata.deletion_timestamp = typed(json!("2026-01-01T00:00:00Z"));
    let mut gone = claim("gone");
    gone.metadata.deletion_timestamp = typed(json!("2026-01-01T00:00:00Z"));
    check(
        &[phase("done", "Succeeded"), phase("failed", "Failed"), deleting, pod("q", &["x=gone"])],
        &[claim("a"), gone],
        &[],
        &["-: a |", "gone (q): claim ns/gone is being deleted"],
    );
    check(&[phase("running", "Running")], &[claim("a")], &[], &["running: a |"]);
}

#[test]
fn a_deleted_claim_stays_with_the_pod_it_is_reserved_for() {
    let gone: ResourceClaim = typed(json!({
        "metadata": {"name": "gone", "namespace": "ns", "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {}, "status": {"allocation": {}, "reservedFor": [
            {"resource": "pods", "name": "p", "uid": "u1"}]}}));
    let with_uid = |uid: &str| {
        let mut pod = pod("p", &["x=gone", "y=a"]);
        pod.metadata.uid = Some(uid.to_owned());
        pod
    };
    check(&[with_uid("u1")], &[gone.clone(), claim("a")], &[], &["p: a | gone"]);
    check(
        &[with_uid("u2")],
        &[gone, claim("a")],
        &[],
        &[
            "gone (p): claim ns/gone is being deleted",
            "a (p): pod ns/p cannot be decided: claim ns/gone is being deleted",
        ],
    );
}

#[test]
fn a_template_claim_is_made_from_the_template_with_its_labels_and_annotations() {
    let mut with_uid = pod("p", &["g:t"]);
    with_uid.metadata.uid = Some("u1".to_owned());
    let pending = order(&[with_uid], &[], &[template("t")], &Broken::default());
    assert_eq!(told(&pending), ["p: p-g |"]);
    let made = pending.claims.values().next().unwrap();
    assert_eq!(
        serde_json::to_value(made).unwrap(),
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": "p-g", "namespace": "ns", "labels": {"team": "a"},
                "annotations": {"note": "n", "resource.kubernetes.io/pod-claim-name": "g"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u1",
                    "controller": true, "blockOwnerDeletion": true}]},
            "spec": {"devices": {"requests": [
                {"name": "r", "exactly": {"deviceClassName": "gpu.lanemate.dev"}}]}}})
    );
}

#[test]
fn a_pod_without_uid_owns_nothing() {
    let pending = order(&[pod("p", &["g:t"])], &[], &[template("t")], &Broken::default());
    assert_eq!(pending.claims.values().next().unwrap().metadata.owner_references, None);
}

#[test]
fn a_template_claim_that_exists_is_used() {
    check(&[pod("p", &["g:t"])], &[claim("p-g")], &[template("t")], &["p: p-g |"]);
    check(&[pod("p", &["g:t"])], &[claim("p-g")], &[], &["p: p-g |"]);
    check(&[pod("p", &["g:t", "h:t"])], &[allocated("p-g")], &[template("t")], &["p: p-h | p-g"]);
}

#[test]
fn the_status_of_a_pod_names_its_template_claims() {
    let with = |statuses: Value| {
        let mut pod = pod("p", &["g:t"]);
        pod.status = typed(json!({"resourceClaimStatuses": statuses}));
        pod
    };
    let named = with(json!([{"name": "g", "resourceClaimName": "p-g-x7k2f"}]));
    check(
        std::slice::from_ref(&named),
        &[claim("p-g-x7k2f")],
        &[template("t")],
        &["p: p-g-x7k2f |"],
    );
    check(
        &[named],
        &[],
        &[template("t")],
        &["p-g-x7k2f (p): claim ns/p-g-x7k2f is not among the objects"],
    );
    let unneeded = with(json!([{"name": "g", "resourceClaimName": null}]));
    check(&[unneeded], &[claim("a")], &[template("t")], &["-: a |"]);
    let other = with(json!([{"name": "h", "resourceClaimName": "x"}]));
    check(&[other], &[], &[template("t")], &["p: p-g |"]);
}

#[test]
fn a_template_claim_belongs_to_one_pod() {
    let owned = |name: &str, uid: &str, controller: bool| {
        let mut claim = claim("p-g");
        claim.metadata.owner_references = typed(json!([{"apiVersion": "v1", "kind": "Pod",
            "name": name, "uid": uid, "controller": controller}]));
        claim
    };
    let mut p = pod("p", &["g:t"]);
    p.metadata.uid = Some("u1".to_owned());
    for (claim, expect) in [
        (owned("p", "u1", true), "p: p-g |"),
        (owned("q", "u9", false), "p: p-g |"),
        (owned("p", "u9", true), "p-g (p): claim ns/p-g was made for another pod, p"),
        (owned("q", "u1", true), "p-g (p): claim ns/p-g was made for another pod, q"),
    ] {
        check(&[p.clone()], &[claim], &[template("t")], &[expect]);
    }
}

#[test]
fn two_template_claims_of_one_name_are_not_confused() {
    check(
        &[pod("a", &["b-c:t"]), pod("a-b", &["c:t"])],
        &[],
        &[template("t")],
        &["a: a-b-c |", "a-b-c (a-b): claim ns/a-b-c was made for another pod, a"],
    );
}

#[test]
fn what_is_missing_is_named() {
    let neither = typed(json!({"metadata": {"name": "n", "namespace": "ns"},
        "spec": {"containers": [], "resourceClaims": [{"name": "x"}]}}));
    check(
        &[neither, pod("p", &["g:nowhere"]), pod("q", &["g=nothing"])],
        &[],
        &[template("t")],
        &[
            "n-x (n): claim x of pod ns/n: expected exactly one of resourceClaimName and \
             resourceClaimTemplateName",
            "p-g (p): claim template ns/nowhere is not among the objects",
            "nothing (q): claim ns/nothing is not among the objects",
        ],
    );
}

#[test]
fn claims_and_templates_of_another_namespace_are_not_found() {
    let mut elsewhere = template("t");
    elsewhere.metadata.namespace = Some("other".to_owned());
    check(
        &[pod("p", &["g:t"])],
        &[],
        &[elsewhere],
        &["p-g (p): claim template ns/t is not among the objects"],
    );
}

#[test]
fn broken_claims_and_templates_are_refused_with_their_error() {
    let name = |name: &str| ClaimRef { namespace: "ns".to_owned(), name: name.to_owned() };
    let broken = Broken {
        claims: BTreeMap::from([
            (name("bad"), "spec.devices.cout: unknown field".to_owned()),
            (name("lone"), "count".to_owned()),
        ]),
        templates: BTreeMap::from([(name("t"), "spec.x: unknown field".to_owned())]),
    };
    let pods = [pod("p", &["x=bad", "y=a"]), pod("q", &["g:t"]), pod("r", &["x=b"])];
    let pending = order(&pods, &[claim("a"), claim("b")], &[template("t")], &broken);
    assert_eq!(
        told(&pending),
        [
            "r: b |",
            "bad (p): claim ns/bad: spec.devices.cout: unknown field",
            "a (p): pod ns/p cannot be decided: \
             claim ns/bad: spec.devices.cout: unknown field",
            "q-g (q): claim template ns/t: spec.x: unknown field",
            "lone (-): claim ns/lone: count",
        ]
    );
}
