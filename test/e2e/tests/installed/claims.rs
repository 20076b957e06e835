//! Claims of templates, of several pods, and of pods that do not fit.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use kube::api::{DeleteParams, ListParams};
use lanemate_test_cluster::node::{recorded, until_none_is_held};
use lanemate_test_cluster::{WAITS, pod, until};
use serde_json::{Value, json};

use crate::scene::{Scene, pairs_claim};

#[tokio::test]
async fn a_job_gets_pairs_from_a_template_and_gives_them_back_when_it_has_finished()
-> anyhow::Result<()> {
    let scene = Scene::new("job").await?;
    let spec = pairs_claim("unused", 8, Value::Null)?.spec;
    let template: ResourceClaimTemplate = serde_json::from_value(json!({
        "metadata": {"name": "eight-pairs"}, "spec": {"spec": spec},
    }))?;
    scene.namespace.create_object(&template).await?;
    // It fails unless all eight GPUs are there.
    let script = "test $(ls /dev | grep -c '^nvidia[0-9]') = 8 && test -c /dev/infiniband/uverbs0";
    let mut of_job = pod("unused", script, &["devices"])?.spec.unwrap();
    let claims = json!([{"name": "devices", "resourceClaimTemplateName": "eight-pairs"}]);
    of_job.resource_claims = Some(serde_json::from_value(claims)?);
    of_job.restart_policy = Some("Never".to_owned());
    let job: Job = serde_json::from_value(json!({
        "metadata": {"name": "training"},
        "spec": {"backoffLimit": 0, "template": {"spec": of_job}},
    }))?;
    scene.namespace.create_object(&job).await?;
    let jobs = scene.namespace.api::<Job>();
    until("the job to succeed", async || {
        let status = jobs.get("training").await?.status.unwrap_or_default();
        anyhow::ensure!(status.failed.is_none(), "the job has failed: {status:?}");
        Ok(if status.succeeded == Some(1) { Ok(()) } else { Err(format!("{status:?}")) })
    })
    .await?;
    until_none_is_held(&scene.cluster).await?;

    // All eight are free, although the job is still there.
    scene.run("next", 8).await?;
    let background = DeleteParams::background();
    jobs.delete("training", &background).await?;
    scene.end(&["next"]).await
}

#[tokio::test]
async fn two_pods_share_a_claim_and_its_devices_are_free_after_the_second() -> anyhow::Result<()> {
    let scene = Scene::new("shared").await?;
    scene.namespace.create_object(&pairs_claim("shared", 1, Value::Null)?).await?;
    for name in ["one", "two"] {
        scene.namespace.create_object(&pod(name, WAITS, &["shared"])?).await?;
    }
    for name in ["one", "two"] {
        scene.namespace.pod_running(name).await?;
        scene.assert_opens(name).await?;
    }
    assert_eq!(scene.nodes("one", "main").await?, scene.nodes("two", "main").await?);
    scene.namespace.delete_pod("one").await?;
    assert_eq!(recorded().len(), 1);
    scene.assert_opens("two").await?;
    scene.end(&["two"]).await
}

#[tokio::test]
async fn a_pod_that_does_not_fit_is_told_what_is_missing_and_who_holds_it() -> anyhow::Result<()> {
    let scene = Scene::new("refused").await?;
    scene.run("large", 7).await?;
    scene.create("waiting", 2).await?;
    let holder = format!("{}/large", scene.namespace.name());
    let words = ["node-1", "needs 2 GPU", &holder];
    scene.namespace.until_told(("Pod", "waiting"), "PlacementWaiting", &words).await?;
    let claims = scene.namespace.api::<ResourceClaim>().list(&ListParams::default()).await?;
    let waiting = claims.items.iter().find(|c| c.metadata.name.as_deref() == Some("waiting"));
    let status = waiting.and_then(|claim| claim.status.as_ref());
    assert!(status.is_none_or(|status| status.allocation.is_none()), "{status:?}");

    scene.namespace.delete_pod("large").await?;
    scene.namespace.pod_running("waiting").await?;
    scene.end(&["waiting"]).await
}
