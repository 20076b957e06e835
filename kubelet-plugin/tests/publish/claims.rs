//! Claims are read as they are now, or it is said why not.

use lanemate_kubelet_plugin::claim_id::ClaimId;
use lanemate_kubelet_plugin::kubernetes::claims::{Claims, Lookup};
use lanemate_kubelet_plugin::state::Consumer;
use lanemate_test_api::{Fault, TestApi};
use serde_json::{Value, json};

use crate::harness::{api, connection};

const CLAIM: &str = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c";
const PODS: &str = "/api/v1/namespaces/ns/pods";

fn id(uid: &str) -> ClaimId {
    ClaimId { namespace: "ns".to_owned(), name: "c".to_owned(), uid: uid.parse().unwrap() }
}

fn put_claim(api: &TestApi, reserved_for: Value) {
    api.put(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": { "namespace": "ns", "name": "c", "uid": "u-1" }, "spec": {},
        "status": { "reservedFor": reserved_for },
    }))
    .unwrap();
}

async fn lookup(api: &TestApi, uid: &str) -> String {
    let claims = Claims::new(connection(api).await);
    match claims.get(&id(uid)).await {
        Ok(Lookup::Found(claim)) => format!("found {}", claim.metadata.uid.unwrap()),
        Ok(Lookup::Gone) => "gone".to_owned(),
        Ok(Lookup::Replaced { uid }) => format!("replaced by {uid}"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_claim_is_found_gone_or_replaced() {
    let api = api(&[]).await;
    assert_eq!(lookup(&api, "u-1").await, "gone");
    put_claim(&api, json!([]));
    assert_eq!(lookup(&api, "u-1").await, "found u-1");
    assert_eq!(lookup(&api, "u-0").await, "replaced by u-1");
}

#[tokio::test]
async fn passing_faults_are_overcome_and_lasting_ones_are_told() {
    let api = api(&[]).await;
    put_claim(&api, json!([]));
    for fault in [Fault::Status(500, "InternalError"), Fault::Drop, Fault::TooManyRequests(1)] {
        api.faults().next("GET", CLAIM, fault.clone(), 2);
        assert_eq!(lookup(&api, "u-1").await, "found u-1", "{fault:?}");
    }
    let before = api.count("GET", CLAIM);
    api.faults().next("GET", CLAIM, Fault::Drop, usize::MAX);
    let words = lookup(&api, "u-1").await;
    assert!(
        words.starts_with("get resourceclaims ns/c: the API server cannot be reached"),
        "{words}"
    );
    assert!(words.contains(&api.url()) && words.ends_with("4 tries)"), "{words}");
    assert_eq!(api.count("GET", CLAIM), before + 4);
}

#[tokio::test]
async fn a_missing_right_is_named_at_once() {
    let api = api(&[]).await;
    api.faults().next("GET", CLAIM, Fault::Status(403, "Forbidden"), usize::MAX);
    let words = lookup(&api, "u-1").await;
    assert!(words.contains("get resourceclaims ns/c: the service account lacks"), "{words}");
    assert!(words.contains("deploy/rbac"), "{words}");
    assert_eq!(api.count("GET", CLAIM), 1);
}

fn pod(name: &str, uid: &str, phase: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "spec": {},
        "metadata": { "namespace": "ns", "name": name, "uid": uid },
        "status": { "phase": phase },
    })
}

async fn consumer(api: &TestApi, reserved_for: &[(&str, &str)]) -> Consumer {
    let consumer =
        |(name, uid): &(&str, &str)| json!({ "resource": "pods", "name": name, "uid": uid });
    put_claim(api, json!(reserved_for.iter().map(consumer).collect::<Vec<_>>()));
    let claims = Claims::new(connection(api).await);
    let Ok(Lookup::Found(claim)) = claims.get(&id("u-1")).await else { panic!("no claim") };
    claims.consumer(&claim).await.unwrap()
}

#[tokio::test]
async fn a_claim_is_wanted_by_a_pod_that_lives() {
    let api = api(&[]).await;
    let gone = |words: &str| Consumer::Gone(words.to_owned());
    assert_eq!(consumer(&api, &[]).await, gone("status.reservedFor names no pod"));
    assert_eq!(consumer(&api, &[("p", "1")]).await, gone("pod p is gone"));
    api.put(pod("p", "1", "Pending")).unwrap();
    assert_eq!(consumer(&api, &[("p", "1")]).await, Consumer::Alive);
    assert_eq!(consumer(&api, &[("p", "2")]).await, gone("pod p is another pod of that name"));
    assert_eq!(consumer(&api, &[("q", "9"), ("p", "1")]).await, Consumer::Alive);
    api.put(pod("p", "1", "Succeeded")).unwrap();
    assert_eq!(consumer(&api, &[("p", "1")]).await, gone("pod p has finished"));
    let mut ending = pod("q", "2", "Running");
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    api.put(ending).unwrap();
    let both = consumer(&api, &[("p", "1"), ("q", "2")]).await;
    assert_eq!(both, gone("pod p has finished, pod q is being deleted"));
    let many: Vec<(&str, &str)> = vec![("x", "1"); 5];
    let words = "pod x is gone, pod x is gone, pod x is gone and 2 more";
    assert_eq!(consumer(&api, &many).await, gone(words));
}

#[tokio::test]
async fn a_pod_that_cannot_be_read_is_not_taken_for_gone() {
    let api = api(&[]).await;
    put_claim(&api, json!([{ "resource": "pods", "name": "p", "uid": "1" }]));
    api.faults().next("GET", PODS, Fault::Status(403, "Forbidden"), 1);
    let claims = Claims::new(connection(&api).await);
    let Ok(Lookup::Found(claim)) = claims.get(&id("u-1")).await else { panic!("no claim") };
    let error = claims.consumer(&claim).await.unwrap_err();
    assert!(error.to_string().starts_with("get pods ns/p: the service account"), "{error}");
}
