//! What discovery read, before any judgement. Unknown is absent.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::ids::{NumaNode, PciAddress};

/// Everything that was read about one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// All PCI functions.
    pub functions: BTreeMap<PciAddress, PciFunction>,
    /// What the NVIDIA library says; absent without the library.
    pub nvml: Option<NvmlFacts>,
    /// Network interfaces and routes.
    pub network: Network,
    /// NUMA nodes and their distances: node -> distance to each node, in the order of `keys()`.
    pub numa: BTreeMap<NumaNode, Vec<u32>>,
    /// Peer memory module or dma-buf capable kernel driver is present; absent when it cannot be
    /// told.
    pub gpudirect_rdma: Option<bool>,
    /// RDMA devices are visible in one network namespace only; absent when it cannot be told.
    pub rdma_netns_exclusive: Option<bool>,
    /// Character devices under `dev/`, by path relative to the root.
    pub device_nodes: BTreeMap<String, DeviceNode>,
    /// What could not be read or made sense of. The rest stands.
    pub problems: Vec<Problem>,
}

/// A file, directory or link that could not be read or made sense of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// Path relative to the root.
    pub path: String,
    /// What was expected and what was found.
    pub message: String,
}

/// One PCI function, or a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciFunction {
    /// Its address.
    pub address: PciAddress,
    /// Last component of the form `pciDDDD:BB` in the real path.
    pub host_bridge: Option<String>,
    /// First component below `sys/devices` when it is a host bridge: what the standard attribute
    /// `pcieRoot` is made of. Not `host_bridge` where other buses lie in front (VMBus, VMD).
    pub pcie_root: Option<String>,
    /// Bridges strictly between host bridge and function, outermost first.
    pub bridges: Vec<Bridge>,
    /// `vendor`.
    pub vendor: Option<u16>,
    /// `device`.
    pub device: Option<u16>,
    /// `class`, 24 bits.
    pub class: Option<u32>,
    /// `subsystem_vendor`.
    pub subsystem_vendor: Option<u16>,
    /// `subsystem_device`.
    pub subsystem_device: Option<u16>,
    /// Name of the bound driver.
    pub driver: Option<String>,
    /// `numa_node`; absent when missing or -1, save that -1 is 0 where the only node is 0.
    pub numa_node: Option<NumaNode>,
    /// Generation from `current_link_speed`, 1 to 7.
    pub link_generation: Option<u8>,
    /// `current_link_width`; absent when 0.
    pub link_width: Option<u8>,
    /// The physical function of a virtual one.
    pub physical_function: Option<PciAddress>,
    /// The virtual functions of a physical one.
    pub virtual_functions: Vec<PciAddress>,
    /// Vital product data, keyword -> value, e.g. `V3`, `PN`; the identifier string is under `ID`.
    /// Read for network functions and vendor 15b3 only.
    pub vpd: BTreeMap<String, String>,
    /// RDMA devices of the function, by name.
    pub rdma: Vec<RdmaDevice>,
    /// Network interfaces of the function, by name.
    pub netdevs: Vec<String>,
    /// DRM nodes of the function, e.g. `card1`, `renderD128`.
    pub drm: Vec<String>,
    /// Memory of an AMD GPU in bytes.
    pub vram_bytes: Option<u64>,
    /// `unique_id` of an AMD GPU.
    pub unique_id: Option<String>,
    /// `product_name` where the kernel driver gives one (AMD).
    pub product_name: Option<String>,
    /// A switch port above the function redirects peer traffic; absent when it cannot be read, or
    /// when there is no bridge above.
    pub acs_redirect: Option<bool>,
}

impl PciFunction {
    /// A function of which nothing but the address is known.
    pub fn new(address: PciAddress) -> Self {
        Self {
            address,
            host_bridge: None,
            pcie_root: None,
            bridges: Vec::new(),
            vendor: None,
            device: None,
            class: None,
            subsystem_vendor: None,
            subsystem_device: None,
            driver: None,
            numa_node: None,
            link_generation: None,
            link_width: None,
            physical_function: None,
            virtual_functions: Vec::new(),
            vpd: BTreeMap::new(),
            rdma: Vec::new(),
            netdevs: Vec::new(),
            drm: Vec::new(),
            vram_bytes: None,
            unique_id: None,
            product_name: None,
            acs_redirect: None,
        }
    }
}

/// A bridge on the way to a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bridge {
    /// Its address.
    pub address: PciAddress,
    /// Port type of its PCIe capability, where readable.
    pub port: Option<PortType>,
}

/// Device/port type of the PCI Express capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortType {
    /// Root port.
    Root,
    /// Upstream port of a switch.
    Upstream,
    /// Downstream port of a switch.
    Downstream,
    /// PCIe-to-PCI bridge or the reverse.
    PciBridge,
}

/// One RDMA device (ibdev).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RdmaDevice {
    /// Kernel name, e.g. `mlx5_0`.
    pub name: String,
    /// `node_guid`, as written by the kernel; absent when unreadable.
    pub node_guid: Option<String>,
    /// `sys_image_guid`, as written.
    pub sys_image_guid: Option<String>,
    /// `fw_ver`.
    pub firmware: Option<String>,
    /// `board_id`.
    pub board_id: Option<String>,
    /// `hca_type`.
    pub hca_type: Option<String>,
    /// `uverbsN` nodes.
    pub uverbs: Vec<String>,
    /// `umadN` and `issmN` nodes.
    pub mad: Vec<String>,
    /// Ports by number.
    pub ports: BTreeMap<u32, RdmaPort>,
}

/// One port of an RDMA device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RdmaPort {
    /// `InfiniBand` or `Ethernet`, as written.
    pub link_layer: Option<String>,
    /// Logical state, e.g. `ACTIVE`, as written after the number.
    pub state: Option<String>,
    /// Physical state, e.g. `LinkUp`.
    pub physical_state: Option<String>,
    /// Bits per second.
    pub rate: Option<u64>,
    /// A GID of type RoCE v2 exists.
    pub roce_v2: bool,
}

/// A device node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceNode {
    /// `c` or `b`.
    pub kind: char,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// Network interfaces and default routes of the host's network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Interfaces by name.
    pub interfaces: BTreeMap<String, Interface>,
    /// Interfaces of IPv4 default routes.
    pub default_v4: Vec<String>,
    /// Interfaces of IPv6 default routes.
    pub default_v6: Vec<String>,
}

/// One network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// The PCI function below it.
    pub function: Option<PciAddress>,
    /// Made by software (bond, VLAN, bridge, `lo`): lies below `sys/devices/virtual`.
    pub software: bool,
    /// Interfaces linked by `lower_*`.
    pub lower: Vec<String>,
    /// Interfaces linked by `upper_*` and `master`.
    pub upper: Vec<String>,
    /// Hardware address, as written.
    pub address: Option<String>,
    /// `operstate`.
    pub operstate: Option<String>,
}

/// What the NVIDIA library says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NvmlFacts {
    /// Kernel driver version, e.g. `580.82.07`.
    pub driver_version: Option<String>,
    /// CUDA version, e.g. 13000.
    pub cuda_driver_version: Option<u32>,
    /// GPUs by PCI address.
    pub gpus: BTreeMap<PciAddress, NvmlGpu>,
    /// GPUs that the library lists but cannot read; discovery moves them to [`Facts::problems`].
    pub problems: Vec<Problem>,
}

/// One GPU as the NVIDIA library sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NvmlGpu {
    /// UUID with its prefix `GPU-`.
    pub uuid: Option<String>,
    /// Product name.
    pub name: Option<String>,
    /// Brand.
    pub brand: Option<String>,
    /// Architecture.
    pub architecture: Option<String>,
    /// CUDA compute capability (major, minor).
    pub compute_capability: Option<(u32, u32)>,
    /// Minor number of `/dev/nvidiaN`.
    pub minor: Option<u32>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// MIG mode is on.
    pub mig_enabled: Option<bool>,
    /// Far ends of active NVLinks.
    pub nvlinks: Vec<NvLinkRemote>,
}

/// Far end of an NVLink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NvLinkRemote {
    /// Another GPU.
    Gpu(PciAddress),
    /// A switch.
    Switch,
}
