//! What NVIDIA's library says about the GPUs of the machine we run on. The library is loaded at run
//! time.

use std::collections::BTreeMap;

use nvml_wrapper::enum_wrappers::device::Brand;
use nvml_wrapper::enums::device::{DeviceArchitecture, SampleValue};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id::NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT;
use nvml_wrapper::{Device, Nvml};

use super::facts::{NvLinkRemote, NvmlFacts, NvmlGpu, Problem};
use super::gpu::{GpuLibrary, GpuLibraryError};
use super::host::LiveHost;
use super::rendered::RenderedLibrary;
use crate::ids::PciAddress;

/// More GPUs than a machine has; a bound for a library that errs.
const MAX_GPUS: u32 = 1024;
/// More links than a GPU has (18).
const MAX_LINKS: u32 = 64;

/// The library of the machine we run on.
#[derive(Clone, Copy, Debug)]
pub struct NvmlLibrary;

/// The library that knows the machine below a root: NVIDIA's own knows the machine that it is loaded on, and
/// no other.
pub fn library_of(host: &LiveHost) -> Box<dyn GpuLibrary + '_> {
    if host.is_this_machine() { Box::new(NvmlLibrary) } else { Box::new(RenderedLibrary(host)) }
}

/// One GPU, before it is known which addresses are GPUs.
struct Reading {
    gpu: NvmlGpu,
    /// Far ends of active links, where the library names them.
    remotes: Vec<Option<PciAddress>>,
    /// Links that end at a switch.
    switched: bool,
}

impl GpuLibrary for NvmlLibrary {
    fn read(&self) -> Result<Option<NvmlFacts>, GpuLibraryError> {
        let failed = |error: NvmlError| GpuLibraryError(error.to_string());
        let nvml = match Nvml::init() {
            Ok(nvml) => nvml,
            // No library, or no driver: what sysfs says is all there is.
            Err(NvmlError::LibloadingError(_) | NvmlError::DriverNotLoaded) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let mut facts = NvmlFacts {
            driver_version: nvml.sys_driver_version().ok(),
            cuda_driver_version: nvml.sys_cuda_driver_version().ok().and_then(positive),
            ..NvmlFacts::default()
        };
        let mut readings = BTreeMap::new();
        for index in 0..nvml.device_count().map_err(failed)?.min(MAX_GPUS) {
            match nvml.device_by_index(index).and_then(|device| read_device(&device)) {
                Ok((Some(address), reading)) => {
                    readings.insert(address, reading);
                }
                Ok((None, _)) => {
                    facts.problems.push(problem(index, "its PCI address makes no sense"))
                }
                // E.g. a GPU that fell off the bus: the others stand.
                Err(error) => facts.problems.push(problem(index, &error.to_string())),
            }
        }
        facts.gpus = with_links(readings);
        Ok(Some(facts))
    }
}

fn problem(index: u32, message: &str) -> Problem {
    Problem { path: super::LIBRARY.to_owned(), message: format!("read GPU {index}: {message}") }
}

/// Only the address must be readable: each other call may be unsupported by the GPU or the driver.
fn read_device(device: &Device<'_>) -> Result<(Option<PciAddress>, Reading), NvmlError> {
    let address = device.pci_info()?.bus_id.parse().ok();
    let capability = device.cuda_compute_capability().ok();
    let brand = device.brand().ok().filter(|brand| *brand != Brand::Unknown);
    let architecture = device.architecture().ok();
    let architecture = architecture.filter(|a| *a != DeviceArchitecture::Unknown);
    let gpu = NvmlGpu {
        uuid: device.uuid().ok(),
        name: device.name().ok(),
        brand: brand.map(|brand| format!("{brand:?}")),
        architecture: architecture.map(|architecture| format!("{architecture:?}")),
        compute_capability: capability.and_then(|c| Some((positive(c.major)?, positive(c.minor)?))),
        minor: device.minor_number().ok(),
        memory_bytes: device.memory_info().ok().map(|memory| memory.total),
        mig_enabled: device.mig_mode().ok().map(|mode| mode.current == 1),
        nvlinks: Vec::new(),
    };
    Ok((address, Reading { gpu, remotes: remotes(device), switched: is_switched(device) }))
}

fn remotes(device: &Device<'_>) -> Vec<Option<PciAddress>> {
    let mut found = Vec::new();
    for index in 0..MAX_LINKS {
        let link = device.link_wrapper_for(index);
        match link.is_active() {
            Ok(true) => {
                let remote = link.remote_pci_info().ok();
                found.push(remote.and_then(|remote| remote.bus_id.parse().ok()));
            }
            // An argument that is not valid is a link that the GPU does not have.
            Err(NvmlError::InvalidArg | NvmlError::NotSupported) => break,
            Ok(false) | Err(_) => {}
        }
    }
    found
}

/// The wrapper's `remote_device_type` (0.13.0) always says "unknown", so the number of links to
/// switches is asked.
fn is_switched(device: &Device<'_>) -> bool {
    let fields = [FieldId(NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT)];
    let samples = device.field_values_for(&fields).unwrap_or_default();
    samples.into_iter().flatten().any(|sample| {
        matches!(
            sample.value,
            Ok(SampleValue::U32(1..) | SampleValue::U64(1..) | SampleValue::I64(1..))
        )
    })
}

/// A far end is a GPU if it is one of those read, else a switch if the GPU has links to switches,
/// else unknown and left out.
fn with_links(readings: BTreeMap<PciAddress, Reading>) -> BTreeMap<PciAddress, NvmlGpu> {
    let addresses: Vec<PciAddress> = readings.keys().copied().collect();
    let named = |(address, reading): (PciAddress, Reading)| {
        let far_end = |remote: &Option<PciAddress>| match remote {
            Some(remote) if addresses.contains(remote) => Some(NvLinkRemote::Gpu(*remote)),
            _ => reading.switched.then_some(NvLinkRemote::Switch),
        };
        let nvlinks = reading.remotes.iter().filter_map(far_end).collect();
        (address, NvmlGpu { nvlinks, ..reading.gpu })
    };
    readings.into_iter().map(named).collect()
}

fn positive(value: i32) -> Option<u32> {
    u32::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(remotes: &[Option<&str>], switched: bool) -> Reading {
        let remotes = remotes.iter().map(|remote| remote.and_then(|r| r.parse().ok())).collect();
        Reading { gpu: NvmlGpu::default(), remotes, switched }
    }

    #[test]
    fn a_far_end_is_a_gpu_a_switch_or_left_out() {
        let at = |text: &str| text.parse::<PciAddress>().unwrap();
        let (a, b, bridge) = ("0000:01:00.0", "0000:02:00.0", "0000:09:00.0");
        let readings = BTreeMap::from([
            (at(a), reading(&[Some(b), Some(bridge), None], false)),
            (at(b), reading(&[Some(a), Some(bridge), None], true)),
        ]);
        let gpus = with_links(readings);
        assert_eq!(gpus[&at(a)].nvlinks, [NvLinkRemote::Gpu(at(b))]);
        let switch = NvLinkRemote::Switch;
        assert_eq!(gpus[&at(b)].nvlinks, [NvLinkRemote::Gpu(at(a)), switch, switch]);
    }

    #[test]
    fn a_machine_without_the_library_has_no_such_facts() {
        // Where the library is there, it must answer.
        assert!(matches!(NvmlLibrary.read(), Ok(None | Some(_))));
    }
}
