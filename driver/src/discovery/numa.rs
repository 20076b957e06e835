//! NUMA nodes and their distances, from `sys/devices/system/node`.

use std::collections::BTreeMap;

use super::read::{Parsed, Reader};
use crate::ids::NumaNode;

const NODES: &str = "sys/devices/system/node";

/// Node -> distance to each node in ascending order; empty on a kernel without NUMA.
pub(super) fn read(reader: &mut Reader<'_>) -> BTreeMap<NumaNode, Vec<u32>> {
    let Some(directory) = reader.real(NODES) else {
        return BTreeMap::new();
    };
    let mut nodes = BTreeMap::new();
    for name in reader.names(&directory) {
        let Some(node) = name.strip_prefix("node").and_then(|digits| digits.parse().ok()) else {
            continue;
        };
        let path = format!("{name}/distance");
        let distances = reader.optional(&directory, &path, "distances", parse_distances);
        nodes.insert(NumaNode(node), distances.unwrap_or_default());
    }
    nodes
}

fn parse_distances(text: &str) -> Parsed<Vec<u32>> {
    let distances: Option<Vec<u32>> =
        text.split_whitespace().map(|distance| distance.parse().ok()).collect();
    Parsed::or_malformed(distances.filter(|distances| !distances.is_empty()))
}

/// The node that a function's `numa_node` means: -1 is unknown, save where the only node is 0.
pub(super) fn parse_node(text: &str, nodes: &BTreeMap<NumaNode, Vec<u32>>) -> Parsed<NumaNode> {
    let only_zero = nodes.len() == 1 && nodes.contains_key(&NumaNode(0));
    match text {
        "-1" if only_zero => Parsed::Value(NumaNode(0)),
        "-1" => Parsed::Unknown,
        digits => Parsed::or_malformed(digits.parse().ok().map(NumaNode)),
    }
}
