//! Pods get what they ask for, on the node that their allocation names, and give it back.

use std::collections::BTreeSet;

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use lanemate_test_cluster::{Component, Deed, until};
use serde_json::{Value, json};

use crate::scene::{GATE, Scene, allocation, claim_names, devices_of, gpus, node_of, pairs};

/// Machines with eight pairs within PXB each.
const HOSTS: [&str; 3] = ["dgx-h100", "dell-xe9680-h200", "dgx-a100"];

/// A GPU and a NIC under one switch, in the words of DRA alone.
fn matched() -> Value {
    json!({
        "requests": [
            {"name": "gpu", "exactly": {"deviceClassName": "gpu.lanemate.dev"}},
            {"name": "nic", "exactly": {"deviceClassName": "nic.lanemate.dev"}},
        ],
        "constraints": [{"requests": ["gpu", "nic"], "matchAttribute": "lanemate.dev/pcieSwitch"}],
    })
}

async fn every_shape_is_bound_on(host: &str) -> anyhow::Result<()> {
    let scene = Scene::new(&format!("shapes-{host}"), &[host]).await?;
    scene.claim("one", pairs(1)).await?;
    scene.claim("four", pairs(4)).await?;
    scene.claim_with("matched", matched()).await?;
    scene.claim("two", pairs(1)).await?;
    scene.claim("three", pairs(1)).await?;
    scene.pod("of-one", &["one"]).await?;
    scene.pod("of-four", &["four"]).await?;
    scene.pod("of-matched", &["matched"]).await?;
    scene.pod("of-two-claims", &["two", "three"]).await?;
    let mut taken = BTreeSet::new();
    for (pod, devices) in [("of-one", 2), ("of-four", 8), ("of-matched", 2), ("of-two-claims", 4)] {
        let placed = scene.placed(pod).await?;
        assert_eq!(placed.node, scene.nodes[0].name());
        let of_pod: Vec<_> = placed.devices.into_values().flatten().collect();
        assert_eq!(of_pod.len(), devices, "{pod}");
        taken.extend(of_pod);
    }
    assert_eq!(taken.len(), 16, "no device twice");
    // All eight pairs can be had again once these pods have ended, by whatever way.
    scene.claim("eight", pairs(8)).await?;
    scene.pod("of-eight", &["eight"]).await?;
    scene.told("of-eight", "needs 8").await?;
    scene.namespace.set_phase("of-one", "Succeeded").await?;
    scene.namespace.set_phase("of-four", "Failed").await?;
    scene.delete_pod("of-matched").await?;
    scene.delete_pod("of-two-claims").await?;
    let placed = scene.placed("of-eight").await?;
    assert_eq!(placed.devices["eight"].len(), 16);
    scene.sound().await
}

#[tokio::test]
async fn every_shape_of_claim_is_bound_and_given_back_on_a_dgx_h100() {
    every_shape_is_bound_on(HOSTS[0]).await.unwrap();
}

#[tokio::test]
async fn every_shape_of_claim_is_bound_and_given_back_on_a_dell_xe9680() {
    every_shape_is_bound_on(HOSTS[1]).await.unwrap();
}

#[tokio::test]
async fn every_shape_of_claim_is_bound_and_given_back_on_a_dgx_a100() {
    every_shape_is_bound_on(HOSTS[2]).await.unwrap();
}

/// The claim of a pod says whose devices it is, and the pod what it has got.
#[tokio::test]
async fn an_allocation_has_all_that_its_readers_need() {
    let scene = Scene::new("whole", &["dgx-h100"]).await.unwrap();
    scene.claim("one", pairs(1)).await.unwrap();
    let created = scene.pod("trainer", &["one"]).await.unwrap();
    let placed = scene.placed("trainer").await.unwrap();
    let claim = scene.claims().get("one").await.unwrap();
    assert!(claim.finalizers().iter().any(|finalizer| finalizer == crate::scene::FINALIZER));
    let allocation = allocation(&claim).unwrap();
    assert!(allocation.allocation_timestamp.is_some());
    assert_eq!(node_of(allocation), Some(&placed.node));
    let status = claim.status.as_ref().unwrap();
    let user = &status.reserved_for.as_ref().unwrap()[0];
    assert_eq!(user.uid, created.uid().unwrap());
    let configs = allocation.devices.as_ref().unwrap().config.as_ref().unwrap();
    let units = configs.last().unwrap();
    assert_eq!(units.source, "FromClass");
    assert_eq!(units.opaque.as_ref().unwrap().parameters.0["kind"], "AllocatedUnits");
    let pod = scene.pods().get("trainer").await.unwrap();
    let assignment = &pod.annotations()["lanemate.dev/device-assignment"];
    let assignment: Vec<Value> = serde_json::from_str(assignment).unwrap();
    let named: BTreeSet<&str> =
        assignment.iter().filter_map(|entry| entry["device"].as_str()).collect();
    assert_eq!(named, devices_of(allocation).iter().map(String::as_str).collect());
    scene.told("trainer", &placed.node).await.unwrap();
}

#[tokio::test]
async fn claims_made_from_a_template_are_placed_and_go_with_their_pod() {
    let scene = Scene::new("template", &["dgx-h100"]).await.unwrap();
    scene.template("pairs", pairs(2)).await.unwrap();
    scene.pod("a", &["@pairs"]).await.unwrap();
    scene.pod("b", &["@pairs"]).await.unwrap();
    let (a, b) = (scene.placed("a").await.unwrap(), scene.placed("b").await.unwrap());
    assert_ne!(a.devices, b.devices);
    let pod = scene.pods().get("a").await.unwrap();
    scene.delete_pod("a").await.unwrap();
    let made = claim_names(&pod).remove(0);
    scene.freed(&made).await.unwrap();
    until("the claim to be gone", async || {
        let found = scene.claims().get_opt(&made).await?;
        Ok(found.map_or(Ok(()), |claim| Err(format!("{:?}", claim.finalizers()))))
    })
    .await
    .unwrap();
    scene.sound().await.unwrap();
}

#[tokio::test]
async fn the_node_is_one_where_the_pod_fits_too() {
    let scene = Scene::new("fits", &["dgx-h100", "dgx-h100"]).await.unwrap();
    let first = scene.nodes[0].name().to_owned();
    // Most of the first node's room goes to a pod without claims.
    let filler = json!({"nodeName": first, "containers": [{
        "name": "main", "image": "localhost/pause:1", "resources": {"requests": {"cpu": "63"}},
    }]});
    scene.pod_with("filler", &[], filler).await.unwrap();
    let needs = |claims: &[&str]| {
        json!({
            "schedulingGates": [{"name": GATE}],
            "containers": [{"name": "main", "image": "localhost/pause:1", "resources": {
                "requests": {"cpu": "2"},
                "claims": claims.iter().map(|name| json!({"name": name})).collect::<Vec<_>>(),
            }}],
        })
    };
    for name in ["a", "b", "c"] {
        scene.claim(name, pairs(1)).await.unwrap();
        scene.pod_with(name, &[name], needs(&[name])).await.unwrap();
        assert_eq!(scene.placed(name).await.unwrap().node, scene.nodes[1].name());
    }
    scene.cordon(scene.nodes[1].name(), true).await.unwrap();
    scene.claim("d", pairs(1)).await.unwrap();
    scene.pod_with("d", &["d"], needs(&["d"])).await.unwrap();
    scene.told("d", "cpu").await.unwrap();
    scene.delete_pod("filler").await.unwrap();
    assert_eq!(scene.placed("d").await.unwrap().node, first);
}

#[tokio::test]
async fn pods_are_served_by_priority_and_small_ones_pass_a_large_one() {
    let scene = Scene::new("order", &["dgx-h100"]).await.unwrap();
    scene.claim("held", gpus(2)).await.unwrap();
    scene.pod("holder", &["held"]).await.unwrap();
    scene.placed("holder").await.unwrap();
    scene.claim("large", gpus(8)).await.unwrap();
    scene.pod("first", &["large"]).await.unwrap();
    scene.told("first", "needs 8").await.unwrap();
    scene.claim("small", gpus(1)).await.unwrap();
    scene.pod("second", &["small"]).await.unwrap();
    scene.placed("second").await.unwrap();
    scene.delete_pod("second").await.unwrap();
    scene.delete_pod("holder").await.unwrap();
    scene.placed("first").await.unwrap();
    scene.sound().await.unwrap();
}

#[tokio::test]
async fn a_claim_for_devices_of_two_drivers_is_refused_with_the_way_out() {
    let scene = Scene::new("mixed", &["dgx-h100"]).await.unwrap();
    let other = json!({"name": "other", "exactly": {
        "deviceClassName": "gpu.lanemate.dev",
        "selectors": [{"cel": {"expression": "device.driver == 'other.example.com'"}}],
    }});
    let ours = json!({"name": "gpu", "exactly": {"deviceClassName": "gpu.lanemate.dev"}});
    let plain: k8s_openapi::api::resource::v1::DeviceClass = serde_json::from_value(json!({
        "metadata": {"name": format!("{}.example.com", scene.namespace.name())},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'other.example.com'"}}]},
    }))
    .unwrap();
    let name = plain.name_any();
    let classes: kube::Api<k8s_openapi::api::resource::v1::DeviceClass> =
        kube::Api::all(scene.cluster.client());
    classes.create(&Default::default(), &plain).await.unwrap();
    let mut other = other;
    other["exactly"]["deviceClassName"] = json!(name);
    scene.claim("mixed", json!([ours, other])).await.unwrap();
    scene.pod("trainer", &["mixed"]).await.unwrap();
    let told = scene.told("trainer", "two claims").await;
    classes.delete(&name, &Default::default()).await.unwrap();
    told.unwrap();
    let claim = scene.claims().get("mixed").await.unwrap();
    assert!(allocation(&claim).is_none());
}

#[tokio::test]
async fn a_pod_that_needs_nothing_of_ours_loses_the_gate_at_once() {
    let scene = Scene::new("not-ours", &["dgx-h100"]).await.unwrap();
    scene.pod("plain", &[]).await.unwrap();
    scene.namespace.pod_bound("plain").await.unwrap();
}

/// Everything that runs is ended in turn while pods are placed; what was granted stays as it is.
#[tokio::test]
async fn an_end_of_any_program_changes_nothing_of_what_was_granted() {
    let mut scene = Scene::new("restarts", &["dgx-h100", "dgx-h100"]).await.unwrap();
    scene.claim("kept", pairs(2)).await.unwrap();
    scene.pod("keeper", &["kept"]).await.unwrap();
    let kept = scene.placed("keeper").await.unwrap();
    let components =
        [Component::Scheduler, Component::ControllerManager, Component::ApiServer, Component::Etcd];
    for (number, component) in components.into_iter().enumerate() {
        let name = format!("p{number}");
        scene.claim(&name, pairs(1)).await.unwrap();
        scene.pod(&name, &[&name]).await.unwrap();
        scene.cluster.disturb(component, Deed::Kill).await.unwrap().end().await.unwrap();
        scene.placed(&name).await.unwrap();
    }
    scene.claim("last", pairs(1)).await.unwrap();
    scene.pod("last", &["last"]).await.unwrap();
    scene.kill_controller();
    scene.start_controller().await.unwrap();
    scene.placed("last").await.unwrap();
    assert_eq!(scene.placed("keeper").await.unwrap(), kept);
    let patch = Patch::Merge(json!({"metadata": {"labels": {"seen": "yes"}}}));
    scene.pods().patch("keeper", &PatchParams::default(), &patch).await.unwrap();
    scene.sound().await.unwrap();
    for pod in ["keeper", "p0", "p1", "p2", "p3", "last"] {
        scene.delete_pod(pod).await.unwrap();
    }
    scene.claim("all", pairs(8)).await.unwrap();
    scene.pod("all", &["all"]).await.unwrap();
    scene.placed("all").await.unwrap();
}
