//! Reads a machine, live or captured, into [`Facts`].

pub mod anonymise;
pub mod capture;
mod capture_host;
mod config;
pub mod facts;
mod gpu;
pub mod host;
mod net;
mod nic;
mod nodes;
mod numa;
#[cfg(feature = "nvml")]
pub mod nvml;
pub mod nvml_section;
mod pci;
mod pseudonym;
mod read;
pub mod record;
pub mod rendered;
mod vpd;

pub use anonymise::anonymise;
pub use capture::{CaptureError, HostCapture};
pub use capture_host::CaptureHost;
pub use facts::Facts;
pub use gpu::{GpuLibrary, GpuLibraryError, NoGpuLibrary};
pub use host::{Host, HostError, LiveHost};
pub use record::record;
pub use rendered::RenderedLibrary;

use facts::NvmlFacts;
use read::{Parsed, Reader};

/// File name of the NVIDIA library, as the path of its problems.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// Reads everything about one machine. Never fails: what cannot be read is a problem beside the
/// rest.
pub fn discover(host: &dyn Host, gpus: &dyn GpuLibrary) -> Facts {
    let mut reader = Reader::new(host);
    let numa = numa::read(&mut reader);
    let mut functions = pci::read(&mut reader, &numa);
    nic::read(&mut reader, &mut functions);
    gpu::read(&mut reader, &mut functions);
    let network = net::read(&mut reader, &mut functions);
    let mut facts = Facts { network, numa, functions: functions.by_address, ..Facts::default() };
    facts.nvml = read_library(&mut reader, gpus);
    facts.gpudirect_rdma = gpu::gpudirect_rdma(&mut reader, &facts);
    facts.rdma_netns_exclusive = rdma_netns_exclusive(&mut reader);
    facts.device_nodes = nodes::read(&mut reader);
    facts.problems = reader.into_problems();
    facts
}

fn read_library(reader: &mut Reader<'_>, gpus: &dyn GpuLibrary) -> Option<NvmlFacts> {
    match gpus.read() {
        Ok(mut nvml) => {
            let problems = nvml.as_mut().map(|nvml| std::mem::take(&mut nvml.problems));
            reader.add_problems(problems.unwrap_or_default());
            nvml
        }
        Err(error) => {
            reader.problem(LIBRARY, error.to_string());
            None
        }
    }
}

/// The parameter follows `rdma system set netns`: `Y` is shared.
fn rdma_netns_exclusive(reader: &mut Reader<'_>) -> Option<bool> {
    let directory = reader.real("sys/module/ib_core/parameters")?;
    reader.optional(&directory, "netns_mode", "Y or N", |text| match text {
        "Y" => Parsed::Value(false),
        "N" => Parsed::Value(true),
        _ => Parsed::Malformed,
    })
}

#[cfg(test)]
mod tests;
