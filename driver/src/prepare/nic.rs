//! What a NIC adds to a container: the verbs nodes of its own function and the connection manager.
//!
//! All RDMA devices of the host stay visible in `/sys/class/infiniband`; what a program can open is
//! decided by the nodes alone. Management nodes (`umad`, `issm`) can rewrite a fabric, so they are
//! given on request only.

use crate::discovery::Facts;

use super::grant::Grant;
use super::{Needs, PrepareError, nodes};

const CONNECTION_MANAGER: &str = "dev/infiniband/rdma_cm";
const REMEDY: &str = "are ib_uverbs and the NIC's RDMA driver loaded?";
const MAD_REMEDY: &str = "umad is asked for; is ib_umad loaded?";

pub(super) fn needs(
    grant: &Grant<'_>,
    facts: &Facts,
    notes: &mut Vec<String>,
) -> Result<Needs, PrepareError> {
    if facts.rdma_netns_exclusive == Some(true) {
        return Err(PrepareError::ExclusiveNetns(grant.device.to_owned()));
    }
    let mut needs = Needs::default();
    let nodes = &mut needs.edits.device_nodes;
    let rdma = &grant.function.rdma;
    let verbs = rdma.iter().flat_map(|device| &device.uverbs);
    for name in verbs.filter(|name| nodes::is_numbered(name, "uverbs")) {
        nodes.push(nodes::required(facts, grant, &in_infiniband(name), REMEDY)?);
    }
    if nodes.is_empty() {
        return Err(PrepareError::NoVerbs(grant.device.to_owned()));
    }
    match nodes::existing(facts, CONNECTION_MANAGER) {
        Some(node) => nodes.push(node),
        // NCCL and plain verbs do without.
        None => notes.push(format!(
            "/{CONNECTION_MANAGER} does not exist: programs that connect by address cannot; is \
             rdma_ucm loaded?"
        )),
    }
    if grant.environment.umad {
        let before = nodes.len();
        let mad = rdma.iter().flat_map(|device| &device.mad);
        for name in mad.filter(|n| nodes::is_numbered(n, "umad") || nodes::is_numbered(n, "issm")) {
            nodes.push(nodes::required(facts, grant, &in_infiniband(name), MAD_REMEDY)?);
        }
        if nodes.len() == before {
            notes.push(format!("{}: umad is asked for, but it has no umad node", grant.device));
        }
    }
    Ok(needs)
}

fn in_infiniband(name: &str) -> String {
    format!("dev/infiniband/{name}")
}
