//! Small hand-made machines for the unit tests of topology and inventory.

use std::collections::BTreeMap;

use crate::discovery::facts::{Bridge, Facts, PciFunction, RdmaDevice, RdmaPort};

/// A function of no vendor below a host bridge and bridges.
pub fn function(address: &str, host_bridge: &str, bridges: &[&str]) -> PciFunction {
    let bridge = |text: &&str| Bridge { address: text.parse().unwrap(), port: None };
    PciFunction {
        host_bridge: Some(host_bridge.to_owned()),
        pcie_root: Some(host_bridge.to_owned()),
        bridges: bridges.iter().map(bridge).collect(),
        ..PciFunction::new(address.parse().unwrap())
    }
}

/// An NVIDIA GPU with its driver.
pub fn gpu(address: &str, host_bridge: &str, bridges: &[&str]) -> PciFunction {
    let mut gpu = function(address, host_bridge, bridges);
    (gpu.vendor, gpu.device, gpu.class) = (Some(0x10de), Some(0x2330), Some(0x03_0200));
    gpu.driver = Some("nvidia".to_owned());
    gpu
}

/// A ConnectX NIC with one active InfiniBand port; its RDMA device is named after its bus.
pub fn nic(address: &str, host_bridge: &str, bridges: &[&str]) -> PciFunction {
    let mut nic = function(address, host_bridge, bridges);
    (nic.vendor, nic.device, nic.class) = (Some(0x15b3), Some(0x1021), Some(0x02_0700));
    nic.driver = Some("mlx5_core".to_owned());
    let port = RdmaPort {
        link_layer: Some("InfiniBand".to_owned()),
        state: Some("ACTIVE".to_owned()),
        rate: Some(400_000_000_000),
        ..RdmaPort::default()
    };
    nic.rdma.push(RdmaDevice {
        name: format!("mlx5_{:02x}", nic.address.bus),
        node_guid: Some("b83f:d203:0012:3456".to_owned()),
        ports: BTreeMap::from([(1, port)]),
        ..RdmaDevice::default()
    });
    nic
}

/// A machine of these functions.
pub fn facts(functions: impl IntoIterator<Item = PciFunction>) -> Facts {
    let functions = functions.into_iter().map(|function| (function.address, function)).collect();
    Facts { functions, ..Facts::default() }
}
