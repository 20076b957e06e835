//! What a PCI function is to the matcher, by vendor, class and what the kernel made of it.

use crate::discovery::facts::{Facts, PciFunction};

/// Mellanox (NVIDIA networking).
pub const MELLANOX: u16 = 0x15b3;
/// NVIDIA.
pub const NVIDIA: u16 = 0x10de;
/// AMD graphics.
pub const AMD: u16 = 0x1002;

/// Data-direct DMA function of a ConnectX-8.
const DMA_FUNCTION: u16 = 0x2100;

/// Upper eight bits of the PCI class.
pub fn base_class(function: &PciFunction) -> Option<u8> {
    function.class.and_then(|class| u8::try_from(class >> 16).ok())
}

/// Upper sixteen bits of the PCI class.
fn class(function: &PciFunction) -> Option<u16> {
    function.class.and_then(|class| u16::try_from(class >> 8).ok())
}

/// A GPU with a compute stack: one that the NVIDIA library knows, or an NVIDIA or AMD function of a
/// display or accelerator class. An AMD VGA function counts only with a `unique_id`: the graphics
/// of a CPU has none.
pub fn is_gpu(function: &PciFunction, facts: &Facts) -> bool {
    let in_library =
        facts.nvml.as_ref().is_some_and(|nvml| nvml.gpus.contains_key(&function.address));
    in_library
        || match (function.vendor, class(function)) {
            (Some(NVIDIA), Some(0x0300 | 0x0302)) => true,
            (Some(AMD), Some(0x0300)) => function.unique_id.is_some(),
            (Some(AMD), Some(0x0302 | 0x0380 | 0x1200)) => true,
            _ => false,
        }
}

/// A NIC, or part of one, whether or not it can be offered: it has an RDMA device, is of a network
/// class, is a DMA function, or is a virtual function of an RDMA function given to VFIO.
pub fn is_nic(function: &PciFunction, facts: &Facts) -> bool {
    let parent = function.physical_function.and_then(|parent| facts.functions.get(&parent));
    !function.rdma.is_empty()
        || base_class(function) == Some(0x02)
        || is_dma_function(function)
        || (is_vfio(function) && parent.is_some_and(|parent| !parent.rdma.is_empty()))
}

/// A data-direct DMA function, which stands for a NIC beside a GPU.
pub fn is_dma_function(function: &PciFunction) -> bool {
    (function.vendor, function.device) == (Some(MELLANOX), Some(DMA_FUNCTION))
}

/// Bound to VFIO or one of its variants (`vfio-pci`, `mlx5_vfio_pci`, `nvgrace_gpu_vfio_pci`).
pub fn is_vfio(function: &PciFunction) -> bool {
    function.driver.as_deref().is_some_and(|driver| driver.contains("vfio"))
}
