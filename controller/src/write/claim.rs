//! Writes of claims: an allocation, one more pod, and taking an allocation back.
//!
//! ```text
//! as seen --no finalizer--> PUT claim --> pools as planned? --> PUT status --> compared --> written
//!    ^                         |409               |no              |409          | fields missing
//!    |                         v                  v                v             v
//!    +---unallocated, 3 times--+-- GET        superseded          GET        taken back
//!                              '-- allocated by others: superseded '-- by us: compared
//! ```

use k8s_openapi::api::resource::v1::{AllocationResult, ResourceClaim};
use kube::{Api, Client};

use super::attempt::{Answer, Job, Patience};
use super::{as_controller, status};
use crate::change::{ClaimWrite, Clear, Outcome, Protect, Write};
use crate::id::{Id, Version};

/// Reads after a conflict: each stands for a write by others within a few milliseconds; who loses so often is
/// planned again.
const RETRIES: usize = 3;

/// The pod and the node that claims are written for.
#[derive(Clone, Copy)]
pub(super) struct For<'a> {
    pub(super) pod: &'a Id,
    pub(super) node: &'a str,
}

impl Job {
    /// Writes one claim of a placed pod.
    pub(super) async fn write_claim(
        &mut self,
        claim: &ClaimWrite,
        place: For<'_>,
    ) -> Result<(), Outcome> {
        match &claim.write {
            Write::Allocate { object, allocation, generations } => {
                let mut object = ResourceClaim::clone(object);
                for _ in 0..=RETRIES {
                    is_free(&object, &claim.claim)?;
                    if !status::is_protected(&object) {
                        match self.protect(&claim.claim, object).await {
                            Answer::Conflict(_) => {
                                object = self.read(&claim.claim).await?;
                                continue;
                            }
                            answer => object = answer.taken()?,
                        }
                    }
                    if let Some(pool) = self.shared.generations.changed(generations) {
                        let words = format!("pool {pool} was published anew");
                        return Err(Outcome::Superseded(words));
                    }
                    let wanted = status::allocated(&object, allocation, place.pod);
                    object = match self.put_status(&claim.claim, &wanted).await {
                        Answer::Conflict(_) => self.read(&claim.claim).await?,
                        answer => {
                            return self.compared(answer.taken()?, allocation, claim, place).await;
                        }
                    };
                    if status::has_devices(&object, allocation) {
                        return self.compared(object, allocation, claim, place).await;
                    }
                }
                Err(keeps_changing(&claim.claim))
            }
            Write::Reserve => self.reserve(&claim.claim, place).await,
        }
    }

    async fn reserve(&mut self, claim: &Id, place: For<'_>) -> Result<(), Outcome> {
        for _ in 0..=RETRIES {
            let object = self.read(claim).await?;
            if status::is_reserved(&object, place.pod) {
                self.note(claim, &object);
                return Ok(());
            }
            can_take_one_more(&object, claim, place.node)?;
            let wanted = status::reserved(object, place.pod);
            let taken = match self.put_status(claim, &wanted).await {
                Answer::Conflict(_) => continue,
                answer => answer.taken()?,
            };
            if !status::is_reserved(&taken, place.pod) {
                return Err(Outcome::Dropped(vec!["reservedFor".to_owned()]));
            }
            self.note(claim, &taken);
            return Ok(());
        }
        Err(keeps_changing(claim))
    }

    /// Takes an allocation back, at the version at which that was decided.
    pub(super) async fn clear(&mut self, change: &Clear) -> Result<(), Outcome> {
        let object = self.read_at(&change.claim, &change.version).await?;
        let object = match self.put_status(&change.claim, &status::cleared(object)).await {
            Answer::Conflict(_) => self.read(&change.claim).await?,
            answer => answer.taken()?,
        };
        if status::allocation(&object).is_some() {
            return Err(changed(&change.claim));
        }
        self.note(&change.claim, &object);
        Ok(())
    }

    /// Puts the finalizer back, at the version at which it was missed.
    pub(super) async fn protect_again(&mut self, change: &Protect) -> Result<(), Outcome> {
        let object = self.read_at(&change.claim, &change.version).await?;
        let object = match self.protect(&change.claim, object).await {
            Answer::Conflict(_) => return Err(changed(&change.claim)),
            answer => answer.taken()?,
        };
        self.note(&change.claim, &object);
        Ok(())
    }

    /// What was written, if all of it came back.
    async fn compared(
        &mut self,
        object: ResourceClaim,
        sent: &AllocationResult,
        claim: &ClaimWrite,
        place: For<'_>,
    ) -> Result<(), Outcome> {
        if !status::is_reserved(&object, place.pod) {
            // Written by us, and changed since: the devices are held, and the pod does not have them.
            self.note(&claim.claim, &object);
            let words = format!("claim {} is no longer reserved for the pod", claim.claim);
            return Err(Outcome::Superseded(words));
        }
        let fields = status::dropped(sent, &object).map_err(Outcome::Refused)?;
        if fields.is_empty() {
            self.note(&claim.claim, &object);
            return Ok(());
        }
        tracing::error!(claim = %claim.claim, ?fields, "the API server dropped fields of an allocation");
        self.take_back(object, &claim.claim).await?;
        Err(Outcome::Dropped(fields))
    }

    /// Takes back what was written just now; where it cannot be, it counts as written.
    async fn take_back(&mut self, mut object: ResourceClaim, claim: &Id) -> Result<(), Outcome> {
        for _ in 0..=RETRIES {
            let version = object.clone();
            let ended = match self.put_status(claim, &status::cleared(object)).await {
                Answer::Taken(_) | Answer::Gone(_) => return Ok(()),
                Answer::Conflict(_) => self.read(claim).await,
                answer => answer.taken(),
            };
            object = match ended {
                Ok(object) if status::allocation(&object).is_none() => return Ok(()),
                Ok(object) => object,
                Err(Outcome::Superseded(_)) => return Ok(()),
                Err(outcome) => {
                    self.note(claim, &version);
                    return Err(outcome);
                }
            };
        }
        self.note(claim, &object);
        Err(keeps_changing(claim))
    }

    async fn protect(&mut self, claim: &Id, object: ResourceClaim) -> Answer<ResourceClaim> {
        let wanted = status::protected(object);
        let deed = format!("update resourceclaims {claim} with its finalizer");
        let name = &claim.key.name;
        self.send(Patience::Some, &deed, |client| {
            let (api, wanted) = (claims(client, claim), wanted.clone());
            async move { api.replace(name, &as_controller(), &wanted).await }
        })
        .await
    }

    async fn put_status(&mut self, claim: &Id, wanted: &ResourceClaim) -> Answer<ResourceClaim> {
        let deed = format!("update resourceclaims/status {claim}");
        let name = &claim.key.name;
        self.send(Patience::Settle, &deed, |client| {
            let (api, wanted) = (claims(client, claim), wanted.clone());
            async move { api.replace_subresource("status", name, &as_controller(), &wanted).await }
        })
        .await
    }

    /// The claim as it is now, while it lives. Asked for until it is told: it decides about what was written.
    async fn read(&mut self, claim: &Id) -> Result<ResourceClaim, Outcome> {
        let deed = format!("get resourceclaims {claim}");
        let name = &claim.key.name;
        let read = self.send(Patience::Settle, &deed, |client| {
            let api = claims(client, claim);
            async move { api.get(name).await }
        });
        let object = read.await.taken()?;
        if Id::of(&object.metadata).as_ref() != Some(claim) {
            return Err(Outcome::Superseded(format!("claim {claim} is another one of that name")));
        }
        Ok(object)
    }

    /// The claim, if it is still at the version at which something was decided.
    async fn read_at(&mut self, claim: &Id, version: &Version) -> Result<ResourceClaim, Outcome> {
        let object = self.read(claim).await?;
        if Version::of(&object.metadata) == *version { Ok(object) } else { Err(changed(claim)) }
    }

    fn note(&mut self, claim: &Id, object: &ResourceClaim) {
        self.written.push((claim.clone(), Version::of(&object.metadata)));
    }
}

fn claims(client: Client, claim: &Id) -> Api<ResourceClaim> {
    Api::namespaced(client, &claim.key.namespace)
}

fn changed(claim: &Id) -> Outcome {
    Outcome::Superseded(format!("claim {claim} was changed by others"))
}

fn keeps_changing(claim: &Id) -> Outcome {
    Outcome::Superseded(format!("claim {claim} was changed by others {RETRIES} times"))
}

/// An allocation can be written.
fn is_free(object: &ResourceClaim, claim: &Id) -> Result<(), Outcome> {
    let because = |words: &str| Err(Outcome::Superseded(format!("claim {claim} {words}")));
    if Id::of(&object.metadata).as_ref() != Some(claim) {
        return because("is another one of that name");
    }
    if object.metadata.deletion_timestamp.is_some() {
        return because("is being deleted");
    }
    if status::allocation(object).is_some() {
        return because("was allocated by others");
    }
    Ok(())
}

/// An allocated claim can have one more pod, on this node.
fn can_take_one_more(object: &ResourceClaim, claim: &Id, node: &str) -> Result<(), Outcome> {
    let because = |words: &str| Err(Outcome::Superseded(format!("claim {claim} {words}")));
    if object.metadata.deletion_timestamp.is_some() {
        return because("is being deleted");
    }
    let Some(allocation) = status::allocation(object) else {
        return because("is no longer allocated");
    };
    if !status::may_be_used_on(allocation, node) {
        return because("is allocated for another node now");
    }
    if status::consumers(object).len() >= status::MOST_CONSUMERS {
        let most = status::MOST_CONSUMERS;
        return Err(Outcome::Refused(format!(
            "claim {claim} has {most} pods, and can have no more"
        )));
    }
    Ok(())
}
