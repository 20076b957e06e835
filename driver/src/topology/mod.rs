//! How near two functions are: the [`Place`] of each, where it comes from, and the path class
//! between two places.
//!
//! An immutable value of [`Facts`] and an optional [`Override`]; it is rebuilt when hardware changes.

pub mod chain;
pub mod complex;
pub mod kind;
pub mod overrides;
pub mod place;
pub mod tree;

#[cfg(test)]
pub(crate) mod fixtures;

use std::collections::BTreeMap;
use std::fmt;

use lanemate_api::PathClass;

pub use overrides::{Override, OverrideError};
pub use place::{Path, Place, path_between};
pub use tree::{NodeKind, TreeNode};

use crate::discovery::facts::{Facts, Problem};
use crate::ids::{NumaNode, PciAddress};

/// The places of all functions of one machine.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    functions: BTreeMap<PciAddress, Placed>,
    problems: Vec<Problem>,
}

/// Where a function is.
#[derive(Clone, Debug)]
struct Placed {
    /// By sysfs alone.
    own: Option<Place>,
    /// After complexes and the override.
    place: Option<Place>,
    source: Source,
    numa: Option<NumaNode>,
}

/// What decided a place, or the class of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The chain of bridges.
    Sysfs,
    /// The DMA function of a NIC beside a GPU.
    Complex,
    /// An NCCL topology XML.
    Override,
}

/// The path between two functions, and what decided it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcedPath {
    /// How near they are.
    pub class: PathClass,
    /// See [`Path::switch_hops`].
    pub switch_hops: Option<u32>,
    /// See [`Path::via`].
    pub via: Option<String>,
    /// What decided it.
    pub source: Source,
}

impl Source {
    /// The word of the JSON contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sysfs => "sysfs",
            Self::Complex => "complex",
            Self::Override => "override",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Topology {
    /// Places every function: by the override where it names the function, else by the complex, else
    /// by sysfs.
    pub fn build(facts: &Facts, override_: Option<&Override>) -> Self {
        let own = own_places(facts);
        let host_bridge = |address| facts.functions.get(&address)?.host_bridge.as_deref();
        let overridden = override_.map(|xml| xml.places(host_bridge)).unwrap_or_default();
        let mut places = own.clone();
        let known = overridden.iter().filter(|(address, _)| facts.functions.contains_key(address));
        places.extend(known.map(|(address, place)| (*address, place.clone())));
        let lent = complex::lent_places(facts, &places);

        let placed = facts.functions.values().map(|function| {
            let address = function.address;
            let place = |places: &BTreeMap<PciAddress, Place>| places.get(&address).cloned();
            let (place, source) = match (place(&overridden), place(&lent)) {
                (Some(place), _) => (Some(place), Source::Override),
                (None, Some(place)) => (Some(place), Source::Complex),
                (None, None) => (place(&own), Source::Sysfs),
            };
            let own = own.get(&address).cloned();
            (address, Placed { own, place, source, numa: function.numa_node })
        });
        let functions: BTreeMap<_, _> = placed.collect();
        let problems = override_.map(|_| idle_override(&functions)).unwrap_or_default();
        Self { functions, problems }
    }

    /// The place of a function; absent when its host bridge is unknown.
    pub fn place(&self, address: PciAddress) -> Option<&Place> {
        self.functions.get(&address)?.place.as_ref()
    }

    /// What decided the place of a function; absent when it has none.
    pub fn source(&self, address: PciAddress) -> Option<Source> {
        self.functions.get(&address).filter(|placed| placed.place.is_some()).map(|p| p.source)
    }

    /// The NUMA node of a function; absent when unknown.
    pub fn numa_node(&self, address: PciAddress) -> Option<NumaNode> {
        self.functions.get(&address)?.numa
    }

    /// The path between two functions. `override` decided it when both places are from the XML,
    /// `complex` when it would differ with the function's own place.
    pub fn path(&self, a: PciAddress, b: PciAddress) -> SourcedPath {
        let numa = (self.numa_node(a), self.numa_node(b));
        let Path { class, switch_hops, via } =
            path_between((self.place(a), numa.0), (self.place(b), numa.1));
        let source = match (self.source(a), self.source(b)) {
            (Some(Source::Override), Some(Source::Override)) => Source::Override,
            (Some(Source::Complex), _) | (_, Some(Source::Complex)) => {
                let own = path_between((self.own(a), numa.0), (self.own(b), numa.1));
                if own.class == class { Source::Sysfs } else { Source::Complex }
            }
            _ => Source::Sysfs,
        };
        SourcedPath { class, switch_hops, via, source }
    }

    /// An override decides the place of some function.
    pub fn has_override(&self) -> bool {
        self.functions.values().any(|placed| placed.source == Source::Override)
    }

    /// What did not fit the machine.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The place without complexes, so that a pair can tell whether a complex mattered.
    fn own(&self, address: PciAddress) -> Option<&Place> {
        let placed = self.functions.get(&address)?;
        if placed.source == Source::Override { placed.place.as_ref() } else { placed.own.as_ref() }
    }
}

fn own_places(facts: &Facts) -> BTreeMap<PciAddress, Place> {
    let functions = facts.functions.values();
    functions.filter_map(|function| Some((function.address, chain::place(function)?))).collect()
}

/// An override of which nothing applies is a mistake of the site, e.g. the file of another machine type.
fn idle_override(functions: &BTreeMap<PciAddress, Placed>) -> Vec<Problem> {
    if functions.values().any(|placed| placed.source == Source::Override) {
        return Vec::new();
    }
    let message = "names no function of this machine below a pci element: it changes nothing";
    vec![Problem { path: "topologyOverride".to_owned(), message: message.to_owned() }]
}

#[cfg(test)]
mod tests;
