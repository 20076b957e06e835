//! The path class between two PCIe functions, in the words of `nvidia-smi topo -m`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// How near two functions are. Ordered: a smaller class is nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum PathClass {
    /// Below the same innermost switch.
    Pix,
    /// Below the same root port, through several switches.
    Pxb,
    /// Through one host bridge.
    Phb,
    /// Through several host bridges of one NUMA node.
    Node,
    /// Across NUMA nodes, or unknown.
    Sys,
}

impl PathClass {
    /// All classes, nearest first.
    pub const ALL: [Self; 5] = [Self::Pix, Self::Pxb, Self::Phb, Self::Node, Self::Sys];

    /// The word users read and write.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::Phb => "PHB",
            Self::Node => "NODE",
            Self::Sys => "SYS",
        }
    }

    /// 0 for PIX up to 4 for SYS.
    pub fn rank(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for PathClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Written by hand: the words alone, where the derived schema would be one branch per word.
impl JsonSchema for PathClass {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "PathClass".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": Self::ALL.map(Self::as_str) })
    }
}

/// A word that is no path class.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown path class {0:?}: expected PIX, PXB, PHB, NODE or SYS")]
pub struct UnknownPathClass(pub String);

impl FromStr for PathClass {
    type Err = UnknownPathClass;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|class| class.as_str() == word)
            .ok_or_else(|| UnknownPathClass(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back_and_are_ordered_from_near_to_far() {
        for (rank, class) in PathClass::ALL.into_iter().enumerate() {
            assert_eq!(class.as_str().parse(), Ok(class));
            assert_eq!(usize::from(class.rank()), rank);
            assert_eq!(serde_json::to_value(class).unwrap(), class.as_str());
        }
        assert!(PathClass::ALL.is_sorted());
    }

    #[test]
    fn other_words_are_refused_with_the_words_that_are_known() {
        for word in ["", "pix", "PIXX", "SYSTEM"] {
            let error = word.parse::<PathClass>().unwrap_err().to_string();
            assert!(error.ends_with("expected PIX, PXB, PHB, NODE or SYS"), "{error}");
        }
    }
}
