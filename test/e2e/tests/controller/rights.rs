//! What the controller's account may do, and what it may change of a pod.

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use lanemate_test_cluster::{Cluster, claim};
use serde_json::{Value, json};

use super::ground::{CONTROLLER, GPU, Ground, assert_refused, gates};

const FOREIGN_GATE: &str = "example.com/quota";
const GATE: &str = "lanemate.dev/placement";

/// A pod with our gate and another, labels, annotations and a finalizer.
async fn waiting(ground: &Ground, name: &str) -> anyhow::Result<Pod> {
    let mut pod = ground.pod(name, &["gpu"])?;
    let gates = json!([{"name": FOREIGN_GATE}, {"name": GATE}]);
    pod.spec.as_mut().unwrap().scheduling_gates = Some(serde_json::from_value(gates)?);
    let text = |key: &str, value: &str| [(key.to_owned(), value.to_owned())].into();
    pod.metadata.labels = Some(text("app", "a"));
    pod.metadata.annotations = Some(text("example.com/note", "a"));
    ground.namespace.create_object(&pod).await
}

#[tokio::test]
async fn the_controller_lets_a_pod_go_to_its_node_by_one_patch() -> anyhow::Result<()> {
    let ground = Ground::new("let-go").await?;
    ground.namespace.create_object(&claim("gpu", &GPU)?).await?;
    let pod = waiting(&ground, "waiting").await?;
    let controller = ground.cluster.as_account(CONTROLLER).await?;
    let pods: Api<Pod> = Api::namespaced(controller, ground.namespace.name());
    let only_there =
        json!({"key": "metadata.name", "operator": "In", "values": [ground.node.name()]});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchFields": [only_there]}]}}});
    let patch = json!({
        "metadata": {
            "uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version,
            "annotations": {"lanemate.dev/device-assignment": "gpu=a"},
        },
        "spec": {"affinity": affinity, "schedulingGates": [{"$patch": "delete", "name": GATE}]},
    });
    let patched = pods.patch("waiting", &PatchParams::default(), &Patch::Strategic(patch)).await?;
    assert_eq!(gates(&patched), [FOREIGN_GATE]);
    assert!(patched.spec.unwrap().affinity.is_some());
    let annotations = patched.metadata.annotations.unwrap();
    assert_eq!(
        annotations.keys().collect::<Vec<_>>(),
        ["example.com/note", "lanemate.dev/device-assignment"]
    );
    Ok(())
}

#[tokio::test]
async fn the_controller_changes_nothing_else_of_a_pod() -> anyhow::Result<()> {
    let ground = Ground::new("nothing-else").await?;
    ground.namespace.create_object(&claim("gpu", &GPU)?).await?;
    waiting(&ground, "waiting").await?;
    let controller = ground.cluster.as_account(CONTROLLER).await?;
    let theirs: Api<Pod> = Api::namespaced(controller, ground.namespace.name());
    let administrators: Api<Pod> = ground.namespace.api();
    let metadata = |field: &str, value: Value| json!({"metadata": {field: value}});
    let spec = |field: &str, value: Value| json!({"spec": {field: value}});
    let container = json!([{"name": "main", "image": "localhost/other:1"}]);
    let toleration = json!([{"key": "a", "operator": "Exists"}]);
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "b"}]);
    let gate = json!([{"$patch": "delete", "name": FOREIGN_GATE}]);
    let rows = [
        (metadata("labels", json!({"app": "b"})), "labels"),
        (metadata("labels", json!({"more": "b"})), "labels"),
        (metadata("finalizers", json!(["example.com/mine"])), "finalizers"),
        (metadata("ownerReferences", owner), "owners"),
        (metadata("annotations", json!({"example.com/note": "b"})), "annotations"),
        (metadata("annotations", json!({"example.com/note": null})), "annotations"),
        (metadata("annotations", json!({"example.com/more": "b"})), "annotations"),
        (spec("schedulingGates", gate), "no other"),
        (spec("schedulingGates", Value::Null), "no other"),
        (spec("containers", container), "nothing else"),
        (spec("tolerations", toleration), "nothing else"),
        (spec("activeDeadlineSeconds", json!(5)), "nothing else"),
    ];
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    for (patch, words) in rows {
        let patch = Patch::Strategic(patch);
        // It is the fence that refuses: an administrator may.
        administrators.patch("waiting", &dry, &patch).await?;
        assert_refused(theirs.patch("waiting", &dry, &patch).await, words);
    }
    Ok(())
}

#[tokio::test]
async fn the_controller_has_the_rights_of_its_work_and_no_others() -> anyhow::Result<()> {
    let cluster = Cluster::current().await?;
    let reviews: Api<SubjectAccessReview> = Api::all(cluster.client());
    let (namespace, account) = CONTROLLER;
    let user = format!("system:serviceaccount:{namespace}:{account}");
    // In every namespace, unless it is named: verb, group, resource, and whether it may.
    let rows = [
        ("write", "lanemate.dev", "allocations", "", true),
        ("update", "resource.k8s.io", "resourceclaims", "", true),
        ("update", "resource.k8s.io", "resourceclaims/status", "", true),
        ("update", "resource.k8s.io", "resourceclaims/binding", "", true),
        ("create", "resource.k8s.io", "resourceclaims", "", false),
        ("delete", "resource.k8s.io", "resourceclaims", "", false),
        ("watch", "resource.k8s.io", "resourceslices", "", true),
        ("create", "resource.k8s.io", "resourceslices", "", false),
        ("watch", "resource.k8s.io", "devicetaintrules", "", true),
        ("create", "resource.k8s.io", "deviceclasses", "", true),
        ("update", "lanemate.dev", "resourceclasses/status", "", true),
        ("delete", "lanemate.dev", "resourceclasses", "", false),
        ("watch", "lanemate.dev", "nodestates", "", true),
        ("update", "lanemate.dev", "nodestates", "", false),
        ("patch", "", "pods", "", true),
        ("delete", "", "pods", "", true),
        ("create", "", "pods", "", false),
        ("create", "", "pods/binding", "", false),
        ("patch", "", "pods/status", "", false),
        ("watch", "", "nodes", "", true),
        ("patch", "", "nodes", "", false),
        ("get", "", "secrets", "", false),
        ("patch", "events.k8s.io", "events", "", true),
        ("update", "coordination.k8s.io", "leases", namespace, true),
        ("update", "coordination.k8s.io", "leases", "kube-system", false),
    ];
    for (verb, group, resource, namespace, expected) in rows {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let review = serde_json::from_value(json!({"spec": {"user": user, "resourceAttributes": {
            "verb": verb, "group": group, "resource": resource, "subresource": subresource,
            "namespace": namespace,
        }}}))?;
        let answer = reviews.create(&PostParams::default(), &review).await?;
        let may = answer.status.unwrap().allowed;
        assert_eq!(may, expected, "{verb} {group}/{resource}/{subresource} in {namespace:?}");
    }
    Ok(())
}
