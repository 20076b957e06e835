//! How near the members of a unit, and the units of a request, have to be.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

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
#[schemars(extend("x-kubernetes-validations" = wish_rules()))]
pub struct Within {
    /// Farthest path allowed. Default PXB.
    pub required: PathClass,
    /// Farthest path wished; must not be farther than `required`. Absent: no wish.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathClass")]
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
#[schemars(extend("x-kubernetes-validations" = wish_rules()))]
pub struct Across {
    /// Farthest path allowed. Default SYS.
    pub required: PathClass,
    /// Farthest path wished; must not be farther than `required`. Absent: no wish.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathClass")]
    pub preferred: Option<PathClass>,
}

impl Default for Across {
    fn default() -> Self {
        Self { required: PathClass::Sys, preferred: None }
    }
}

/// The API server's own check, in its CEL, that a wish is not farther than what is required. A map
/// gives the rank: the server refuses a definition that uses `indexOf`, whose cost it cannot bound.
fn wish_rules() -> Value {
    let ranks = PathClass::ALL.map(|class| format!("'{class}':{}", class.rank())).join(",");
    json!([{
        "rule": format!(
            "!has(self.preferred) || {{{ranks}}}[self.preferred] <= {{{ranks}}}[self.required]"
        ),
        "message": "must not be farther than required",
        "fieldPath": ".preferred",
    }])
}
