//! What to do next: a function of the index and the time.

pub mod repair;
pub mod timing;

use jiff::Timestamp;

use crate::change::Change;
use crate::id::Id;

/// What to do, what to tell, and when to look again.
#[derive(Debug, Default)]
pub struct Planned {
    /// In the order in which they are to be written.
    pub changes: Vec<Change>,
    /// What people should know.
    pub notices: Vec<Notice>,
    /// When time alone may change the plan; absent where it does not.
    pub next: Option<Timestamp>,
}

/// An event to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What it is about.
    pub about: About,
    /// `Warning`, or else `Normal`.
    pub is_warning: bool,
    /// One word for programs.
    pub reason: &'static str,
    /// A sentence for people.
    pub note: String,
}

/// The object of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// A pod.
    Pod(Id),
    /// A ResourceClaim.
    Claim(Id),
    /// A ResourceClass, by name and UID.
    Class(Id),
}
