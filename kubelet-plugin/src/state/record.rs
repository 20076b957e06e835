//! The record of a claim: one file, read by this version and by others.
//!
//! ```json
//! {
//! "checksum": "crc32c:0badcafe",
//! "record": { … }
//! }
//! ```
//! The checksum is over the bytes of `record` as they stand in the file, and all around it is fixed, so
//! that a flipped bit anywhere is found. A reader keeps the fields that it does not know. A writer that
//! changes what a known field means, or adds an effect that older readers could not undo, raises
//! `minReader`.

use crc::{CRC_32_ISCSI, Crc};
use k8s_openapi::api::resource::v1::{
    AllocationResult, DeviceAllocationResult, ResourceClaim, ResourceClaimStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use lanemate_api::names::{DRIVER, POD_CLAIM_NAME_ANNOTATION};
use lanemate_driver::claim::allocated::ClaimUid;
use lanemate_driver::ids::PciAddress;
use lanemate_driver::prepare::{PlannedPath, PreparedDevice};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::identity::Identity;
use crate::claim_id::ClaimId;

/// Version of the records that are written.
pub const SCHEMA: u32 = 1;
/// What a reader must know to read the records that are written.
pub const MIN_READER: u32 = 1;
/// Largest record. An object of the API is at most 1.5 MiB, and of an allocation the results and
/// configurations of one driver are kept.
pub const MAX_BYTES: usize = 2 << 20;

/// Castagnoli's, as in iSCSI. It finds every error of up to 32 bits in a row, and every error of three bits
/// in a record of any size that is read. It is no protection against a person who writes records: only
/// root can.
pub(super) const CRC_32C: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);
const HEAD: &[u8] = b"{\n\"checksum\": \"crc32c:";
const MIDDLE: &[u8] = b"\",\n\"record\": ";
const TAIL: &[u8] = b"\n}\n";
const DIGITS: usize = 8;

/// A claim that holds devices of this node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Version of the writer's schema.
    pub schema: u32,
    /// The lowest schema whose readers may use the record.
    pub min_reader: u32,
    /// Program and version of the last writer, for people.
    pub writer: String,
    /// Namespace of the claim.
    pub namespace: String,
    /// Name of the claim.
    pub name: String,
    /// UID of the claim.
    #[serde(with = "uid_text")]
    pub uid: ClaimUid,
    /// How far it is.
    pub state: RecordState,
    /// The boot that it was prepared in; absent where the node does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// The devices, in the order of the allocation.
    pub devices: Vec<RecordDevice>,
    /// What has been done or is about to be, in its order, each with its inverse.
    pub effects: Vec<Effect>,
    /// The allocation, from which files are planned anew without the API server.
    pub allocation: Allocation,
    /// What this version does not know.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// How far a claim on record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RecordState {
    /// The devices are its own, effects are not complete.
    Reserved,
    /// Containers may run.
    Prepared,
    /// Effects are being undone.
    Releasing,
}

/// A device of a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordDevice {
    /// `request` or `request/subrequest`.
    pub request: String,
    /// Pool, which is the node.
    pub pool: String,
    /// Name in the pool.
    pub device: String,
    /// PCI address.
    pub address: PciAddress,
    /// Address of the physical function of a virtual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<PciAddress>,
    /// Which piece of hardware it is.
    #[serde(default, skip_serializing_if = "Identity::is_unknown")]
    pub identity: Identity,
    /// Granted beside whoever else holds it: holds nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub admin_access: bool,
    /// What kubelet was told.
    #[serde(rename = "cdiDeviceIDs")]
    pub cdi_device_ids: Vec<String>,
    /// What this version does not know.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Something that was done to the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Effect {
    /// What was done.
    pub done: Deed,
    /// What takes it back.
    pub undo: Inverse,
    /// On what.
    #[serde(flatten)]
    pub path: PlannedPath,
    /// What this version does not know.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Deed {
    /// A file was written.
    WriteFile,
}

/// What takes an effect back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Inverse {
    /// The file is removed, with directories that become empty.
    RemoveFile,
}

/// What a plan needs of the claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Allocation {
    /// For a claim made from a template: the name in `pod.spec.resourceClaims`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_claim_name: Option<String>,
    /// `status.allocation.devices`, results and configurations of this driver.
    pub devices: Value,
    /// What this version does not know.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Why a file is no record that this version can use.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum RecordError {
    /// It is not in the form.
    #[error("not a record: {0}")]
    Form(String),
    /// Bytes have changed since it was written.
    #[error(
        "checksum {found:08x}, expected {expected:08x}: the file has changed since it was written"
    )]
    Checksum {
        /// Of the bytes.
        found: u32,
        /// As written in the file.
        expected: u32,
    },
    /// A newer version has written it.
    #[error(
        "written by {writer}, for readers of schema {min_reader} and later; this version reads up to {SCHEMA}"
    )]
    Newer {
        /// The schema that a reader must know.
        min_reader: u32,
        /// Program and version.
        writer: String,
    },
}

/// What can be told of a record that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readable {
    /// Namespace of the claim.
    pub namespace: String,
    /// Name of the claim.
    pub name: String,
    /// Names of the devices that it holds.
    pub devices: Vec<String>,
}

/// What is looked at first.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    min_reader: u32,
    writer: String,
}

#[derive(Deserialize)]
struct LooseFile {
    record: LooseRecord,
}

#[derive(Deserialize)]
struct LooseRecord {
    namespace: String,
    name: String,
    devices: Vec<LooseDevice>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LooseDevice {
    device: String,
    #[serde(default)]
    admin_access: bool,
}

impl Record {
    /// The claim.
    pub fn claim(&self) -> ClaimId {
        ClaimId {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }

    /// What kubelet gets.
    pub fn prepared(&self) -> Vec<PreparedDevice> {
        let base = |request: &str| request.split('/').next().unwrap_or_default().to_owned();
        let device = |device: &RecordDevice| PreparedDevice {
            request: base(&device.request),
            pool: device.pool.clone(),
            device: device.device.clone(),
            cdi_device_ids: device.cdi_device_ids.clone(),
        };
        self.devices.iter().map(device).collect()
    }

    /// The devices that nobody else may have.
    pub fn held(&self) -> impl Iterator<Item = &RecordDevice> {
        self.devices.iter().filter(|device| !device.admin_access)
    }

    /// The bytes of its file.
    pub fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        let body = serde_json::to_vec_pretty(self)?;
        let checksum = format!("{:08x}", CRC_32C.checksum(&body));
        Ok([HEAD, checksum.as_bytes(), MIDDLE, &body, TAIL].concat())
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// See [`RecordError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let body = checked(bytes)?;
        let form = |error: serde_json::Error| RecordError::Form(error.to_string());
        let header: Header = serde_json::from_slice(body).map_err(form)?;
        if header.min_reader > SCHEMA {
            let Header { min_reader, writer } = header;
            return Err(RecordError::Newer { min_reader, writer });
        }
        serde_json::from_slice(body).map_err(form)
    }
}

impl Readable {
    /// What can be told of bytes that are no record, or a newer one.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let LooseFile { record } = serde_json::from_slice(bytes).ok()?;
        let held = record.devices.into_iter().filter(|device| !device.admin_access);
        Some(Self {
            namespace: record.namespace,
            name: record.name,
            devices: held.map(|device| device.device).collect(),
        })
    }
}

impl Effect {
    /// A file that is written.
    pub fn file(path: PlannedPath) -> Self {
        Self { done: Deed::WriteFile, undo: Inverse::RemoveFile, path, rest: Map::new() }
    }
}

impl Allocation {
    /// What a record keeps of a claim.
    pub fn of(claim: &ResourceClaim) -> Self {
        let annotations = claim.metadata.annotations.as_ref();
        let allocation = claim.status.as_ref().and_then(|status| status.allocation.as_ref());
        let mut devices =
            allocation.and_then(|allocation| allocation.devices.clone()).unwrap_or_default();
        if let Some(results) = &mut devices.results {
            results.retain(|result| result.driver == DRIVER);
        }
        if let Some(config) = &mut devices.config {
            let is_ours = |driver: Option<&String>| driver.is_some_and(|driver| driver == DRIVER);
            config.retain(|entry| is_ours(entry.opaque.as_ref().map(|opaque| &opaque.driver)));
        }
        Self {
            pod_claim_name: annotations.and_then(|all| all.get(POD_CLAIM_NAME_ANNOTATION)).cloned(),
            // Texts, numbers, lists and maps with text keys: there is nothing that could fail.
            devices: serde_json::to_value(&devices).unwrap_or_default(),
            rest: Map::new(),
        }
    }

    /// The claim, as far as a plan needs it.
    ///
    /// # Errors
    /// The allocation is none of this API version.
    pub fn claim(&self, id: &ClaimId) -> Result<ResourceClaim, serde_json::Error> {
        let devices: DeviceAllocationResult = serde_json::from_value(self.devices.clone())?;
        let annotation = |name: &String| (POD_CLAIM_NAME_ANNOTATION.to_owned(), name.clone());
        Ok(ResourceClaim {
            metadata: ObjectMeta {
                namespace: Some(id.namespace.clone()),
                name: Some(id.name.clone()),
                uid: Some(id.uid.to_string()),
                annotations: Some(self.pod_claim_name.iter().map(annotation).collect()),
                ..ObjectMeta::default()
            },
            status: Some(ResourceClaimStatus {
                allocation: Some(AllocationResult {
                    devices: Some(devices),
                    ..AllocationResult::default()
                }),
                ..ResourceClaimStatus::default()
            }),
            ..ResourceClaim::default()
        })
    }
}

/// The body of a file whose frame and checksum are right.
fn checked(bytes: &[u8]) -> Result<&[u8], RecordError> {
    let frame = || {
        RecordError::Form("expected checksum and record, as this program writes them".to_owned())
    };
    let rest = bytes.strip_prefix(HEAD).ok_or_else(frame)?;
    let (digits, rest) = rest.split_at_checked(DIGITS).ok_or_else(frame)?;
    let body = rest.strip_prefix(MIDDLE).and_then(|rest| rest.strip_suffix(TAIL));
    let body = body.ok_or_else(frame)?;
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let digits = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| is_digit(&b)));
    let expected = digits.and_then(|text| u32::from_str_radix(text, 16).ok()).ok_or_else(frame)?;
    let found = CRC_32C.checksum(body);
    if found != expected {
        return Err(RecordError::Checksum { found, expected });
    }
    Ok(body)
}

/// A UID as text.
mod uid_text {
    use lanemate_driver::claim::allocated::ClaimUid;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(uid: &ClaimUid, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(uid.as_str())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ClaimUid, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|()| serde::de::Error::custom(format!("not a UID: {text:?}")))
    }
}
