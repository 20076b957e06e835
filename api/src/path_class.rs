//! The path class between two PCIe functions, in the words of `nvidia-smi topo -m`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How near two functions are. Ordered: a smaller class is nearer.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
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
