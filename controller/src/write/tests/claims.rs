//! Each claim is written once, or certainly not at all.

use lanemate_test_api::Fault;

use super::*;
use crate::change::Clear;

/// The methods of the requests for a path so far.
fn methods(bench: &Bench, prefix: &str) -> Vec<String> {
    let requests = bench.api.requests().into_iter();
    requests.filter(|request| request.path.starts_with(prefix)).map(|r| r.method).collect()
}

/// One claim is placed, with faults at the writes of its status.
async fn place_through(faults: &[Fault]) -> (Bench, Report) {
    let mut bench = Bench::start().await;
    let (claim, pod) = (bench.put(claim("c")), bench.put(pod("p")));
    let status = format!("{CLAIMS}/c/status");
    for fault in faults {
        bench.api.faults().next("PUT", &status, fault.clone(), 1);
    }
    let report = bench.place(place(&pod, vec![allocate(&claim, "gpu-0")])).await;
    (bench, report)
}

#[tokio::test]
async fn claims_are_written_before_the_pod_is_let_go() {
    let mut bench = Bench::start().await;
    let (a, b) = (bench.put(claim("a")), bench.put(claim("b")));
    let stored = bench.put(pod("p"));
    let wanted = place(&stored, vec![allocate(&a, "gpu-0"), allocate(&b, "gpu-1")]);
    let report = bench.place(wanted).await;
    assert_eq!(report.outcome, Outcome::Done);
    let requests: Vec<String> =
        bench.api.requests().into_iter().map(|r| format!("{} {}", r.method, r.path)).collect();
    let (a, b) = (format!("PUT {CLAIMS}/a"), format!("PUT {CLAIMS}/b"));
    let pod = format!("PATCH {PODS}/p");
    assert_eq!(requests, [a.clone(), a + "/status", b.clone(), b + "/status", pod]);
    for (name, device) in [("a", "gpu-0"), ("b", "gpu-1")] {
        let claim = bench.claim(name);
        assert_eq!(
            claim["metadata"]["finalizers"],
            json!(["resource.kubernetes.io/delete-protection"])
        );
        assert_eq!(claim["status"]["allocation"], allocation(device));
        let pod = json!({"resource": "pods", "name": "p", "uid": id(&stored).uid.0});
        assert_eq!(claim["status"]["reservedFor"], json!([pod]));
        assert!(report.written.contains(&(id(&claim), version(&claim))));
    }
    let pod = bench.pod("p");
    assert_eq!(pod["spec"]["schedulingGates"], json!([{"name": "other"}]));
    assert_eq!(pod["metadata"]["annotations"][ASSIGNMENT], "{}");
    assert!(pod["spec"]["affinity"]["nodeAffinity"].is_object());
    assert_eq!(report.written[2], (id(&pod), version(&pod)));
    assert_eq!(bench.end().await, Ended { in_doubt: 0 });
}

#[tokio::test]
async fn a_claim_that_has_the_finalizer_is_written_once() {
    let mut bench = Bench::start().await;
    let mut protected = claim("c");
    protected["metadata"]["finalizers"] =
        json!(["mine", "resource.kubernetes.io/delete-protection"]);
    let (claim, pod) = (bench.put(protected), bench.put(pod("p")));
    let report = bench.place(place(&pod, vec![allocate(&claim, "gpu-0")])).await;
    assert_eq!(report.outcome, Outcome::Done);
    assert_eq!(methods(&bench, CLAIMS), ["PUT"]);
}

#[tokio::test]
async fn a_write_without_an_answer_is_sent_again_until_it_is_known_to_be_there_once() {
    for (faults, reads) in [
        // Done, and the answer is late or lost: the second is refused, and what is there is looked at.
        (vec![Fault::Hang(LIMIT * 2)], 1),
        (vec![Fault::LoseAnswer], 1),
        (vec![Fault::Hang(LIMIT * 2), Fault::LoseAnswer, Fault::Drop], 1),
        // Not done: the second one is taken.
        (vec![Fault::Silent], 0),
        (vec![Fault::Drop], 0),
        (vec![Fault::Status(500, "InternalError"), Fault::Drop, Fault::TooManyRequests(1)], 0),
        (vec![Fault::Drop, Fault::LoseAnswer], 1),
    ] {
        let (bench, report) = place_through(&faults).await;
        assert_eq!(report.outcome, Outcome::Done, "{faults:?}");
        assert_eq!(bench.api.count("PUT", &format!("{CLAIMS}/c/status")), faults.len() + 1);
        assert_eq!(bench.api.count("GET", CLAIMS), reads, "{faults:?}");
        let claim = bench.claim("c");
        assert_eq!(claim["status"]["allocation"], allocation("gpu-0"));
        assert_eq!(reserved(&claim).len(), 1);
        assert!(report.written.contains(&(id(&claim), version(&claim))));
        assert_eq!(bench.end().await, Ended { in_doubt: 0 });
    }
}

#[tokio::test]
async fn a_write_that_is_done_late_is_not_taken_for_undone() {
    // Before, about, and after the time at which it is sent again.
    for late in [LIMIT * 4 / 3, LIMIT * 2, LIMIT * 4] {
        let (bench, report) = place_through(&[Fault::Late(late)]).await;
        assert_eq!(report.outcome, Outcome::Done, "{late:?}");
        tokio::time::sleep(late).await;
        let claim = bench.claim("c");
        assert_eq!(claim["status"]["allocation"], allocation("gpu-0"));
        assert!(report.written.contains(&(id(&claim), version(&claim))));
    }
}

#[tokio::test]
async fn a_refusal_of_a_claim_ends_the_change_with_nothing_written() {
    for (code, reason) in [(422, "Invalid"), (403, "Forbidden")] {
        let (bench, report) = place_through(&[Fault::Status(code, reason)]).await;
        assert!(matches!(report.outcome, Outcome::Refused(_)), "{:?}", report.outcome);
        assert!(report.written.is_empty());
        assert_eq!(bench.claim("c").get("status"), None);
        assert_eq!(bench.api.count("PATCH", PODS), 0);
        assert_eq!(bench.end().await, Ended { in_doubt: 0 });
    }
}

#[tokio::test]
async fn a_refusal_after_a_lost_answer_is_believed_only_when_the_first_write_is_past() {
    let faults = [Fault::Late(LIMIT * 3), Fault::Status(403, "Forbidden")];
    let (bench, report) = place_through(&faults).await;
    assert_eq!(report.outcome, Outcome::Done);
    assert_eq!(bench.claim("c")["status"]["allocation"], allocation("gpu-0"));
}

#[tokio::test]
async fn a_claim_with_other_metadata_is_written_on_the_new_version() {
    let mut bench = Bench::start().await;
    let (seen, pod) = (bench.put(claim("c")), bench.put(pod("p")));
    let mut labelled = claim("c");
    labelled["metadata"]["labels"] = json!({"a": "b"});
    bench.put(labelled);
    let report = bench.place(place(&pod, vec![allocate(&seen, "gpu-0")])).await;
    assert_eq!(report.outcome, Outcome::Done);
    let claim = bench.claim("c");
    assert_eq!(claim["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(claim["status"]["allocation"], allocation("gpu-0"));
    assert_eq!(methods(&bench, CLAIMS), ["PUT", "GET", "PUT", "PUT"]);
}

#[tokio::test]
async fn a_claim_that_others_took_deleted_or_made_anew_is_planned_again() {
    let mut allocated = claim("c");
    allocated["status"] = json!({"allocation": allocation("gpu-7"),
        "reservedFor": [{"resource": "pods", "name": "q", "uid": "u-q"}]});
    let mut another = claim("c");
    another["metadata"]["uid"] = json!("u-9");
    for (now, words) in [
        (Some(allocated), "allocated by others"),
        (Some(another), "another one"),
        (None, "not found"),
    ] {
        let mut bench = Bench::start().await;
        let (seen, pod) = (bench.put(claim("c")), bench.put(pod("p")));
        if now.as_ref().is_none_or(|now| now["metadata"].get("uid").is_some()) {
            bench.api.remove(CLAIMS);
        }
        if let Some(now) = now {
            bench.put(now);
        }
        let report = bench.place(place(&pod, vec![allocate(&seen, "gpu-0")])).await;
        let Outcome::Superseded(why) = &report.outcome else { panic!("{:?}", report.outcome) };
        assert!(why.contains(words), "{why}");
        assert!(report.written.is_empty());
        assert_eq!(bench.api.count("PATCH", PODS), 0);
    }
}

#[tokio::test]
async fn a_claim_that_keeps_changing_is_given_up_after_some_tries() {
    let conflicts = vec![Fault::Status(409, "Conflict"); 20];
    let (bench, report) = place_through(&conflicts).await;
    assert!(matches!(report.outcome, Outcome::Superseded(_)), "{:?}", report.outcome);
    assert_eq!(bench.api.count("PUT", &format!("{CLAIMS}/c/status")), 4);
}

#[tokio::test]
async fn a_pool_that_was_published_anew_since_the_decision_is_planned_again() {
    for generation in [Some(2), None] {
        let mut bench = Bench::start().await;
        let (seen, pod) = (bench.put(claim("c")), bench.put(pod("p")));
        bench.generations.note("n1", generation);
        let report = bench.place(place(&pod, vec![allocate(&seen, "gpu-0")])).await;
        let words = "pool n1 was published anew".to_owned();
        assert_eq!(report.outcome, Outcome::Superseded(words));
        assert_eq!(bench.api.count("PUT", &format!("{CLAIMS}/c/status")), 0);
        assert!(report.written.is_empty());
    }
}

#[tokio::test]
async fn an_allocation_of_which_fields_are_dropped_is_taken_back() {
    let pointer = "/status/allocation/devices/results/*/skipNodeOperations";
    for faults in [
        vec![Fault::DropFields(vec![pointer])],
        vec![Fault::DropFields(vec![pointer]), Fault::LoseAnswer],
        vec![Fault::DropFields(vec![pointer]), Fault::Status(500, "InternalError"), Fault::Drop],
    ] {
        let (bench, report) = place_through(&faults).await;
        let field = "allocation.devices.results[].skipNodeOperations[]".to_owned();
        assert_eq!(report.outcome, Outcome::Dropped(vec![field]), "{faults:?}");
        assert!(report.written.is_empty());
        let claim = bench.claim("c");
        assert_eq!((claim.pointer("/status/allocation"), reserved(&claim).len()), (None, 0));
        assert_eq!(bench.api.count("PATCH", PODS), 0);
    }
}

#[tokio::test]
async fn devices_that_were_written_without_an_answer_are_told_of_whoever_uses_them_now() {
    let mut bench = Bench::start().await;
    let (seen, pod) = (bench.put(claim("c")), bench.put(pod("p")));
    let status = format!("{CLAIMS}/c/status");
    bench.api.faults().next("PUT", &status, Fault::LoseAnswer, 1);
    bench.api.faults().next("PUT", &status, Fault::Drop, 1);
    let change = Change::Place(Box::new(place(&pod, vec![allocate(&seen, "gpu-0")])));
    bench.jobs.try_send(change).unwrap();
    let lost = |api: &TestApi| (api.count("PUT", &status) > 0).then_some(());
    bench.api.wait("the write", lost).await.unwrap();
    let is_there = |api: &TestApi| api.get(&format!("{CLAIMS}/c"))?.get("status").cloned();
    bench.api.wait("the allocation", is_there).await.unwrap();
    let mut freed = bench.claim("c");
    freed["status"]["reservedFor"] = json!([]);
    bench.put(freed);
    let report = bench.report().await;
    assert!(matches!(report.outcome, Outcome::Superseded(_)), "{:?}", report.outcome);
    let stored = bench.claim("c");
    assert_eq!(report.written, [(id(&stored), version(&stored))]);
    assert_eq!(bench.api.count("PATCH", PODS), 0);
}

#[tokio::test]
async fn what_was_written_before_a_failure_is_told() {
    let mut bench = Bench::start().await;
    let (a, b) = (bench.put(claim("a")), bench.put(claim("b")));
    let pod = bench.put(pod("p"));
    bench.api.faults().next("PUT", &format!("{CLAIMS}/b/status"), Fault::Status(422, "Invalid"), 1);
    let report = bench.place(place(&pod, vec![allocate(&a, "gpu-0"), allocate(&b, "gpu-1")])).await;
    assert!(matches!(report.outcome, Outcome::Refused(_)));
    let a = bench.claim("a");
    assert_eq!(report.written, [(id(&a), version(&a))]);
}

fn allocated(consumers: usize) -> Value {
    let consumer =
        |i| json!({"resource": "pods", "name": format!("q{i}"), "uid": format!("u-q{i}")});
    let mut claim = claim("c");
    let consumers: Vec<Value> = (0..consumers).map(consumer).collect();
    claim["status"] = json!({"allocation": allocation("gpu-0"), "reservedFor": consumers});
    claim
}

#[tokio::test]
async fn a_further_pod_is_added_to_the_users_of_a_claim() {
    let mut bench = Bench::start().await;
    let (claim, pod) = (bench.put(allocated(1)), bench.put(pod("p")));
    bench.api.faults().next("PUT", CLAIMS, Fault::Status(409, "Conflict"), 1);
    bench.api.faults().next("PUT", CLAIMS, Fault::LoseAnswer, 1);
    let reserve = || vec![ClaimWrite { claim: id(&claim), write: Write::Reserve }];
    let report = bench.place(place(&pod, reserve())).await;
    assert_eq!(report.outcome, Outcome::Done);
    let stored = bench.claim("c");
    assert_eq!(reserved(&stored), ["u-q0", &id(&pod).uid.0]);
    assert!(report.written.contains(&(id(&stored), version(&stored))));
    // It is so already.
    let count = bench.api.count("PUT", CLAIMS);
    let again = Place { release: None, ..place(&pod, reserve()) };
    assert_eq!(bench.place(again).await.outcome, Outcome::Done);
    assert_eq!(bench.api.count("PUT", CLAIMS), count);
}

#[tokio::test]
async fn no_pod_is_added_to_a_claim_that_cannot_have_it() {
    let mut deleted = allocated(1);
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
    let mut elsewhere = allocated(1);
    let values = "/status/allocation/nodeSelector/nodeSelectorTerms/0/matchFields/0/values";
    *elsewhere.pointer_mut(values).unwrap() = json!(["n2"]);
    for (stored, words) in [
        (claim("c"), "no longer allocated"),
        (deleted, "being deleted"),
        (elsewhere, "another node"),
        (allocated(256), "256 pods"),
    ] {
        let mut bench = Bench::start().await;
        let (claim, pod) = (bench.put(stored), bench.put(pod("p")));
        let reserve = vec![ClaimWrite { claim: id(&claim), write: Write::Reserve }];
        let report = bench.place(place(&pod, reserve)).await;
        let told = format!("{:?}", report.outcome);
        assert!(told.contains(words), "{told}");
        assert_eq!((bench.api.count("PUT", CLAIMS), bench.api.count("PATCH", PODS)), (0, 0));
    }
}

#[tokio::test]
async fn an_allocation_is_cleared_at_the_version_at_which_that_was_decided() {
    let mut bench = Bench::start().await;
    let claim = bench.put(allocated(2));
    let clear =
        |version| Change::Clear(Clear { claim: id(&claim), version, why: "test".to_owned() });
    let report = bench.run(clear(Version("1000".to_owned()))).await;
    assert!(matches!(report.outcome, Outcome::Superseded(_)));
    assert_eq!(reserved(&bench.claim("c")).len(), 2);
    bench.api.faults().next("PUT", CLAIMS, Fault::LoseAnswer, 1);
    let report = bench.run(clear(version(&claim))).await;
    assert_eq!(report.outcome, Outcome::Done);
    let cleared = bench.claim("c");
    assert_eq!(cleared.pointer("/status/allocation"), None);
    assert_eq!(report.written, [(id(&cleared), version(&cleared))]);
}
