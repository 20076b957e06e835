//! Pods are let go once, as they were seen; classes are written at their version.

use lanemate_test_api::Fault;

use super::*;
use crate::change::{DeletePod, Ungate};

/// A pod without claims to write is let go, after this was done to it.
async fn release_after(change: impl Fn(&mut Value), faults: &[Fault]) -> (Bench, Report) {
    let mut bench = Bench::start().await;
    let seen = bench.put(pod("p"));
    let mut now = pod("p");
    change(&mut now);
    bench.put(now);
    for fault in faults {
        bench.api.faults().next("PATCH", PODS, fault.clone(), 1);
    }
    let report = bench.place(place(&seen, Vec::new())).await;
    (bench, report)
}

#[tokio::test]
async fn a_pod_is_let_go_by_one_strategic_patch_of_what_was_seen() {
    let (bench, report) = release_after(|_| {}, &[]).await;
    // The put after the sight made a new version, so the first patch is refused.
    assert_eq!(report.outcome, Outcome::Done);
    let bodies = bench.api.bodies("PATCH", PODS);
    let gates = json!([{"$patch": "delete", "name": GATE}]);
    assert!(bodies.iter().all(|body| body["spec"]["schedulingGates"] == gates), "{bodies:?}");
    let versions: Vec<&Value> =
        bodies.iter().map(|body| &body["metadata"]["resourceVersion"]).collect();
    assert_eq!(versions, ["1", "2"]);
}

#[tokio::test]
async fn a_pod_whose_status_changed_is_let_go_and_one_with_another_spec_is_planned_again() {
    let scheduled = |pod: &mut Value| {
        pod["status"] = json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]});
    };
    let (_, report) = release_after(scheduled, &[]).await;
    assert_eq!(report.outcome, Outcome::Done);
    let narrowed = |pod: &mut Value| pod["spec"]["nodeSelector"] = json!({"zone": "a"});
    let ungated = |pod: &mut Value| pod["spec"]["schedulingGates"] = json!([{"name": "other"}]);
    for change in [&narrowed as &dyn Fn(&mut Value), &ungated] {
        let (bench, report) = release_after(change, &[]).await;
        assert!(matches!(report.outcome, Outcome::Superseded(_)), "{:?}", report.outcome);
        assert!(report.written.is_empty());
        assert_eq!(bench.pod("p")["metadata"].get("annotations"), None);
    }
}

#[tokio::test]
async fn a_patch_without_an_answer_is_sent_again() {
    for fault in [Fault::LoseAnswer, Fault::Drop, Fault::Hang(LIMIT * 2), Fault::TooManyRequests(1)]
    {
        let (bench, report) = release_after(|_| {}, &[Fault::Status(409, "Conflict"), fault]).await;
        assert_eq!(report.outcome, Outcome::Done);
        let pod = bench.pod("p");
        assert_eq!(report.written, [(id(&pod), version(&pod))]);
        assert_eq!(pod["spec"]["schedulingGates"], json!([{"name": "other"}]));
    }
}

#[tokio::test]
async fn a_pod_that_cannot_be_patched_is_given_up() {
    let (_, report) = release_after(|_| {}, &[Fault::Status(422, "Invalid")]).await;
    assert!(matches!(report.outcome, Outcome::Refused(_)), "{:?}", report.outcome);
    let (bench, report) = release_after(|_| {}, &vec![Fault::Drop; 6]).await;
    assert!(matches!(report.outcome, Outcome::Refused(_)), "{:?}", report.outcome);
    assert_eq!(bench.api.count("PATCH", PODS), 6);
}

#[tokio::test]
async fn the_gate_is_taken_off_a_pod_that_needs_nothing_of_us() {
    let mut bench = Bench::start().await;
    let seen = bench.put(pod("p"));
    let ungate = |version| Change::Ungate(Ungate { pod: id(&seen), version });
    let report = bench.run(ungate(Version("1000".to_owned()))).await;
    assert!(matches!(report.outcome, Outcome::Superseded(_)), "{:?}", report.outcome);
    bench.api.faults().next("PATCH", PODS, Fault::LoseAnswer, 1);
    let report = bench.run(ungate(version(&seen))).await;
    assert_eq!(report.outcome, Outcome::Done);
    let pod = bench.pod("p");
    assert_eq!(report.written, [(id(&pod), version(&pod))]);
    assert_eq!(pod["spec"]["schedulingGates"], json!([{"name": "other"}]));
    assert_eq!(pod["spec"].get("affinity"), None);
}

#[tokio::test]
async fn a_pod_is_deleted_by_its_uid_alone() {
    let mut bench = Bench::start().await;
    let stored = bench.put(pod("p"));
    let delete = |pod| Change::DeletePod(DeletePod { pod, why: "test".to_owned() });
    let mut namesake = id(&stored);
    namesake.uid.0 = "u-9".to_owned();
    let report = bench.run(delete(namesake)).await;
    assert!(matches!(report.outcome, Outcome::Superseded(_)), "{:?}", report.outcome);
    assert_eq!(id(&bench.pod("p")), id(&stored));
    let report = bench.run(delete(id(&stored))).await;
    assert_eq!(report.outcome, Outcome::Done);
    assert_eq!(bench.api.get(&format!("{PODS}/p")), None);
}

#[tokio::test]
async fn classes_are_written_at_their_version() {
    let mut bench = Bench::start().await;
    let class = |change| Change::Class(Box::new(change));
    let compiled = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
        "metadata": {"name": "pair"}, "spec": {"selectors": [{"cel": {"expression": "false"}}]}});
    let report = bench.run(class(ClassChange::Create(parse(compiled.clone())))).await;
    assert_eq!(report.outcome, Outcome::Done);
    let path = "/apis/resource.k8s.io/v1/deviceclasses/pair";
    let stored = bench.api.get(path).unwrap();
    assert_eq!(report.written, [(id(&stored), version(&stored))]);
    let again = bench.run(class(ClassChange::Create(parse(compiled)))).await;
    assert!(matches!(again.outcome, Outcome::Superseded(_)), "{:?}", again.outcome);
    let mut changed = stored.clone();
    changed["spec"]["selectors"][0]["cel"]["expression"] = json!("true");
    let report = bench.run(class(ClassChange::Replace(parse(changed.clone())))).await;
    assert_eq!(report.outcome, Outcome::Done);
    for stale in [ClassChange::Replace(parse(changed)), ClassChange::Delete(parse(stored))] {
        let report = bench.run(class(stale)).await;
        assert!(matches!(report.outcome, Outcome::Superseded(_)), "{:?}", report.outcome);
    }
    let now = bench.api.get(path).unwrap();
    let report = bench.run(class(ClassChange::Delete(parse(now)))).await;
    assert_eq!(report.outcome, Outcome::Done);
    assert_eq!(bench.api.get(path), None);
}

#[tokio::test]
async fn status_and_finalizers_of_a_class_are_written_apart() {
    let mut bench = Bench::start().await;
    let requests = json!([{"name": "gpu", "deviceClassName": "gpu.lanemate.dev"}]);
    let stored = bench.put(json!({"apiVersion": "lanemate.dev/v1alpha1", "kind": "ResourceClass",
        "metadata": {"name": "pair"}, "spec": {"members": requests}}));
    let mut wanted = stored.clone();
    wanted["metadata"]["finalizers"] = json!(["lanemate.dev/device-class"]);
    let class = |change| Change::Class(Box::new(change));
    let report = bench.run(class(ClassChange::Finalizers(parse(wanted.clone())))).await;
    assert_eq!(report.outcome, Outcome::Done);
    let path = "/apis/lanemate.dev/v1alpha1/resourceclasses/pair";
    let now = bench.api.get(path).unwrap();
    assert_eq!(now["metadata"]["finalizers"], json!(["lanemate.dev/device-class"]));
    wanted["metadata"]["resourceVersion"] = now["metadata"]["resourceVersion"].clone();
    wanted["metadata"]["finalizers"] = json!([]);
    let report = bench.run(class(ClassChange::Status(parse(wanted)))).await;
    assert_eq!(report.outcome, Outcome::Done);
    let now = bench.api.get(path).unwrap();
    assert_eq!(now["metadata"]["finalizers"], json!(["lanemate.dev/device-class"]));
    let paths: Vec<String> = bench.api.requests().into_iter().map(|r| r.path).collect();
    assert_eq!(paths, [path.to_owned(), format!("{path}/status")]);
}
