//! The order in which pending pods and claims are served.
//!
//! ```text
//! unfinished pods, in order --resolve--> claims of each pod --+--> Decision (pod, claims, settled)
//!                                                             +--> Refusal  (a part is missing)
//! pending claims that no pod names -------------------------------> Decision (claim alone)
//! ```

mod priority;
mod template;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::api::core::v1::{Pod, PodResourceClaim};
use k8s_openapi::api::resource::v1::{AllocationResult, ResourceClaim, ResourceClaimTemplate};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub use self::priority::{UnknownPriority, admit_priorities, precedence};
use self::template::{instantiate, name_in_status, owner_other_than};

/// Namespace of an object that names none.
pub const DEFAULT_NAMESPACE: &str = "default";

/// A ResourceClaim, or a ResourceClaimTemplate, by name. Written `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimRef {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// A Pod by name. Written `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodRef {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Claims that get their devices together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The pod that the claims are for; none for a claim that no pod names.
    pub pod: Option<PodRef>,
    /// The claims to allocate, in the order in which the pod names them. Never empty.
    pub claims: Vec<ClaimRef>,
    /// The pod's other claims: allocated already, or allocated by an earlier decision for another
    /// pod. They restrict the node, and if an earlier decision refused one, this pod cannot run.
    pub settled: Vec<ClaimRef>,
}

/// A claim that cannot be decided because an object is missing, broken or does not belong here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The claim, which may be the one that is missing.
    pub claim: ClaimRef,
    /// The pod that names it.
    pub pod: Option<PodRef>,
    /// One clause for people; it names the object at fault.
    pub reason: String,
}

/// Claims and templates that exist but cannot be used, each with what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Broken {
    /// ResourceClaims.
    pub claims: BTreeMap<ClaimRef, String>,
    /// ResourceClaimTemplates.
    pub templates: BTreeMap<ClaimRef, String>,
}

/// What there is to decide.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pending {
    /// In the order in which they are taken.
    pub decisions: Vec<Decision>,
    /// What cannot be decided: that of pods in their order, then broken claims by name.
    pub refused: Vec<Refusal>,
    /// Every usable claim, those made from templates among them.
    pub claims: BTreeMap<ClaimRef, ResourceClaim>,
}

impl ClaimRef {
    /// The name of a namespaced object; the namespace `default` where it has none.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let (namespace, name) = names(metadata);
        Self { namespace, name }
    }
}

impl PodRef {
    /// The name of a pod; the namespace `default` where it has none.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let (namespace, name) = names(metadata);
        Self { namespace, name }
    }
}

impl fmt::Display for ClaimRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Orders and groups what is pending. The order of the arguments' objects does not matter.
///
/// Unfinished pods (not succeeded, failed or being deleted) come by priority, highest first, then
/// oldest first, then by namespace and name. A pod without creationTimestamp is not in the cluster
/// yet, so it comes after all that are. A claim that several pods name is decided with the first
/// of them that can be decided. Then come the other pending claims by namespace and name.
/// Claims already allocated, and claims being deleted, are not decided.
pub fn order(
    pods: &[Pod],
    claims: &[ResourceClaim],
    templates: &[ResourceClaimTemplate],
    broken: &Broken,
) -> Pending {
    let mut queue = Queue {
        templates: templates.iter().map(|t| (ClaimRef::of(&t.metadata), t)).collect(),
        claims: claims.iter().map(|c| (ClaimRef::of(&c.metadata), c.clone())).collect(),
        broken,
        made_for: BTreeMap::new(),
        decided: BTreeSet::new(),
        decisions: Vec::new(),
    };
    let failures: Vec<Failure> =
        in_order(pods).into_iter().filter_map(|pod| queue.take_pod(pod)).collect();
    let mut refused = Vec::new();
    for failure in failures {
        queue.refuse(failure, &mut refused);
    }
    queue.take_claims_of_no_pod(&mut refused);
    Pending { decisions: queue.decisions, refused, claims: queue.claims }
}

/// The state of one run of [`order`].
struct Queue<'a> {
    templates: BTreeMap<ClaimRef, &'a ResourceClaimTemplate>,
    claims: BTreeMap<ClaimRef, ResourceClaim>,
    broken: &'a Broken,
    /// Claims made from templates here.
    made_for: BTreeMap<ClaimRef, PodRef>,
    /// Claims that are part of a decision.
    decided: BTreeSet<ClaimRef>,
    decisions: Vec<Decision>,
}

/// A pod that cannot be decided.
struct Failure {
    pod: PodRef,
    /// The claims at fault.
    faults: Vec<Fault>,
    /// Its other claims.
    others: Vec<ClaimRef>,
}

struct Fault {
    claim: ClaimRef,
    reason: String,
}

/// A claim that a pod needs.
enum Needed {
    Existing(ClaimRef),
    FromTemplate(ClaimRef, Box<ResourceClaim>),
}

impl Queue<'_> {
    /// Decides the pod's claims together, or says what is wrong with them.
    fn take_pod(&mut self, pod: &Pod) -> Option<Failure> {
        let entries = pod.spec.as_ref().and_then(|spec| spec.resource_claims.as_deref());
        let entries = entries.unwrap_or_default();
        let mut needed = Vec::new();
        let mut faults = Vec::new();
        for entry in entries {
            match self.resolve(pod, entry) {
                Ok(found) => needed.extend(found),
                Err(fault) => faults.push(fault),
            }
        }
        let pod = PodRef::of(&pod.metadata);
        if !faults.is_empty() {
            let others = needed.into_iter().map(Needed::into_ref).collect();
            return Some(Failure { pod, faults, others });
        }
        self.decide(pod, needed);
        None
    }

    fn decide(&mut self, pod: PodRef, needed: Vec<Needed>) {
        let (mut claims, mut settled) = (Vec::new(), Vec::new());
        for need in needed {
            let claim = match need {
                Needed::Existing(claim) => claim,
                Needed::FromTemplate(claim, made) => {
                    self.claims.insert(claim.clone(), *made);
                    self.made_for.insert(claim.clone(), pod.clone());
                    claim
                }
            };
            // A pod may name one claim twice.
            if claims.contains(&claim) || settled.contains(&claim) {
                continue;
            }
            let open = self.claims.get(&claim).is_some_and(|claim| !is_allocated(claim));
            if open && self.decided.insert(claim.clone()) {
                claims.push(claim);
            } else {
                settled.push(claim);
            }
        }
        if !claims.is_empty() {
            self.decisions.push(Decision { pod: Some(pod), claims, settled });
        }
    }

    /// The claim that an entry of `spec.resourceClaims` stands for; none where the pod's status
    /// says that none was necessary.
    fn resolve(&self, pod: &Pod, entry: &PodResourceClaim) -> Result<Option<Needed>, Fault> {
        let owner = PodRef::of(&pod.metadata);
        let claim =
            |name: &str| ClaimRef { namespace: owner.namespace.clone(), name: name.to_owned() };
        let template_claim = claim(&format!("{}-{}", owner.name, entry.name));
        match (&entry.resource_claim_name, &entry.resource_claim_template_name) {
            (Some(name), None) => self.existing(pod, claim(name)).map(Some),
            (None, Some(template)) => match name_in_status(pod, &entry.name) {
                Some(None) => Ok(None),
                Some(Some(name)) => self.existing_of_template(pod, claim(name)).map(Some),
                None if self.exists(&template_claim) => {
                    self.existing_of_template(pod, template_claim).map(Some)
                }
                None => self.make(pod, entry, template_claim, &claim(template)).map(Some),
            },
            _ => Err(Fault {
                claim: template_claim,
                reason: format!(
                    "claim {} of pod {owner}: expected exactly one of resourceClaimName and \
                     resourceClaimTemplateName",
                    entry.name
                ),
            }),
        }
    }

    fn exists(&self, claim: &ClaimRef) -> bool {
        self.claims.contains_key(claim) || self.broken.claims.contains_key(claim)
    }

    fn existing(&self, pod: &Pod, claim: ClaimRef) -> Result<Needed, Fault> {
        if let Some(error) = self.broken.claims.get(&claim) {
            let reason = format!("claim {claim}: {error}");
            return Err(Fault { claim, reason });
        }
        let reason = match self.claims.get(&claim) {
            None => format!("claim {claim} is not among the objects"),
            Some(found) if is_deleting(&found.metadata) && !is_reserved_for(found, pod) => {
                format!("claim {claim} is being deleted")
            }
            Some(_) => return Ok(Needed::Existing(claim)),
        };
        Err(Fault { claim, reason })
    }

    /// A claim made from a template is for its pod alone.
    fn existing_of_template(&self, pod: &Pod, claim: ClaimRef) -> Result<Needed, Fault> {
        let pod_ref = PodRef::of(&pod.metadata);
        let made_here = self.made_for.get(&claim).filter(|other| **other != pod_ref);
        let other = match (made_here, self.claims.get(&claim)) {
            (Some(other), _) => Some(other.name.clone()),
            (None, Some(found)) => owner_other_than(found, pod),
            (None, None) => None,
        };
        match other {
            Some(other) => {
                let reason = format!("claim {claim} was made for another pod, {other}");
                Err(Fault { claim, reason })
            }
            None => self.existing(pod, claim),
        }
    }

    fn make(
        &self,
        pod: &Pod,
        entry: &PodResourceClaim,
        claim: ClaimRef,
        template: &ClaimRef,
    ) -> Result<Needed, Fault> {
        let reason = match (self.broken.templates.get(template), self.templates.get(template)) {
            (Some(error), _) => format!("claim template {template}: {error}"),
            (None, None) => format!("claim template {template} is not among the objects"),
            (None, Some(found)) => {
                let made = instantiate(pod, &entry.name, &claim, found);
                return Ok(Needed::FromTemplate(claim, Box::new(made)));
            }
        };
        Err(Fault { claim, reason })
    }

    /// Refuses the claims at fault, and with them the pod's other claims: without the pod they are
    /// of no use, unless they are allocated or another pod gets them.
    fn refuse(&mut self, failure: Failure, refused: &mut Vec<Refusal>) {
        let Failure { pod, faults, others } = failure;
        let Some(first) = faults.first().map(|fault| fault.reason.clone()) else { return };
        let mut claims: BTreeSet<ClaimRef> = BTreeSet::new();
        for Fault { claim, reason } in faults {
            self.decided.insert(claim.clone());
            if claims.insert(claim.clone()) {
                refused.push(Refusal { claim, pod: Some(pod.clone()), reason });
            }
        }
        for claim in others {
            let settled = self.claims.get(&claim).is_some_and(is_allocated);
            if !settled && self.decided.insert(claim.clone()) {
                let reason = format!("pod {pod} cannot be decided: {first}");
                refused.push(Refusal { claim, pod: Some(pod.clone()), reason });
            }
        }
    }

    fn take_claims_of_no_pod(&mut self, refused: &mut Vec<Refusal>) {
        for (claim, error) in &self.broken.claims {
            if self.decided.insert(claim.clone()) {
                let reason = format!("claim {claim}: {error}");
                refused.push(Refusal { claim: claim.clone(), pod: None, reason });
            }
        }
        for (claim, object) in &self.claims {
            let open = !is_allocated(object) && !is_deleting(&object.metadata);
            if open && self.decided.insert(claim.clone()) {
                let claims = vec![claim.clone()];
                self.decisions.push(Decision { pod: None, claims, settled: Vec::new() });
            }
        }
    }
}

impl Needed {
    fn into_ref(self) -> ClaimRef {
        match self {
            Self::Existing(claim) | Self::FromTemplate(claim, _) => claim,
        }
    }
}

fn names(metadata: &ObjectMeta) -> (String, String) {
    let namespace = metadata.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    let name = metadata.name.clone().unwrap_or_default();
    (namespace.unwrap_or(DEFAULT_NAMESPACE).to_owned(), name)
}

fn in_order(pods: &[Pod]) -> Vec<&Pod> {
    let mut pods: Vec<&Pod> = pods.iter().filter(|pod| is_unfinished(pod)).collect();
    pods.sort_by_cached_key(|pod| {
        let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
        let created = pod.metadata.creation_timestamp.clone();
        (precedence(priority, created), PodRef::of(&pod.metadata))
    });
    pods
}

fn is_unfinished(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed")) && !is_deleting(&pod.metadata)
}

fn is_deleting(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some()
}

/// `status.allocation`.
pub fn allocation_of(claim: &ResourceClaim) -> Option<&AllocationResult> {
    claim.status.as_ref()?.allocation.as_ref()
}

fn is_allocated(claim: &ResourceClaim) -> bool {
    allocation_of(claim).is_some()
}

fn is_reserved_for(claim: &ResourceClaim, pod: &Pod) -> bool {
    let consumers = claim.status.as_ref().and_then(|status| status.reserved_for.as_deref());
    consumers.unwrap_or_default().iter().any(|consumer| {
        consumer.resource == "pods" && Some(&consumer.uid) == pod.metadata.uid.as_ref()
    })
}

#[cfg(test)]
mod tests;
