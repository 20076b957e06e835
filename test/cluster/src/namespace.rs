//! A namespace for one test: its pods and claims, and its end.

use std::fmt;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::Context;
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::allocation::Allocation;
use crate::cluster::Turn;
use crate::wait::until;

/// Keeps a claim from being deleted while it is allocated.
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// A namespace that is deleted when dropped; when its test fails, what is in it is printed first.
pub struct TestNamespace {
    client: Client,
    name: String,
    _turn: Turn,
}

/// What a command printed, and how it ended.
#[derive(Clone, Debug)]
pub struct Output {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?} {:?}", self.status, self.stdout, self.stderr)
    }
}

impl TestNamespace {
    pub(crate) async fn create(
        client: Client,
        object: Namespace,
        turn: Turn,
    ) -> anyhow::Result<TestNamespace> {
        let api: Api<Namespace> = Api::all(client.clone());
        let created =
            api.create(&PostParams::default(), &object).await.context("create a namespace")?;
        let namespace = TestNamespace { client, name: created.name_any(), _turn: turn };
        // Without it pods are refused.
        let accounts: Api<ServiceAccount> = namespace.api();
        until("the default service account", async || {
            Ok(accounts.get_opt("default").await?.ok_or_else(|| "absent".to_owned()))
        })
        .await?;
        Ok(namespace)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Puts a label on the namespace.
    pub async fn label(&self, key: &str, value: &str) -> anyhow::Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let labels = Patch::Merge(json!({"metadata": {"labels": {key: value}}}));
        let patched = namespaces.patch(&self.name, &PatchParams::default(), &labels).await;
        patched.map(drop).with_context(|| format!("label namespace {} {key}={value}", self.name))
    }

    /// The objects of one kind in it.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Creates an object.
    pub async fn create_object<K>(&self, object: &K) -> anyhow::Result<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + fmt::Debug
            + serde::de::DeserializeOwned
            + serde::Serialize,
    {
        let what = format!("create {} {}", K::kind(&()), object.name_any());
        self.api().create(&PostParams::default(), object).await.context(what)
    }

    /// Waits until the pod runs with all its containers ready.
    pub async fn pod_running(&self, pod: &str) -> anyhow::Result<Pod> {
        let pods: Api<Pod> = self.api();
        let running = until(&format!("pod {pod} to run"), async || {
            let found = pods.get(pod).await?;
            let status = found.status.clone().unwrap_or_default();
            let containers = status.container_statuses.unwrap_or_default();
            let phase = status.phase.unwrap_or_default();
            let ready =
                !containers.is_empty() && containers.iter().all(|container| container.ready);
            Ok(if phase == "Running" && ready { Ok(found) } else { Err(phase) })
        })
        .await;
        running.with_context(|| self.describe())
    }

    /// Deletes the pod and waits until it is gone, so that its claims are unprepared.
    pub async fn delete_pod(&self, pod: &str) -> anyhow::Result<()> {
        let pods: Api<Pod> = self.api();
        pods.delete(pod, &DeleteParams::default()).await.context("delete a pod")?;
        until(&format!("pod {pod} to be gone"), async || {
            Ok(match pods.get_opt(pod).await? {
                None => Ok(()),
                Some(found) => {
                    Err(found.status.and_then(|status| status.phase).unwrap_or_default())
                }
            })
        })
        .await
    }

    /// Waits for an event that says all these words.
    pub async fn until_told(
        &self,
        (kind, name): (&str, &str),
        reason: &str,
        words: &[&str],
    ) -> anyhow::Result<()> {
        let events: Api<Event> = self.api();
        let what = format!("{reason} on {kind} {name} with {words:?}");
        until(&what, async || {
            let events = events.list(&ListParams::default()).await?.items;
            let notes = events.into_iter().filter(|event| {
                let about = event.regarding.clone().unwrap_or_default();
                about.kind.as_deref() == Some(kind)
                    && about.name.as_deref() == Some(name)
                    && event.reason.as_deref() == Some(reason)
            });
            let notes: Vec<String> = notes.filter_map(|event| event.note).collect();
            let has_all = |note: &String| words.iter().all(|word| note.contains(word));
            Ok(if notes.iter().any(has_all) { Ok(()) } else { Err(format!("{notes:#?}")) })
        })
        .await
    }

    /// Says of a pod what kubelet would, on a node that has none: `Running`, `Succeeded`, `Failed`.
    pub async fn set_phase(&self, pod: &str, phase: &str) -> anyhow::Result<Pod> {
        let pods: Api<Pod> = self.api();
        let status = Patch::Merge(json!({"status": {"phase": phase}}));
        let patched = pods.patch_status(pod, &PatchParams::default(), &status).await;
        patched.with_context(|| format!("set pod {pod} {phase}"))
    }

    /// Waits until the pod has a node, and says which.
    pub async fn pod_bound(&self, pod: &str) -> anyhow::Result<String> {
        let pods: Api<Pod> = self.api();
        let bound = until(&format!("pod {pod} to be bound"), async || {
            let found = pods.get(pod).await?;
            let node = found.spec.and_then(|spec| spec.node_name);
            Ok(node.ok_or_else(|| format!("{:?}", found.status.and_then(|s| s.conditions))))
        })
        .await;
        bound.with_context(|| self.describe())
    }

    /// Writes an allocation, as a controller would: first the finalizer, then the status.
    pub async fn allocate(
        &self,
        claim: &str,
        allocation: &Allocation,
    ) -> anyhow::Result<ResourceClaim> {
        self.allocate_as(self.client.clone(), claim, allocation).await
    }

    /// The same by another than the administrator.
    pub async fn allocate_as(
        &self,
        client: Client,
        claim: &str,
        allocation: &Allocation,
    ) -> anyhow::Result<ResourceClaim> {
        let claims: Api<ResourceClaim> = Api::namespaced(client, &self.name);
        let mut object = claims.get(claim).await.context("read the claim to allocate")?;
        let finalizers = object.finalizers_mut();
        if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            finalizers.push(FINALIZER.to_owned());
            object = claims
                .replace(claim, &PostParams::default(), &object)
                .await
                .context("add the finalizer")?;
        }
        let time = object
            .creation_timestamp()
            .context("a claim from the API server has a creation time")?;
        let time = serde_json::to_value(time)?;
        object.status = Some(serde_json::from_value(
            allocation.status(time.as_str().context("a time is text")?),
        )?);
        let written = claims.replace_status(claim, &PostParams::default(), &object).await;
        written.with_context(|| format!("write the allocation of claim {claim}"))
    }

    /// Runs a command in the container `main` of a pod.
    pub async fn exec(&self, pod: &str, command: &[&str]) -> anyhow::Result<Output> {
        let mut words = vec!["exec", pod, "--container", "main", "--"];
        words.extend(command);
        self.kubectl(&words, None).await
    }

    /// Runs kubectl in this namespace, with a text for its standard input.
    pub async fn kubectl(&self, words: &[&str], input: Option<&str>) -> anyhow::Result<Output> {
        let mut command = Command::new("kubectl");
        command.args(["--namespace", &self.name]).args(words);
        run(command, input.map(str::to_owned)).await
    }

    /// What is in it, for the reader of a failed test.
    fn describe(&self) -> String {
        let kinds = "pods,resourceclaims,events";
        let output = Command::new("kubectl")
            .args(["--namespace", &self.name, "get", kinds, "--output", "wide"])
            .output();
        match output {
            Ok(output) => format!("in {}:\n{}", self.name, String::from_utf8_lossy(&output.stdout)),
            Err(error) => format!("in {}: kubectl: {error}", self.name),
        }
    }
}

impl Drop for TestNamespace {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.describe());
        }
        // Nobody else ends pods on a node that has no kubelet.
        if let Some(command) = std::env::var_os("LANEMATE_CLUSTER_COMMAND")
            && Path::new(&command).ends_with("control-plane")
        {
            let ended = Command::new("kubectl")
                .args(["--namespace", &self.name, "delete", "pods", "--all", "--wait=false"])
                .args(["--grace-period", "0", "--force"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            if !ended.as_ref().is_ok_and(ExitStatus::success) {
                eprintln!("delete the pods of {}: {ended:?}", self.name);
            }
        }
        let deleted = Command::new("kubectl")
            .args(["delete", "namespace", &self.name, "--wait=false"])
            .stdout(Stdio::null())
            .status();
        if !deleted.as_ref().is_ok_and(ExitStatus::success) {
            eprintln!("delete namespace {}: {deleted:?}", self.name);
        }
    }
}

/// Runs a command to its end beside the runtime.
pub(crate) async fn run(mut command: Command, input: Option<String>) -> anyhow::Result<Output> {
    let ended = tokio::task::spawn_blocking(move || {
        let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
            stdin.write_all(input.as_bytes())?;
        }
        child.wait_with_output()
    });
    let output = ended.await?.context("run a command")?;
    Ok(Output {
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
