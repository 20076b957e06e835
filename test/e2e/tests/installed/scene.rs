//! Where one test stands: an installed Lanemate, and a namespace whose pods wait for the controller.

use std::collections::BTreeSet;

use anyhow::Context;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use lanemate_test_cluster::node::{PAIRS, until_none_is_held};
use lanemate_test_cluster::{Cluster, Output, TestNamespace, WAITS, claim, pod};
use serde_json::{Value, json};

/// Of the chart.
pub const SYSTEM: &str = "lanemate-system";
/// The plugin's DaemonSet.
pub const PLUGIN: &str = "daemonset/lanemate-kubelet-plugin";
/// The controller's Deployment.
pub const CONTROLLER: &str = "deployment/lanemate-controller";
/// The chart's example of a class.
const CLASS: &str = "gpu-rdma-pair";

/// While no other test runs: each sees the whole machine.
pub struct Scene {
    pub cluster: Cluster,
    pub namespace: TestNamespace,
}

impl Scene {
    pub async fn new(test: &str) -> anyhow::Result<Scene> {
        let cluster = Cluster::current().await?;
        let namespace = cluster.namespace_alone(test).await?;
        namespace.label("lanemate.dev/placement", "enabled").await?;
        Ok(Scene { cluster, namespace })
    }

    /// A claim for so many pairs, and a pod that holds it.
    pub async fn create(&self, name: &str, pairs: u32) -> anyhow::Result<()> {
        self.namespace.create_object(&pairs_claim(name, pairs, Value::Null)?).await?;
        self.namespace.create_object(&pod(name, WAITS, &[name])?).await.map(drop)
    }

    /// The same, and it runs.
    pub async fn run(&self, name: &str, pairs: u32) -> anyhow::Result<Pod> {
        self.create(name, pairs).await?;
        self.namespace.pod_running(name).await
    }

    /// The devices of a claim, in the order of its allocation.
    pub async fn devices(&self, claim: &str) -> anyhow::Result<Vec<String>> {
        let found = self.namespace.api::<ResourceClaim>().get(claim).await?;
        let allocation = found.status.and_then(|status| status.allocation).unwrap_or_default();
        let results = allocation.devices.and_then(|devices| devices.results).unwrap_or_default();
        Ok(results.into_iter().map(|result| result.device).collect())
    }

    /// The device nodes of GPUs and NICs that a container has.
    pub async fn nodes(&self, pod: &str, container: &str) -> anyhow::Result<BTreeSet<String>> {
        let script = "find /dev -type c -name 'nvidia*' -o -type c -path '/dev/infiniband/*'";
        let words = ["exec", pod, "--container", container, "--", "sh", "-c", script];
        let output = self.namespace.kubectl(&words, None).await?;
        anyhow::ensure!(output.status.success(), "list the device nodes: {output}");
        Ok(output.stdout.lines().map(str::to_owned).collect())
    }

    /// Fails unless the container `main` opens the verbs device of the first NIC, which is one that exists.
    pub async fn assert_opens(&self, pod: &str) -> anyhow::Result<()> {
        let opened = self.namespace.open(pod, "/dev/infiniband/uverbs0").await?;
        anyhow::ensure!(opened.contains("exit status: 0"), "{pod}: {opened}");
        Ok(())
    }

    /// Ends pods, and waits until the node holds nothing.
    pub async fn end(&self, pods: &[&str]) -> anyhow::Result<()> {
        for pod in pods {
            self.namespace.delete_pod(pod).await?;
        }
        until_none_is_held(&self.cluster).await
    }

    /// kubectl in the namespace of Lanemate; fails when it does.
    pub async fn system(&self, words: &[&str]) -> anyhow::Result<Output> {
        let all = [&["--namespace", SYSTEM], words].concat();
        let output = self.namespace.kubectl(&all, None).await?;
        anyhow::ensure!(output.status.success(), "kubectl {words:?}: {output}");
        Ok(output)
    }

    /// Waits until all pods of a workload are those of its newest version, and ready.
    pub async fn rolled_out(&self, workload: &str) -> anyhow::Result<()> {
        self.system(&["rollout", "status", workload, "--timeout", "120s"]).await.map(drop)
    }
}

/// A claim for so many pairs, with configurations of this driver.
pub fn pairs_claim(name: &str, pairs: u32, config: Value) -> anyhow::Result<ResourceClaim> {
    let mut pairs_claim = claim(name, &[("pair", CLASS)])?;
    let devices = pairs_claim.spec.as_mut().and_then(|spec| spec.devices.as_mut());
    let devices = devices.context("a claim has devices")?;
    let request = devices.requests.iter_mut().flatten().next();
    let exactly = request.and_then(|request| request.exactly.as_mut());
    exactly.context("a request has a class")?.count = Some(pairs.into());
    if !config.is_null() {
        let config = json!([{"opaque": {"driver": "lanemate.dev", "parameters": config}}]);
        devices.config = Some(serde_json::from_value(config)?);
    }
    Ok(pairs_claim)
}

/// Whether devices are GPUs, each with the NIC under its switch, and nothing else.
pub fn are_pairs(devices: &[String], count: usize) -> bool {
    let devices: BTreeSet<&str> = devices.iter().map(String::as_str).collect();
    let whole = |pair: &&(&str, &str)| devices.contains(pair.0) && devices.contains(pair.1);
    devices.len() == 2 * count && PAIRS.iter().filter(whole).count() == count
}
