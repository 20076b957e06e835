//! Who leads, against an API server that can be late, silent or wrong.

use lanemate_runtime::client::connect;
use lanemate_test_api::{Fault, TestApi};
use serde_json::{Value, json};

use super::*;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/system/leases";
const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/system/leases/controller";

async fn lease(api: &TestApi, identity: &str) -> Lease {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = api.kubeconfig_file(directory.path()).unwrap();
    let client = connect(Some(&kubeconfig)).await.unwrap().client;
    Lease::new(client, settings(identity)).unwrap()
}

fn settings(identity: &str) -> LeaseSettings {
    LeaseSettings {
        namespace: "system".to_owned(),
        name: "controller".to_owned(),
        identity: identity.to_owned(),
        duration: Duration::from_secs(2),
        renew_interval: Duration::from_millis(100),
    }
}

/// Told to end, and the sender that must live as long as nobody is.
fn running() -> (watch::Sender<bool>, watch::Receiver<bool>) {
    watch::channel(false)
}

async fn lead(lease: &Lease) -> Leadership {
    let (_running, shutdown) = running();
    lease.acquire(shutdown).await.unwrap()
}

fn spec(api: &TestApi) -> Value {
    api.get(PATH).unwrap()["spec"].clone()
}

fn put(api: &TestApi, spec: &Value) {
    let metadata = json!({"namespace": "system", "name": "controller"});
    let record = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": metadata, "spec": spec});
    api.put(record).unwrap();
}

fn held_by_another(seconds: u32) -> Value {
    json!({"holderIdentity": "other", "leaseDurationSeconds": seconds, "leaseTransitions": 3,
        "acquireTime": "2020-01-01T00:00:00.000000Z", "renewTime": "2020-01-01T00:00:00.000000Z"})
}

#[tokio::test]
async fn the_first_holder_makes_the_record_renews_it_and_gives_it_back() {
    let api = TestApi::start().await.unwrap();
    let leadership = lead(&lease(&api, "a").await).await;
    let first = spec(&api);
    assert_eq!(first["holderIdentity"], "a");
    assert_eq!(
        (&first["leaseDurationSeconds"], &first["leaseTransitions"]),
        (&json!(2), &json!(0))
    );
    let fence = leadership.fence();
    assert!(fence.margin().unwrap() <= Duration::from_millis(1500));
    let renewed = |api: &TestApi| (spec(api)["renewTime"] != first["renewTime"]).then_some(());
    api.wait("a renewal", renewed).await.unwrap();
    leadership.release().await.unwrap();
    assert_eq!(fence.margin(), None);
    let released = spec(&api);
    assert_eq!(released["holderIdentity"], "");
    assert_eq!(released["leaseDurationSeconds"], 1);
    let next = lead(&lease(&api, "b").await).await;
    assert_eq!(spec(&api)["holderIdentity"], "b");
    assert_eq!(spec(&api)["leaseTransitions"], 1);
    drop(next);
}

#[tokio::test]
async fn a_record_that_changes_keeps_candidates_out_however_old_its_times_are() {
    let api = TestApi::start().await.unwrap();
    put(&api, &held_by_another(2));
    let candidate = lease(&api, "a").await;
    let mut observed = None;
    for minute in 0..30 {
        let mut record = held_by_another(2);
        record["renewTime"] = json!(format!("2020-01-01T00:{minute:02}:00.000000Z"));
        put(&api, &record);
        assert!(candidate.look(&mut observed).await.unwrap().is_none());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // A time in the far future is no reason to wait longer either.
    let mut record = held_by_another(2);
    record["renewTime"] = json!("2120-01-01T00:00:00.000000Z");
    put(&api, &record);
    drop(lead(&candidate).await);
    let taken = spec(&api);
    assert_eq!((&taken["holderIdentity"], &taken["leaseTransitions"]), (&json!("a"), &json!(4)));
    assert_eq!(taken["renewTime"], "2120-01-01T00:00:00.000001Z");
}

#[tokio::test]
async fn a_candidate_waits_as_long_as_the_record_says_and_takes_its_own_name_for_anothers() {
    let api = TestApi::start().await.unwrap();
    let mut record = held_by_another(3600);
    record["holderIdentity"] = json!("a");
    put(&api, &record);
    let candidate = lease(&api, "a").await;
    let now = Instant::now();
    let seen = |age| {
        let spec = serde_json::from_value(record.clone()).unwrap();
        Some(Observed { spec, since: now.checked_sub(Duration::from_secs(age)).unwrap() })
    };
    assert!(candidate.look(&mut seen(10)).await.unwrap().is_none());
    assert!(candidate.look(&mut seen(3600)).await.unwrap().is_some());
}

#[tokio::test]
async fn a_lease_that_was_deleted_while_it_was_held_is_waited_for() {
    let api = TestApi::start().await.unwrap();
    put(&api, &held_by_another(3600));
    let candidate = lease(&api, "a").await;
    let mut observed = None;
    assert!(candidate.look(&mut observed).await.unwrap().is_none());
    api.remove(PATH);
    assert!(candidate.look(&mut observed).await.unwrap().is_none());
    assert_eq!(api.count("POST", LEASES), 0);
    assert!(candidate.look(&mut None).await.unwrap().is_some());
}

#[tokio::test]
async fn a_leader_whose_lease_another_has_or_that_is_gone_hears_of_it_and_its_fence_is_closed() {
    let api = TestApi::start().await.unwrap();
    let leadership = lead(&lease(&api, "a").await).await;
    put(&api, &held_by_another(2));
    let lost = leadership.lost().await;
    let taken =
        LeaseLost::Taken { lease: "system/controller".to_owned(), holder: "other".to_owned() };
    assert_eq!(lost, taken);
    assert_eq!(leadership.fence().margin(), None);
    assert_eq!(spec(&api)["holderIdentity"], "other");
    api.remove(PATH);
    let leadership = lead(&lease(&api, "a").await).await;
    api.remove(PATH);
    assert_eq!(
        leadership.lost().await,
        LeaseLost::Deleted { lease: "system/controller".to_owned() }
    );
    assert_eq!(leadership.fence().margin(), None);
}

#[tokio::test]
async fn renewals_that_fail_now_and_then_do_not_end_a_leader() {
    let api = TestApi::start().await.unwrap();
    let leadership = lead(&lease(&api, "a").await).await;
    for fault in [
        Fault::Status(500, "InternalError"),
        Fault::Drop,
        Fault::LoseAnswer,
        Fault::Status(409, "Conflict"),
        Fault::TooManyRequests(1),
    ] {
        let before = spec(&api)["renewTime"].clone();
        api.faults().next("PUT", PATH, fault, 1);
        let is_over = |api: &TestApi| {
            (api.faults().left() == 0 && spec(api)["renewTime"] != before).then_some(())
        };
        api.wait("a renewal after a fault", is_over).await.unwrap();
    }
    let count = api.count("PUT", PATH);
    api.wait("more renewals", |api| (api.count("PUT", PATH) > count + 2).then_some(()))
        .await
        .unwrap();
    assert!(leadership.fence().margin().is_some());
    assert_eq!(spec(&api)["holderIdentity"], "a");
}

#[tokio::test]
async fn a_leader_that_is_not_answered_stops_writing_before_a_candidate_may_lead() {
    let api = TestApi::start().await.unwrap();
    let leadership = lead(&lease(&api, "a").await).await;
    let fence = leadership.fence();
    api.faults().next("PUT", PATH, Fault::Silent, usize::MAX);
    let lost = leadership.lost().await;
    let margin = fence.margin();
    assert!(matches!(lost, LeaseLost::NotRenewed { .. }), "{lost:?}");
    assert_eq!(margin, None);
    api.faults().clear();
    let seen_by_another = spec(&api);
    assert_eq!(seen_by_another["holderIdentity"], "a");
}

#[tokio::test]
async fn a_take_over_whose_answer_is_lost_counts_from_before_it_was_sent() {
    let api = TestApi::start().await.unwrap();
    put(&api, &json!({"holderIdentity": "", "leaseDurationSeconds": 1}));
    let candidate = lease(&api, "a").await;
    api.faults().next("PUT", PATH, Fault::LoseAnswer, 1);
    let before = Instant::now();
    let sent = candidate.look(&mut None).await.unwrap().expect("our own record");
    assert!(sent.at >= before && sent.at <= Instant::now());
    assert_eq!(api.count("PUT", PATH), 1);
    // One that was not taken is no lease.
    put(&api, &json!({"holderIdentity": "", "leaseDurationSeconds": 1}));
    api.faults().next("PUT", PATH, Fault::Drop, 1);
    assert!(candidate.look(&mut None).await.is_err());
}

#[tokio::test]
async fn a_renewal_counts_from_before_it_was_sent() {
    let api = TestApi::start().await.unwrap();
    api.faults().next("PUT", PATH, Fault::Hang(Duration::from_secs(1)), usize::MAX);
    let leadership = lead(&lease(&api, "a").await).await;
    // The second is sent when the first was answered.
    let answered = |api: &TestApi| (api.count("PUT", PATH) >= 2).then_some(());
    api.wait("two renewals", answered).await.unwrap();
    assert!(leadership.fence().margin() <= Some(Duration::from_millis(500)));
}

#[tokio::test]
async fn two_candidates_never_lead_at_once() {
    let api = TestApi::start().await.unwrap();
    put(&api, &json!({"holderIdentity": "", "leaseDurationSeconds": 1}));
    let (a, b) = (lease(&api, "a").await, lease(&api, "b").await);
    for _ in 0..20 {
        let (mut of_a, mut of_b) = (None, None);
        let (first, second) = tokio::join!(a.look(&mut of_a), b.look(&mut of_b));
        let leaders = [first, second].into_iter().filter(|look| matches!(look, Ok(Some(_))));
        assert_eq!(leaders.count(), 1);
        put(&api, &json!({"holderIdentity": "", "leaseDurationSeconds": 1}));
    }
}

#[tokio::test]
async fn a_candidate_that_is_told_to_end_ends() {
    let api = TestApi::start().await.unwrap();
    put(&api, &held_by_another(3600));
    let candidate = lease(&api, "a").await;
    let (running, shutdown) = running();
    let acquiring = tokio::spawn(async move { candidate.acquire(shutdown).await.is_none() });
    api.wait("a look", |api| (api.count("GET", PATH) > 0).then_some(())).await.unwrap();
    running.send_replace(true);
    assert!(acquiring.await.unwrap());
}

#[test]
fn a_fence_ends_at_its_time_and_closed_it_stays_closed() {
    let now = Instant::now();
    let second = Duration::from_secs(1);
    let fence = Fence::until(now + second);
    assert_eq!(fence.margin_at(now), Some(second));
    assert_eq!(fence.margin_at(now + second), None);
    // As after the process was stopped: the clock went on.
    assert_eq!(fence.margin_at(now + second * 60), None);
    fence.extend(now + second * 3);
    fence.extend(now + second * 2);
    assert_eq!(fence.margin_at(now + second), Some(second * 2));
    fence.close();
    fence.extend(now + second * 9);
    assert_eq!(fence.margin_at(now), None);
}

#[tokio::test]
async fn settings_that_leave_no_room_for_a_failed_renewal_are_refused() {
    let api = TestApi::start().await.unwrap();
    let client = lease(&api, "a").await.api.into_client();
    for (duration, renew_interval, is_right) in [
        (15_000, 2_000, true),
        (15_000, 5_625, true),
        (15_000, 5_626, false),
        (15_000, 0, false),
        (1_500, 100, false),
        (0, 100, false),
    ] {
        let [duration, renew_interval] = [duration, renew_interval].map(Duration::from_millis);
        let settings = LeaseSettings { duration, renew_interval, ..settings("a") };
        assert_eq!(Lease::new(client.clone(), settings).is_ok(), is_right, "{duration:?}");
    }
}
