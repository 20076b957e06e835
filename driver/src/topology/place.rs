//! The place of a function in the PCIe tree, and the path class between two places.
//!
//! A place is published as `pciePath`, so the class that the controller computes from two slices is
//! the one that the node computes from sysfs: `pci0000:15/01.0/16:00.0/19:00.0` is the host bridge, the
//! slot on its root bus, and each switch on the way, outermost first. Where an NCCL topology XML overrides sysfs, the
//! components after the host bridge are full PCI addresses.

use std::fmt;
use std::str::FromStr;

use lanemate_api::PathClass;

use crate::ids::NumaNode;

/// Host bridge, slot and switches of a function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Components, at least two.
    components: Vec<String>,
}

/// A text that is no place.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a place in the PCIe tree: {0:?}: expected pciDDDD:BB/dd.f[/bb:dd.f]…")]
pub struct ParsePlaceError(pub String);

impl Place {
    /// A place from its host bridge, slot and switches, outermost first.
    pub fn new(
        host_bridge: String,
        slot: String,
        switches: impl IntoIterator<Item = String>,
    ) -> Self {
        let mut components = vec![host_bridge, slot];
        components.extend(switches);
        Self { components }
    }

    /// `pciDDDD:BB`.
    pub fn host_bridge(&self) -> &str {
        &self.components[0]
    }

    /// The components after the slot: the switches, outermost first.
    pub fn switches(&self) -> &[String] {
        &self.components[2..]
    }

    /// An NCCL topology XML says so, not sysfs.
    pub fn is_override(&self) -> bool {
        self.components[1].matches(':').count() == 2
    }

    /// The host bridge and the slot: functions that agree on both are PXB or better.
    pub fn root_port(&self) -> (&str, &str) {
        (&self.components[0], &self.components[1])
    }

    /// Full address of the outermost switch (`pci` parent in an override).
    pub fn outermost_switch(&self) -> Option<String> {
        if self.is_override() {
            return Some(self.components[1].clone());
        }
        self.components.get(2).map(|component| self.full_address(component))
    }

    /// Full address of the slot: of the root port, or of the function itself on the root bus.
    pub fn slot_address(&self) -> String {
        let bus = self.components[0].rsplit(':').next().unwrap_or_default();
        match self.is_override() {
            true => self.components[1].clone(),
            false => self.full_address(&format!("{bus}:{}", self.components[1])),
        }
    }

    /// Full addresses of the components after the slot, outermost first.
    pub fn switch_addresses(&self) -> Vec<String> {
        self.switches().iter().map(|switch| self.full_address(switch)).collect()
    }

    /// The longest place of at most `limit` bytes that is a prefix of this one, at a component.
    pub fn cut(&self, limit: usize) -> Self {
        let mut cut = self.clone();
        while cut.components.len() > 2 && cut.to_string().len() > limit {
            cut.components.pop();
        }
        cut
    }

    fn full_address(&self, component: &str) -> String {
        match (self.is_override(), self.components[0].strip_prefix("pci")) {
            (false, Some(root)) => {
                let domain = root.split(':').next().unwrap_or_default();
                format!("{domain}:{component}")
            }
            _ => component.to_owned(),
        }
    }

    fn common_with(&self, other: &Self) -> usize {
        self.components.iter().zip(&other.components).take_while(|(a, b)| a == b).count()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.components.join("/"))
    }
}

impl FromStr for Place {
    type Err = ParsePlaceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let components: Vec<String> = text.split('/').map(str::to_owned).collect();
        if components.len() < 2 || components.iter().any(String::is_empty) {
            return Err(ParsePlaceError(text.to_owned()));
        }
        Ok(Self { components })
    }
}

/// The path between two functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// How near they are.
    pub class: PathClass,
    /// Switches of both places at or below the deepest common one; PIX and PXB only, absent for
    /// places of an override. Inside a class fewer is nearer.
    pub switch_hops: Option<u32>,
    /// Full address of the deepest common switch (`pci` parent in an override).
    pub via: Option<String>,
}

/// The path between two functions. A place or NUMA node that is unknown is near to nothing.
pub fn path_between(
    a: (Option<&Place>, Option<NumaNode>),
    b: (Option<&Place>, Option<NumaNode>),
) -> Path {
    let far = |class| Path { class, switch_hops: None, via: None };
    // A device that publishes no place is SYS to all others, whatever its NUMA node.
    let (Some(place_a), Some(place_b)) = (a.0, b.0) else {
        return far(PathClass::Sys);
    };
    match place_a.common_with(place_b) {
        0 if a.1.is_some() && a.1 == b.1 => far(PathClass::Node),
        0 => far(PathClass::Sys),
        1 => far(PathClass::Phb),
        common => near(place_a, place_b, common),
    }
}

fn near(a: &Place, b: &Place, common: usize) -> Path {
    let class = if a == b { PathClass::Pix } else { PathClass::Pxb };
    if a.is_override() {
        return Path { class, switch_hops: None, via: Some(a.components[common - 1].clone()) };
    }
    let below = (a.components.len() - common) + (b.components.len() - common);
    let shared = usize::from(common > 2);
    Path {
        class,
        switch_hops: u32::try_from(below + shared).ok(),
        via: (common > 2).then(|| a.full_address(&a.components[common - 1])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(a: (&str, Option<u32>), b: (&str, Option<u32>), expect: &str) {
        let parse = |text: &str| text.parse::<Place>().unwrap();
        let (place_a, place_b) = (parse(a.0), parse(b.0));
        let (numa_a, numa_b) = (a.1.map(NumaNode), b.1.map(NumaNode));
        let path = path_between((Some(&place_a), numa_a), (Some(&place_b), numa_b));
        let hops = path.switch_hops.map_or("-".to_owned(), |s| s.to_string());
        let via = path.via.unwrap_or("-".to_owned());
        assert_eq!(format!("{} {hops} {via}", path.class), expect);
    }

    #[test]
    fn the_class_is_that_of_the_deepest_thing_shared() {
        let gpu = ("pci0000:15/01.0/16:00.0/19:00.0", Some(0));
        check(gpu, ("pci0000:15/01.0/16:00.0", Some(0)), "PXB 2 0000:16:00.0");
        check(gpu, gpu, "PIX 1 0000:19:00.0");
        check(gpu, ("pci0000:15/02.0/20:00.0", Some(0)), "PHB - -");
        check(gpu, ("pci0000:37/01.0/38:00.0", Some(0)), "NODE - -");
        check(gpu, ("pci0000:37/01.0/38:00.0", Some(1)), "SYS - -");
        check(("pci0000:15/01.0", None), ("pci0000:37/01.0", None), "SYS - -");
    }

    #[test]
    fn places_of_an_override_name_their_deepest_common_parent_and_count_no_switches() {
        let a = ("pci0000:10/ffff:ff:01.0", Some(0));
        check(a, a, "PIX - ffff:ff:01.0");
        check(a, ("pci0000:10/1c.0", Some(0)), "PHB - -");
    }

    #[test]
    fn a_long_place_is_cut_at_a_component() {
        let place: Place = "pci0000:15/01.0/16:00.0/19:00.0".parse().unwrap();
        assert_eq!(place.cut(30).to_string(), "pci0000:15/01.0/16:00.0");
        assert_eq!(place.cut(64), place);
    }
}
