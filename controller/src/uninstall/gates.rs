//! Our scheduling gate, taken off every pod that has it: nobody else would, and the pods would wait for ever.
//!
//! ```text
//! list --some have it--> patch each --> list …
//!   '--none, for the second time--> done
//! ```
//! A policy that was deleted acts on for a moment, so that a list without gates is believed when the next one, a little
//! later, has none either.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::Patch;
use lanemate_runtime::call::CallError;
use tokio::time::Instant;

use super::call::Cluster;
use super::{UninstallError, named};
use crate::id::{Id, Version};
use crate::write::{GATE, has_gate, ungate};

/// Patches that are sent at once: as many as the controller sends.
const AT_ONCE: usize = 16;
/// The API server sees a change of its policies within a second.
const SETTLES: Duration = Duration::from_secs(2);

/// A pod with the gate.
struct Gated {
    id: Id,
    version: Version,
}

/// Takes it off, until no pod has it.
pub(super) async fn take_off(cluster: &Cluster) -> Result<(), UninstallError> {
    let (begun, mut lists_without) = (Instant::now(), 0);
    loop {
        let gated: Vec<Gated> = cluster.list(|pod: &Pod| gated(pod).into_iter().collect()).await?;
        lists_without = if gated.is_empty() { lists_without + 1 } else { 0 };
        let left = take_off_each(cluster, &gated).await?;
        if cluster.dry_run || lists_without == 2 {
            println!("pods with the gate {GATE}: {}", gated.len());
            return Ok(());
        }
        if begun.elapsed() >= cluster.within && lists_without == 0 {
            let words = named(&left, ToString::to_string).join("; ");
            return Err(UninstallError::Late {
                what: format!("gate {GATE} to be off all pods"),
                within: cluster.within,
                state: format!(
                    "{} pods had it still or anew: end who creates them with it, mend what refuses, or delete them; {words}",
                    gated.len()
                ),
            });
        }
        tokio::time::sleep(SETTLES).await;
    }
}

/// Takes it off these; why it stays on some.
async fn take_off_each(cluster: &Cluster, gated: &[Gated]) -> Result<Vec<CallError>, CallError> {
    let mut left = Vec::new();
    let mut patches = futures::stream::iter(gated)
        .map(async |pod| (pod, patch(cluster, pod).await))
        .buffer_unordered(AT_ONCE);
    let mut count = 0;
    while let Some((pod, patched)) = patches.next().await {
        match patched {
            Ok(()) => {
                count += 1;
                if count <= super::NAMED {
                    cluster.say(&format!("take the gate off pod {}", pod.id));
                }
            }
            // It is gone, and its gate with it.
            Err(error) if error.is_not_found() => {}
            // A missing right is missing for all of them.
            Err(error @ CallError::Forbidden { .. }) => return Err(error),
            Err(error) => left.push(error),
        }
    }
    if count > super::NAMED {
        cluster.say(&format!("take the gate off {} more pods", count - super::NAMED));
    }
    Ok(left)
}

async fn patch(cluster: &Cluster, pod: &Gated) -> Result<(), CallError> {
    let Id { key, .. } = &pod.id;
    let api = Api::<Pod>::namespaced(cluster.client.clone(), &key.namespace);
    let (parameters, patch) = (cluster.patching(), Patch::Strategic(ungate(&pod.id, &pod.version)));
    let deed = format!("patch pod {}", pod.id);
    cluster.call(&deed, || api.patch(&key.name, &parameters, &patch)).await.map(drop)
}

fn gated(pod: &Pod) -> Option<Gated> {
    let id = Id::of(&pod.metadata).filter(|_| has_gate(pod))?;
    Some(Gated { id, version: Version::of(&pod.metadata) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_with_our_gate_are_chosen_whatever_else_they_wait_for() {
        for (gates, expect) in [
            (json!([]), false),
            (json!([{"name": "example.com/quota"}]), false),
            (json!([{"name": "example.com/quota"}, {"name": GATE}]), true),
        ] {
            let metadata = json!({"namespace": "ml", "name": "p", "uid": "u-1"});
            let spec = json!({"containers": [], "schedulingGates": gates});
            let pod = json!({"metadata": metadata, "spec": spec});
            assert_eq!(gated(&serde_json::from_value(pod).unwrap()).is_some(), expect, "{gates}");
        }
    }
}
