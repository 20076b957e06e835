//! Objects by namespace, name and UID: a new object of an old name is another one.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use lanemate_driver::pending::{ClaimRef, PodRef};

/// A UID, as the API server gives it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(pub String);

/// A namespace and a name. Written `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// A Pod, a ResourceClaim: one life of a name. Written `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// Namespace and name.
    pub key: Key,
    /// UID.
    pub uid: Uid,
}

/// `metadata.resourceVersion`. Versions of one kind are ordered: the API server says so since Kubernetes 1.35.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(pub String);

impl Id {
    /// The id of an object that came from the API server; none without name or UID.
    pub fn of(metadata: &ObjectMeta) -> Option<Self> {
        let key = Key::of(metadata)?;
        let uid = metadata.uid.clone().filter(|uid| !uid.is_empty())?;
        Some(Self { key, uid: Uid(uid) })
    }
}

impl Key {
    /// The key of an object; its namespace is empty for one without.
    pub fn of(metadata: &ObjectMeta) -> Option<Self> {
        let name = metadata.name.clone().filter(|name| !name.is_empty())?;
        Some(Self { namespace: metadata.namespace.clone().unwrap_or_default(), name })
    }
}

impl Version {
    /// The version of an object.
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self(metadata.resource_version.clone().unwrap_or_default())
    }

    /// True where this is the other one or newer: both are decimal numbers without leading zeros, of any length.
    pub fn reaches(&self, other: &Self) -> bool {
        (self.0.len(), &self.0) >= (other.0.len(), &other.0)
    }
}

impl From<&Key> for ClaimRef {
    fn from(key: &Key) -> Self {
        Self { namespace: key.namespace.clone(), name: key.name.clone() }
    }
}

impl From<&Key> for PodRef {
    fn from(key: &Key) -> Self {
        Self { namespace: key.namespace.clone(), name: key.name.clone() }
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let version = |text: &str| Version(text.to_owned());
        assert!(version("1000").reaches(&version("999")));
        assert!(version("999").reaches(&version("999")));
        assert!(!version("999").reaches(&version("1000")));
        assert!(!version("100").reaches(&version("101")));
    }
}
