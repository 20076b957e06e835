//! A claim as kubelet names it.

use std::fmt;

use lanemate_driver::claim::allocated::ClaimUid;

/// A claim by name and UID. A claim that was deleted and made again has the same name and another
/// UID, and is another claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimId {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: ClaimUid,
}

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} ({})", self.namespace, self.name, self.uid)
    }
}
