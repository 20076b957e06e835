//! Why a function is not offered. The first reason that applies counts.

use super::uplink::Uplinks;
use super::{Reason, ReasonCode};
use crate::discovery::facts::{Facts, PciFunction, RdmaDevice};
use crate::ids::PciAddress;
use crate::topology::kind::{AMD, MELLANOX, NVIDIA, base_class, is_dma_function, is_gpu, is_vfio};

/// What the VPD of a ConnectX says that manages NVLink switches.
const SWITCH_MANAGEMENT: &str = "SMDL=SW_MNG";

/// Why a NIC is left out; absent when it is offered as far as the machine can tell.
pub fn nic(function: &PciFunction, uplinks: &Uplinks) -> Option<Reason> {
    if let Some(text) = uplinks.functions.get(&function.address) {
        return reason(ReasonCode::DefaultRoute, text);
    }
    if is_dma_function(function) {
        return reason(ReasonCode::DmaFunction, "data-direct DMA function of a NIC");
    }
    if function.vpd.values().any(|value| value.contains(SWITCH_MANAGEMENT)) {
        return reason(ReasonCode::SwitchManagement, "manages NVLink switches");
    }
    if let Some(reason) = unusable(function) {
        return Some(reason);
    }
    if function.rdma.is_empty() {
        return reason(ReasonCode::NoRdma, "no RDMA device");
    }
    if function.rdma.iter().all(is_smi) {
        return reason(ReasonCode::Smi, "plane of a multi-plane HCA");
    }
    if guid_is_zero(function) {
        return reason(ReasonCode::ZeroGuid, "node GUID is zero");
    }
    None
}

/// Why a GPU is left out; absent when it is offered as far as the machine can tell.
pub fn gpu(function: &PciFunction, facts: &Facts) -> Option<Reason> {
    if let Some(reason) = unusable(function) {
        return Some(reason);
    }
    let expected = match function.vendor {
        Some(AMD) => "amdgpu",
        _ => "nvidia",
    };
    let driver = function.driver.as_deref().unwrap_or_default();
    let library = facts.nvml.as_ref().map(|nvml| nvml.gpus.get(&function.address));
    match (function.vendor, library) {
        _ if driver != expected => {
            reason(ReasonCode::NoDriver, format!("bound to {driver}, expected {expected}"))
        }
        (Some(NVIDIA), Some(None)) => {
            reason(ReasonCode::NotCompute, "not known to the NVIDIA library")
        }
        // It runs nothing as a whole, and its instances may be someone else's.
        (Some(NVIDIA), Some(Some(gpu))) if gpu.mig_enabled == Some(true) => {
            reason(ReasonCode::Mig, "MIG mode is on, and MIG instances are not offered yet")
        }
        _ => None,
    }
}

/// Why a function that is neither GPU nor NIC, but that people may take for one, is left out:
/// graphics without a compute stack, and the audio and USB functions of a GPU's card.
pub fn beside_gpus(function: &PciFunction, facts: &Facts) -> Option<Reason> {
    match base_class(function) {
        Some(0x03) => reason(ReasonCode::NotCompute, "graphics without a compute stack"),
        Some(class @ (0x04 | 0x0c)) => {
            let gpu = gpu_of_card(function.address, facts)?;
            let what = if class == 0x04 { "audio" } else { "USB" };
            reason(ReasonCode::NotCompute, format!("{what} function of {gpu}"))
        }
        _ => None,
    }
}

/// A plane of a multi-plane HCA: management only, no verbs.
pub fn is_smi(device: &RdmaDevice) -> bool {
    device.name.starts_with("smi")
}

fn unusable(function: &PciFunction) -> Option<Reason> {
    match &function.driver {
        None => reason(ReasonCode::NoDriver, "no kernel driver is bound"),
        Some(driver) if is_vfio(function) => reason(ReasonCode::Vfio, format!("bound to {driver}")),
        Some(_) => None,
    }
}

/// Only virtual functions come without a GUID: the administrator has to set it. Inside a virtual
/// machine they do not look virtual, hence the vendor.
fn guid_is_zero(function: &PciFunction) -> bool {
    let may_be_virtual = function.physical_function.is_some() || function.vendor == Some(MELLANOX);
    let zero = |device: &RdmaDevice| device.node_guid.as_deref().is_some_and(is_zero_guid);
    may_be_virtual && function.rdma.iter().all(|device| is_smi(device) || zero(device))
}

/// All hexadecimal digits are zeros.
pub fn is_zero_guid(guid: &str) -> bool {
    let mut digits = guid.bytes().filter(u8::is_ascii_hexdigit).peekable();
    digits.peek().is_some() && digits.all(|digit| digit == b'0')
}

fn gpu_of_card(address: PciAddress, facts: &Facts) -> Option<PciAddress> {
    let card = (0..8).map(|number| PciAddress { function: number, ..address });
    let mut gpus = card.filter_map(|other| facts.functions.get(&other));
    gpus.find(|other| is_gpu(other, facts)).map(|gpu| gpu.address)
}

fn reason(code: ReasonCode, text: impl Into<String>) -> Option<Reason> {
    Some(Reason { code, text: text.into() })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::discovery::facts::{NvmlFacts, NvmlGpu};
    use crate::topology::fixtures;

    fn check_nic(change: impl Fn(&mut PciFunction), expect: Option<&str>) {
        let mut function = fixtures::nic("0000:18:00.0", "pci0000:15", &[]);
        change(&mut function);
        let found = nic(&function, &Uplinks::default()).map(|reason| reason.to_string());
        assert_eq!(found.as_deref(), expect);
    }

    #[test]
    fn nics_that_no_pod_can_use_are_left_out() {
        check_nic(|_| (), None);
        check_nic(|nic| nic.driver = None, Some("no-driver: no kernel driver is bound"));
        check_nic(
            |nic| (nic.driver, nic.rdma) = (Some("mlx5_vfio_pci".to_owned()), Vec::new()),
            Some("vfio: bound to mlx5_vfio_pci"),
        );
        check_nic(|nic| nic.rdma.clear(), Some("no-rdma: no RDMA device"));
        check_nic(
            |nic| nic.rdma[0].name = "smi0".to_owned(),
            Some("smi: plane of a multi-plane HCA"),
        );
        check_nic(
            |nic| nic.rdma[0].node_guid = Some("0000:0000:0000:0000".to_owned()),
            Some("zero-guid: node GUID is zero"),
        );
        check_nic(|nic| nic.rdma[0].node_guid = None, None);
        check_nic(
            |nic| drop(nic.vpd.insert("VA".to_owned(), "MLX:MODL=X:SMDL=SW_MNG".to_owned())),
            Some("switch-management: manages NVLink switches"),
        );
        check_nic(
            |nic| nic.device = Some(0x2100),
            Some("dma-function: data-direct DMA function of a NIC"),
        );
    }

    #[test]
    fn a_plane_beside_a_whole_device_hides_nothing() {
        let plane = RdmaDevice { name: "smi0".to_owned(), ..RdmaDevice::default() };
        check_nic(|nic| nic.rdma.push(plane.clone()), None);
    }

    fn check_gpu(change: impl Fn(&mut PciFunction), library: bool, expect: Option<&str>) {
        let mut function = fixtures::gpu("0000:1b:00.0", "pci0000:15", &[]);
        change(&mut function);
        let mut nvml = NvmlFacts::default();
        if library {
            nvml.gpus.insert(function.address, NvmlGpu::default());
        }
        let mut facts = fixtures::facts([function.clone()]);
        facts.nvml = Some(nvml);
        let found = gpu(&function, &facts).map(|reason| reason.to_string());
        assert_eq!(found.as_deref(), expect);
    }

    #[test]
    fn gpus_without_their_compute_stack_are_left_out() {
        check_gpu(|_| (), true, None);
        check_gpu(|_| (), false, Some("not-compute: not known to the NVIDIA library"));
        check_gpu(|gpu| gpu.driver = None, true, Some("no-driver: no kernel driver is bound"));
        check_gpu(
            |gpu| gpu.driver = Some("nouveau".to_owned()),
            false,
            Some("no-driver: bound to nouveau, expected nvidia"),
        );
        check_gpu(
            |gpu| gpu.driver = Some("vfio-pci".to_owned()),
            false,
            Some("vfio: bound to vfio-pci"),
        );
        check_gpu(
            |gpu| (gpu.vendor, gpu.driver) = (Some(AMD), Some("amdgpu".to_owned())),
            false,
            None,
        );
    }

    #[test]
    fn a_gpu_in_mig_mode_is_left_out() {
        let function = fixtures::gpu("0000:1b:00.0", "pci0000:15", &[]);
        let mut facts = fixtures::facts([function.clone()]);
        for (mig_enabled, expect) in [(Some(true), Some("mig")), (Some(false), None), (None, None)]
        {
            let known = NvmlGpu { mig_enabled, ..NvmlGpu::default() };
            let gpus = BTreeMap::from([(function.address, known)]);
            facts.nvml = Some(NvmlFacts { gpus, ..NvmlFacts::default() });
            let found = gpu(&function, &facts).map(|reason| reason.code.as_str());
            assert_eq!(found, expect, "{mig_enabled:?}");
        }
    }

    #[test]
    fn graphics_of_a_management_controller_and_siblings_of_a_gpu_are_named() {
        let gpu = fixtures::gpu("0000:1b:00.0", "pci0000:15", &[]);
        let other = |address: &str, class| {
            let mut function = fixtures::function(address, "pci0000:15", &[]);
            function.class = Some(class);
            function
        };
        let facts = fixtures::facts([gpu]);
        for (address, class, expect) in [
            ("0000:03:00.0", 0x03_0000, Some("not-compute: graphics without a compute stack")),
            ("0000:1b:00.1", 0x04_0300, Some("not-compute: audio function of 0000:1b:00.0")),
            ("0000:1b:00.2", 0x0c_0330, Some("not-compute: USB function of 0000:1b:00.0")),
            ("0000:1c:00.1", 0x04_0300, None),
            ("0000:1c:00.0", 0x01_0802, None),
        ] {
            let found = beside_gpus(&other(address, class), &facts);
            assert_eq!(found.map(|reason| reason.to_string()).as_deref(), expect);
        }
    }
}
