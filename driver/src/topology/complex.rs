//! Grace-Blackwell with ConnectX-8: a NIC's data-direct DMA function sits beside the GPU on another
//! PCI segment, and only the VPD tells which NIC it belongs to.

use std::collections::BTreeMap;

use super::kind::{is_dma_function, is_gpu};
use super::place::Place;
use crate::discovery::facts::{Facts, PciFunction};
use crate::ids::PciAddress;

/// VPD keyword of the string that a NIC shares with its DMA function.
const PAIRING_KEYWORD: &str = "V3";

/// The places that NICs take from their DMA functions: only where a GPU lies below the same host
/// bridge and slot as the DMA function. `places` are those of all functions.
pub fn lent_places(
    facts: &Facts,
    places: &BTreeMap<PciAddress, Place>,
) -> BTreeMap<PciAddress, Place> {
    let lent = places_by_pairing(facts, places);
    let functions = facts.functions.values().filter(|function| !is_dma_function(function));
    let taken = functions.filter_map(|function| {
        let place = lent.get(pairing(function)?)?.as_ref()?;
        Some((function.address, place.clone()))
    });
    taken.collect()
}

/// Pairing string -> place of its DMA function beside a GPU. `None` where two DMA functions carry
/// one string at different places: then the VPD tells nothing.
fn places_by_pairing<'a>(
    facts: &'a Facts,
    places: &BTreeMap<PciAddress, Place>,
) -> BTreeMap<&'a str, Option<Place>> {
    let mut lent: BTreeMap<&str, Option<Place>> = BTreeMap::new();
    for function in facts.functions.values().filter(|function| is_dma_function(function)) {
        let (Some(pairing), Some(place)) = (pairing(function), places.get(&function.address))
        else {
            continue;
        };
        if !has_gpu_beside(facts, places, place) {
            continue;
        }
        let known = lent.entry(pairing).or_insert_with(|| Some(place.clone()));
        if known.as_ref() != Some(place) {
            *known = None;
        }
    }
    lent
}

fn has_gpu_beside(facts: &Facts, places: &BTreeMap<PciAddress, Place>, place: &Place) -> bool {
    let gpus = facts.functions.values().filter(|function| is_gpu(function, facts));
    let mut gpu_places = gpus.filter_map(|gpu| places.get(&gpu.address));
    gpu_places.any(|gpu| gpu.root_port() == place.root_port())
}

/// The pairing string of a NIC or DMA function. GPUs and others may use the keyword for their own.
fn pairing(function: &PciFunction) -> Option<&str> {
    let is_mellanox = function.vendor == Some(super::kind::MELLANOX);
    let text = function.vpd.get(PAIRING_KEYWORD).map(|text| text.trim())?;
    (is_mellanox && !text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::fixtures::{facts, function, gpu, nic};
    use crate::topology::{Source, Topology};

    const GPU: &str = "0009:06:00.0";
    const NIC: &str = "0000:03:00.0";

    fn machine(gpu_bridge: &str, pairing: &str) -> Facts {
        let chain = ["0009:00:00.0", "0009:01:00.0", "0009:02:00.0"];
        let mut dma = function("0009:03:00.0", "pci0009:00", &chain);
        (dma.vendor, dma.device) = (Some(0x15b3), Some(0x2100));
        dma.vpd.insert("V3".to_owned(), "uuid-1".to_owned());
        let mut nic = nic(NIC, "pci0000:00", &["0000:00:00.0"]);
        nic.vpd.insert("V3".to_owned(), pairing.to_owned());
        facts([gpu(GPU, gpu_bridge, &chain), dma, nic])
    }

    fn check(facts: &Facts, expect: &str) {
        let topology = Topology::build(facts, None);
        let path = topology.path(GPU.parse().unwrap(), NIC.parse().unwrap());
        assert_eq!(format!("{} {}", path.class, path.source), expect);
    }

    #[test]
    fn a_nic_takes_the_place_of_its_dma_function_beside_a_gpu() {
        check(&machine("pci0009:00", "uuid-1"), "PIX complex");
        check(&machine("pci0009:00", "uuid-2"), "SYS sysfs");
        check(&machine("pci0009:00", ""), "SYS sysfs");
    }

    #[test]
    fn without_a_gpu_beside_the_dma_function_the_nic_keeps_its_own_place() {
        let facts = machine("pci0010:00", "uuid-1");
        check(&facts, "SYS sysfs");
        let topology = Topology::build(&facts, None);
        assert_eq!(topology.source(NIC.parse().unwrap()), Some(Source::Sysfs));
    }

    #[test]
    fn two_dma_functions_that_contradict_each_other_lend_nothing() {
        let mut facts = machine("pci0009:00", "uuid-1");
        let chain = ["0008:00:00.0"];
        let mut dma = function("0008:03:00.0", "pci0008:00", &chain);
        (dma.vendor, dma.device) = (Some(0x15b3), Some(0x2100));
        dma.vpd.insert("V3".to_owned(), "uuid-1".to_owned());
        facts.functions.insert(dma.address, dma);
        let other = gpu("0008:06:00.0", "pci0008:00", &chain);
        facts.functions.insert(other.address, other);
        check(&facts, "SYS sysfs");
    }
}
