//! Attributes and capacities of a device under fully qualified names.

use std::collections::BTreeMap;
use std::fmt;

use lanemate_api::Quantity;

/// A name of the form `domain/id`. Ordered by domain, then id, so that the names of one domain stand together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QualifiedName {
    /// DNS subdomain.
    pub domain: String,
    /// C identifier.
    pub id: String,
}

impl QualifiedName {
    /// Reads `domain/id`, or `id` in the domain of `driver`.
    pub fn parse(name: &str, driver: &str) -> Self {
        let (domain, id) = name.split_once('/').unwrap_or((driver, name));
        Self { domain: domain.to_owned(), id: id.to_owned() }
    }
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.domain, self.id)
    }
}

/// Attributes of a device.
pub type Attributes = BTreeMap<QualifiedName, AttributeValue>;

/// Capacities of a device.
pub type Capacities = BTreeMap<QualifiedName, Quantity>;

/// One attribute of a device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttributeValue {
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A text of at most 64 bytes.
    String(String),
    /// A semantic version 2.0.0, as written.
    Version(String),
    /// A list (gate DRAListTypeAttributes).
    Bools(Vec<bool>),
    /// A list (gate DRAListTypeAttributes).
    Ints(Vec<i64>),
    /// A list (gate DRAListTypeAttributes).
    Strings(Vec<String>),
    /// A list (gate DRAListTypeAttributes).
    Versions(Vec<String>),
}

impl AttributeValue {
    /// Whether it is a list.
    pub fn is_list(&self) -> bool {
        matches!(self, Self::Bools(_) | Self::Ints(_) | Self::Strings(_) | Self::Versions(_))
    }
}
