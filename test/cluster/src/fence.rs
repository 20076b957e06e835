//! The fence of `deploy/admission`, opened for tests of mode scheduler.

use std::path::Path;
use std::process::{Command, Stdio};

use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::cluster::Cluster;
use crate::namespace::TestNamespace;
use crate::objects::claim;
use crate::wait::until;

/// The policy that lets nobody but the controller allocate.
const RULE: &str = "lanemate-allocation";

/// The fence without the rule that keeps kube-scheduler from allocating our devices. It is whole again
/// when this is dropped, a moment later: a test that succeeds ends with [`OpenFence::close`].
#[must_use = "the fence is closed when this is dropped"]
pub struct OpenFence(());

impl Cluster {
    /// Lets kube-scheduler allocate our devices, as in a cluster in mode scheduler; for tests in a
    /// [`Cluster::namespace_alone`].
    pub fn open_fence(&self) -> OpenFence {
        let fence = OpenFence(());
        kubectl(&["delete", "validatingadmissionpolicybinding", RULE]);
        fence
    }
}

impl OpenFence {
    /// Puts the rule back, and returns when it holds.
    pub async fn close(self, cluster: &Cluster, namespace: &TestNamespace) -> anyhow::Result<()> {
        drop(self);
        namespace.create_object(&claim("fence", &[("gpu", "gpu.lanemate.dev")])?).await?;
        let scheduler = cluster.as_user("system:kube-scheduler").await?;
        let claims: Api<ResourceClaim> = Api::namespaced(scheduler, namespace.name());
        let result =
            json!({"request": "gpu", "driver": "lanemate.dev", "pool": "x", "device": "x"});
        let status = json!({"allocation": {"devices": {"results": [result]}}});
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        until("the fence to be closed", async || {
            let mut probe = claims.get("fence").await?;
            probe.status = Some(serde_json::from_value(status.clone())?);
            let said = match claims.replace_status("fence", &dry, &probe).await {
                Err(error) => error.to_string(),
                Ok(_) => "kube-scheduler may allocate".to_owned(),
            };
            Ok(if said.contains(RULE) { Ok(()) } else { Err(said) })
        })
        .await
    }
}

impl Drop for OpenFence {
    fn drop(&mut self) {
        let fence = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/admission/fence.yaml");
        kubectl(&["apply", "--filename", &fence.display().to_string()]);
    }
}

/// Complains when it fails: the test goes on, and says what does not hold.
fn kubectl(words: &[&str]) {
    let ended = Command::new("kubectl").args(words).stdout(Stdio::null()).status();
    if !ended.as_ref().is_ok_and(std::process::ExitStatus::success) {
        eprintln!("kubectl {words:?}: {ended:?}");
    }
}
