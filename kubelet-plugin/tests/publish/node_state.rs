//! The NodeState says what is held, and is written when that changes.

use std::sync::Arc;

use futures::future::join_all;
use lanemate_api::NodeState;
use lanemate_kubelet_plugin::claim_id::ClaimId;
use lanemate_kubelet_plugin::kubernetes::node_state;
use lanemate_kubelet_plugin::state::{Held, HeldState};
use lanemate_runtime::shutdown::InputEnded;
use lanemate_test_api::{Fault, NODE_STATES, NODES, TestApi};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::harness::{api, client, put_node};

struct Running {
    held: watch::Sender<Arc<Vec<Held>>>,
    shutdown: watch::Sender<bool>,
    task: JoinHandle<Result<(), InputEnded>>,
}

async fn start(api: &TestApi) -> Running {
    start_holding(api, Arc::default()).await
}

async fn start_holding(api: &TestApi, held: Arc<Vec<Held>>) -> Running {
    let (held, receiver) = watch::channel(held);
    let (shutdown, ending) = watch::channel(false);
    let task = tokio::spawn(node_state::run(client(api).await, "n1".to_owned(), receiver, ending));
    Running { held, shutdown, task }
}

impl Running {
    async fn stop(self) {
        self.shutdown.send_replace(true);
        self.task.await.unwrap().unwrap();
    }
}

fn held(uid: &str, state: HeldState) -> Held {
    let claim =
        ClaimId { namespace: "ns".to_owned(), name: format!("c-{uid}"), uid: uid.parse().unwrap() };
    Held { claim, devices: vec!["gpu-0".to_owned(), "nic-0".to_owned()], state }
}

fn stored(api: &TestApi) -> Option<NodeState> {
    let object = api.get(&format!("{NODE_STATES}/n1"))?;
    Some(serde_json::from_value(object).unwrap())
}

/// Waits until the stored object lists these claims, and returns it.
async fn wait(api: &TestApi, uids: &[&str]) -> NodeState {
    let listed = |state: &NodeState| {
        state.status.held.iter().map(|held| held.claim.uid.clone()).collect::<Vec<_>>() == uids
    };
    let what = format!("a NodeState with {uids:?}");
    api.wait(&what, |api| stored(api).filter(listed)).await.unwrap()
}

#[tokio::test]
async fn it_is_there_from_the_start_and_follows_what_is_held() {
    let api = api(&["n1"]).await;
    let running = start(&api).await;
    let empty = wait(&api, &[]).await;
    let owner = &empty.metadata.owner_references.unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("Node", "n1"));
    let both = vec![held("b", HeldState::Reserved), held("a", HeldState::Prepared)];
    running.held.send_replace(Arc::new(both));
    let state = serde_json::to_value(wait(&api, &["a", "b"]).await).unwrap();
    assert_eq!(
        state["status"]["held"][0],
        json!({
            "claim": { "namespace": "ns", "name": "c-a", "uid": "a" },
            "devices": ["gpu-0", "nic-0"], "state": "Prepared",
        })
    );
    running.held.send_replace(Arc::default());
    wait(&api, &[]).await;
    assert_eq!((api.count("POST", NODE_STATES), api.count("PUT", NODE_STATES)), (1, 2));
    running.stop().await;
}

#[tokio::test]
async fn a_second_plugin_that_holds_the_same_writes_nothing() {
    let api = api(&["n1"]).await;
    let same = || Arc::new(vec![held("a", HeldState::Prepared)]);
    let one = start_holding(&api, same()).await;
    wait(&api, &["a"]).await;
    let reads = api.count("GET", NODE_STATES);
    let other = start_holding(&api, same()).await;
    let looked = |api: &TestApi| (api.count("GET", NODE_STATES) > reads).then_some(());
    api.wait("a read of the second", looked).await.unwrap();
    other.held.send_replace(Arc::new(vec![held("b", HeldState::Prepared)]));
    wait(&api, &["b"]).await;
    assert_eq!((api.count("POST", NODE_STATES), api.count("PUT", NODE_STATES)), (1, 1));
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn errors_of_the_api_server_are_overcome() {
    let check = async |fault: Fault| {
        let api = api(&["n1"]).await;
        for method in ["GET", "POST", "PUT"] {
            api.faults().next(method, NODE_STATES, fault.clone(), 1);
        }
        let running = start(&api).await;
        wait(&api, &[]).await;
        running.held.send_replace(Arc::new(vec![held("a", HeldState::Prepared)]));
        wait(&api, &["a"]).await;
        running.stop().await;
    };
    let faults = [
        Fault::Status(409, "Conflict"),
        Fault::Status(500, "InternalError"),
        Fault::Status(403, "Forbidden"),
        Fault::TooManyRequests(1),
        Fault::LoseAnswer,
        Fault::Drop,
    ];
    join_all(faults.map(check)).await;
}

#[tokio::test]
async fn it_is_written_on_what_is_stored_when_somebody_else_wrote() {
    let api = api(&["n1"]).await;
    let running = start(&api).await;
    wait(&api, &[]).await;
    let mut touched: Value = api.get(&format!("{NODE_STATES}/n1")).unwrap();
    touched["metadata"]["labels"] = json!({ "a": "b" });
    api.put(touched).unwrap();
    running.held.send_replace(Arc::new(vec![held("a", HeldState::Prepared)]));
    assert!(wait(&api, &["a"]).await.metadata.labels.is_some());
    // Removed, with its Node, which came back.
    api.remove(NODE_STATES);
    api.remove(NODES);
    let uid = put_node(&api, "n1");
    running.held.send_replace(Arc::new(vec![held("b", HeldState::Prepared)]));
    let state = wait(&api, &["b"]).await;
    assert_eq!(state.metadata.owner_references.unwrap()[0].uid, uid);
    running.stop().await;
}

#[tokio::test]
async fn a_definition_that_is_not_installed_stops_nothing() {
    let api = api(&["n1"]).await;
    api.set_installed("nodestates", false);
    let running = start(&api).await;
    let tried = |api: &TestApi| (api.count("POST", NODE_STATES) > 0).then_some(());
    api.wait("a try", tried).await.unwrap();
    running.held.send_replace(Arc::new(vec![held("a", HeldState::Prepared)]));
    assert!(!running.task.is_finished());
    running.stop().await;
}

#[tokio::test]
async fn a_claim_that_cannot_be_told_in_full_costs_no_other() {
    let api = api(&["n1"]).await;
    let running = start(&api).await;
    let mut unknown = held("a", HeldState::Quarantined);
    unknown.devices.clear();
    // What a damaged record may say of itself.
    let mut damaged = held("b", HeldState::Quarantined);
    damaged.claim.namespace = "n".repeat(64);
    damaged.claim.name = "ü".repeat(254);
    let mut endless = held("c", HeldState::Quarantined);
    endless.devices = (0..33).map(|number| format!("gpu-{number}")).collect();
    let mut unnameable = held("d", HeldState::Quarantined);
    unnameable.devices.push("g".repeat(64));
    let all = vec![unknown, damaged, endless, unnameable, held("e", HeldState::Prepared)];
    running.held.send_replace(Arc::new(all));
    let listed = wait(&api, &["a", "b", "c", "d", "e"]).await.status.held;
    let devices: Vec<usize> = listed.iter().map(|held| held.devices.len()).collect();
    assert_eq!(devices, [0, 2, 0, 0, 2], "one that is not all of them would free the others");
    assert_eq!((&listed[1].claim.namespace, &listed[1].claim.name), (&None, &None));
    assert_eq!(listed[4].claim.name.as_deref(), Some("c-e"));
    running.stop().await;
}

#[tokio::test]
async fn the_task_ends_with_an_error_when_nobody_can_tell_what_is_held() {
    let api = api(&["n1"]).await;
    let running = start(&api).await;
    drop(running.held);
    let error = running.task.await.unwrap().unwrap_err();
    assert!(error.to_string().starts_with("nodestates has ended: held claims no longer come"));
}
