//! Who may allocate and free our devices, and what may be asked for.

use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use lanemate_driver::resource_slice::Mode;
use lanemate_test_cluster::{Allocation, claim, until};
use serde_json::{Value, json};

use super::ground::{CONTROLLER, GPU, Ground, ONE_GPU, allocated, assert_refused, kubectl};

const NO_ALLOCATING: &str = "only the Lanemate controller may allocate devices of lanemate.dev";
const NO_CLEARING: &str = "only the Lanemate controller and kube-controller-manager may clear";
const NO_FINALIZER: &str = "finalizer resource.kubernetes.io/delete-protection stays";

/// A claim for a GPU, with further fields of its request.
fn gpu_with(name: &str, fields: Value) -> anyhow::Result<ResourceClaim> {
    let mut exactly = json!({"deviceClassName": "gpu.lanemate.dev"});
    exactly.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let requests = json!([{"name": "gpu", "exactly": exactly}]);
    let spec = json!({"devices": {"requests": requests}});
    Ok(serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec}))?)
}

fn tolerant(name: &str) -> anyhow::Result<ResourceClaim> {
    gpu_with(name, json!({"tolerations": [{"operator": "Exists"}]}))
}

/// Clears the status of a claim.
async fn clear(client: Client, namespace: &str, name: &str) -> kube::Result<ResourceClaim> {
    let claims: Api<ResourceClaim> = Api::namespaced(client, namespace);
    let mut claim = claims.get(name).await?;
    claim.status = None;
    claims.replace_status(name, &PostParams::default(), &claim).await
}

#[tokio::test]
async fn kube_scheduler_cannot_allocate_even_where_a_claim_tolerates_the_taint()
-> anyhow::Result<()> {
    let ground = Ground::new("tolerant").await?;
    ground.namespace.create_object(&claim("plain", &GPU)?).await?;
    ground.create_pod("plain", &["plain"]).await?;
    ground.until_told("plain", "FailedScheduling", "cannot allocate all claims").await?;

    ground.namespace.create_object(&tolerant("tolerant")?).await?;
    ground.create_pod("tolerant", &["tolerant"]).await?;
    ground.until_told("tolerant", "FailedScheduling", NO_ALLOCATING).await?;
    for name in ["plain", "tolerant"] {
        assert!(!allocated(&ground.claims().get(name).await?), "{name}");
    }
    Ok(())
}

/// A person with the role `edit` in the namespace, who is let write the status and the reservations of
/// claims as well, so that nothing but the fence is in their way.
struct Editor(String);

impl Editor {
    async fn new(ground: &Ground) -> anyhow::Result<(Self, Client)> {
        let namespace = ground.namespace.name();
        let editor = Self(format!("editor-of-{namespace}"));
        let person = &editor.0;
        let role = format!("--clusterrole={person}");
        let resources =
            "resourceclaims.resource.k8s.io/status,resourceclaims.resource.k8s.io/binding";
        let rows: [&[&str]; 3] = [
            &["create", "rolebinding", person, "--clusterrole=edit", "--user", person],
            &["create", "clusterrole", person, "--verb=update", "--resource", resources],
            // The right to bind claims is asked for in the whole cluster.
            &["create", "clusterrolebinding", person, &role, "--user", person],
        ];
        for words in rows {
            let made = ground.namespace.kubectl(words, None).await?;
            assert!(made.status.success(), "{made}");
        }
        let client = ground.cluster.as_user(person).await?;
        until("the person's rights", async || {
            let mut answers = Vec::new();
            for resource in resources.split(',') {
                let words = ["auth", "can-i", "update", resource, "--as", person];
                answers.push(ground.namespace.kubectl(&words, None).await?.stdout);
            }
            Ok(if answers == ["yes\n", "yes\n"] { Ok(()) } else { Err(format!("{answers:?}")) })
        })
        .await?;
        Ok((editor, client))
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        kubectl(&["delete", "clusterrole,clusterrolebinding", &self.0]);
    }
}

#[tokio::test]
async fn a_person_who_edits_can_neither_allocate_nor_clear_nor_take_the_finalizer()
-> anyhow::Result<()> {
    let ground = Ground::new("editor").await?;
    let (_editor, person) = Editor::new(&ground).await?;
    ground.namespace.create_object(&claim("free", &GPU)?).await?;
    let grant = Allocation::on(ground.node.name()).grant("gpu", ONE_GPU);
    let by_person = ground.namespace.allocate_as(person.clone(), "free", &grant).await;
    assert_refused(by_person, NO_ALLOCATING);

    ground.namespace.create_object(&claim("held", &GPU)?).await?;
    let pod = ground.create_pod("holder", &["held"]).await?;
    ground.namespace.allocate("held", &grant.reserved_for(&pod)).await?;
    let namespace = ground.namespace.name();
    assert_refused(clear(person.clone(), namespace, "held").await, NO_CLEARING);
    let claims: Api<ResourceClaim> = Api::namespaced(person, namespace);
    let mut held = claims.get("held").await?;
    held.metadata.finalizers = None;
    assert_refused(claims.replace("held", &PostParams::default(), &held).await, NO_FINALIZER);

    // A label is theirs to change.
    let mut held = claims.get("held").await?;
    held.metadata.labels = Some([("team".to_owned(), "blue".to_owned())].into());
    claims.replace("held", &PostParams::default(), &held).await?;
    assert!(allocated(&claims.get("held").await?));
    Ok(())
}

#[tokio::test]
async fn the_controller_and_administrators_allocate_and_clear() -> anyhow::Result<()> {
    let ground = Ground::new("allowed").await?;
    let controller = ground.cluster.as_account(CONTROLLER).await?;
    for (name, client) in [("controller", controller), ("admin", ground.cluster.client())] {
        ground.namespace.create_object(&claim(name, &GPU)?).await?;
        let grant = Allocation::on(ground.node.name()).grant("gpu", ONE_GPU);
        ground.namespace.allocate_as(client.clone(), name, &grant).await?;
        let cleared = clear(client.clone(), ground.namespace.name(), name).await?;
        assert!(!allocated(&cleared), "{name}");
        let claims: Api<ResourceClaim> = Api::namespaced(client, ground.namespace.name());
        let mut cleared = claims.get(name).await?;
        cleared.metadata.finalizers = None;
        claims.replace(name, &PostParams::default(), &cleared).await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_controller_manager_frees_a_claim_after_its_last_pod() -> anyhow::Result<()> {
    let ground = Ground::new("freed").await?;
    let controller = ground.cluster.as_account(CONTROLLER).await?;
    ground.namespace.create_object(&claim("shared", &GPU)?).await?;
    let (first, second) = (
        ground.create_pod("first", &["shared"]).await?,
        ground.create_pod("second", &["shared"]).await?,
    );
    let grant = Allocation::on(ground.node.name()).grant("gpu", ONE_GPU);
    let grant = grant.reserved_for(&first).reserved_for(&second);
    ground.namespace.allocate_as(controller, "shared", &grant).await?;
    for pod in ["first", "second"] {
        assert_eq!(ground.namespace.pod_bound(pod).await?, ground.node.name());
        ground.namespace.set_phase(pod, "Running").await?;
    }
    ground.namespace.set_phase("first", "Succeeded").await?;
    until("the first pod to be off the claim", async || {
        let status = ground.claims().get("shared").await?.status.unwrap_or_default();
        let left = status.reserved_for.unwrap_or_default().len();
        Ok(if left == 1 { Ok(()) } else { Err(format!("{left} pods")) })
    })
    .await?;
    ground.until_allocated("shared", true).await?;
    ground
        .namespace
        .api::<k8s_openapi::api::core::v1::Pod>()
        .delete("second", &DeleteParams::default())
        .await?;
    ground.until_allocated("shared", false).await?;
    // The finalizer went with the allocation.
    ground.claims().delete("shared", &DeleteParams::default()).await?;
    until("the claim to be gone", async || {
        let left = ground.claims().get_opt("shared").await?;
        Ok(left.map_or(Ok(()), |left| Err(format!("{:?}", left.metadata))))
    })
    .await
}

#[tokio::test]
async fn configs_that_the_driver_does_not_know_are_refused_at_the_door() -> anyhow::Result<()> {
    let ground = Ground::new("configs").await?;
    let words = "kind Placement or Environment";
    let rows = [
        ("lanemate.dev", json!({"apiVersion": "lanemate.dev/v1alpha1", "kind": "Placement"}), true),
        (
            "lanemate.dev",
            json!({"apiVersion": "lanemate.dev/v1alpha1", "kind": "Environment"}),
            true,
        ),
        (
            "lanemate.dev",
            json!({"apiVersion": "lanemate.dev/v1alpha1", "kind": "AllocatedUnits"}),
            false,
        ),
        (
            "lanemate.dev",
            json!({"apiVersion": "lanemate.dev/v1alpha1", "kind": "placement"}),
            false,
        ),
        ("lanemate.dev", json!({"apiVersion": "lanemate.dev/v1", "kind": "Placement"}), false),
        ("lanemate.dev", json!({"kind": "Placement"}), false),
        ("lanemate.dev", json!({}), false),
        ("other.example.com", json!({"kind": "AllocatedUnits"}), true),
    ];
    for (index, (driver, parameters, is_known)) in rows.into_iter().enumerate() {
        let name = format!("row-{index}");
        let config = json!([{"opaque": {"driver": driver, "parameters": parameters}}]);
        let mut claim = claim(&name, &GPU)?;
        let devices = claim.spec.as_mut().unwrap().devices.as_mut().unwrap();
        devices.config = Some(serde_json::from_value(config)?);
        let template = json!({"metadata": {"name": name}, "spec": {"spec": claim.spec}});
        let template: ResourceClaimTemplate = serde_json::from_value(template)?;
        let claimed = ground.namespace.create_object(&claim).await;
        let templated = ground.namespace.create_object(&template).await;
        if is_known {
            claimed?;
            templated?;
        } else {
            assert_refused(claimed, words);
            assert_refused(templated, words);
        }
    }
    Ok(())
}

#[tokio::test]
async fn what_administrators_see_through_admin_access_passes() -> anyhow::Result<()> {
    let ground = Ground::new("admin-access").await?;
    ground.namespace.label("resource.kubernetes.io/admin-access", "true").await?;
    let fields = json!({
        "adminAccess": true, "allocationMode": "All", "tolerations": [{"operator": "Exists"}],
    });
    ground.namespace.create_object(&gpu_with("monitor", fields)?).await?;
    ground.create_pod("monitor", &["monitor"]).await?;
    ground.namespace.pod_bound("monitor").await?;
    let status = ground.claims().get("monitor").await?.status.unwrap();
    let results = status.allocation.unwrap().devices.unwrap().results.unwrap();
    assert_eq!(results.len(), 8);
    assert!(results.iter().all(|result| result.admin_access == Some(true)), "{results:?}");
    Ok(())
}

#[tokio::test]
async fn in_mode_scheduler_kube_scheduler_alone_finds_a_gpu_and_the_nic_of_its_switch()
-> anyhow::Result<()> {
    let ground = Ground::alone("mode-scheduler", Mode::Scheduler).await?;
    let fence = ground.cluster.open_fence();
    let mut pair = claim("pair", &[("gpu", "gpu.lanemate.dev"), ("nic", "nic.lanemate.dev")])?;
    let devices = pair.spec.as_mut().unwrap().devices.as_mut().unwrap();
    let constraint =
        json!([{"requests": ["gpu", "nic"], "matchAttribute": "lanemate.dev/pcieSwitch"}]);
    devices.constraints = Some(serde_json::from_value(constraint)?);
    ground.namespace.create_object(&pair).await?;
    ground.create_pod("pair", &["pair"]).await?;
    assert_eq!(ground.namespace.pod_bound("pair").await?, ground.node.name());
    let status = ground.claims().get("pair").await?.status.unwrap();
    let results = status.allocation.unwrap().devices.unwrap().results.unwrap();
    let mut granted: Vec<&str> = results.iter().map(|result| result.device.as_str()).collect();
    granted.sort_unstable();
    assert_eq!(granted, [ONE_GPU, "nic-0000-18-00-0"]);
    fence.close(&ground.cluster, &ground.namespace).await
}
