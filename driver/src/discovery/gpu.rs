//! What the kernel says about GPUs beyond the PCI function, and the trait for the vendor's library.

use super::facts::{Facts, NvmlFacts};
use super::pci::Functions;
use super::read::{Parsed, Reader};

const CLASS_DISPLAY: u32 = 0x03;
const CLASS_ACCELERATOR: u32 = 0x12;
const AMD: u16 = 0x1002;
/// First kernel whose RDMA core registers GPU memory through dma-buf.
const DMA_BUF_KERNEL: (u32, u32) = (5, 12);
const NVIDIA_VERSION: &str = "proc/driver/nvidia/version";

/// A source of what only NVIDIA's library knows.
pub trait GpuLibrary {
    /// The GPUs; `None` where the machine has no such library.
    fn read(&self) -> Result<Option<NvmlFacts>, GpuLibraryError>;
}

/// The library is there and fails.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("read GPUs from the NVIDIA library: {0}")]
pub struct GpuLibraryError(pub String);

/// No library: facts come from sysfs only.
#[derive(Clone, Copy, Debug)]
pub struct NoGpuLibrary;

impl GpuLibrary for NoGpuLibrary {
    fn read(&self) -> Result<Option<NvmlFacts>, GpuLibraryError> {
        Ok(None)
    }
}

/// Adds DRM nodes and what the AMD driver tells to display and accelerator functions.
pub(super) fn read(reader: &mut Reader<'_>, functions: &mut Functions) {
    let Functions { by_address, directories } = functions;
    for (address, function) in by_address {
        let base = function.class.map(|class| class >> 16);
        let Some(directory) = directories.get(address) else { continue };
        if !matches!(base, Some(CLASS_DISPLAY | CLASS_ACCELERATOR)) {
            continue;
        }
        function.drm = drm_nodes(reader, directory);
        if function.vendor == Some(AMD) {
            let vram = |text: &str| match text.parse() {
                Ok(0) => Parsed::Unknown,
                parsed => Parsed::or_malformed(parsed.ok()),
            };
            function.vram_bytes =
                reader.optional(directory, "mem_info_vram_total", "a number of bytes", vram);
            function.unique_id = reader.text(directory, "unique_id");
            function.product_name = reader.text(directory, "product_name");
        }
    }
}

/// `card1` and `renderD128`; connectors (`card1-DP-1`) have no device number.
fn drm_nodes(reader: &mut Reader<'_>, directory: &super::host::RealPath) -> Vec<String> {
    let Some((drm, names)) = reader.names_below(directory, "drm") else { return Vec::new() };
    let mut nodes = Vec::new();
    for name in names {
        let number = name.strip_prefix("card").or_else(|| name.strip_prefix("renderD"));
        let is_node = number.is_some_and(|number| number.parse::<u32>().is_ok());
        if is_node && reader.text(&drm, &format!("{name}/dev")).is_some() {
            nodes.push(name);
        }
    }
    nodes
}

/// NICs can reach GPU memory: a peer memory module is loaded, or the GPU's kernel driver exports
/// dma-buf and the kernel's RDMA core takes it. `None` when it cannot be told.
pub(super) fn gpudirect_rdma(reader: &mut Reader<'_>, facts: &Facts) -> Option<bool> {
    let root = reader.real("")?;
    let loaded = |reader: &mut Reader<'_>, module: &str| {
        reader.text(&root, &format!("sys/module/{module}/initstate")).as_deref() == Some("live")
    };
    if loaded(reader, "nvidia_peermem") || loaded(reader, "nv_peer_mem") || peer_clients(reader) {
        return Some(true);
    }
    let release = reader.text(&root, "proc/sys/kernel/osrelease");
    let kernel = parse_release(release.as_deref()?)?;
    let nvidia = reader.text(&root, NVIDIA_VERSION);
    let amd = facts.functions.values().any(|f| f.driver.as_deref() == Some("amdgpu"));
    let exports = amd || nvidia.as_deref().is_some_and(|text| text.contains("Open Kernel Module"));
    match (exports, nvidia.is_some()) {
        (true, _) => Some(kernel >= DMA_BUF_KERNEL),
        // The closed modules export no dma-buf, and no peer memory module is loaded.
        (false, true) => Some(false),
        (false, false) => None,
    }
}

/// Clients that registered with the peer memory interface of the vendor's RDMA core.
fn peer_clients(reader: &mut Reader<'_>) -> bool {
    let Some(directory) = reader.real("sys/kernel/mm/memory_peers") else { return false };
    let clients = reader.names(&directory);
    clients.iter().any(|client| reader.text(&directory, &format!("{client}/version")).is_some())
}

/// `6.8.0-79-generic` -> (6, 8).
fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::parse_release;

    #[test]
    fn kernel_releases_are_read_up_to_the_minor_number() {
        assert_eq!(parse_release("6.8.0-79-generic"), Some((6, 8)));
        assert_eq!(parse_release("5.12"), Some((5, 12)));
        assert_eq!(parse_release("x"), None);
    }
}
