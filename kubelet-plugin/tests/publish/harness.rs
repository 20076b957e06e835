//! A fake API server with a Node, a publisher on it, and machines to publish.

use std::sync::Arc;

use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::Client;
use lanemate_driver::inventory::Policy;
use lanemate_driver::machine::Machine;
use lanemate_driver::resource_slice::Mode;
use lanemate_driver::testing::facts;
use lanemate_kubelet_plugin::kubernetes::slices::publisher::{self, Published, Publisher};
use lanemate_kubelet_plugin::telemetry::metrics::Metrics;
use lanemate_runtime::client::{Connection, connect};
use lanemate_runtime::shutdown::InputEnded;
use lanemate_test_api::{RESOURCE_SLICES, TestApi};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A publisher at work.
pub struct Running {
    pub machine: watch::Sender<Arc<Machine>>,
    pub mode: watch::Sender<Mode>,
    pub published: watch::Receiver<Published>,
    shutdown: watch::Sender<bool>,
    task: JoinHandle<Result<(), InputEnded>>,
}

/// A fake with Nodes of these names.
pub async fn api(nodes: &[&str]) -> TestApi {
    let api = TestApi::start().await.unwrap();
    for node in nodes {
        put_node(&api, node);
    }
    api
}

/// Creates a Node, and returns its UID.
pub fn put_node(api: &TestApi, node: &str) -> String {
    let object = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": node } });
    api.put(object).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// The connection that the plugin makes from a kubeconfig.
pub async fn connection(api: &TestApi) -> Connection {
    let directory = tempfile::tempdir().unwrap();
    let file = api.kubeconfig_file(directory.path()).unwrap();
    connect(Some(&file)).await.unwrap()
}

/// The plugin's client.
pub async fn client(api: &TestApi) -> Client {
    connection(api).await.client
}

/// A captured machine as a node.
pub fn machine(node: &str, host: &str) -> Machine {
    Machine::from_facts(node, facts(host), None, &Policy::default())
}

/// A machine with so many devices.
pub fn machine_with(node: &str, devices: usize) -> Machine {
    let mut machine = machine(node, "dgx-h100");
    let first = machine.inventory.devices[0].clone();
    let device = |number: usize| {
        let mut device = first.clone();
        device.name = format!("gpu-{number}");
        device
    };
    machine.inventory.devices = (0..devices).map(device).collect();
    machine
}

impl Running {
    /// Starts to publish a machine, in mode controller.
    pub async fn start(api: &TestApi, machine: Machine) -> Self {
        let node = machine.inventory.node.clone();
        let (machine, machines) = watch::channel(Arc::new(machine));
        let (mode, modes) = watch::channel(Mode::Controller);
        let (told, published) = watch::channel(Published::default());
        let (shutdown, ending) = watch::channel(false);
        let publisher = Publisher {
            client: client(api).await,
            node,
            machine: machines,
            mode: modes,
            published: told,
            metrics: Metrics::new(&mut prometheus_client::registry::Registry::default()),
            watch_seconds: 1,
        };
        let task = tokio::spawn(publisher::run(publisher, ending));
        Self { machine, mode, published, shutdown, task }
    }

    /// Waits until what is published is complete and answers a question by yes.
    pub async fn wait(&self, what: &str, question: impl Fn(&Published) -> bool) -> Published {
        let wanted = |published: &Published| published.is_complete && question(published);
        let bound = std::time::Duration::from_secs(30);
        let mut published = self.published.clone();
        let waited = tokio::time::timeout(bound, published.wait_for(wanted)).await;
        if let Ok(published) = waited {
            return published.unwrap().clone();
        }
        panic!("waited 30 s for {what}: {:?}", *self.published.borrow());
    }

    /// Waits until the slices were published for the first time.
    pub async fn complete(&self) -> Published {
        self.wait("complete slices", |_| true).await
    }

    /// Ends the task as the plugin does.
    pub async fn stop(self) {
        self.shutdown.send_replace(true);
        self.task.await.unwrap().unwrap();
    }
}

/// The slices that the fake holds.
pub fn slices(api: &TestApi) -> Vec<ResourceSlice> {
    let stored = api.list(RESOURCE_SLICES);
    stored.into_iter().map(|object| serde_json::from_value(object).unwrap()).collect()
}

/// Writes of slices so far.
pub fn writes(api: &TestApi) -> usize {
    ["POST", "PUT", "DELETE", "PATCH"].iter().map(|way| api.count(way, RESOURCE_SLICES)).sum()
}

/// Changes a stored slice as somebody else would.
pub fn edit(api: &TestApi, slice: &ResourceSlice, change: impl Fn(&mut Value)) {
    let mut object = serde_json::to_value(slice).unwrap();
    change(&mut object);
    api.put(object).unwrap();
}
