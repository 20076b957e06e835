//! The writer, against an API server in trouble.

mod claims;
mod life;
mod pods;

use std::collections::BTreeMap;
use std::time::Instant;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{AllocationResult, ResourceClaim};
use lanemate_runtime::client::connect;
use lanemate_test_api::TestApi;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;
use crate::change::{ClaimWrite, Release, Write};
use crate::id::{Id, Version};

const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims";
const PODS: &str = "/api/v1/namespaces/ml/pods";
/// In place of the five seconds of a call.
const LIMIT: Duration = Duration::from_millis(300);

struct Bench {
    api: TestApi,
    jobs: mpsc::Sender<Change>,
    reports: mpsc::Receiver<Report>,
    fence: Fence,
    generations: Generations,
    writer: JoinHandle<Ended>,
}

impl Bench {
    async fn start() -> Self {
        let api = TestApi::start().await.unwrap();
        let client = client(&api).await;
        let fence = Fence::until(Instant::now() + Duration::from_secs(3600));
        let generations = Generations::default();
        generations.note("n1", Some(1));
        let (writer, reports) =
            Writer::with_limit(client, fence.clone(), generations.clone(), LIMIT);
        let jobs = writer.jobs();
        let writer = tokio::spawn(writer.run());
        Self { api, jobs, reports, fence, generations, writer }
    }

    async fn report(&mut self) -> Report {
        let within = Duration::from_secs(60);
        tokio::time::timeout(within, self.reports.recv()).await.expect("a report").unwrap()
    }

    async fn run(&mut self, change: Change) -> Report {
        self.jobs.try_send(change).unwrap();
        self.report().await
    }

    async fn place(&mut self, place: Place) -> Report {
        self.run(Change::Place(Box::new(place))).await
    }

    /// Ends the writer.
    async fn end(self) -> Ended {
        drop(self.jobs);
        self.writer.await.unwrap()
    }

    fn put(&self, object: Value) -> Value {
        self.api.put(object).unwrap()
    }

    fn claim(&self, name: &str) -> Value {
        self.api.get(&format!("{CLAIMS}/{name}")).unwrap()
    }

    fn pod(&self, name: &str) -> Value {
        self.api.get(&format!("{PODS}/{name}")).unwrap()
    }
}

async fn client(api: &TestApi) -> Client {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = api.kubeconfig_file(directory.path()).unwrap();
    connect(Some(&kubeconfig)).await.unwrap().client
}

fn parse<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A claim as its author wrote it.
fn claim(name: &str) -> Value {
    let requests = json!([{"name": "a", "exactly": {"deviceClassName": "gpu.lanemate.dev"}}]);
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"namespace": "ml", "name": name}, "spec": {"devices": {"requests": requests}}})
}

/// A pod that waits for us, and for somebody else too.
fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ml", "name": name},
        "spec": {"containers": [], "schedulingGates": [{"name": "other"}, {"name": GATE}]}})
}

fn allocation(device: &str) -> Value {
    json!({
        "allocationTimestamp": "2026-01-02T03:04:05Z",
        "devices": {"results": [{"request": "a", "driver": "lanemate.dev", "pool": "n1", "device": device,
            "skipNodeOperations": ["x"]}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]},
    })
}

fn id(stored: &Value) -> Id {
    Id::of(&parse(stored["metadata"].clone())).unwrap()
}

fn version(stored: &Value) -> Version {
    Version::of(&parse(stored["metadata"].clone()))
}

fn allocate(stored: &Value, device: &str) -> ClaimWrite {
    let object = parse::<ResourceClaim>(stored.clone());
    let allocation = Box::new(parse::<AllocationResult>(allocation(device)));
    let generations = BTreeMap::from([("n1".to_owned(), 1)]);
    let write = Write::Allocate { object: Arc::new(object), allocation, generations };
    ClaimWrite { claim: id(stored), write }
}

fn release(stored: &Value) -> Option<Release> {
    let pod = Arc::new(parse::<Pod>(stored.clone()));
    Some(Release { pod, pin: Some("n1".to_owned()), assignment: "{}".to_owned() })
}

/// A place for one pod with these claims.
fn place(pod: &Value, claims: Vec<ClaimWrite>) -> Place {
    Place { pod: id(pod), node: "n1".to_owned(), claims, release: release(pod) }
}

/// Whom a claim is reserved for, by UID.
fn reserved(claim: &Value) -> Vec<&str> {
    let consumers = claim.pointer("/status/reservedFor").and_then(Value::as_array);
    consumers.into_iter().flatten().map(|consumer| consumer["uid"].as_str().unwrap()).collect()
}
