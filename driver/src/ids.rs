//! Identifiers, parsed once at the door and never carried as raw strings.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Address of a PCI function, `DDDD:BB:DD.F` in lower-case hexadecimal. Domains of five and more
/// digits exist (VMD); NVML writes eight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// Domain (segment).
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device, 0 to 31.
    pub device: u8,
    /// Function, 0 to 7.
    pub function: u8,
}

/// A text that is no PCI address.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a PCI address: {0:?}: expected DDDD:BB:DD.F in hexadecimal")]
pub struct ParsePciAddressError(pub String);

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function}")
    }
}

impl FromStr for PciAddress {
    type Err = ParsePciAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_pci_address(text).ok_or_else(|| ParsePciAddressError(text.to_owned()))
    }
}

fn parse_pci_address(text: &str) -> Option<PciAddress> {
    let (domain, rest) = text.split_at_checked(text.len().checked_sub(8)?)?;
    let &[b':', bus_high, bus_low, b':', device_high, device_low, b'.', function] = rest.as_bytes()
    else {
        return None;
    };
    let byte = |digits: &[u8]| hex(digits).and_then(|value| u8::try_from(value).ok());
    let address = PciAddress {
        domain: hex(domain.as_bytes()).filter(|_| (4..=8).contains(&domain.len()))?,
        bus: byte(&[bus_high, bus_low])?,
        device: byte(&[device_high, device_low])?,
        function: byte(&[function])?,
    };
    (address.device < 32 && address.function < 8).then_some(address)
}

/// The value of at most eight hexadecimal digits.
fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0_u32, |value, &digit| {
        Some(value.checked_mul(16)? | char::from(digit).to_digit(16)?)
    })
}

impl Serialize for PciAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PciAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A NUMA node that the kernel names. "Unknown" is the absence of a value, never -1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NumaNode(pub u32);

impl fmt::Display for NumaNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a device is to the matcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A GPU, or a part of one.
    Gpu,
    /// An RDMA NIC, or a virtual function of one.
    Nic,
}

impl Kind {
    /// The kind that a published `type` names; other types take no part in units.
    pub fn from_type(value: &str) -> Option<Self> {
        match value {
            "gpu" | "mig" => Some(Self::Gpu),
            "nic" | "vf" => Some(Self::Nic),
            _ => None,
        }
    }

    /// The published `type` of a whole device of this kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Nic => "nic",
        }
    }

    /// Name of the device with this kind at an address: `gpu-0000-1b-00-0`.
    pub fn device_name(self, address: PciAddress) -> String {
        let PciAddress { domain, bus, device, function } = address;
        format!("{}-{domain:04x}-{bus:02x}-{device:02x}-{function}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_every_width_and_case_and_written_in_one() {
        for (text, written) in [
            ("0000:1b:00.0", "0000:1b:00.0"),
            ("00000000:1B:00.0", "0000:1b:00.0"),
            ("10000:e1:00.0", "10000:e1:00.0"),
            ("f5a9:00:02.0", "f5a9:00:02.0"),
        ] {
            assert_eq!(text.parse::<PciAddress>().map(|a| a.to_string()), Ok(written.to_owned()));
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "1b:00.0",
            "0000:1b:00",
            "0000:1b:20.0",
            "0000:1b:00.8",
            "0000:+b:00.0",
            "0000:1b:00.0:1",
            "000:1b:00.0",
            "000000000:1b:00.0",
            "00g0:1b:00.0",
            "0000:1b:00.\u{f6}",
            "ö:1b:00.0",
        ] {
            assert!(text.parse::<PciAddress>().is_err(), "{text}");
        }
    }
}
