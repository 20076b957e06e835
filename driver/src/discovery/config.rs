//! PCI configuration space: what a bridge is, and whether it redirects peer traffic to the root.
//! PCI Express Base Specification, sections 7.5 (capability structures) and 7.7.11 (access
//! control).

use super::facts::PortType;

const STATUS: usize = 0x06;
const CAPABILITIES_LIST: u16 = 1 << 4;
const CAPABILITIES_POINTER: usize = 0x34;
const PCI_EXPRESS: u8 = 0x10;
const EXTENDED: usize = 0x100;
const ACCESS_CONTROL: u16 = 0x000d;
const ACCESS_CONTROL_REGISTER: usize = 6;
/// P2P request redirect, and upstream forwarding.
const REDIRECT: u16 = (1 << 2) | (1 << 4);
/// Capabilities start on a multiple of 4 between 0x40 and 0xff: 48 places.
const MAX_CAPABILITIES: usize = 48;
/// Extended capabilities are at least 8 bytes, between 0x100 and 0xfff: 480 places.
const MAX_EXTENDED: usize = 480;

/// What one function's configuration space says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Config {
    /// Port type; `None` without a PCI Express capability that can be read, or for an endpoint.
    pub port: Option<PortType>,
    /// Peer requests are redirected to the root; `None` when it cannot be read.
    pub redirects: Option<bool>,
}

impl Config {
    /// Reads the `config` file: 64 bytes without privilege, 256 for conventional PCI, else 4096.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        Self { port: port_type(bytes), redirects: redirects(bytes) }
    }
}

fn port_type(bytes: &[u8]) -> Option<PortType> {
    if u16_at(bytes, STATUS)? & CAPABILITIES_LIST == 0 {
        return None;
    }
    let mut at = usize::from(*bytes.get(CAPABILITIES_POINTER)?) & !3;
    for _ in 0..MAX_CAPABILITIES {
        if at < 0x40 {
            return None;
        }
        if *bytes.get(at)? == PCI_EXPRESS {
            return match (u16_at(bytes, at + 2)? >> 4) & 0xf {
                4 => Some(PortType::Root),
                5 => Some(PortType::Upstream),
                6 => Some(PortType::Downstream),
                7 | 8 => Some(PortType::PciBridge),
                _ => None,
            };
        }
        at = usize::from(*bytes.get(at + 1)?) & !3;
    }
    None
}

fn redirects(bytes: &[u8]) -> Option<bool> {
    let mut at = EXTENDED;
    for _ in 0..MAX_EXTENDED {
        let id = u16_at(bytes, at)?;
        // All ones: the function does not answer.
        if id == 0xffff {
            return None;
        }
        if id == ACCESS_CONTROL {
            let control = u16_at(bytes, at + ACCESS_CONTROL_REGISTER)?;
            return Some(control & REDIRECT != 0);
        }
        at = usize::from(u16_at(bytes, at + 2)? >> 4) & !3;
        if at < EXTENDED {
            return Some(false);
        }
    }
    None
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A bridge of a port type with the access control register, behind one other capability each.
    pub(in crate::discovery) fn bridge(port: u16, control: Option<u16>) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        bytes[STATUS] = 0x10;
        bytes[CAPABILITIES_POINTER] = 0x40;
        bytes[0x40..0x42].copy_from_slice(&[0x01, 0x60]);
        bytes[0x60..0x62].copy_from_slice(&[PCI_EXPRESS, 0x00]);
        bytes[0x62..0x64].copy_from_slice(&((port << 4) | 2).to_le_bytes());
        bytes[0x100..0x104].copy_from_slice(&0x1480_0001_u32.to_le_bytes());
        if let Some(control) = control {
            bytes[0x148..0x14c].copy_from_slice(&0x0001_000d_u32.to_le_bytes());
            bytes[0x14e..0x150].copy_from_slice(&control.to_le_bytes());
        }
        bytes
    }

    fn check(bytes: &[u8], port: Option<PortType>, redirects: Option<bool>) {
        assert_eq!(Config::parse(bytes), Config { port, redirects });
    }

    #[test]
    fn the_port_type_and_the_redirection_are_read_behind_other_capabilities() {
        check(&bridge(4, None), Some(PortType::Root), Some(false));
        check(&bridge(5, Some(0)), Some(PortType::Upstream), Some(false));
        check(&bridge(6, Some(0x1d)), Some(PortType::Downstream), Some(true));
        check(&bridge(6, Some(0x10)), Some(PortType::Downstream), Some(true));
        check(&bridge(6, Some(0x09)), Some(PortType::Downstream), Some(false));
        check(&bridge(7, None), Some(PortType::PciBridge), Some(false));
        check(&bridge(0, None), None, Some(false));
    }

    #[test]
    fn what_cannot_be_read_is_unknown() {
        let full = bridge(6, Some(0x1d));
        check(&full[..64], None, None);
        check(&full[..256], Some(PortType::Downstream), None);
        check(&full[..0x14f], Some(PortType::Downstream), None);
        check(&[], None, None);
        check(&[0xff; 4096], None, None);
    }

    #[test]
    fn capabilities_that_point_at_each_other_end() {
        let mut bytes = bridge(6, None);
        bytes[0x40..0x42].copy_from_slice(&[0x01, 0x40]);
        bytes[0x100..0x104].copy_from_slice(&0x1000_0001_u32.to_le_bytes());
        check(&bytes, None, None);
    }
}
