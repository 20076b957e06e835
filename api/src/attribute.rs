//! Names of the published attributes and capacities. Unqualified names are in the driver's domain.

/// `gpu` or `nic`.
pub const TYPE: &str = "type";
/// Vendor by PCI id: `nvidia`, `amd`, `mellanox`, `broadcom`, `amazon`, …
pub const VENDOR: &str = "vendor";
/// Product name, at most 64 bytes.
pub const PRODUCT_NAME: &str = "productName";
/// PCI address, `DDDD:BB:DD.F`.
pub const PCI_BUS_ID: &str = "resource.kubernetes.io/pciBusID";
/// Host bridge, `pciDDDD:BB`.
pub const PCIE_ROOT: &str = "resource.kubernetes.io/pcieRoot";
/// NUMA node of the function.
pub const NUMA_NODE: &str = "resource.kubernetes.io/numaNode";
/// The joint switch: equal on a GPU and a NIC if and only if their path class is PXB or better.
pub const PCIE_SWITCH: &str = "pcieSwitch";
/// The place of the device in the PCIe tree.
pub const PCIE_PATH: &str = "pciePath";
/// Current PCIe link generation, 1 to 7.
pub const PCIE_LINK_GENERATION: &str = "pcieLinkGeneration";
/// Current PCIe link width in lanes.
pub const PCIE_LINK_WIDTH: &str = "pcieLinkWidth";
/// A switch port above the device redirects peer traffic to the root.
pub const ACS_REDIRECT: &str = "acsRedirect";
/// GPU UUID.
pub const UUID: &str = "uuid";
/// GPU brand.
pub const BRAND: &str = "brand";
/// GPU architecture.
pub const ARCHITECTURE: &str = "architecture";
/// CUDA compute capability as a semantic version.
pub const CUDA_COMPUTE_CAPABILITY: &str = "cudaComputeCapability";
/// Kernel driver version as a semantic version.
pub const DRIVER_VERSION: &str = "driverVersion";
/// Highest CUDA version that the driver supports, as a semantic version.
pub const CUDA_DRIVER_VERSION: &str = "cudaDriverVersion";
/// Lowest PCI address of the NVLink island.
pub const NVLINK_DOMAIN: &str = "nvlinkDomain";
/// GPU memory in bytes (a capacity).
pub const MEMORY: &str = "memory";
/// `InfiniBand` or `Ethernet`.
pub const LINK_LAYER: &str = "linkLayer";
/// First RDMA device of the function.
pub const RDMA_DEVICE: &str = "rdmaDevice";
/// First network interface of the function.
pub const NETDEV: &str = "netdev";
/// State of the best port: `Active`, `Down`, `Init` or `Armed`.
pub const PORT_STATE: &str = "portState";
/// Node GUID of the first RDMA device.
pub const NODE_GUID: &str = "nodeGUID";
/// Firmware version of the NIC.
pub const FIRMWARE_VERSION: &str = "firmwareVersion";
/// Board id (PSID) of the NIC.
pub const BOARD_ID: &str = "boardID";
/// A RoCE v2 GID exists.
pub const ROCE_V2: &str = "roceV2";
/// The NIC is an SR-IOV virtual function.
pub const VIRTUAL_FUNCTION: &str = "virtualFunction";
/// Bits per second of the best port (a capacity).
pub const BANDWIDTH: &str = "bandwidth";
/// dma-buf or peer memory support is present on the host.
pub const GPUDIRECT_RDMA: &str = "gpudirectRdma";
