//! What a valid name, count and locality is, and the error that names the field that is not.

use std::collections::BTreeSet;
use std::fmt;

use crate::{Across, PathClass, Within};

/// Most devices that the units of one claim may take together: the API takes no more results.
pub const MAX_DEVICES: u32 = 32;

/// A field that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationError {
    /// Path of the field, such as `spec.members[0].name`; empty for the object itself.
    pub field: String,
    /// What is wrong with it and what was expected.
    pub problem: String,
}

impl std::error::Error for ValidationError {}

impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => f.write_str(&self.problem),
            field => write!(f, "{field}: {}", self.problem),
        }
    }
}

/// Collects errors in the order in which the fields stand.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<ValidationError>);

impl Findings {
    pub(crate) fn add(&mut self, field: impl Into<String>, problem: impl Into<String>) {
        self.0.push(ValidationError { field: field.into(), problem: problem.into() });
    }

    pub(crate) fn finish(self) -> Result<(), Vec<ValidationError>> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }

    pub(crate) fn label(&mut self, field: impl Into<String>, name: &str) {
        if !is_dns_label(name) {
            self.add(
                field,
                format!(
                    "not a DNS label: {name:?}: expected 1 to 63 of a-z, 0-9 and '-', with a \
                     letter or digit at both ends"
                ),
            );
        }
    }

    pub(crate) fn subdomain(&mut self, field: impl Into<String>, name: &str) {
        if !is_dns_subdomain(name) {
            self.add(
                field,
                format!(
                    "not a DNS subdomain: {name:?}: expected DNS labels joined by '.', at most \
                     253 characters"
                ),
            );
        }
    }

    /// Names that must differ; `at` gives the field of the item with that index.
    pub(crate) fn unique<'a>(
        &mut self,
        names: impl Iterator<Item = &'a str>,
        at: impl Fn(usize) -> String,
    ) {
        let mut seen = BTreeSet::new();
        for (index, name) in names.enumerate() {
            if !seen.insert(name) {
                self.add(at(index), format!("{name:?} stands twice: expected unique names"));
            }
        }
    }

    /// Counts of at least 1 that together stay within [`MAX_DEVICES`].
    pub(crate) fn counts(
        &mut self,
        list: &str,
        counts: impl Iterator<Item = u32>,
        at: impl Fn(usize) -> String,
    ) {
        let mut sum: u64 = 0;
        for (index, count) in counts.enumerate() {
            sum += u64::from(count);
            if count == 0 {
                self.add(at(index), "is 0: expected 1 or more");
            }
        }
        if sum > u64::from(MAX_DEVICES) {
            self.add(list, format!("{sum} devices in one unit: expected at most {MAX_DEVICES}"));
        }
    }

    pub(crate) fn locality(&mut self, prefix: &str, within: Within, across: Across) {
        self.wish(&format!("{prefix}within.preferred"), within.required, within.preferred);
        self.wish(&format!("{prefix}across.preferred"), across.required, across.preferred);
    }

    fn wish(&mut self, field: &str, required: PathClass, preferred: Option<PathClass>) {
        if let Some(wish) = preferred.filter(|wish| *wish > required) {
            self.add(
                field,
                format!(
                    "{wish} is farther than required {required}: expected {required} or nearer"
                ),
            );
        }
    }
}

/// 1 to 63 lower-case letters, digits and hyphens, no hyphen at either end (RFC 1123).
pub fn is_dns_label(name: &str) -> bool {
    name.len() <= 63 && is_hyphenated(name)
}

/// Words of letters, digits and hyphens joined by dots, at most 253 bytes: Kubernetes bounds the
/// whole, not each word.
pub fn is_dns_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_hyphenated)
}

fn is_hyphenated(word: &str) -> bool {
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = word.as_bytes();
    bytes.first().is_some_and(plain)
        && bytes.last().is_some_and(plain)
        && bytes.iter().all(|byte| plain(byte) || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_subdomains_are_those_of_kubernetes() {
        let long = "a".repeat(64);
        for (name, label, subdomain) in [
            ("a", true, true),
            ("gpu-0000-1b-00-0", true, true),
            ("9", true, true),
            ("gpu.lanemate.dev", false, true),
            (long.as_str(), false, true),
            ("", false, false),
            ("-a", false, false),
            ("a-", false, false),
            ("A", false, false),
            ("a_b", false, false),
            ("a..b", false, false),
            ("a.-b", false, false),
            ("é", false, false),
        ] {
            assert_eq!(is_dns_label(name), label, "{name}");
            assert_eq!(is_dns_subdomain(name), subdomain, "{name}");
        }
        assert!(!is_dns_subdomain(&"a".repeat(254)));
    }
}
