//! What the site's configuration leaves out: storage and north-south cards that nothing in the
//! machine gives away.

use std::fmt;

use super::{OfferedDevice, Reason, ReasonCode};
use crate::discovery::facts::PciFunction;
use crate::ids::PciAddress;

/// The `exclude` part of the plugin's configuration.
#[derive(Debug, Default)]
pub struct Policy {
    /// A device that any of these matches is left out.
    pub exclude: Vec<ExcludeRule>,
}

/// One entry of `exclude`.
pub enum ExcludeRule {
    /// The function with this address.
    PciBusId(PciAddress),
    /// A function with a network interface of a name like this; `*` stands for any characters, `?` for one.
    Netdev(String),
    /// A function with an RDMA device of a name like this; the same wild cards.
    RdmaDevice(String),
    /// A device for which this holds.
    Cel(CelRule),
}

/// A compiled CEL expression. Selectors are compiled elsewhere; here it is a question with an answer.
pub struct CelRule {
    /// The expression as written, for messages.
    pub expression: String,
    /// Evaluates it on a device; the error says which attribute was missing.
    pub matches: Box<CelMatch>,
}

/// Evaluates an expression on a device.
pub type CelMatch = dyn Fn(&OfferedDevice) -> Result<bool, String> + Send + Sync;

impl fmt::Debug for CelRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CelRule").field("expression", &self.expression).finish_non_exhaustive()
    }
}

impl fmt::Debug for ExcludeRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PciBusId(address) => write!(f, "pciBusID {address}"),
            Self::Netdev(glob) => write!(f, "netdev {glob}"),
            Self::RdmaDevice(glob) => write!(f, "rdmaDevice {glob}"),
            Self::Cel(rule) => write!(f, "cel {}", rule.expression),
        }
    }
}

impl Policy {
    /// Why a device is left out, and what could not be evaluated. An expression that fails on a
    /// device excludes nothing: a typing error must not empty a node.
    pub fn decide(
        &self,
        device: &OfferedDevice,
        function: &PciFunction,
    ) -> (Option<Reason>, Vec<String>) {
        let mut errors = Vec::new();
        for rule in &self.exclude {
            match rule.matches(device, function) {
                Ok(true) => {
                    let reason = Reason { code: ReasonCode::Policy, text: format!("{rule:?}") };
                    return (Some(reason), errors);
                }
                Ok(false) => {}
                Err(error) => errors.push(error),
            }
        }
        (None, errors)
    }
}

impl ExcludeRule {
    fn matches(&self, device: &OfferedDevice, function: &PciFunction) -> Result<bool, String> {
        match self {
            Self::PciBusId(address) => Ok(*address == device.address),
            Self::Netdev(glob) => Ok(function.netdevs.iter().any(|name| glob_matches(glob, name))),
            Self::RdmaDevice(glob) => {
                Ok(function.rdma.iter().any(|rdma| glob_matches(glob, &rdma.name)))
            }
            Self::Cel(rule) => (rule.matches)(device)
                .map_err(|error| format!("exclude by cel {:?}: {error}", rule.expression)),
        }
    }
}

/// `*` stands for any characters, `?` for one. Takes at most pattern times text steps: a failed
/// attempt goes back to the last star only.
pub fn glob_matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut read) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(character) = text.get(read) {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(expected) if *expected == '?' || expected == character => {
                at += 1;
                read += 1;
            }
            _ => {
                let Some((star_at, covered)) = star else { return false };
                star = Some((star_at, covered + 1));
                (at, read) = (star_at + 1, covered + 1);
            }
        }
    }
    pattern.iter().skip(at).all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_know_star_and_question_mark() {
        for (pattern, text, expect) in [
            ("mlx5_4", "mlx5_4", true),
            ("mlx5_4", "mlx5_41", false),
            ("mlx5_?", "mlx5_4", true),
            ("mlx5_?", "mlx5_", false),
            ("ib*", "ib", true),
            ("*s0f?", "ibp97s0f0", true),
            ("*a*b", "xaxbxab", true),
            ("*a*b", "xaxbxa", false),
            ("", "", true),
            ("**", "ö", true),
            ("?", "ö", true),
        ] {
            assert_eq!(glob_matches(pattern, text), expect, "{pattern} {text}");
        }
    }
}
