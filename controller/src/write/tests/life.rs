//! The fence, the queue, and the order of jobs.

use lanemate_test_api::Fault;

use super::*;

#[tokio::test]
async fn nothing_is_sent_after_the_fence_is_gone() {
    let mut bench = Bench::start().await;
    let (a, b) = (bench.put(claim("a")), bench.put(claim("b")));
    let pod = bench.put(pod("p"));
    bench.api.faults().next("PUT", &format!("{CLAIMS}/a/status"), Fault::Hang(LIMIT / 2), 1);
    let change =
        Change::Place(Box::new(place(&pod, vec![allocate(&a, "gpu-0"), allocate(&b, "gpu-1")])));
    bench.jobs.try_send(change.clone()).unwrap();
    let is_allocated =
        |api: &TestApi| api.get(&format!("{CLAIMS}/a"))?.pointer("/status/allocation").cloned();
    bench.api.wait("the first claim", is_allocated).await.unwrap();
    bench.fence.close();
    let report = bench.report().await;
    assert_eq!(report.outcome, Outcome::Fenced);
    let stored = bench.claim("a");
    assert_eq!(report.written, [(id(&stored), version(&stored))]);
    assert_eq!(bench.run(change).await.outcome, Outcome::Fenced);
    let requests: Vec<String> = bench.api.requests().into_iter().map(|r| r.path).collect();
    assert_eq!(requests, [format!("{CLAIMS}/a"), format!("{CLAIMS}/a/status")]);
    assert_eq!(bench.end().await, Ended { in_doubt: 0 });
}

#[tokio::test]
async fn a_write_without_an_answer_at_the_end_of_the_fence_stays_in_doubt() {
    let mut bench = Bench::start().await;
    let (claim, pod) = (bench.put(claim("c")), bench.put(pod("p")));
    let status = format!("{CLAIMS}/c/status");
    bench.api.faults().next("PUT", &status, Fault::Silent, usize::MAX);
    bench
        .jobs
        .try_send(Change::Place(Box::new(place(&pod, vec![allocate(&claim, "gpu-0")]))))
        .unwrap();
    bench.api.wait("the write", |api| (api.count("PUT", &status) > 0).then_some(())).await.unwrap();
    bench.fence.close();
    let report = bench.report().await;
    assert_eq!(report.outcome, Outcome::Fenced);
    assert!(report.written.is_empty());
    assert_eq!(bench.api.count("PUT", &status), 1);
    assert_eq!(bench.end().await, Ended { in_doubt: 1 });
}

#[tokio::test]
async fn a_request_has_no_more_time_than_the_fence() {
    let api = TestApi::start().await.unwrap();
    let fence = Fence::until(Instant::now() + LIMIT * 3);
    let generations = Generations::default();
    generations.note("n1", Some(1));
    let (writer, mut reports) = Writer::new(client(&api).await, fence.clone(), generations);
    let mut protected = claim("c");
    protected["metadata"]["finalizers"] = json!(["resource.kubernetes.io/delete-protection"]);
    let [claim, pod] = [protected, pod("p")].map(|object| api.put(object).unwrap());
    // Within the limit of a call: the answer would be taken, but for the fence.
    api.faults().next("PUT", CLAIMS, Fault::Hang(LIMIT * 8), usize::MAX);
    let change = Change::Place(Box::new(place(&pod, vec![allocate(&claim, "gpu-0")])));
    writer.jobs().try_send(change).unwrap();
    let ended = tokio::spawn(writer.run());
    let report = reports.recv().await.unwrap();
    assert_eq!((report.outcome, report.written), (Outcome::Fenced, vec![]));
    assert_eq!(fence.margin(), None);
    assert_eq!(ended.await.unwrap(), Ended { in_doubt: 1 });
}

#[tokio::test]
async fn a_queue_that_is_full_takes_no_more() {
    let api = TestApi::start().await.unwrap();
    let client = client(&api).await;
    let (writer, mut reports) =
        Writer::new(client, Fence::until(Instant::now()), Generations::default());
    let jobs = writer.jobs();
    let change = |name: String| {
        let pod = Id {
            key: Key { namespace: "ml".to_owned(), name },
            uid: crate::id::Uid("u".to_owned()),
        };
        Change::DeletePod(crate::change::DeletePod { pod, why: "test".to_owned() })
    };
    let taken = (0..1000).filter(|i| jobs.try_send(change(format!("p{i}"))).is_ok()).count();
    assert_eq!((taken, jobs.capacity()), (QUEUE, 0));
    let ended = tokio::spawn(writer.run());
    for _ in 0..taken {
        assert_eq!(reports.recv().await.unwrap().outcome, Outcome::Fenced);
    }
    drop(jobs);
    assert_eq!(ended.await.unwrap(), Ended { in_doubt: 0 });
    assert_eq!(api.requests().len(), 0);
}

#[tokio::test]
async fn jobs_of_one_claim_come_one_after_another() {
    let mut bench = Bench::start().await;
    let claim = bench.put(claim("c"));
    let pods: Vec<Value> = (0..3).map(|i| bench.put(pod(&format!("p{i}")))).collect();
    bench.api.faults().next("PUT", CLAIMS, Fault::Hang(LIMIT / 2), 20);
    let mut changes = pods.iter().map(|pod| {
        let write = ClaimWrite { claim: id(&claim), write: Write::Reserve };
        Change::Place(Box::new(place(pod, vec![write])))
    });
    changes.next();
    let first = Change::Place(Box::new(place(&pods[0], vec![allocate(&claim, "gpu-0")])));
    for change in std::iter::once(first).chain(changes) {
        bench.jobs.try_send(change).unwrap();
    }
    for pod in &pods {
        let report = bench.report().await;
        assert_eq!(report.outcome, Outcome::Done);
        let Change::Place(place) = &report.change else { panic!("{:?}", report.change) };
        assert_eq!(place.pod, id(pod));
    }
    assert_eq!(reserved(&bench.claim("c")).len(), 3);
    // Nobody was in the way of anybody.
    assert_eq!(bench.api.count("PUT", &format!("{CLAIMS}/c/status")), 3);
}

#[tokio::test]
async fn jobs_in_trouble_leave_their_turn_to_others() {
    let mut bench = Bench::start().await;
    let stuck = "/apis/resource.k8s.io/v1/namespaces/stuck/resourceclaims";
    bench.api.faults().next("PUT", stuck, Fault::Status(500, "InternalError"), usize::MAX);
    let owner = bench.put(pod("p"));
    for i in 0..2 * TURNS {
        let mut claim = claim(&format!("c{i}"));
        claim["metadata"]["namespace"] = json!("stuck");
        claim["metadata"]["finalizers"] = json!(["resource.kubernetes.io/delete-protection"]);
        let claim = bench.put(claim);
        let mut place = place(&owner, vec![allocate(&claim, "gpu-0")]);
        place.pod.key.name = format!("p{i}");
        bench.jobs.try_send(Change::Place(Box::new(place))).unwrap();
    }
    let (claim, pod) = (bench.put(claim("c")), bench.put(pod("well")));
    let report = bench.place(place(&pod, vec![allocate(&claim, "gpu-1")])).await;
    assert_eq!(report.outcome, Outcome::Done);
    let Change::Place(place) = &report.change else { panic!("{:?}", report.change) };
    assert_eq!(place.pod, id(&pod));
}

#[tokio::test]
async fn what_has_begun_is_finished_at_the_end() {
    let mut bench = Bench::start().await;
    let (claim, pod) = (bench.put(claim("c")), bench.put(pod("p")));
    bench.api.faults().next("PUT", CLAIMS, Fault::Hang(LIMIT / 2), 1);
    bench
        .jobs
        .try_send(Change::Place(Box::new(place(&pod, vec![allocate(&claim, "gpu-0")]))))
        .unwrap();
    bench.api.wait("a request", |api| (api.count("PUT", CLAIMS) > 0).then_some(())).await.unwrap();
    drop(bench.jobs);
    assert_eq!(bench.writer.await.unwrap(), Ended { in_doubt: 0 });
    assert_eq!(bench.reports.recv().await.unwrap().outcome, Outcome::Done);
    let pod = bench.api.get(&format!("{PODS}/p")).unwrap();
    assert_eq!(pod["spec"]["schedulingGates"], json!([{"name": "other"}]));
}
