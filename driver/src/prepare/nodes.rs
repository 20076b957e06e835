//! Device nodes of the host as CDI wants them: only such as exist, with their numbers.

use crate::discovery::Facts;

use super::PrepareError;
use super::cdi::DeviceNode;
use super::grant::Grant;

/// A node that a device cannot work without.
pub(super) fn required(
    facts: &Facts,
    grant: &Grant<'_>,
    path: &str,
    remedy: &'static str,
) -> Result<DeviceNode, PrepareError> {
    existing(facts, path).ok_or_else(|| PrepareError::MissingNode {
        device: grant.device.to_owned(),
        node: path.to_owned(),
        remedy,
    })
}

/// A node by its path relative to the root, if the host has it. The numbers are stated, so that a
/// runtime need not look at the host; they are fresh, because plans are made at prepare time.
pub(super) fn existing(facts: &Facts, path: &str) -> Option<DeviceNode> {
    facts.device_nodes.get(path).map(|node| DeviceNode {
        path: format!("/{path}"),
        kind: node.kind.to_string(),
        major: node.major,
        minor: node.minor,
        permissions: "rw".to_owned(),
    })
}

/// `name` is `prefix` and a number, as the kernel writes it.
pub(super) fn is_numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix)
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}
