//! Kubernetes objects from files, as `plan` reads them.
//!
//! ```text
//! file --documents--> value tree --kinds--> which type --typed--> object, unknown fields
//!                                                        |-> Objects
//!                                                        |-> BrokenClaim (claims and templates)
//!                                                        '-> ObjectsError (everything else)
//! ```

mod documents;
mod kinds;
mod reader;
mod typed;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::resource::v1::{
    DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice,
};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use lanemate_api::ResourceClass;
use lanemate_driver::pending::{Broken, ClaimRef};

pub use self::documents::{Place, SyntaxError};
pub use self::kinds::Kind;
use crate::input::InputError;

/// Largest file: the slices of 5,000 nodes with 8 GPUs and 8 NICs each are about 150 MB of YAML.
pub const FILE_BYTES_MAX: u64 = 256 << 20;
/// Most objects in all files together: 5,000 nodes with slices, and 30 pods and claims on each.
pub const OBJECTS_MAX: usize = 200_000;

/// What the files hold, each list by namespace and name.
#[derive(Debug, Default)]
pub struct Objects {
    pub slices: Vec<ResourceSlice>,
    pub claims: Vec<ResourceClaim>,
    pub templates: Vec<ResourceClaimTemplate>,
    pub device_classes: Vec<DeviceClass>,
    pub resource_classes: Vec<ResourceClass>,
    pub nodes: Vec<Node>,
    pub priority_classes: Vec<PriorityClass>,
    pub pods: Vec<Pod>,
    /// Claims and templates that cannot be used; they do not stop the others.
    pub broken_claims: Vec<BrokenClaim>,
    /// What was not read, one line each.
    pub warnings: Vec<String>,
    /// Where each object stands, by kind, namespace (empty for kinds without) and name.
    pub places: BTreeMap<(Kind, String, String), Place>,
}

/// A claim or a template that is there, but wrong.
#[derive(Debug)]
pub struct BrokenClaim {
    /// ResourceClaim or ResourceClaimTemplate.
    pub kind: Kind,
    pub name: ClaimRef,
    pub place: Place,
    /// `path: what is wrong`, at least one.
    pub errors: Vec<String>,
    /// What could be read of a claim. If it is allocated, it holds its devices all the same.
    pub claim: Option<Box<ResourceClaim>>,
}

/// Files that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ObjectsError {
    #[error(transparent)]
    Input(#[from] InputError),
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    #[error("{place}: {message}")]
    NoObject { place: Box<Place>, message: String },
    #[error("{place}: {kind} {found}: only {expected} is read")]
    OtherVersion { place: Box<Place>, kind: String, found: String, expected: &'static str },
    #[error("{place}: {kind} {api_version}: it would change the answer and is not supported yet")]
    NotSupported { place: Box<Place>, kind: String, api_version: String },
    #[error("{place}: {kind} {name}: {error}")]
    Field { place: Box<Place>, kind: &'static str, name: String, error: String },
    #[error("{kind} {name} is there twice: {first}, and {second}")]
    Duplicate { kind: &'static str, name: String, first: Box<Place>, second: Box<Place> },
    #[error("{place}: more than {OBJECTS_MAX} objects")]
    TooMany { place: Box<Place> },
}

impl fmt::Display for BrokenClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, place, errors, .. } = self;
        write!(f, "{place}: {} {name}: {}", kind.as_str(), errors.join("; "))
    }
}

impl Objects {
    /// Reads files of YAML or JSON; `-` is standard input. Objects of namespaced kinds that name
    /// no namespace get the given one.
    pub fn load(files: &[PathBuf], namespace: &str) -> Result<Self, ObjectsError> {
        reader::load(files, namespace)
    }

    /// The broken claims and templates, as the order of decisions needs them.
    pub fn broken(&self) -> Broken {
        let mut broken = Broken::default();
        for BrokenClaim { kind, name, place, errors, .. } in &self.broken_claims {
            let of_kind = match kind {
                Kind::ResourceClaimTemplate => &mut broken.templates,
                _ => &mut broken.claims,
            };
            of_kind.insert(name.clone(), format!("{place}: {}", errors.join("; ")));
        }
        broken
    }

    /// Where an object stands; the namespace is empty for kinds without.
    pub fn place(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Place> {
        self.places.get(&(kind, namespace.to_owned(), name.to_owned()))
    }
}

#[cfg(test)]
mod tests;
