//! What is to be written, and what became of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{AllocationResult, DeviceClass, ResourceClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use lanemate_api::ResourceClass;

use crate::id::{Id, Version};

/// One job of the writer. Jobs of one pod, and of one claim, come one after another: the index remembers what is in
/// flight and plans nothing more for it until the report is in.
#[derive(Clone, Debug)]
pub enum Change {
    /// Gives a pod its devices, and lets it go.
    Place(Box<Place>),
    /// Takes our gate off a pod that needs nothing of us.
    Ungate(Ungate),
    /// Takes an allocation back.
    Clear(Clear),
    /// Ends a pod that can never run as it is; its owner makes it anew.
    DeletePod(DeletePod),
    /// Compiles a ResourceClass.
    Class(Box<ClassChange>),
}

/// Devices for the claims of a pod: each claim is written, then the pod is let go in one patch.
#[derive(Clone, Debug)]
pub struct Place {
    /// The pod.
    pub pod: Id,
    /// The node that all its claims are for.
    pub node: String,
    /// Claims to write, in this order. Claims that are allocated and reserved for the pod already are not among them.
    pub claims: Vec<ClaimWrite>,
    /// Absent for a pod that carries no gate of ours.
    pub release: Option<Release>,
}

/// One claim of a placed pod.
#[derive(Clone, Debug)]
pub struct ClaimWrite {
    /// The claim.
    pub claim: Id,
    /// What is written.
    pub write: Write,
}

/// What is written into a claim; the pod is added to `reservedFor` in the same write.
#[derive(Clone, Debug)]
pub enum Write {
    /// An allocation, with the finalizer written before it.
    Allocate {
        /// The claim as it was seen, unallocated: a write on another version is refused.
        object: Arc<ResourceClaim>,
        /// `status.allocation`, complete.
        allocation: Box<AllocationResult>,
        /// The generation of each of our pools that the decision has seen.
        generations: BTreeMap<String, i64>,
    },
    /// The claim is allocated (by an earlier pod): the pod is added to its users.
    Reserve,
}

/// The end of a pod's waiting: our gate comes off, in one patch.
#[derive(Clone, Debug)]
pub struct Release {
    /// The pod as it was seen: a patch on another version is refused.
    pub pod: Arc<Pod>,
    /// The node to pin it to; absent where the pod has a constraint that is not judged here, so that kube-scheduler decides.
    pub pin: Option<String>,
    /// Value of the annotation `lanemate.dev/device-assignment`.
    pub assignment: String,
}

/// Takes our gate off.
#[derive(Clone, Debug)]
pub struct Ungate {
    /// The pod.
    pub pod: Id,
    /// Its version.
    pub version: Version,
}

/// Takes an allocation, and all its reservations, back.
#[derive(Clone, Debug)]
pub struct Clear {
    /// The claim.
    pub claim: Id,
    /// Its version: one that somebody changed meanwhile is not cleared.
    pub version: Version,
    /// For the log.
    pub why: String,
}

/// Ends a pod by its UID.
#[derive(Clone, Debug)]
pub struct DeletePod {
    /// The pod.
    pub pod: Id,
    /// For the log.
    pub why: String,
}

/// A write for a ResourceClass.
#[derive(Clone, Debug)]
pub enum ClassChange {
    /// Creates the compiled DeviceClass.
    Create(DeviceClass),
    /// Replaces it, at the version in its metadata.
    Replace(DeviceClass),
    /// Deletes it, at the version and UID in its metadata.
    Delete(DeviceClass),
    /// Writes the status of the class, at the version in its metadata.
    Status(ResourceClass),
    /// Writes the finalizers of the class, at the version in its metadata.
    Finalizers(ResourceClass),
}

impl ClassChange {
    /// The deed, for the log.
    pub fn words(&self) -> String {
        let name = |metadata: &ObjectMeta| metadata.name.clone().unwrap_or_default();
        match self {
            Self::Create(class) => format!("create deviceclass {}", name(&class.metadata)),
            Self::Replace(class) => format!("replace deviceclass {}", name(&class.metadata)),
            Self::Delete(class) => format!("delete deviceclass {}", name(&class.metadata)),
            Self::Status(class) => {
                format!("tell the status of resourceclass {}", name(&class.metadata))
            }
            Self::Finalizers(class) => {
                format!("set the finalizers of resourceclass {}", name(&class.metadata))
            }
        }
    }
}

/// A change that is over.
#[derive(Clone, Debug)]
pub struct Report {
    /// The change.
    pub change: Change,
    /// Objects that were written, with their versions after: all of the change if it is [`Outcome::Done`], else a part.
    pub written: Vec<(Id, Version)>,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a change ended. Whatever is not in [`Report::written`] was certainly not written, [`Outcome::Fenced`] apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it was written.
    Done,
    /// Something is no longer what the change was planned on: others have written, deleted, or published anew.
    Superseded(String),
    /// The API server took the write without some fields, which a feature gate has switched off. The allocation was
    /// taken back.
    Dropped(Vec<String>),
    /// The API server refuses, and would again.
    Refused(String),
    /// The lease may be lost: nothing more is written, and the last write may or may not have been.
    Fenced,
}

/// The generation of each of our pools, as the index sees it now: read by the writer right before it writes.
#[derive(Clone, Debug, Default)]
pub struct Generations {
    seen: Arc<Mutex<BTreeMap<String, i64>>>,
}

impl Generations {
    /// Notes the generation of a pool; absent when the pool is gone.
    pub fn note(&self, pool: &str, generation: Option<i64>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match generation {
            Some(generation) => seen.insert(pool.to_owned(), generation),
            None => seen.remove(pool),
        };
    }

    /// The first pool whose generation is not the one given.
    pub fn changed(&self, generations: &BTreeMap<String, i64>) -> Option<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let changed =
            generations.iter().find(|(pool, generation)| seen.get(*pool) != Some(*generation));
        changed.map(|(pool, _)| pool.clone())
    }
}
