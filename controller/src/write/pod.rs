//! Writes of pods: letting one go, and ending one.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client};
use serde_json::Value;

use super::attempt::{Answer, Job, Patience};
use super::{MANAGER, pin};
use crate::change::{DeletePod, Outcome, Release, Ungate};
use crate::id::{Id, Version};

/// Reads after a conflict: the status of a waiting pod is written once or twice.
const RETRIES: usize = 3;

impl Job {
    /// Lets a placed pod go. Only its status may have changed since it was seen: another spec may not fit the node.
    pub(super) async fn release(&mut self, id: &Id, release: &Release) -> Result<(), Outcome> {
        let mut pod = Pod::clone(&release.pod);
        for _ in 0..=RETRIES {
            let patch = pin::release(&pod, id, release.pin.as_deref(), &release.assignment)
                .map_err(|error| Outcome::Refused(error.to_string()))?;
            pod = match self.patch(id, &patch).await {
                Answer::Conflict(_) => self.read_pod(id).await?,
                answer => {
                    let taken = answer.taken()?;
                    self.note_pod(id, &taken);
                    return Ok(());
                }
            };
            if !pin::has_gate(&pod) {
                return self.was_ours(id, &pod, &release.assignment);
            }
            if pod.metadata.deletion_timestamp.is_some() || pod.spec != release.pod.spec {
                return Err(Outcome::Superseded(format!("pod {id} was changed by others")));
            }
        }
        Err(Outcome::Superseded(format!("pod {id} was changed by others {RETRIES} times")))
    }

    /// A pod whose gate is gone: by us, if the answer was lost, or by others.
    fn was_ours(&mut self, id: &Id, pod: &Pod, assignment: &str) -> Result<(), Outcome> {
        let annotations = pod.metadata.annotations.as_ref();
        let found = annotations.and_then(|annotations| annotations.get(pin::ASSIGNMENT));
        if found.map(String::as_str) != Some(assignment) {
            return Err(Outcome::Superseded(format!("others took the gate off pod {id}")));
        }
        self.note_pod(id, pod);
        Ok(())
    }

    /// Takes our gate off a pod that needs nothing of us.
    pub(super) async fn ungate(&mut self, change: &Ungate) -> Result<(), Outcome> {
        let id = &change.pod;
        let pod = match self.patch(id, &pin::ungate(id, &change.version)).await {
            Answer::Conflict(words) => {
                let pod = self.read_pod(id).await?;
                if pin::has_gate(&pod) {
                    return Err(Outcome::Superseded(words));
                }
                pod
            }
            answer => answer.taken()?,
        };
        self.note_pod(id, &pod);
        Ok(())
    }

    /// Ends a pod by its UID.
    pub(super) async fn delete(&mut self, change: &DeletePod) -> Result<(), Outcome> {
        let id = &change.pod;
        let uid = Some(id.uid.0.clone());
        let parameters = DeleteParams {
            preconditions: Some(Preconditions { uid, resource_version: None }),
            ..DeleteParams::default()
        };
        let deed = format!("delete pods {id}");
        let name = &id.key.name;
        let deleted = self.send(Patience::Some, &deed, |client| {
            let (api, parameters) = (pods(client, id), parameters.clone());
            async move { api.delete(name, &parameters).await }
        });
        // Some(object) while it ends, in grace; else it is gone.
        if let Some(pod) = deleted.await.taken()?.left() {
            self.note_pod(id, &pod);
        }
        Ok(())
    }

    async fn patch(&mut self, id: &Id, patch: &Value) -> Answer<Pod> {
        let parameters =
            PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let deed = format!("patch pods {id}");
        let name = &id.key.name;
        self.send(Patience::Some, &deed, |client| {
            let (api, patch, parameters) =
                (pods(client, id), Patch::Strategic(patch.clone()), parameters.clone());
            async move { api.patch(name, &parameters, &patch).await }
        })
        .await
    }

    async fn read_pod(&mut self, id: &Id) -> Result<Pod, Outcome> {
        let deed = format!("get pods {id}");
        let name = &id.key.name;
        let read = self.send(Patience::Some, &deed, |client| {
            let api = pods(client, id);
            async move { api.get(name).await }
        });
        let pod = read.await.taken()?;
        if Id::of(&pod.metadata).as_ref() != Some(id) {
            return Err(Outcome::Superseded(format!("pod {id} is another one of that name")));
        }
        Ok(pod)
    }

    fn note_pod(&mut self, id: &Id, pod: &Pod) {
        self.written.push((id.clone(), Version::of(&pod.metadata)));
    }
}

fn pods(client: Client, id: &Id) -> Api<Pod> {
    Api::namespaced(client, &id.key.namespace)
}
