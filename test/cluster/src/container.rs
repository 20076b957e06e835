//! What containers on the node may do, and what becomes of them.

use anyhow::Context;
use k8s_openapi::api::core::v1::Pod;

use crate::namespace::TestNamespace;
use crate::wait::until;

/// A script that runs until it is told to end.
pub const WAITS: &str = "trap 'exit 0' TERM; while true; do sleep 1; done";

impl TestNamespace {
    /// What opening a device gives in the container `main`: the number of a device node that it makes
    /// itself.
    pub async fn open_by_number(
        &self,
        pod: &str,
        (major, minor): (u32, u32),
    ) -> anyhow::Result<String> {
        let script = format!(
            "rm -f /tmp/node && mknod /tmp/node c {major} {minor} && dd if=/tmp/node of=/dev/null count=0"
        );
        Ok(self.exec(pod, &["sh", "-c", &script]).await?.to_string())
    }

    /// What opening a device gives in the container `main`, by path.
    pub async fn open(&self, pod: &str, path: &str) -> anyhow::Result<String> {
        let script = format!("dd if={path} of=/dev/null count=0");
        Ok(self.exec(pod, &["sh", "-c", &script]).await?.to_string())
    }

    /// Has the only container of a pod that runs [`WAITS`] start again, as when its program crashes, and
    /// waits for that.
    pub async fn restart_container(&self, pod: &str) -> anyhow::Result<()> {
        let before = self.pod_running(pod).await?;
        // The shell ends with its first process, and kubelet starts the container again.
        self.exec(pod, &["kill", "-TERM", "1"]).await?;
        self.another_container(pod, &before).await.map(drop)
    }

    /// Waits until the pod runs with another container than before.
    pub async fn another_container(&self, pod: &str, before: &Pod) -> anyhow::Result<Pod> {
        let before = container_id(before)?;
        until("another container", async || {
            let running = self.pod_running(pod).await?;
            let now = container_id(&running)?;
            Ok(if now == before { Err(now) } else { Ok(running) })
        })
        .await
    }
}

/// Identity of the pod's first container: it changes when the container is started again.
pub fn container_id(pod: &Pod) -> anyhow::Result<String> {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    let id = statuses.and_then(|all| all.first()).and_then(|first| first.container_id.clone());
    id.with_context(|| format!("no container in {:?}", pod.status))
}
