//! What a container needs for its granted devices, as a plan that touches nothing.
//!
//! One CDI spec is written per claim, with one CDI device per result. kubelet hands a container the
//! devices of the whole claim or of single requests, in any mixture, and the runtime merges the
//! edits of all of them. So every CDI device is complete in itself, and whatever several of them
//! share (control nodes, libraries, mounts, variables) is the same in each, which makes merging
//! idempotent. Edits of the whole spec are kept for what every container must get.

pub mod cdi;
mod environment;
mod gpu;
mod grant;
mod metadata;
mod nic;
mod nodes;
pub mod nvidia_libraries;
pub mod vendor_cdi;

use std::collections::{BTreeMap, BTreeSet};

use lanemate_api::names;
use serde::{Deserialize, Serialize};

use crate::claim::allocated::AllocatedClaim;
use crate::discovery::Facts;
use crate::discovery::facts::Problem;
use crate::discovery::host::Host;
use crate::ids::Kind;
use crate::inventory::Inventory;

use self::cdi::{ContainerEdits, Device, Spec};
use self::environment::ClaimEnvironment;
use self::grant::Grant;
use self::nvidia_libraries::NvidiaLibraries;
use self::vendor_cdi::VendorCdi;

/// What the plan depends on beside claim and machine.
#[derive(Clone, Debug, Default)]
pub struct PrepareOptions {
    /// Directory of [`Base::Metadata`], absolute, as the container runtime sees it.
    pub metadata_dir: String,
    /// CDI devices that other programs have put on the host.
    pub vendor_cdi: VendorCdi,
    /// The NVIDIA driver's user-space libraries on the host.
    pub nvidia_libraries: NvidiaLibraries,
    /// NCCL topology XML that overrides sysfs on this node.
    pub topology_override: Option<String>,
}

/// What has to be written, and what kubelet gets.
#[derive(Clone, Debug)]
pub struct PreparePlan {
    /// The CDI spec, which is also the last of `files`.
    pub spec: Spec,
    /// Files in the order in which they have to appear.
    pub files: Vec<PlannedFile>,
    /// One per result of this node, in the order of the allocation.
    pub devices: Vec<PreparedDevice>,
    /// What a person may want to know; none of it stands in the way.
    pub notes: Vec<String>,
}

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedFile {
    /// Where.
    pub path: PlannedPath,
    /// Permission bits.
    pub mode: u32,
    /// Content.
    pub bytes: Vec<u8>,
}

/// Place of a planned file: all that is needed to remove it again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PlannedPath {
    /// The directory that it lies in.
    pub base: Base,
    /// Relative to that directory, with `/` between components.
    pub path: String,
}

/// A directory that planned files lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Base {
    /// Read by the container runtime, usually `/var/run/cdi`.
    Cdi,
    /// Mounted into containers file by file.
    Metadata,
}

/// A result as kubelet gets it (`Device` of the DRA plugin API).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreparedDevice {
    /// Request, without the alternative: kubelet knows no other.
    pub request: String,
    /// Pool.
    pub pool: String,
    /// Device.
    pub device: String,
    /// Fully qualified CDI device names.
    pub cdi_device_ids: Vec<String>,
}

/// Why a claim cannot be prepared on this node. Nothing has been done.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PrepareError {
    /// The directory would mean another place to the runtime.
    #[error("metadata directory {0:?} is not an absolute path")]
    RelativeDirectory(String),
    /// No result is for this node.
    #[error("claim {claim} has no device of {} in pool {node}{}", names::DRIVER, held_in(pools))]
    NothingForNode {
        /// `namespace/name`.
        claim: String,
        /// Name of the node.
        node: String,
        /// Pools in which it has devices of ours.
        pools: BTreeSet<String>,
    },
    /// A result names a device that the node does not have.
    #[error("device {device} does not exist on node {node}")]
    UnknownDevice {
        /// As in the result.
        device: String,
        /// Name of the node.
        node: String,
    },
    /// A result names a device that is never offered.
    #[error("device {device} must not be granted: {reason}")]
    MustNotBeGranted {
        /// As in the result.
        device: String,
        /// Why, as `topology` tells it.
        reason: String,
    },
    /// Two results are the same device.
    #[error("device {0} is granted twice in one claim")]
    Twice(String),
    /// A device node that the device needs is missing.
    #[error("device {device} needs /{node}, which does not exist: {remedy}")]
    MissingNode {
        /// Device of the grant.
        device: String,
        /// Path relative to the root.
        node: String,
        /// What a person may do.
        remedy: &'static str,
    },
    /// The NVIDIA library did not tell which node belongs to a GPU.
    #[error(
        "device {0}: the NVIDIA library gives no minor number for it, so its /dev/nvidiaN is \
         unknown: is the NVIDIA driver loaded and libnvidia-ml readable?"
    )]
    UnknownMinor(String),
    /// Nothing is known about GPUs of this vendor.
    #[error("device {0}: neither an NVIDIA nor an AMD GPU")]
    UnknownGpu(String),
    /// The NIC has no verbs device, so a program could do nothing with it.
    #[error("device {0} has no RDMA device with a uverbs node: is its RDMA driver loaded?")]
    NoVerbs(String),
    /// RDMA devices follow network namespaces on this node.
    #[error(
        "device {0}: RDMA devices are bound to network namespaces on this node (rdma system \
         netns exclusive); only the shared mode is supported"
    )]
    ExclusiveNetns(String),
}

impl PrepareOptions {
    /// Reads from the host what others have put there: vendors' CDI specs, and the libraries of the
    /// NVIDIA driver below its root (relative to the host's; empty where it is the same). What cannot
    /// be read is a problem, and the rest stands.
    pub fn read(
        host: &dyn Host,
        facts: &Facts,
        driver_root: &str,
        metadata_dir: String,
    ) -> (Self, Vec<Problem>) {
        let (vendor_cdi, problems) = VendorCdi::read(host, &vendor_cdi::DIRECTORIES);
        let version = facts.nvml.as_ref().and_then(|nvml| nvml.driver_version.as_deref());
        let nvidia_libraries = version
            .map(|version| NvidiaLibraries::read(host, driver_root, version))
            .unwrap_or_default();
        (Self { metadata_dir, vendor_cdi, nvidia_libraries, ..Self::default() }, problems)
    }
}

/// Plans the preparation of a claim on the node of an inventory.
///
/// # Errors
/// See [`PrepareError`]. The results of other drivers are dropped when a claim is parsed; results
/// in other pools are skipped here.
pub fn plan(
    claim: &AllocatedClaim,
    facts: &Facts,
    inventory: &Inventory,
    options: &PrepareOptions,
) -> Result<PreparePlan, PrepareError> {
    if !options.metadata_dir.starts_with('/') {
        return Err(PrepareError::RelativeDirectory(options.metadata_dir.clone()));
    }
    let grants = grant::of_node(claim, facts, inventory)?;
    let mut notes = grant::notes(claim, inventory);
    let environment = ClaimEnvironment::of(&grants, options, &mut notes);
    let mut devices = Vec::new();
    let mut prepared = Vec::new();
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for grant in &grants {
        let count = counts.entry(grant.request.to_string()).or_default();
        let name = device_name(claim, grant, *count);
        *count += 1;
        let needs = needs_of(grant, facts, options, &mut notes)?;
        let mut edits = needs.edits;
        edits.merge(environment.edits(claim, grant, facts, options)?);
        edits.merge(metadata::edits(claim, grant, options));
        prepared.push(PreparedDevice {
            request: grant.request.request().to_owned(),
            pool: grant.pool.to_owned(),
            device: grant.device.to_owned(),
            cdi_device_ids: needs.vendor_ids.into_iter().chain([cdi::qualified(&name)]).collect(),
        });
        devices.push(Device { name, container_edits: edits });
    }
    let spec = spec(claim, &inventory.node, devices);
    let mut files = metadata::files(claim, &grants);
    files.extend(environment.file(claim));
    files.push(spec.file(&claim.uid));
    let mut told = BTreeSet::new();
    notes.retain(|note| told.insert(note.clone()));
    Ok(PreparePlan { spec, files, devices: prepared, notes })
}

/// What one device adds to a container.
#[derive(Default)]
struct Needs {
    edits: ContainerEdits,
    /// CDI devices of other vendors that belong to it.
    vendor_ids: Vec<String>,
}

fn needs_of(
    grant: &Grant<'_>,
    facts: &Facts,
    options: &PrepareOptions,
    notes: &mut Vec<String>,
) -> Result<Needs, PrepareError> {
    match grant.kind {
        Kind::Gpu => gpu::needs(grant, facts, options, notes),
        Kind::Nic => nic::needs(grant, facts, notes),
    }
}

fn spec(claim: &AllocatedClaim, node: &str, devices: Vec<Device>) -> Spec {
    let held = claim.results.iter().filter(|result| result.pool == node && !result.admin_access);
    let held: Vec<&str> = held.map(|result| &*result.device).collect();
    let annotation = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    Spec {
        cdi_version: cdi::VERSION.to_owned(),
        kind: cdi::KIND.to_owned(),
        // By these a lost record is rebuilt, or the file of a claim that is gone is found.
        annotations: BTreeMap::from([
            annotation(cdi::CLAIM_NAMESPACE, &claim.namespace),
            annotation(cdi::CLAIM_NAME, &claim.name),
            annotation(cdi::HELD_DEVICES, &held.join(",")),
        ]),
        devices,
        // CUDA images ask for all GPUs, and NVIDIA's container runtime would inject them, were the
        // variable left as the image sets it; for a container with a NIC only, too.
        container_edits: ContainerEdits {
            env: vec!["NVIDIA_VISIBLE_DEVICES=void".to_owned()],
            ..ContainerEdits::default()
        },
    }
}

/// The end of a message: where the devices are instead.
fn held_in(pools: &BTreeSet<String>) -> String {
    if pools.is_empty() {
        return String::new();
    }
    let pools: Vec<&str> = pools.iter().map(String::as_str).collect();
    format!(": its devices are in pool {}", pools.join(", "))
}

/// `<uid>.<request>[.<subrequest>].<n>`: CDI forbids slashes, and DNS labels have no dots.
fn device_name(claim: &AllocatedClaim, grant: &Grant<'_>, count: u32) -> String {
    let mut name = format!("{}.{}", claim.uid, grant.request.request());
    if let Some(subrequest) = grant.request.subrequest() {
        name = format!("{name}.{subrequest}");
    }
    format!("{name}.{count}")
}

#[cfg(test)]
mod tests;
