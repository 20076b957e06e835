//! Reads a machine, live or captured, into [`Facts`].

pub mod capture;
mod config;
pub mod facts;
mod gpu;
pub mod host;
mod net;
mod nic;
mod nodes;
mod numa;
pub mod nvml_section;
mod pci;
mod read;
mod vpd;

pub use capture::{CaptureError, CaptureHost, HostCapture};
pub use facts::Facts;
pub use gpu::{GpuLibrary, GpuLibraryError, NoGpuLibrary};
pub use host::{Host, HostError, LiveHost};

use read::{Parsed, Reader};

/// Reads everything about one machine. Never fails: what cannot be read is a problem beside the rest.
pub fn discover(host: &dyn Host, gpus: &dyn GpuLibrary) -> Facts {
    let mut reader = Reader::new(host);
    let numa = numa::read(&mut reader);
    let mut functions = pci::read(&mut reader, &numa);
    nic::read(&mut reader, &mut functions);
    gpu::read(&mut reader, &mut functions);
    let network = net::read(&mut reader, &mut functions);
    let mut facts = Facts { network, numa, functions: functions.by_address, ..Facts::default() };
    facts.nvml = gpus.read().unwrap_or_else(|error| {
        reader.problem("libnvidia-ml.so.1", error.to_string());
        None
    });
    facts.gpudirect_rdma = gpu::gpudirect_rdma(&mut reader, &facts);
    facts.rdma_netns_exclusive = rdma_netns_exclusive(&mut reader);
    facts.device_nodes = nodes::read(&mut reader);
    facts.problems = reader.into_problems();
    facts
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
