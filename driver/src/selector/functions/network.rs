//! IP addresses and networks. Zones and IPv4 addresses written as IPv6 are refused, as upstream does.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(in super::super) use super::url::Url;

use super::super::error::EvalError;
use super::super::eval::no_overload;
use super::super::value::{Budget, Evaluated, Value};
use super::{Declaration, global, member};

pub(super) const FUNCTIONS: &[Declaration] = &[
    global("ip", "string -> ip", ip),
    global("isIP", "string -> bool", |args, _| {
        Ok(Value::Bool(read_ip(text(args, "isIP")?).is_ok()))
    }),
    global("ip.isCanonical", "string -> bool", is_canonical),
    member("family", "ip -> int", |args, _| {
        Ok(Value::Int(if address(args, "family")?.is_ipv4() { 4 } else { 6 }))
    }),
    member("isUnspecified", "ip -> bool", |args, _| {
        Ok(Value::Bool(address(args, "isUnspecified")?.is_unspecified()))
    }),
    member("isLoopback", "ip -> bool", |args, _| {
        Ok(Value::Bool(address(args, "isLoopback")?.is_loopback()))
    }),
    member("isLinkLocalMulticast", "ip -> bool", |args, _| {
        Ok(Value::Bool(is_link_local_multicast(address(args, "isLinkLocalMulticast")?)))
    }),
    member("isLinkLocalUnicast", "ip -> bool", |args, _| {
        Ok(Value::Bool(is_link_local_unicast(address(args, "isLinkLocalUnicast")?)))
    }),
    member("isGlobalUnicast", "ip -> bool", |args, _| {
        Ok(Value::Bool(is_global_unicast(address(args, "isGlobalUnicast")?)))
    }),
    global("cidr", "string -> cidr", cidr),
    global("isCIDR", "string -> bool", |args, _| {
        Ok(Value::Bool(read_cidr(text(args, "isCIDR")?).is_ok()))
    }),
    member("containsIP", "cidr, ip -> bool", contains_ip),
    member("containsIP", "cidr, string -> bool", contains_ip),
    member("containsCIDR", "cidr, cidr -> bool", contains_cidr),
    member("containsCIDR", "cidr, string -> bool", contains_cidr),
    member("ip", "cidr -> ip", |args, _| Ok(Value::Ip(network(args, "ip")?.address))),
    member("prefixLength", "cidr -> int", |args, _| {
        Ok(Value::Int(i64::from(network(args, "prefixLength")?.length)))
    }),
    member("masked", "cidr -> cidr", |args, _| Ok(Value::Cidr(network(args, "masked")?.masked()))),
];

/// An address with the length of its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Cidr {
    address: IpAddr,
    length: u8,
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl Cidr {
    fn masked(self) -> Self {
        let host = |bits: u32| u32::from(self.length).min(bits);
        let address = match self.address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - host(32)).unwrap_or_default();
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - host(128)).unwrap_or_default();
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
        };
        Self { address, length: self.length }
    }

    fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && Self { address, length: self.length }.masked() == self.masked()
    }
}

fn text<'v>(args: &'v [Value<'_>], function: &str) -> Result<&'v str, EvalError> {
    match args {
        [Value::Text(text)] => Ok(text),
        _ => Err(no_overload(function, args)),
    }
}

fn address(args: &[Value<'_>], function: &str) -> Result<IpAddr, EvalError> {
    match args {
        [Value::Ip(address)] => Ok(*address),
        _ => Err(no_overload(function, args)),
    }
}

fn network(args: &[Value<'_>], function: &str) -> Result<Cidr, EvalError> {
    match args {
        [Value::Cidr(cidr)] => Ok(*cidr),
        _ => Err(no_overload(function, args)),
    }
}

fn read_ip(text: &str) -> Result<IpAddr, EvalError> {
    let refused =
        || EvalError::Refused { function: "ip", problem: format!("{text:?} is no IP address") };
    let address: IpAddr = text.parse().map_err(|_| refused())?;
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Err(refused()),
        address => Ok(address),
    }
}

fn read_cidr(text: &str) -> Result<Cidr, EvalError> {
    let refused = || EvalError::Refused {
        function: "cidr",
        problem: format!("{text:?} is no address/length"),
    };
    let (address, digits) = text.split_once('/').ok_or_else(refused)?;
    let address = read_ip(address).map_err(|_| refused())?;
    let length: u8 = digits.parse().map_err(|_| refused())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    // "08" and "+8" are numbers, but no lengths.
    if length > most || digits != length.to_string() {
        return Err(refused());
    }
    Ok(Cidr { address, length })
}

fn ip<'a>(args: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    read_ip(text(args, "ip")?).map(Value::Ip)
}

fn cidr<'a>(args: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    read_cidr(text(args, "cidr")?).map(Value::Cidr)
}

fn is_canonical<'a>(args: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    let text = text(args, "ip.isCanonical")?;
    Ok(Value::Bool(read_ip(text)?.to_string() == text))
}

fn contains_ip<'a>(args: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    let (cidr, address) = match args {
        [Value::Cidr(cidr), Value::Ip(address)] => (cidr, *address),
        [Value::Cidr(cidr), Value::Text(text)] => (cidr, read_ip(text)?),
        _ => return Err(no_overload("containsIP", args)),
    };
    Ok(Value::Bool(cidr.contains(address)))
}

fn contains_cidr<'a>(args: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    let (outer, inner) = match args {
        [Value::Cidr(outer), Value::Cidr(inner)] => (outer, *inner),
        [Value::Cidr(outer), Value::Text(text)] => (outer, read_cidr(text)?),
        _ => return Err(no_overload("containsCIDR", args)),
    };
    Ok(Value::Bool(outer.length <= inner.length && outer.contains(inner.masked().address)))
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.octets().starts_with(&[224, 0, 0]),
        IpAddr::V6(v6) => v6.segments().first().is_some_and(|first| first & 0xff0f == 0xff02),
    }
}

fn is_link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

fn is_global_unicast(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !(broadcast
        || address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || is_link_local_unicast(address))
}
