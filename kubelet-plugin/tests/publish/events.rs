//! Events reach the API server in its form, folded, and never hold anybody up.

use k8s_openapi::api::events::v1::Event;
use lanemate_kubelet_plugin::claim_id::ClaimId;
use lanemate_kubelet_plugin::kubernetes::events::{self, About, Events};
use lanemate_runtime::shutdown::InputEnded;
use lanemate_test_api::{Fault, TestApi};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::harness::{api, client};

const OF_CLAIMS: &str = "/apis/events.k8s.io/v1/namespaces/ns/events";
const OF_NODES: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

async fn start(api: &TestApi) -> (Events, watch::Sender<bool>, JoinHandle<Result<(), InputEnded>>) {
    let (tell, told) = Events::channel();
    let (shutdown, ending) = watch::channel(false);
    let task = tokio::spawn(events::run(client(api).await, "n1".to_owned(), told, ending));
    (tell, shutdown, task)
}

fn claim(name: &str) -> About {
    let (namespace, name) = ("ns".to_owned(), name.to_owned());
    About::Claim(ClaimId { namespace, name, uid: "u-1".parse().unwrap() })
}

fn stored(api: &TestApi, path: &str) -> Vec<Event> {
    let stored = api.list(path);
    stored.into_iter().map(|object| serde_json::from_value(object).unwrap()).collect()
}

/// Waits until so many events are stored.
async fn wait(api: &TestApi, path: &str, count: usize) -> Vec<Event> {
    let there = |api: &TestApi| Some(stored(api, path)).filter(|events| events.len() == count);
    api.wait(&format!("{count} events at {path}"), there).await.unwrap()
}

#[tokio::test]
async fn events_name_their_object_and_keep_to_the_limits_of_the_api() {
    let api = api(&[]).await;
    let (tell, shutdown, task) = start(&api).await;
    let long = "c".repeat(253);
    tell.warn(claim(&long), "PrepareFailed", "ü".repeat(600));
    let event = wait(&api, OF_CLAIMS, 1).await.remove(0);
    let regarding = event.regarding.unwrap();
    assert_eq!(regarding.kind.as_deref(), Some("ResourceClaim"));
    assert_eq!((regarding.name, regarding.uid.as_deref()), (Some(long), Some("u-1")));
    assert_eq!(
        (event.type_.as_deref(), event.reason.as_deref()),
        (Some("Warning"), Some("PrepareFailed"))
    );
    assert_eq!(event.note.unwrap(), "ü".repeat(512));
    assert!(event.metadata.name.unwrap().len() <= 253);
    assert!(event.event_time.is_some() && event.action.is_some());
    tell.inform(About::Node, "Published", "all is well".to_owned());
    let event = wait(&api, OF_NODES, 1).await.remove(0);
    assert_eq!(event.regarding.unwrap().kind.as_deref(), Some("Node"));
    assert_eq!(event.reporting_controller.as_deref(), Some("lanemate.dev/kubelet-plugin"));
    shutdown.send_replace(true);
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn equal_events_are_one_with_a_count_and_an_object_has_a_budget() {
    let api = api(&[]).await;
    let (tell, _shutdown, _task) = start(&api).await;
    for _ in 0..3 {
        tell.warn(claim("a"), "PrepareFailed", "the same".to_owned());
    }
    let counted = |api: &TestApi| {
        let count = stored(api, OF_CLAIMS).first()?.series.as_ref()?.count;
        (count == 3).then_some(())
    };
    api.wait("a count of 3", counted).await.unwrap();
    assert_eq!(stored(&api, OF_CLAIMS).len(), 1);
    for number in 0..50 {
        tell.warn(claim("b"), "PrepareFailed", format!("number {number}"));
    }
    tell.warn(claim("c"), "PrepareFailed", "the last".to_owned());
    let last = |api: &TestApi| {
        let is_last = |event: &Event| event.note.as_deref() == Some("the last");
        stored(api, OF_CLAIMS).iter().any(is_last).then_some(())
    };
    api.wait("the last event", last).await.unwrap();
    let of_b = stored(&api, OF_CLAIMS).into_iter().filter(|event| {
        event.regarding.as_ref().and_then(|about| about.name.as_deref()) == Some("b")
    });
    assert!((10..15).contains(&of_b.count()));
}

#[tokio::test]
async fn an_event_that_was_removed_is_written_anew_and_a_failure_stops_nothing() {
    let api = api(&[]).await;
    let (tell, _shutdown, _task) = start(&api).await;
    tell.warn(claim("a"), "PrepareFailed", "the same".to_owned());
    wait(&api, OF_CLAIMS, 1).await;
    api.remove(OF_CLAIMS);
    tell.warn(claim("a"), "PrepareFailed", "the same".to_owned());
    wait(&api, OF_CLAIMS, 1).await;
    api.faults().next("POST", OF_CLAIMS, Fault::Status(403, "Forbidden"), 1);
    tell.warn(claim("a"), "PrepareFailed", "refused".to_owned());
    tell.warn(claim("a"), "PrepareFailed", "another".to_owned());
    wait(&api, OF_CLAIMS, 2).await;
}

#[tokio::test]
async fn whoever_tells_never_waits_and_memory_is_bounded() {
    let (tell, mut told) = Events::channel();
    for number in 0..1000 {
        tell.inform(About::Node, "Test", number.to_string());
    }
    let mut kept = 0;
    while told.try_recv().is_ok() {
        kept += 1;
    }
    assert_eq!(kept, 256);
}
