//! The `nvml` section of a capture: what NVIDIA's library says, as written there.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::capture::quoted;
use super::facts::{NvLinkRemote, NvmlFacts, NvmlGpu};
use crate::ids::PciAddress;

/// More links than any GPU has (18); a bound for what a capture may ask for.
const MAX_LINKS: u32 = 64;

/// `nvml` of a capture.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NvmlSection {
    /// Kernel driver version.
    #[serde(default)]
    pub driver_version: Option<String>,
    /// CUDA version, e.g. 13000.
    #[serde(default)]
    pub cuda_driver_version: Option<u32>,
    /// The GPUs.
    #[serde(default)]
    pub devices: Vec<NvmlDevice>,
}

/// One GPU.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NvmlDevice {
    /// Index in the library's order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// UUID with its prefix `GPU-`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Product name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Brand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brand: Option<String>,
    /// Architecture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// CUDA compute capability, major and minor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_capability: Option<(u32, u32)>,
    /// PCI address, as the library writes it.
    pub pci_bus_id: String,
    /// Minor number of `/dev/nvidiaN`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minor_number: Option<u32>,
    /// Memory in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_total_bytes: Option<u64>,
    /// Absent where MIG is not supported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig_mode: Option<MigMode>,
    /// Board serial number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Profiles of MIG instances.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mig_profiles: Vec<MigProfile>,
    /// Far ends of active NVLinks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nvlinks: Vec<NvLinks>,
}

/// MIG mode now and after the next reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MigMode {
    /// Now.
    pub current: Switch,
    /// After the next reset.
    pub pending: Switch,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    /// On.
    Enabled,
    /// Off.
    Disabled,
}

/// One profile of MIG instances.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MigProfile {
    /// Number of the profile.
    pub id: u32,
    /// Name, e.g. `1g.10gb`.
    pub name: String,
    /// Compute slices.
    pub slices: u32,
    /// Instances that fit on an empty GPU.
    pub instances: u32,
    /// Memory of an instance in MiB.
    #[serde(rename = "memoryMiB")]
    pub memory_mib: u64,
}

/// Links that end at the same thing.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NvLinks {
    /// `switch`, or `gpu`.
    pub remote_type: RemoteType,
    /// PCI address of the far GPU; required for `gpu`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_pci_bus_id: Option<String>,
    /// Number of links.
    #[serde(default = "one")]
    pub count: u32,
}

/// Far end of an NVLink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RemoteType {
    /// An NVSwitch.
    Switch,
    /// A GPU.
    Gpu,
}

fn one() -> u32 {
    1
}

/// A place in the section, and what is wrong there.
type Wrong = (String, String);

impl NvmlSection {
    /// The facts, or the field that makes no sense and why.
    pub(super) fn facts(&self) -> Result<NvmlFacts, Wrong> {
        let mut gpus = BTreeMap::new();
        for (index, device) in self.devices.iter().enumerate() {
            let place = |field: &str| format!("devices[{index}].{field}");
            let address = address(&device.pci_bus_id).map_err(|m| (place("pciBusId"), m))?;
            let gpu = device.gpu().map_err(|(field, message)| (place(&field), message))?;
            if gpus.insert(address, gpu).is_some() {
                return Err((place("pciBusId"), format!("{address} appears twice")));
            }
        }
        let driver_version = self.driver_version.clone();
        let cuda_driver_version = self.cuda_driver_version;
        Ok(NvmlFacts { driver_version, cuda_driver_version, gpus, problems: Vec::new() })
    }

    /// The section that gives these facts.
    pub fn from_facts(facts: &NvmlFacts) -> Self {
        let devices = facts.gpus.iter().map(|(&address, gpu)| NvmlDevice::from_gpu(address, gpu));
        Self {
            driver_version: facts.driver_version.clone(),
            cuda_driver_version: facts.cuda_driver_version,
            devices: devices.collect(),
        }
    }

    pub(super) fn to_yaml(&self) -> String {
        let mut out = "nvml:\n".to_owned();
        // Writing to a string cannot fail.
        if let Some(version) = &self.driver_version {
            let _ = writeln!(out, "  driverVersion: {}", quoted(version));
        }
        if let Some(version) = self.cuda_driver_version {
            let _ = writeln!(out, "  cudaDriverVersion: {version}");
        }
        if self.devices.is_empty() {
            out.push_str("  devices: []\n");
            return out;
        }
        out.push_str("  devices:\n");
        for device in &self.devices {
            // A tree of strings and numbers always has a JSON form, and JSON is YAML.
            let device = serde_json::to_value(device).unwrap_or_default();
            let _ = writeln!(out, "    - {}", flow(&device));
        }
        out
    }
}

impl NvmlDevice {
    fn gpu(&self) -> Result<NvmlGpu, Wrong> {
        let mut nvlinks = Vec::new();
        for (index, links) in self.nvlinks.iter().enumerate() {
            let wrong =
                |field: &str, message: String| (format!("nvlinks[{index}].{field}"), message);
            let remote = match (links.remote_type, &links.remote_pci_bus_id) {
                (RemoteType::Switch, _) => NvLinkRemote::Switch,
                (RemoteType::Gpu, Some(text)) => NvLinkRemote::Gpu(
                    address(text).map_err(|message| wrong("remotePciBusId", message))?,
                ),
                (RemoteType::Gpu, None) => {
                    return Err(wrong("remotePciBusId", "expected for a gpu".to_owned()));
                }
            };
            if links.count > MAX_LINKS {
                return Err(wrong("count", format!("expected at most {MAX_LINKS}")));
            }
            nvlinks.extend((0..links.count).map(|_| remote));
        }
        Ok(NvmlGpu {
            uuid: self.uuid.clone(),
            name: self.name.clone(),
            brand: self.brand.clone(),
            architecture: self.architecture.clone(),
            compute_capability: self.compute_capability,
            minor: self.minor_number,
            memory_bytes: self.memory_total_bytes,
            mig_enabled: self.mig_mode.map(|mode| mode.current == Switch::Enabled),
            nvlinks,
        })
    }

    fn from_gpu(address: PciAddress, gpu: &NvmlGpu) -> Self {
        let mut counts: BTreeMap<NvLinkRemote, u32> = BTreeMap::new();
        for &remote in &gpu.nvlinks {
            *counts.entry(remote).or_default() += 1;
        }
        let links = |(remote, count)| match remote {
            NvLinkRemote::Switch => {
                NvLinks { remote_type: RemoteType::Switch, remote_pci_bus_id: None, count }
            }
            NvLinkRemote::Gpu(address) => NvLinks {
                remote_type: RemoteType::Gpu,
                remote_pci_bus_id: Some(address.to_string()),
                count,
            },
        };
        let mode = |on| if on { Switch::Enabled } else { Switch::Disabled };
        let mig_mode = |on| MigMode { current: mode(on), pending: mode(on) };
        Self {
            uuid: gpu.uuid.clone(),
            name: gpu.name.clone(),
            brand: gpu.brand.clone(),
            architecture: gpu.architecture.clone(),
            compute_capability: gpu.compute_capability,
            pci_bus_id: address.to_string(),
            minor_number: gpu.minor,
            memory_total_bytes: gpu.memory_bytes,
            mig_mode: gpu.mig_enabled.map(mig_mode),
            nvlinks: counts.into_iter().map(links).collect(),
            ..Self::default()
        }
    }
}

fn address(text: &str) -> Result<PciAddress, String> {
    text.parse().map_err(|error: crate::ids::ParsePciAddressError| error.to_string())
}

/// Flow YAML of a JSON value. The nesting is that of the types above.
fn flow(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => quoted(text),
        serde_json::Value::Array(items) => {
            format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", "))
        }
        serde_json::Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{name}: {}", flow(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}
