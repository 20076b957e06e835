//! Pods without our gate, pods of several gates, and pods that share: the interleavings that need no proxy.
//!
//! kube-scheduler is stopped, not paused, where it is to see two changes together: when it starts it lists them all.

use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::resource::v1::DeviceTaintRule;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use lanemate_test_cluster::{Allocation, Component, Deed, until};
use serde_json::json;

use crate::ground::{allocated, gates};
use crate::scene::{
    FINALIZER, GATE, Scene, allocation, claim_names, devices_of, gpus, node_of, pairs,
};

/// Long enough to see what must not happen: each of it was measured to come within a second.
const QUIET: Duration = Duration::from_secs(2);

/// Interleaving 2.
#[tokio::test]
async fn a_device_allocated_twice_by_hand_is_told_and_the_unused_claim_freed() {
    let scene = Scene::new("twice", &["dgx-h100"]).await.unwrap();
    scene.claim("first", gpus(1)).await.unwrap();
    scene.pod("user", &["first"]).await.unwrap();
    let placed = scene.placed("user").await.unwrap();
    let device = &placed.devices["first"][0];
    scene.claim("second", gpus(1)).await.unwrap();
    let grant = Allocation::on(&placed.node).grant("gpu", device);
    scene.namespace.allocate("second", &grant).await.unwrap();
    scene.told("second", device).await.unwrap();
    scene.freed("second").await.unwrap();
    assert_eq!(scene.placed("user").await.unwrap(), placed);
    scene.sound().await.unwrap();
}

/// Interleaving 3: kube-scheduler works on the same claim, which tolerates our taint.
#[tokio::test]
async fn an_ungated_pod_that_kube_scheduler_tries_to_serve_uses_our_allocation() {
    let scene = Scene::new("raced", &["dgx-h100"]).await.unwrap();
    let tolerant = json!([{"name": "gpu", "exactly": {
        "deviceClassName": "gpu.lanemate.dev", "tolerations": [{"operator": "Exists"}],
    }}]);
    for name in ["a", "b", "c", "d"] {
        scene.claim(name, tolerant.clone()).await.unwrap();
        scene.pod_with(name, &[name], json!({})).await.unwrap();
    }
    for name in ["a", "b", "c", "d"] {
        scene.placed(name).await.unwrap();
        let claim = scene.claims().get(name).await.unwrap();
        let written = claim.managed_fields().iter().find(|entry| {
            entry
                .fields_v1
                .as_ref()
                .is_some_and(|fields| fields.0.to_string().contains("f:allocation"))
        });
        let manager = written.and_then(|entry| entry.manager.as_deref());
        assert_eq!(manager, Some("lanemate-controller"), "{name}");
    }
    scene.sound().await.unwrap();
}

/// Interleaving 4.
#[tokio::test]
async fn an_ungated_pod_whose_node_turns_unfit_gets_devices_elsewhere() {
    let scene = Scene::new("unfit", &["dgx-h100", "dgx-h100"]).await.unwrap();
    let outage = scene.cluster.disturb(Component::Scheduler, Deed::Stop).await.unwrap();
    scene.claim("one", pairs(1)).await.unwrap();
    scene.pod_with("user", &["one"], json!({})).await.unwrap();
    let claim = scene.granted("one").await.unwrap();
    let first = node_of(allocation(&claim).unwrap()).unwrap().clone();
    scene.cordon(&first, true).await.unwrap();
    outage.end().await.unwrap();
    let placed = scene.placed("user").await.unwrap();
    assert_ne!(placed.node, first);
}

/// Interleaving 5.
#[tokio::test]
async fn an_ungated_pod_whose_node_is_deleted_gets_devices_elsewhere() {
    let mut scene = Scene::new("deleted", &["dgx-h100", "dgx-h100"]).await.unwrap();
    let outage = scene.cluster.disturb(Component::Scheduler, Deed::Stop).await.unwrap();
    scene.claim("one", pairs(1)).await.unwrap();
    scene.pod_with("user", &["one"], json!({})).await.unwrap();
    let claim = scene.granted("one").await.unwrap();
    let first = node_of(allocation(&claim).unwrap()).unwrap().clone();
    scene.nodes.retain(|node| node.name() != first);
    outage.end().await.unwrap();
    let placed = scene.placed("user").await.unwrap();
    assert_ne!(placed.node, first);
}

/// Interleaving 8.
#[tokio::test]
async fn a_shared_claim_is_free_when_its_last_pod_has_ended_and_not_before() {
    let scene = Scene::new("last", &["dgx-h100"]).await.unwrap();
    scene.claim("shared", gpus(8)).await.unwrap();
    scene.claim("next", gpus(8)).await.unwrap();
    scene.pod("a", &["shared"]).await.unwrap();
    scene.pod("b", &["shared"]).await.unwrap();
    let placed = scene.placed("a").await.unwrap();
    assert_eq!(scene.placed("b").await.unwrap(), placed);
    scene.pod("c", &["next"]).await.unwrap();
    scene.namespace.set_phase("a", "Succeeded").await.unwrap();
    tokio::time::sleep(QUIET).await;
    assert!(!allocated(&scene.claims().get("next").await.unwrap()));
    scene.namespace.set_phase("b", "Succeeded").await.unwrap();
    scene.placed("c").await.unwrap();
    scene.sound().await.unwrap();
}

/// Interleaving 12.
#[tokio::test]
async fn a_pod_that_is_pulled_away_from_its_shared_claim_waits_and_says_so() {
    let scene = Scene::new("pulled", &["dgx-h100", "dgx-h100"]).await.unwrap();
    scene.claim("shared", pairs(1)).await.unwrap();
    scene.pod("a", &["shared"]).await.unwrap();
    let placed = scene.placed("a").await.unwrap();
    let other = scene.nodes.iter().find(|node| node.name() != placed.node).unwrap().name();
    let pulled = json!({
        "schedulingGates": [{"name": GATE}],
        "nodeSelector": {"kubernetes.io/hostname": other},
    });
    scene.pod_with("b", &["shared"], pulled).await.unwrap();
    scene.told("b", &placed.node).await.unwrap();
    let claim = scene.claims().get("shared").await.unwrap();
    assert_eq!(node_of(allocation(&claim).unwrap()), Some(&placed.node));
    let pod = scene.pods().get("b").await.unwrap();
    assert_eq!(gates(&pod), [GATE]);
}

/// Interleaving 13.
#[tokio::test]
async fn what_an_administrator_sees_takes_nothing_from_anybody() {
    let scene = Scene::new("admin", &["dgx-h100"]).await.unwrap();
    scene.namespace.label("resource.kubernetes.io/admin-access", "true").await.unwrap();
    let all = json!([{"name": "all", "exactly": {
        "deviceClassName": "gpu.lanemate.dev", "count": 8, "adminAccess": true,
        "tolerations": [{"operator": "Exists"}],
    }}]);
    scene.claim("monitor", all).await.unwrap();
    scene.pod("watcher", &["monitor"]).await.unwrap();
    scene.namespace.pod_bound("watcher").await.unwrap();
    scene.claim("all", gpus(8)).await.unwrap();
    scene.pod("user", &["all"]).await.unwrap();
    assert_eq!(scene.placed("user").await.unwrap().devices["all"].len(), 8);
    scene.sound().await.unwrap();
}

/// Interleaving 16.
#[tokio::test]
async fn a_pod_whose_gate_somebody_else_took_off_is_served_all_the_same() {
    let mut scene = Scene::new("no-gate", &["dgx-h100"]).await.unwrap();
    scene.kill_controller();
    scene.claim("one", pairs(1)).await.unwrap();
    scene.pod("user", &["one"]).await.unwrap();
    let none = json!({"spec": {"schedulingGates": null}});
    scene.pods().patch("user", &PatchParams::default(), &Patch::Merge(none)).await.unwrap();
    scene.start_controller().await.unwrap();
    scene.placed("user").await.unwrap();
}

/// Interleaving 17.
#[tokio::test]
async fn a_device_tainted_under_a_pod_goes_to_nobody_else() {
    let scene = Scene::new("tainted", &["dgx-h100"]).await.unwrap();
    scene.claim("one", gpus(1)).await.unwrap();
    scene.pod("user", &["one"]).await.unwrap();
    let placed = scene.placed("user").await.unwrap();
    let device = &placed.devices["one"][0];
    let rule: DeviceTaintRule = serde_json::from_value(json!({
        "metadata": {"name": scene.namespace.name()},
        "spec": {
            "deviceSelector": {"driver": "lanemate.dev", "pool": placed.node, "device": device},
            "taint": {"key": "example.com/broken", "effect": "NoExecute"},
        },
    }))
    .unwrap();
    let rules: Api<DeviceTaintRule> = Api::all(scene.cluster.client());
    rules.create(&PostParams::default(), &rule).await.unwrap();
    let evicted = until("the pod to be gone", async || {
        let found = scene.pods().get_opt("user").await?;
        Ok(found.map_or(Ok(()), |pod| Err(format!("{:?}", pod.status))))
    });
    let outcome = async {
        evicted.await?;
        scene.freed("one").await?;
        scene.claim("seven", gpus(7)).await?;
        scene.pod("next", &["seven"]).await?;
        let next = scene.placed("next").await?;
        anyhow::ensure!(!next.devices["seven"].contains(device), "{next:?}");
        scene.claim("eighth", gpus(1)).await?;
        scene.pod("too-many", &["eighth"]).await?;
        scene.told("too-many", "needs 1").await
    };
    let outcome = outcome.await;
    rules.delete(scene.namespace.name(), &DeleteParams::default()).await.unwrap();
    outcome.unwrap();
    scene.placed("too-many").await.unwrap();
}

/// Interleaving 18.
#[tokio::test]
async fn a_finished_pod_that_still_names_a_claim_does_not_take_it_from_the_next() {
    let scene = Scene::new("finished", &["dgx-h100"]).await.unwrap();
    scene.claim("one", pairs(1)).await.unwrap();
    scene.pod("done", &["one"]).await.unwrap();
    scene.placed("done").await.unwrap();
    scene.namespace.set_phase("done", "Succeeded").await.unwrap();
    scene.freed("one").await.unwrap();
    scene.pod("next", &["one"]).await.unwrap();
    let placed = scene.placed("next").await.unwrap();
    tokio::time::sleep(QUIET).await;
    assert_eq!(scene.placed("next").await.unwrap(), placed);
}

/// Interleaving 19.
#[tokio::test]
async fn a_pod_that_waits_for_room_keeps_a_claim_whose_earlier_user_ends() {
    let scene = Scene::new("room", &["dgx-h100"]).await.unwrap();
    let node = scene.nodes[0].name().to_owned();
    scene.claim("shared", pairs(1)).await.unwrap();
    scene.pod("first", &["shared"]).await.unwrap();
    let placed = scene.placed("first").await.unwrap();
    let outage = scene.cluster.disturb(Component::Scheduler, Deed::Stop).await.unwrap();
    scene.pod("second", &["shared"]).await.unwrap();
    until("the second pod to be let go", async || {
        let gates = gates(&scene.pods().get("second").await?);
        Ok(if gates.is_empty() { Ok(()) } else { Err(format!("{gates:?}")) })
    })
    .await
    .unwrap();
    // Bound by hand, past kube-scheduler, so that there is no room for the pod that is pinned.
    let filler = json!({"nodeName": node, "containers": [{
        "name": "main", "image": "localhost/pause:1", "resources": {"requests": {"cpu": "63990m"}},
    }]});
    scene.pod_with("filler", &[], filler).await.unwrap();
    outage.end().await.unwrap();
    scene.told("second", "Insufficient cpu").await.unwrap();
    scene.namespace.set_phase("first", "Succeeded").await.unwrap();
    tokio::time::sleep(QUIET).await;
    assert!(allocated(&scene.claims().get("shared").await.unwrap()));
    scene.delete_pod("filler").await.unwrap();
    assert_eq!(scene.placed("second").await.unwrap(), placed);
}

/// Interleaving 21.
#[tokio::test]
async fn a_pinned_pod_whose_node_is_cordoned_is_made_anew_for_another_node() {
    let scene = Scene::new("cordoned", &["dgx-h100", "dgx-h100"]).await.unwrap();
    scene.template("pair", pairs(1)).await.unwrap();
    let outage = scene.cluster.disturb(Component::Scheduler, Deed::Stop).await.unwrap();
    let pod = crate::scene::pod_with("x", &["@pair"], json!({"schedulingGates": [{"name": GATE}]}));
    let template = json!({"metadata": {"labels": {"set": "a"}}, "spec": pod.unwrap().spec});
    let set: ReplicaSet = serde_json::from_value(json!({
        "metadata": {"name": "set"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"set": "a"}}, "template": template},
    }))
    .unwrap();
    scene.namespace.create_object(&set).await.unwrap();
    let first = until("the pod to be let go", async || {
        let pods = scene.pods().list(&ListParams::default()).await?.items;
        let found = pods.into_iter().find(|pod| gates(pod).is_empty());
        Ok(found.ok_or_else(|| "gated, or not there".to_owned()))
    })
    .await
    .unwrap();
    let claim = scene.claims().get(&claim_names(&first)[0]).await.unwrap();
    let node = node_of(allocation(&claim).unwrap()).unwrap().clone();
    scene.cordon(&node, true).await.unwrap();
    outage.end().await.unwrap();
    let second = until("another pod to be made and bound", async || {
        let pods = scene.pods().list(&ListParams::default()).await?.items;
        let bound = pods.iter().find(|pod| {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
            pod.uid() != first.uid() && node.is_some()
        });
        Ok(bound.cloned().ok_or_else(|| format!("{} pods", pods.len())))
    })
    .await
    .unwrap();
    assert_ne!(second.spec.unwrap().node_name, Some(node));
    scene.sound().await.unwrap();
}

/// The same for a pod that nobody makes anew.
#[tokio::test]
async fn a_pinned_pod_without_an_owner_is_told_to_be_created_again_and_its_claim_freed() {
    let scene = Scene::new("alone", &["dgx-h100"]).await.unwrap();
    let outage = scene.cluster.disturb(Component::Scheduler, Deed::Stop).await.unwrap();
    scene.claim("one", pairs(1)).await.unwrap();
    scene.pod("user", &["one"]).await.unwrap();
    scene.granted("one").await.unwrap();
    scene.cordon(scene.nodes[0].name(), true).await.unwrap();
    outage.end().await.unwrap();
    scene.told("user", "create it again").await.unwrap();
    scene.freed("one").await.unwrap();
}

/// Interleaving 22.
#[tokio::test]
async fn a_finalizer_that_an_administrator_takes_off_is_put_back() {
    let scene = Scene::new("finalizer", &["dgx-h100"]).await.unwrap();
    scene.claim("one", pairs(1)).await.unwrap();
    scene.pod("user", &["one"]).await.unwrap();
    scene.placed("user").await.unwrap();
    let none = json!({"metadata": {"finalizers": null}});
    scene.claims().patch("one", &PatchParams::default(), &Patch::Merge(none)).await.unwrap();
    until("the finalizer to be back", async || {
        let claim = scene.claims().get("one").await?;
        let is_back = claim.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
        Ok(if is_back { Ok(()) } else { Err(format!("{:?}", claim.finalizers())) })
    })
    .await
    .unwrap();
}

/// Interleaving 24.
#[tokio::test]
async fn other_gates_come_first_and_every_term_of_an_affinity_is_pinned() {
    let scene = Scene::new("terms", &["dgx-h100", "dgx-h100"]).await.unwrap();
    let term = |key: &str, values: Vec<&str>| json!({"matchExpressions": [{"key": key, "operator": "In", "values": values}]});
    let nodes: Vec<&str> = scene.nodes.iter().map(|node| node.name()).collect();
    let terms = json!([
        term("kubernetes.io/hostname", nodes.clone()),
        term("kubernetes.io/os", vec!["linux"]),
    ]);
    let spec = json!({
        "schedulingGates": [{"name": "example.com/quota"}, {"name": GATE}],
        "affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        }},
    });
    scene.claim("one", pairs(1)).await.unwrap();
    scene.pod_with("user", &["one"], spec).await.unwrap();
    tokio::time::sleep(QUIET).await;
    assert!(!allocated(&scene.claims().get("one").await.unwrap()));
    let gate =
        json!({"spec": {"schedulingGates": [{"name": "example.com/quota", "$patch": "delete"}]}});
    scene.pods().patch("user", &PatchParams::default(), &Patch::Strategic(gate)).await.unwrap();
    let placed = scene.placed("user").await.unwrap();
    let pod = scene.pods().get("user").await.unwrap();
    let affinity = pod.spec.unwrap().affinity.unwrap().node_affinity.unwrap();
    let required = affinity.required_during_scheduling_ignored_during_execution.unwrap();
    assert_eq!(required.node_selector_terms.len(), 2);
    for term in required.node_selector_terms {
        let fields = term.match_fields.unwrap();
        assert_eq!(fields[0].values, Some(vec![placed.node.clone()]));
        assert!(term.match_expressions.is_some());
    }
}

/// An empty term selects nothing, so that nothing can be added to it.
#[tokio::test]
async fn a_pod_with_an_empty_term_and_one_without_affinity_are_pinned_too() {
    let scene = Scene::new("empty-term", &["dgx-h100"]).await.unwrap();
    let terms = json!([{}, {"matchExpressions": [
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
    ]}]);
    let spec = json!({
        "schedulingGates": [{"name": GATE}],
        "affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        }},
    });
    scene.claim("one", pairs(1)).await.unwrap();
    scene.pod_with("empty", &["one"], spec).await.unwrap();
    scene.placed("empty").await.unwrap();
    scene.claim("two", pairs(1)).await.unwrap();
    scene.pod_with("named", &["two"], json!({"nodeName": scene.nodes[0].name()})).await.unwrap();
    scene.granted("two").await.unwrap();
    let placed = scene.placed("named").await.unwrap();
    assert_eq!(placed.devices["two"].len(), 2);
}

/// After a clear, devices that a node still holds are not granted (interleavings 14 and 15, as far as the cluster goes).
#[tokio::test]
async fn a_device_that_its_node_still_holds_is_not_granted() {
    let scene = Scene::new("held", &["dgx-h100"]).await.unwrap();
    scene.claim("one", gpus(1)).await.unwrap();
    scene.pod("user", &["one"]).await.unwrap();
    let placed = scene.placed("user").await.unwrap();
    let claim = scene.claims().get("one").await.unwrap();
    let device = devices_of(allocation(&claim).unwrap()).remove(0);
    let held = json!([{
        "claim": {"namespace": scene.namespace.name(), "name": "one", "uid": claim.uid().unwrap()},
        "devices": [device], "state": "Prepared",
    }]);
    scene.nodes[0].hold(serde_json::from_value(held).unwrap()).await.unwrap();
    scene.delete_pod("user").await.unwrap();
    scene.freed("one").await.unwrap();
    scene.claim("eight", gpus(8)).await.unwrap();
    scene.pod("next", &["eight"]).await.unwrap();
    scene.told("next", "7 are free").await.unwrap();
    assert_eq!(placed.devices["one"], [device]);
    scene.nodes[0].hold(Vec::new()).await.unwrap();
    scene.placed("next").await.unwrap();
}
