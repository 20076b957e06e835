//! How near the members of a unit, and the units of a request, have to be.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::PathClass;

/// Locality of a ResourceClass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Locality {
    /// Between the members of one unit.
    pub within: Within,
    /// Between the units of one request.
    pub across: Across,
}

/// Farthest allowed and wished path between the members of one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Within {
    /// Farthest path allowed. Default PXB.
    pub required: PathClass,
    /// Farthest path wished; must not be farther than `required`. Absent: no wish.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred: Option<PathClass>,
}

impl Default for Within {
    fn default() -> Self {
        Self { required: PathClass::Pxb, preferred: None }
    }
}

/// Farthest allowed and wished path between the units of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Across {
    /// Farthest path allowed. Default SYS.
    pub required: PathClass,
    /// Farthest path wished; must not be farther than `required`. Absent: no wish.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred: Option<PathClass>,
}

impl Default for Across {
    fn default() -> Self {
        Self { required: PathClass::Sys, preferred: None }
    }
}
