//! The controller's Deployment: scaled to 0, and back to what it was. An annotation keeps that number over an
//! interruption.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch};
use kube::core::Selector;
use kube::{Api, ResourceExt};
use lanemate_runtime::call::CallError;
use serde_json::{Value, json};

use super::call::Cluster;
use super::{UninstallError, named};
use crate::args::UninstallArgs;

/// Annotation of the Deployment: its replicas before it was scaled to 0.
const BEFORE: &str = "lanemate.dev/replicas-before-uninstall";

/// The Deployment as it was found.
pub(super) struct Found {
    deployment: Deployment,
    namespace: String,
    name: String,
    before: i32,
}

/// Reads it; none where there is none.
pub(super) async fn find(
    cluster: &Cluster,
    args: &UninstallArgs,
) -> Result<Option<Found>, CallError> {
    let (namespace, name) = (args.namespace.clone(), args.deployment.clone());
    let api = Api::<Deployment>::namespaced(cluster.client.clone(), &namespace);
    let deed = format!("get deployment {namespace}/{name}");
    let Some(deployment) = cluster.call(&deed, || api.get_opt(&name)).await? else {
        println!("deployment {namespace}/{name}: absent");
        return Ok(None);
    };
    let before = before(&deployment);
    Ok(Some(Found { deployment, namespace, name, before }))
}

/// Scales it to 0, and waits until none of its pods can run.
pub(super) async fn scale_to_zero(cluster: &Cluster, found: &Found) -> Result<(), UninstallError> {
    let Found { namespace, name, before, .. } = found;
    cluster.say(&format!("scale deployment {namespace}/{name} from {before} to 0"));
    patch(cluster, found, 0, json!(before.to_string())).await?;
    if cluster.dry_run {
        return Ok(());
    }
    let deployments = Api::<Deployment>::namespaced(cluster.client.clone(), namespace);
    let pods = Api::<Pod>::namespaced(cluster.client.clone(), namespace);
    let selector = Selector::try_from(found.deployment.spec.selector.clone());
    let selector = selector.map_err(|error| UninstallError::Selector {
        deployment: format!("{namespace}/{name}"),
        error,
    })?;
    let of_it = ListParams::default().labels_from(&selector);
    let deed = format!("get deployment {namespace}/{name}");
    cluster
        .until(&format!("the pods of deployment {namespace}/{name} to be gone"), async || {
            if let Some(now) = cluster.call(&deed, || deployments.get_opt(name)).await?
                && !is_seen_at_zero(&now)
            {
                return Ok(Err("kube-controller-manager has not seen the change".to_owned()));
            }
            let left = cluster.pages(&pods, of_it.clone(), left).await?;
            let names = named(&left, String::clone).join(", ");
            let words = format!("{names} there; see why it does not end");
            Ok(if left.is_empty() { Ok(()) } else { Err(words) })
        })
        .await
}

/// Scales it back after a failure, so that all is as it was; the failure.
pub(super) async fn restore(
    cluster: &Cluster,
    found: Option<&Found>,
    cause: UninstallError,
) -> UninstallError {
    let Some(found) = found.filter(|_| !cluster.dry_run) else { return cause };
    let Found { namespace, name, before, .. } = found;
    println!("scale deployment {namespace}/{name} back to {before}");
    match patch(cluster, found, *before, Value::Null).await {
        Ok(()) => cause,
        Err(restoring) => UninstallError::NotRestored {
            cause: Box::new(cause),
            restoring,
            deployment: format!("{namespace}/{name}"),
            replicas: *before,
        },
    }
}

async fn patch(
    cluster: &Cluster,
    found: &Found,
    replicas: i32,
    note: Value,
) -> Result<(), CallError> {
    let Found { namespace, name, .. } = found;
    let api = Api::<Deployment>::namespaced(cluster.client.clone(), namespace);
    let patch = json!({
        "metadata": {"annotations": {BEFORE: note}},
        "spec": {"replicas": replicas},
    });
    let (parameters, patch) = (cluster.patching(), Patch::Merge(patch));
    let deed = format!("patch deployment {namespace}/{name}");
    match cluster.call(&deed, || api.patch(name, &parameters, &patch)).await {
        Err(error) if !error.is_not_found() => Err(error),
        // One that is gone in between has no pods.
        _ => Ok(()),
    }
}

/// Replicas before an uninstallation began: an interrupted one has left 0.
fn before(deployment: &Deployment) -> i32 {
    let now = deployment.spec.replicas.unwrap_or(1);
    let noted = deployment.annotations().get(BEFORE).and_then(|text| text.parse().ok());
    noted.filter(|_| now == 0).unwrap_or(now)
}

/// Its controller has acted on the change, and makes no more pods.
fn is_seen_at_zero(deployment: &Deployment) -> bool {
    let status = deployment.status.clone().unwrap_or_default();
    let is_seen = status.observed_generation >= deployment.metadata.generation;
    is_seen && status.replicas.unwrap_or_default() == 0
}

/// The name of a pod that may still run.
fn left(pod: &Pod) -> Vec<String> {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let has_ended = matches!(phase, Some("Succeeded" | "Failed"));
    if has_ended { Vec::new() } else { vec![pod.name_any()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(object: Value) -> Deployment {
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn what_it_was_is_the_number_now_or_the_one_noted_by_an_interrupted_run() {
        for (replicas, noted, expect) in [
            (json!(2), json!({}), 2),
            (Value::Null, json!({}), 1),
            (json!(0), json!({}), 0),
            (json!(0), json!({BEFORE: "2"}), 2),
            // Somebody has scaled it since.
            (json!(3), json!({BEFORE: "2"}), 3),
            (json!(0), json!({BEFORE: "many"}), 0),
        ] {
            let found = deployment(json!({
                "metadata": {"annotations": noted},
                "spec": {"replicas": replicas, "selector": {}, "template": {}},
            }));
            assert_eq!(before(&found), expect, "{replicas} {noted}");
        }
    }

    #[test]
    fn it_is_at_zero_when_its_controller_has_seen_that() {
        for (status, expect) in [
            (json!({"observedGeneration": 2}), true),
            (json!({"observedGeneration": 2, "replicas": 1}), false),
            (json!({"observedGeneration": 1}), false),
            (json!({}), false),
        ] {
            let now = deployment(json!({"metadata": {"generation": 2}, "status": status}));
            assert_eq!(is_seen_at_zero(&now), expect, "{status}");
        }
    }

    #[test]
    fn pods_that_have_ended_are_not_waited_for() {
        for (phase, expect) in [("Pending", 1), ("Running", 1), ("Succeeded", 0), ("Failed", 0)] {
            let pod = json!({"metadata": {"name": "a"}, "status": {"phase": phase}});
            assert_eq!(left(&serde_json::from_value(pod).unwrap()).len(), expect, "{phase}");
        }
    }
}
