//! What cannot be prepared keeps its pod waiting, says why, and leaves nothing.

use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use lanemate_test_cluster::{Allocation, Cluster, claim, pod, until};

use super::installed::{OTHER, PAIR, Plugin, apply_rights, in_cdi, recorded};
use super::pods::{REQUESTS, WAITS, assert_waits, create_pod, run_pod, until_none_is_held};

const ACCOUNT: &str = "system:serviceaccount:lanemate-system:lanemate-kubelet-plugin";

#[tokio::test]
async fn a_device_that_another_claim_holds_is_refused_with_an_event() -> anyhow::Result<()> {
    let cluster = Cluster::current().await?;
    let namespace = cluster.namespace_alone("held-twice").await?;
    let _plugin = Plugin::start(&cluster).await?;
    run_pod(&namespace, "first", PAIR).await?;

    namespace.create_object(&claim("second", &REQUESTS)?).await?;
    let second = namespace.create_object(&pod("second", WAITS, &["second"])?).await?;
    let grant = Allocation::default().grant("gpu", PAIR.0).grant("nic", OTHER.1);
    namespace.allocate("second", &grant.reserved_for(&second)).await?;
    let claim = ("ResourceClaim", "second");
    namespace.until_told(claim, "PrepareFailed", &[PAIR.0, "first"]).await?;
    assert_waits(&namespace, "second").await?;
    assert_eq!(recorded().len(), 1);

    // kubelet tries again by itself.
    namespace.delete_pod("first").await?;
    namespace.pod_running("second").await?;
    namespace.delete_pod("second").await?;
    until_none_is_held(&cluster).await
}

#[tokio::test]
async fn a_claim_with_devices_that_do_not_exist_says_so_and_leaves_nothing() -> anyhow::Result<()> {
    let cluster = Cluster::current().await?;
    let namespace = cluster.namespace_alone("no-such-device").await?;
    let _plugin = Plugin::start(&cluster).await?;
    let absent = ("gpu-0000-ff-00-0", "nic-0000-fe-00-0");
    create_pod(&namespace, "astray", absent).await?;

    let claim = ("ResourceClaim", "astray");
    namespace.until_told(claim, "PrepareFailed", &[absent.0]).await?;
    let pod = ("Pod", "astray");
    namespace.until_told(pod, "FailedPrepareDynamicResources", &[absent.0]).await?;
    assert_waits(&namespace, "astray").await?;
    assert_eq!((recorded(), in_cdi()), (Vec::new(), Vec::new()));

    namespace.delete_pod("astray").await?;
    let claims: Api<ResourceClaim> = namespace.api();
    claims.delete("astray", &DeleteParams::default()).await?;
    until("the claim to be gone", async || {
        let found = claims.get_opt("astray").await?;
        Ok(found.map_or(Ok(()), |found| Err(format!("{found:?}"))))
    })
    .await?;
    until_none_is_held(&cluster).await
}

#[tokio::test]
async fn a_missing_right_is_named_and_the_pod_starts_once_it_is_there() -> anyhow::Result<()> {
    let cluster = Cluster::current().await?;
    let namespace = cluster.namespace_alone("missing-right").await?;
    let _plugin = Plugin::start(&cluster).await?;
    let roles: Api<ClusterRole> = Api::all(cluster.client());
    let mut role = roles.get("lanemate-kubelet-plugin").await?;
    let is_of_claims =
        |resources: &Vec<String>| resources.iter().any(|name| name == "resourceclaims");
    let rules = role.rules.as_mut().unwrap();
    rules.retain(|rule| !rule.resources.as_ref().is_some_and(is_of_claims));
    // The next plugin to be installed applies the manifest again, whatever becomes of this test.
    roles.replace("lanemate-kubelet-plugin", &PostParams::default(), &role).await?;
    until("the right to be gone", async || {
        let question = ["auth", "can-i", "get", "resourceclaims.resource.k8s.io", "--as", ACCOUNT];
        let answer = namespace.kubectl(&question, None).await?;
        Ok(if answer.stdout == "no\n" { Ok(()) } else { Err(answer.to_string()) })
    })
    .await?;

    create_pod(&namespace, "waiting", PAIR).await?;
    let words = ["lacks the right", "get", "resourceclaims", "deploy/rbac"];
    let pod = ("Pod", "waiting");
    namespace.until_told(pod, "FailedPrepareDynamicResources", &words).await?;
    assert_waits(&namespace, "waiting").await?;
    assert_eq!((recorded(), in_cdi()), (Vec::new(), Vec::new()));

    apply_rights()?;
    namespace.pod_running("waiting").await?;
    namespace.delete_pod("waiting").await?;
    until_none_is_held(&cluster).await
}
