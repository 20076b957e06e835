//! Which claims are meant.

use anyhow::bail;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use lanemate_api::validation::format::is_dns_subdomain;
use lanemate_driver::pending::{ClaimRef, PodRef, allocation_of};

use crate::objects::Objects;
use crate::run::Usage;

/// What a person asks about.
#[derive(Debug, PartialEq, Eq)]
pub enum Subject {
    /// A claim.
    Claim(ClaimRef),
    /// The claims of a pod.
    Pod(PodRef),
    /// Every claim of a namespace that waits.
    Waiting(String),
}

/// A claim to explain.
#[derive(Debug, PartialEq, Eq)]
pub struct Target {
    /// The claim, which may be still to be made.
    pub claim: ClaimRef,
    /// The pod and entry that it is to be made for.
    pub to_be_made: Option<(PodRef, String)>,
}

impl Subject {
    /// Reads what was typed.
    pub fn parse(text: Option<&str>, namespace: &str) -> Result<Self, Usage> {
        let Some(text) = text else { return Ok(Self::Waiting(namespace.to_owned())) };
        let (kind, name) = text.split_once('/').unwrap_or(("claim", text));
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        if !is_dns_subdomain(&name) {
            return Err(Usage(format!("{text:?}: expected the name of a claim, or pod/NAME")));
        }
        match kind {
            "pod" | "pods" | "po" => Ok(Self::Pod(PodRef { namespace, name })),
            "claim" | "resourceclaim" | "resourceclaims" => {
                Ok(Self::Claim(ClaimRef { namespace, name }))
            }
            _ => Err(Usage(format!(
                "{text:?}: expected the name of a claim, or pod/NAME; the namespace is given with -n"
            ))),
        }
    }

    /// The claims.
    pub fn targets(&self, objects: &Objects) -> anyhow::Result<Vec<Target>> {
        let made = |claim| Target { claim, to_be_made: None };
        match self {
            Self::Claim(name) => match find(objects, name) {
                Some(_) => Ok(vec![made(name.clone())]),
                None => bail!("claim {name}: not found; -n names another namespace"),
            },
            Self::Pod(name) => {
                let mut pods = objects.pods.iter();
                let Some(pod) = pods.find(|pod| PodRef::of(&pod.metadata) == *name) else {
                    bail!("pod {name}: not found; -n names another namespace")
                };
                Ok(of_pod(pod, name))
            }
            Self::Waiting(namespace) => {
                let claims = objects.claims.iter().filter(|claim| allocation_of(claim).is_none());
                let names = claims.map(|claim| ClaimRef::of(&claim.metadata));
                let mut names: Vec<_> = names.filter(|name| name.namespace == *namespace).collect();
                names.sort();
                Ok(names.into_iter().map(made).collect())
            }
        }
    }
}

impl Target {
    /// It has no devices yet.
    pub fn is_waiting(&self, objects: &Objects) -> bool {
        find(objects, &self.claim).is_none_or(|claim| allocation_of(claim).is_none())
    }
}

/// A claim by name.
pub fn find<'a>(objects: &'a Objects, name: &ClaimRef) -> Option<&'a ResourceClaim> {
    objects.claims.iter().find(|claim| ClaimRef::of(&claim.metadata) == *name)
}

fn of_pod(pod: &Pod, name: &PodRef) -> Vec<Target> {
    let targets = entries(pod).into_iter().map(|(entry, claim)| {
        // As kube-controller-manager begins the name of the claim that it makes.
        let shown = claim.clone().unwrap_or_else(|| format!("{}-{entry}", name.name));
        Target {
            claim: ClaimRef { namespace: name.namespace.clone(), name: shown },
            to_be_made: claim.is_none().then(|| (name.clone(), entry)),
        }
    });
    targets.collect()
}

/// The entries of `spec.resourceClaims`, each with the claim that it stands for, where there is one.
pub fn entries(pod: &Pod) -> Vec<(String, Option<String>)> {
    let statuses = pod.status.as_ref().and_then(|status| status.resource_claim_statuses.as_ref());
    let made = |entry: &str| {
        let mut statuses = statuses?.iter();
        statuses.find(|status| status.name == entry)?.resource_claim_name.clone()
    };
    let entries = pod.spec.iter().flat_map(|spec| spec.resource_claims.iter().flatten());
    let claim = |entry: &k8s_openapi::api::core::v1::PodResourceClaim| {
        let claim = entry.resource_claim_name.clone().or_else(|| made(&entry.name));
        (entry.name.clone(), claim)
    };
    entries.map(claim).collect()
}
