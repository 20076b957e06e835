//! What a claim asks for beyond its devices: variables that name them to NCCL, UCX and CUDA, the
//! topology file, and `/dev/gdrdrv`.
//!
//! A variable has one value per container and CDI knows no lists, so the last device injected wins.
//! `NCCL_IB_HCA` and `UCX_NET_DEVICES` therefore name all NICs of the claim whose requests ask for
//! them, and every such NIC carries the same value. A container that takes only some of those
//! requests finds names in it that it cannot open, which NCCL and UCX skip with a warning; the other
//! choice, the NICs of one request at a time, would silently lose rails wherever a container takes
//! several. A container without a NIC gets neither variable.

use lanemate_api::Environment;

use crate::claim::allocated::AllocatedClaim;
use crate::discovery::Facts;
use crate::discovery::facts::RdmaDevice;
use crate::ids::Kind;

use super::cdi::{ContainerEdits, Mount};
use super::grant::Grant;
use super::{Base, PlannedFile, PlannedPath, PrepareError, PrepareOptions, nodes};

const TOPOLOGY_IN_CONTAINER: &str = "/var/run/lanemate.dev/nccl-topology.xml";
const GDRCOPY: &str = "dev/gdrdrv";
const GDRCOPY_REMEDY: &str = "gdrcopy is asked for; is gdrdrv loaded?";

/// Values that are the same in every device of a claim.
pub(super) struct ClaimEnvironment<'a> {
    nccl: Option<String>,
    ucx: Option<String>,
    topology: Option<&'a str>,
}

impl<'a> ClaimEnvironment<'a> {
    pub(super) fn of(
        grants: &[Grant<'_>],
        options: &'a PrepareOptions,
        notes: &mut Vec<String>,
    ) -> Self {
        let asked = |wants: fn(&Environment) -> bool| grants.iter().any(|g| wants(&g.environment));
        let mut value = |name: &str, wants: fn(&Environment) -> bool, names: Naming| {
            let words = words(grants, wants, names);
            if words.is_empty() && asked(wants) {
                notes.push(format!("{name} is asked for, but no granted NIC can be named in it"));
            }
            (!words.is_empty()).then(|| words.join(","))
        };
        // A value that begins with = is matched exactly; else mlx5_1 would mean mlx5_10, too.
        let nccl = value("NCCL_IB_HCA", |e| e.nccl, nccl_names).map(|words| format!("={words}"));
        let ucx = value("UCX_NET_DEVICES", |e| e.ucx, ucx_names);
        let topology = options.topology_override.as_deref().filter(|_| asked(|e| e.topology_file));
        if asked(|e| e.topology_file) && topology.is_none() {
            notes.push(
                "NCCL_TOPO_FILE is asked for, but this node has no override: sysfs tells the truth"
                    .to_owned(),
            );
        }
        Self { nccl, ucx, topology }
    }

    /// What one device adds.
    pub(super) fn edits(
        &self,
        claim: &AllocatedClaim,
        grant: &Grant<'_>,
        facts: &Facts,
        options: &PrepareOptions,
    ) -> Result<ContainerEdits, PrepareError> {
        let asked = &grant.environment;
        let mut edits = ContainerEdits::default();
        let mut set = |wanted: bool, name: &str, value: Option<&str>| {
            edits.env.extend(value.filter(|_| wanted).map(|value| format!("{name}={value}")));
        };
        let (nic, gpu) = (grant.kind == Kind::Nic, grant.kind == Kind::Gpu);
        set(nic && asked.nccl, "NCCL_IB_HCA", self.nccl.as_deref());
        set(nic && asked.ucx, "UCX_NET_DEVICES", self.ucx.as_deref());
        set(gpu && asked.cuda_device_order, "CUDA_DEVICE_ORDER", Some("PCI_BUS_ID"));
        let topology = self.topology.map(|_| TOPOLOGY_IN_CONTAINER);
        set(asked.topology_file, "NCCL_TOPO_FILE", topology);
        if asked.topology_file && self.topology.is_some() {
            let host = format!("{}/{}", options.metadata_dir, topology_path(claim));
            edits.mounts.push(Mount::read_only(host, TOPOLOGY_IN_CONTAINER.to_owned()));
        }
        // It maps GPU memory, so it is of use beside a GPU only.
        if gpu && asked.gdrcopy {
            edits.device_nodes.push(nodes::required(facts, grant, GDRCOPY, GDRCOPY_REMEDY)?);
        }
        Ok(edits)
    }

    /// The file that `NCCL_TOPO_FILE` names.
    pub(super) fn file(&self, claim: &AllocatedClaim) -> Option<PlannedFile> {
        self.topology.map(|text| PlannedFile {
            path: PlannedPath { base: Base::Metadata, path: topology_path(claim) },
            mode: 0o644,
            bytes: text.as_bytes().to_vec(),
        })
    }
}

fn topology_path(claim: &AllocatedClaim) -> String {
    format!("{}/nccl-topology.xml", claim.uid)
}

type Naming = fn(&RdmaDevice) -> Vec<String>;

/// Names of the verbs devices of all granted NICs that are wanted, in the order of the grant.
fn words(grants: &[Grant<'_>], wants: fn(&Environment) -> bool, names: Naming) -> Vec<String> {
    let mut words = Vec::new();
    let nics = grants.iter().filter(|g| g.kind == Kind::Nic && wants(&g.environment));
    // A device without a verbs node (a plane of a multi-plane HCA) cannot be opened.
    let devices = nics.flat_map(|grant| &grant.function.rdma).filter(|d| !d.uverbs.is_empty());
    for word in devices.flat_map(names) {
        // With adminAccess a device may stand in a claim twice.
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

/// The device, or its active ports where only some of several are.
fn nccl_names(device: &RdmaDevice) -> Vec<String> {
    let active = active_ports(device);
    if active.is_empty() || active.len() == device.ports.len() {
        return vec![device.name.clone()];
    }
    with_ports(device, &active)
}

/// The device's active ports; all of them where none is, since one may come up.
fn ucx_names(device: &RdmaDevice) -> Vec<String> {
    let active = active_ports(device);
    if active.is_empty() {
        return with_ports(device, &device.ports.keys().copied().collect::<Vec<_>>());
    }
    with_ports(device, &active)
}

fn active_ports(device: &RdmaDevice) -> Vec<u32> {
    let is_active = |state: &str| state == "ACTIVE";
    let active = device.ports.iter().filter(|(_, p)| p.state.as_deref().is_some_and(is_active));
    active.map(|(number, _)| *number).collect()
}

fn with_ports(device: &RdmaDevice, ports: &[u32]) -> Vec<String> {
    ports.iter().map(|port| format!("{}:{port}", device.name)).collect()
}
