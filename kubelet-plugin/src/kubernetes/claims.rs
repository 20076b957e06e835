//! Claims, one at a time: a list of all claims from every node would stop the API server.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimConsumerReference};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};
use lanemate_runtime::call::{CallError, call};
use lanemate_runtime::client::Connection;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::claim_id::ClaimId;
use crate::state::Consumer;

/// Tries of one read.
const TRIES: u32 = 4;
/// All tries of all reads of one question: kubelet waits 45 s, and the state thread needs its share.
const TOTAL: Duration = Duration::from_secs(20);
/// Wait after the first try; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// Pods that an answer names.
const NAMED: usize = 3;

/// Reads claims from the API server; cheap to clone.
#[derive(Clone)]
pub struct Claims {
    connection: Connection,
}

/// What there is under the name of a claim.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// The claim, which may be on its way out.
    Found(Box<ResourceClaim>),
    /// Nothing.
    Gone,
    /// Another claim.
    Replaced {
        /// Its UID.
        uid: String,
    },
}

/// Why the API server did not say.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// A right is missing, or the API server refuses.
    #[error("{0}")]
    Refused(CallError),
    /// No answer that helps, in the time that there is.
    #[error("{error} (at {address}, {tries} tries)")]
    NoAnswer {
        /// The API server's address.
        address: String,
        /// How often it was asked.
        tries: u32,
        /// The last failure.
        error: CallError,
    },
}

impl Claims {
    /// Reads through a connection.
    pub fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// The claim, as the API server has it now. Takes at most 20 s.
    ///
    /// # Errors
    /// When the API server did not say.
    pub async fn get(&self, claim: &ClaimId) -> Result<Lookup, LookupError> {
        let (namespace, name) = (&claim.namespace, &claim.name);
        let deed = format!("get resourceclaims {namespace}/{name}");
        let until = Instant::now() + TOTAL;
        let found: Option<ResourceClaim> = self.read(&deed, namespace, name, until).await?;
        Ok(match found {
            None => Lookup::Gone,
            Some(found) => match found.metadata.uid.clone() {
                Some(uid) if uid == claim.uid.as_str() => Lookup::Found(Box::new(found)),
                uid => Lookup::Replaced { uid: uid.unwrap_or_default() },
            },
        })
    }

    /// Whether a pod that is not ending has the claim reserved. Takes at most 20 s.
    ///
    /// # Errors
    /// When the API server did not say.
    pub async fn consumer(&self, claim: &ResourceClaim) -> Result<Consumer, LookupError> {
        let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
        let until = Instant::now() + TOTAL;
        let reserved = claim.status.as_ref().and_then(|status| status.reserved_for.as_deref());
        let mut found = Vec::new();
        // The API admits 256 of them.
        for consumer in reserved.unwrap_or_default() {
            if !is_pod(consumer) {
                continue;
            }
            let deed = format!("get pods {namespace}/{}", consumer.name);
            let pod: Option<Pod> = self.read(&deed, namespace, &consumer.name, until).await?;
            match what_is_wrong(pod.as_ref(), consumer) {
                None => return Ok(Consumer::Alive),
                Some(wrong) => found.push(format!("pod {} {wrong}", consumer.name)),
            }
        }
        if found.is_empty() {
            return Ok(Consumer::Gone("status.reservedFor names no pod".to_owned()));
        }
        let others = found.len().saturating_sub(NAMED);
        found.truncate(NAMED);
        let others = if others > 0 { format!(" and {others} more") } else { String::new() };
        Ok(Consumer::Gone(found.join(", ") + &others))
    }

    /// An object, or none where there is none.
    async fn read<K>(
        &self,
        deed: &str,
        namespace: &str,
        name: &str,
        until: Instant,
    ) -> Result<Option<K>, LookupError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let objects: Api<K> = Api::namespaced(self.connection.client.clone(), namespace);
        let mut wait = FIRST_WAIT;
        let mut tries = 0;
        loop {
            tries += 1;
            let asked = call(|| deed.to_owned(), objects.get(name));
            let answer = match tokio::time::timeout_at(until, asked).await {
                Ok(answer) => answer,
                Err(_) => Err(CallError::TimedOut { deed: deed.to_owned(), within: TOTAL }),
            };
            let error = match answer {
                Ok(found) => return Ok(Some(found)),
                Err(CallError::NotFound { .. }) => return Ok(None),
                Err(error) => error,
            };
            if !error.is_passing() {
                return Err(LookupError::Refused(error));
            }
            wait = wait.max(error.retry_after());
            if tries == TRIES || Instant::now() + wait >= until {
                let address = self.connection.address.clone();
                return Err(LookupError::NoAnswer { address, tries, error });
            }
            tokio::time::sleep(wait).await;
            wait *= 2;
        }
    }
}

fn is_pod(consumer: &ResourceClaimConsumerReference) -> bool {
    consumer.resource == "pods" && consumer.api_group.as_deref().unwrap_or_default().is_empty()
}

/// Why a pod does not want the claim; absent when it does.
fn what_is_wrong(
    pod: Option<&Pod>,
    consumer: &ResourceClaimConsumerReference,
) -> Option<&'static str> {
    let Some(pod) = pod else { return Some("is gone") };
    if pod.metadata.uid.as_deref() != Some(consumer.uid.as_str()) {
        return Some("is another pod of that name");
    }
    if pod.metadata.deletion_timestamp.is_some() {
        return Some("is being deleted");
    }
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed")).then_some("has finished")
}
