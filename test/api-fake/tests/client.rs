//! The fake, seen through the client and the watcher that the plugin uses.
#![allow(clippy::unwrap_used, reason = "a test may end where it stands")]

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::watcher;
use kube::{Api, Client, Config, ResourceExt};
use lanemate_test_api::{Fault, RESOURCE_SLICES, TestApi};
use serde_json::{Value, json};

async fn start() -> (TestApi, Client) {
    let api = TestApi::start().await.unwrap();
    let mut config = Config::new(api.url().parse().unwrap());
    config.default_retry = false;
    (api, Client::try_from(config).unwrap())
}

fn slice(name: &str, node: &str) -> ResourceSlice {
    let taint = json!({ "key": "lanemate.dev/allocator", "effect": "NoSchedule" });
    let device = json!({ "name": "gpu-0", "taints": [taint] });
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "driver": "lanemate.dev", "nodeName": node, "devices": [device],
            "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 },
        },
    }))
    .unwrap()
}

fn code<T: std::fmt::Debug>(result: kube::Result<T>) -> u16 {
    match result.unwrap_err() {
        kube::Error::Api(status) => status.code,
        other => panic!("expected a status, found {other:?}"),
    }
}

#[tokio::test]
async fn writes_follow_the_rules_for_versions_and_preconditions() {
    let (api, client) = start().await;
    let slices: Api<ResourceSlice> = Api::all(client);
    let created = slices.create(&PostParams::default(), &slice("a", "n1")).await.unwrap();
    assert!(created.uid().is_some() && created.metadata.creation_timestamp.is_some());
    let taints = created.spec.devices.as_ref().unwrap()[0].taints.as_ref().unwrap();
    assert!(taints[0].time_added.is_some());
    assert_eq!(code(slices.create(&PostParams::default(), &slice("a", "n1")).await), 409);
    // Nothing changes, so the version stays.
    let same = slices.replace("a", &PostParams::default(), &created).await.unwrap();
    assert_eq!(same.resource_version(), created.resource_version());
    let mut changed = same.clone();
    changed.spec.pool.generation = 2;
    let changed = slices.replace("a", &PostParams::default(), &changed).await.unwrap();
    assert_ne!(changed.resource_version(), created.resource_version());
    assert_eq!(code(slices.replace("a", &PostParams::default(), &created).await), 409);
    let stale = Preconditions { resource_version: created.resource_version(), uid: None };
    let stale = DeleteParams { preconditions: Some(stale), ..DeleteParams::default() };
    assert_eq!(code(slices.delete("a", &stale).await), 409);
    slices.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(code(slices.get("a").await), 404);
    assert_eq!(api.count("POST", RESOURCE_SLICES), 2);
}

#[tokio::test]
async fn lists_are_selected_by_field() {
    let (_api, client) = start().await;
    let slices: Api<ResourceSlice> = Api::all(client);
    for (name, node) in [("a", "n1"), ("b", "n2"), ("c", "n1")] {
        slices.create(&PostParams::default(), &slice(name, node)).await.unwrap();
    }
    let of_node = ListParams::default().fields("spec.driver=lanemate.dev,spec.nodeName=n1");
    let found = slices.list(&of_node).await.unwrap();
    assert_eq!(found.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!(slices.list_metadata(&of_node).await.unwrap().items.len(), 2);
    assert_eq!(code(slices.list(&ListParams::default().fields("spec.pool=n1")).await), 400);
}

#[tokio::test]
async fn a_patch_merges() {
    let (_api, client) = start().await;
    let events: Api<Event> = Api::namespaced(client, "ns");
    let event = json!({ "metadata": { "name": "e", "namespace": "ns" }, "note": "n" });
    let event: Event = serde_json::from_value(event).unwrap();
    events.create(&PostParams::default(), &event).await.unwrap();
    let patch =
        json!({ "series": { "count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z" } });
    let patched = events.patch("e", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!((patched.note.as_deref(), patched.series.unwrap().count), (Some("n"), 2));
}

/// The name of the next object that is applied or deleted, with `-` before deleted ones.
async fn next<S>(stream: &mut S) -> String
where
    S: futures::Stream<Item = watcher::Result<watcher::Event<ResourceSlice>>> + Unpin,
{
    let named = async {
        loop {
            match stream.next().await.unwrap() {
                Ok(watcher::Event::Apply(slice) | watcher::Event::InitApply(slice)) => {
                    return slice.name_any();
                }
                Ok(watcher::Event::Delete(slice)) => return format!("-{}", slice.name_any()),
                Ok(_) => {}
                Err(error) => return format!("{error}").chars().take(26).collect(),
            }
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), named).await;
    waited.unwrap_or_else(|_| panic!("waited 20 s for an event of the watch"))
}

#[tokio::test]
async fn the_watcher_sees_changes_of_its_node_and_begins_anew_after_410() {
    let (api, client) = start().await;
    let slices: Api<ResourceSlice> = Api::all(client);
    slices.create(&PostParams::default(), &slice("a", "n1")).await.unwrap();
    let config = watcher::Config::default().fields("spec.nodeName=n1").timeout(1);
    let mut stream = pin!(watcher(slices.clone(), config));
    assert_eq!(next(&mut stream).await, "a");
    slices.create(&PostParams::default(), &slice("other", "n2")).await.unwrap();
    slices.create(&PostParams::default(), &slice("b", "n1")).await.unwrap();
    assert_eq!(next(&mut stream).await, "b");
    api.remove(&format!("{RESOURCE_SLICES}/a"));
    assert_eq!(next(&mut stream).await, "-a");
    // The watch ends after a second, and the next one is told that it comes too late.
    api.faults().next("WATCH", RESOURCE_SLICES, Fault::Gone, 1);
    assert_eq!(next(&mut stream).await, "error returned by apiserve");
    assert_eq!(next(&mut stream).await, "b");
}

#[tokio::test]
async fn each_fault_is_met_as_often_as_it_was_ordered() {
    let (api, client) = start().await;
    let slices: Api<ResourceSlice> = Api::all(client);
    let faults = api.faults();
    faults.next("GET", RESOURCE_SLICES, Fault::Status(500, "InternalError"), 1);
    faults.next("GET", RESOURCE_SLICES, Fault::TooManyRequests(2), 1);
    faults.next("GET", RESOURCE_SLICES, Fault::Drop, 1);
    assert_eq!(code(slices.get("a").await), 500);
    assert_eq!(code(slices.get("a").await), 429);
    assert!(matches!(slices.get("a").await, Err(kube::Error::Service(_))));
    assert_eq!(code(slices.get("a").await), 404);
    faults.next("POST", RESOURCE_SLICES, Fault::DropFields(vec!["/spec/devices/*/taints"]), 1);
    let created = slices.create(&PostParams::default(), &slice("a", "n1")).await.unwrap();
    assert_eq!(created.spec.devices.unwrap()[0].taints, None);
    faults.next("POST", RESOURCE_SLICES, Fault::LoseAnswer, 1);
    assert!(slices.create(&PostParams::default(), &slice("b", "n1")).await.is_err());
    assert!(api.get(&format!("{RESOURCE_SLICES}/b")).is_some());
    faults.next("GET", RESOURCE_SLICES, Fault::Hang(Duration::from_secs(600)), 1);
    let hanging = tokio::time::timeout(Duration::from_millis(50), slices.get("a"));
    assert!(hanging.await.is_err());
    assert_eq!(faults.left(), 0);
}

#[tokio::test]
async fn a_resource_can_be_absent_and_a_kubeconfig_leads_here() {
    let (api, _) = start().await;
    let directory = tempfile::tempdir().unwrap();
    let file = api.kubeconfig_file(directory.path()).unwrap();
    let config = kube::config::Kubeconfig::read_from(file).unwrap();
    let config = Config::from_custom_kubeconfig(config, &Default::default()).await.unwrap();
    let client = Client::try_from(config).unwrap();
    api.set_installed("resourceslices", false);
    let slices: Api<ResourceSlice> = Api::all(client);
    assert_eq!(code(slices.list(&ListParams::default()).await), 404);
    api.set_installed("resourceslices", true);
    assert!(slices.list(&ListParams::default()).await.unwrap().items.is_empty());
    let answer: Result<Value, String> =
        api.wait("a request", |api| api.get("/").or(Some(Value::Null))).await;
    assert_eq!(answer, Ok(Value::Null));
}
