//! A cluster with Lanemate in it, and what an uninstallation may change.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use lanemate_api::ResourceClass;
use lanemate_driver::resource_slice::Mode;
use lanemate_test_cluster::{
    Cluster, FakeNode, NodeOptions, Output, TEST_LABEL, TestNamespace, claim, until,
};
use lanemate_test_proxy::{ApiProxy, Matcher};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The account of `deploy/rbac/uninstall.yaml`.
pub const ACCOUNT: (&str, &str) = ("lanemate-system", "lanemate-uninstall");
/// Our scheduling gate.
pub const GATE: &str = "lanemate.dev/placement";
/// Replicas of the controller's Deployment.
pub const REPLICAS: i32 = 2;
const FINALIZER: &str = "lanemate.dev/class-protection";
const OTHER_FINALIZER: &str = "example.com/keep";
const SYSTEM: &str = "lanemate-system";
const CONTROLLER: &str = "lanemate-controller";
const CLASS: &str = "uninstall-pair";

/// Where one test stands, while no other runs.
pub struct Ground {
    pub cluster: Cluster,
    pub namespace: TestNamespace,
    pub node: FakeNode,
    directory: TempDir,
}

/// What an uninstallation changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    replicas: i32,
    annotations: Vec<String>,
    policies: Vec<String>,
    gated: Vec<String>,
    finalizers: Vec<String>,
}

impl Ground {
    /// All of `deploy/`, a Deployment whose pods wait for a node, a node with devices, a class with finalizers.
    pub async fn new(test: &str) -> anyhow::Result<Ground> {
        let cluster = Cluster::current().await?;
        let namespace = cluster.namespace_alone(test).await?;
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
        let mut command = Command::new("kubectl");
        command.arg("apply");
        for part in ["crds", "deviceclasses.yaml", "rbac", "admission"] {
            command.arg("--filename").arg(deploy.join(part));
        }
        let applied = command.output().context("run kubectl")?;
        anyhow::ensure!(applied.status.success(), "apply deploy/: {applied:?}");
        let options = NodeOptions::default().label(TEST_LABEL, namespace.name());
        let mut node = FakeNode::create(cluster.client(), namespace.name(), &options).await?;
        node.publish("dgx-h100", Mode::Controller).await?;
        let directory = tempfile::tempdir()?;
        cluster.write_kubeconfig(&directory.path().join("kubeconfig"), ACCOUNT, None).await?;
        let ground = Ground { cluster, namespace, node, directory };
        ground.create_deployment().await?;
        ground.create_class().await?;
        ground.namespace.label(GATE, "enabled").await?;
        until("the gate to be put", async || {
            let gates = gates(&ground.create_with_claim("probe").await?);
            let now = DeleteParams::default().grace_period(0);
            ground.namespace.api::<Pod>().delete("probe", &now).await?;
            Ok(if gates == [GATE] { Ok(()) } else { Err(format!("{gates:?}")) })
        })
        .await?;
        Ok(ground)
    }

    async fn create_deployment(&self) -> anyhow::Result<()> {
        let deployments: Api<Deployment> = Api::namespaced(self.cluster.client(), SYSTEM);
        let _ = deployments.delete(CONTROLLER, &DeleteParams::background()).await;
        let pods: Api<Pod> = Api::namespaced(self.cluster.client(), SYSTEM);
        let (now, all) = (DeleteParams::default().grace_period(0), ListParams::default());
        until("the Deployment of an earlier test and its pods to be gone", async || {
            pods.delete_collection(&now, &all).await?;
            let is_gone = deployments.get_opt(CONTROLLER).await?.is_none()
                && pods.list(&all).await?.items.is_empty();
            Ok(if is_gone { Ok(()) } else { Err("there".to_owned()) })
        })
        .await?;
        let labels = json!({"app": CONTROLLER});
        let spec = json!({
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"lanemate-test/no-such-node": "true"},
            "containers": [{"name": "main", "image": "localhost/pause:1"}],
        });
        let deployment = serde_json::from_value(json!({
            "metadata": {"name": CONTROLLER},
            "spec": {
                "replicas": REPLICAS,
                "strategy": {"type": "Recreate"},
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }))?;
        deployments.create(&PostParams::default(), &deployment).await?;
        self.until_controllers(|pods| i32::try_from(pods.len()) == Ok(REPLICAS)).await
    }

    async fn until_controllers(&self, expected: impl Fn(&[Pod]) -> bool) -> anyhow::Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.cluster.client(), SYSTEM);
        let of_it = ListParams::default().labels(&format!("app={CONTROLLER}"));
        until("the pods of the Deployment", async || {
            let pods = pods.list(&of_it).await?.items;
            Ok(if expected(&pods) { Ok(()) } else { Err(format!("{} pods", pods.len())) })
        })
        .await
    }

    /// Its pods are bound to the test's node, where nothing ends them.
    pub async fn move_controller_to_the_node(&self) -> anyhow::Result<()> {
        let deployments: Api<Deployment> = Api::namespaced(self.cluster.client(), SYSTEM);
        let patch = Patch::Merge(json!({"spec": {"template": {"spec": {
            "terminationGracePeriodSeconds": 30,
            "nodeSelector": {
                TEST_LABEL: self.namespace.name(), "lanemate-test/no-such-node": null,
            },
        }}}}));
        deployments.patch(CONTROLLER, &PatchParams::default(), &patch).await?;
        let node = self.node.name();
        let is_there = |pod: &Pod| {
            pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_deref() == Some(node))
        };
        self.until_controllers(|pods| {
            pods.iter().filter(|pod| is_there(pod)).count() == REPLICAS as usize
        })
        .await
    }

    async fn create_class(&self) -> anyhow::Result<()> {
        let classes: Api<ResourceClass> = Api::all(self.cluster.client());
        if classes.get_opt(CLASS).await?.is_some() {
            let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            let _ = classes.patch(CLASS, &PatchParams::default(), &none).await;
            let _ = classes.delete(CLASS, &DeleteParams::default()).await;
            self.until_class_is_gone().await?;
        }
        let class = serde_json::from_value(json!({
            "apiVersion": "lanemate.dev/v1alpha1", "kind": "ResourceClass",
            "metadata": {"name": CLASS, "finalizers": [OTHER_FINALIZER, FINALIZER]},
            "spec": {"members": [{"name": "gpu", "deviceClassName": "gpu.lanemate.dev"}]},
        }))?;
        classes.create(&PostParams::default(), &class).await?;
        Ok(())
    }

    /// Deletes the class as its owner would, who takes the other finalizer off.
    pub async fn delete_class(&self) -> anyhow::Result<()> {
        let classes: Api<ResourceClass> = Api::all(self.cluster.client());
        let class = classes.get(CLASS).await?;
        let without: Vec<&String> =
            class.finalizers().iter().filter(|name| *name != OTHER_FINALIZER).collect();
        let patch = Patch::Merge(json!({"metadata": {"finalizers": without}}));
        classes.patch(CLASS, &PatchParams::default(), &patch).await?;
        classes.delete(CLASS, &DeleteParams::default()).await?;
        self.until_class_is_gone().await
    }

    async fn until_class_is_gone(&self) -> anyhow::Result<()> {
        let classes: Api<ResourceClass> = Api::all(self.cluster.client());
        until("the class to be gone", async || {
            let found = classes.get_opt(CLASS).await?;
            Ok(found.map_or(Ok(()), |class| Err(format!("{:?}", class.finalizers()))))
        })
        .await
    }

    /// A pod for the test's node, with these fields of its `spec`.
    pub async fn create_pod(&self, name: &str, fields: Value) -> anyhow::Result<Pod> {
        let mut pod = json!({"metadata": {"name": name}, "spec": {
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {TEST_LABEL: self.namespace.name()},
            "containers": [{"name": "main", "image": "localhost/pause:1"}],
        }});
        let spec = pod["spec"].as_object_mut().context("a pod has a spec")?;
        spec.extend(fields.as_object().cloned().unwrap_or_default());
        self.namespace.create_object(&serde_json::from_value(pod)?).await
    }

    /// A pod that waits behind our gate and for nothing else.
    pub async fn create_gated(&self, name: &str) -> anyhow::Result<Pod> {
        self.create_pod(name, json!({"schedulingGates": [{"name": GATE}]})).await
    }

    /// A pod that the policies give the gate.
    pub async fn create_with_claim(&self, name: &str) -> anyhow::Result<Pod> {
        let claims: Api<ResourceClaim> = self.namespace.api();
        if claims.get_opt("wanted").await?.is_none() {
            let wanted = claim("wanted", &[("gpu", "gpu.lanemate.dev")])?;
            self.namespace.create_object(&wanted).await?;
        }
        let claims = json!([{"name": "wanted", "resourceClaimName": "wanted"}]);
        self.create_pod(name, json!({"resourceClaims": claims})).await
    }

    /// Runs it to its end.
    pub async fn uninstall(&self, flags: &[&str]) -> anyhow::Result<Output> {
        let mut command = self.command(&self.directory.path().join("kubeconfig"))?;
        command.args(flags);
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        Ok(Output { status: output.status, stdout, stderr })
    }

    fn command(&self, kubeconfig: &Path) -> anyhow::Result<Command> {
        let binary = std::env::var_os("LANEMATE_CONTROLLER").context("run hack/e2e")?;
        let mut command = Command::new(binary);
        command.args(["uninstall", "--kubeconfig"]).arg(kubeconfig).env_remove("KUBECONFIG");
        Ok(command)
    }

    /// Runs it until it has sent a request that fits, which never reaches the API server, and kills it.
    pub async fn kill_at(&self, matcher: Matcher) -> anyhow::Result<()> {
        let access = self.cluster.access()?;
        let proxy = ApiProxy::start(&access.server, Some(&access.authority)).await?;
        let kubeconfig = self.directory.path().join("proxied");
        let token = self.cluster.token(ACCOUNT, None).await?;
        std::fs::write(&kubeconfig, proxy.kubeconfig(&token))?;
        let rule = proxy.cut_before(matcher);
        let mut command = self.command(&kubeconfig)?;
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let caught = rule.until_caught(1).await;
        child.kill()?;
        child.wait()?;
        caught
    }

    /// Replicas that the Deployment is to have.
    pub async fn replicas(&self) -> anyhow::Result<i32> {
        let deployments: Api<Deployment> = Api::namespaced(self.cluster.client(), SYSTEM);
        Ok(deployments.get(CONTROLLER).await?.spec.replicas.unwrap_or_default())
    }

    /// Waits until a claim has no allocation.
    pub async fn until_free(&self, claim: &str) -> anyhow::Result<()> {
        let claims: Api<ResourceClaim> = self.namespace.api();
        until(&format!("claim {claim} to be free"), async || {
            let status = claims.get(claim).await?.status.unwrap_or_default();
            Ok(if status.allocation.is_none() { Ok(()) } else { Err("allocated".to_owned()) })
        })
        .await
    }

    /// A controller that somebody has started elsewhere has the lease.
    pub async fn hold_lease(&self) -> anyhow::Result<()> {
        let lease = serde_json::from_value(json!({"metadata": {"name": CONTROLLER}, "spec": {
            "holderIdentity": "somebody", "leaseDurationSeconds": 60,
        }}))?;
        self.leases().create(&PostParams::default(), &lease).await?;
        Ok(())
    }

    /// It is gone.
    pub async fn release_lease(&self) -> anyhow::Result<()> {
        self.leases().delete(CONTROLLER, &DeleteParams::default()).await?;
        Ok(())
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.cluster.client(), SYSTEM)
    }

    /// How things stand.
    pub async fn look(&self) -> anyhow::Result<Look> {
        let deployments: Api<Deployment> = Api::namespaced(self.cluster.client(), SYSTEM);
        let deployment = deployments.get(CONTROLLER).await?;
        let ours = |key: &&String| key.starts_with("lanemate.dev/");
        let pods: Api<Pod> = Api::all(self.cluster.client());
        let gated = |pod: &Pod| gates(pod).contains(&GATE.to_owned());
        let pods = pods.list(&ListParams::default()).await?.items;
        let classes: Api<ResourceClass> = Api::all(self.cluster.client());
        Ok(Look {
            replicas: self.replicas().await?,
            annotations: deployment.annotations().keys().filter(ours).cloned().collect(),
            policies: self.policies().await?,
            gated: pods.iter().filter(|pod| gated(pod)).map(ResourceExt::name_any).collect(),
            finalizers: classes.get(CLASS).await?.finalizers().to_vec(),
        })
    }

    async fn policies(&self) -> anyhow::Result<Vec<String>> {
        let client = || self.cluster.client();
        let all = ListParams::default();
        let mut names = Vec::new();
        let mut note = |name: String| names.extend(name.starts_with("lanemate").then_some(name));
        for policy in Api::<MutatingAdmissionPolicy>::all(client()).list(&all).await? {
            note(policy.name_any());
        }
        for binding in Api::<MutatingAdmissionPolicyBinding>::all(client()).list(&all).await? {
            note(binding.name_any());
        }
        for policy in Api::<ValidatingAdmissionPolicy>::all(client()).list(&all).await? {
            note(policy.name_any());
        }
        for binding in Api::<ValidatingAdmissionPolicyBinding>::all(client()).list(&all).await? {
            note(binding.name_any());
        }
        Ok(names)
    }

    /// Fails if something of ours holds up pods, classes or claims.
    pub async fn assert_nothing_of_ours_is_left(&self) -> anyhow::Result<()> {
        let Look { replicas, policies, gated, finalizers, .. } = self.look().await?;
        assert_eq!(replicas, 0);
        assert_eq!((policies, gated), (Vec::new(), Vec::new()));
        assert_eq!(finalizers, [OTHER_FINALIZER]);
        Ok(())
    }
}

/// The names of a pod's scheduling gates.
pub fn gates(pod: &Pod) -> Vec<String> {
    let gates = pod.spec.iter().flat_map(|spec| spec.scheduling_gates.iter().flatten());
    gates.map(|gate| gate.name.clone()).collect()
}
