//! The forms of names and values, as the API server checks them.

/// `[a-z0-9]([-a-z0-9]*[a-z0-9])?`, at most 63 bytes (RFC 1123).
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_dns_part(text)
}

/// Words like DNS labels joined by dots, at most 253 bytes: Kubernetes bounds the whole, not each
/// word.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_part)
}

/// A DRA driver name: a DNS subdomain of at most 63 bytes.
pub fn is_driver_name(text: &str) -> bool {
    text.len() <= 63 && is_dns_subdomain(text)
}

/// A pool name: DNS subdomains with slashes between them, at most 253 bytes.
pub fn is_pool_name(text: &str) -> bool {
    text.len() <= 253 && text.split('/').all(is_dns_subdomain)
}

/// `name` or `prefix/name`, where the prefix is a DNS subdomain.
pub fn is_label_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_label_part(name),
        None => is_label_part(text),
    }
}

/// Empty, or the second half of a label name.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_label_part(text)
}

/// `domain/identifier`: a domain of at most 63 bytes, an identifier of at most 32.
pub fn is_full_attribute_name(text: &str) -> bool {
    text.split_once('/')
        .is_some_and(|(domain, identifier)| is_driver_name(domain) && is_identifier(identifier))
}

/// `identifier` or `domain/identifier`.
pub fn is_attribute_name(text: &str) -> bool {
    is_identifier(text) || is_full_attribute_name(text)
}

/// `MAJOR.MINOR.PATCH[-PRERELEASE][+BUILD]` (semver.org 2.0.0).
pub fn is_semantic_version(text: &str) -> bool {
    semver::Version::parse(text).is_ok()
}

/// A C identifier of at most 32 bytes.
fn is_identifier(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= 32
        && bytes.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_')
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
}

/// One kind of byte, or hyphens except at the ends; not empty.
pub fn is_hyphenated(text: &str, is: impl Fn(u8) -> bool) -> bool {
    has_shape(text, &is, |b| is(b) || b == b'-')
}

fn is_dns_part(text: &str) -> bool {
    is_hyphenated(text, |b| b.is_ascii_lowercase() || b.is_ascii_digit())
}

fn is_label_part(text: &str) -> bool {
    text.len() <= 63
        && has_shape(
            text,
            |b| b.is_ascii_alphanumeric(),
            |b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'),
        )
}

/// Not empty, with one kind of byte at both ends and another between them.
fn has_shape(text: &str, end: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|b| end(*b))
        && bytes.last().is_some_and(|b| end(*b))
        && bytes.iter().all(|b| inner(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(is: fn(&str) -> bool, good: &[&str], bad: &[&str]) {
        for text in good {
            assert!(is(text), "{text:?} is good");
        }
        for text in bad {
            assert!(!is(text), "{text:?} is bad");
        }
    }

    #[test]
    fn names_have_the_shapes_of_the_api() {
        let (long, too_long) = ("a".repeat(63), "a".repeat(64));
        check(
            is_dns_label,
            &["a", "0", "a-b", "4-gpus", &long],
            &["", "-a", "a-", "A", "a.b", "a_b", "ä", &too_long],
        );
        check(
            is_dns_subdomain,
            &["a", "a.b", "gpu.lanemate.dev", &too_long, &["a"; 127].join(".")],
            &["", ".", "a.", "a..b", "-a.b", "a.B", &["a"; 128].join(".")],
        );
        check(is_driver_name, &["lanemate.dev", &long], &["", "a/b", &too_long]);
        check(
            is_label_name,
            &["a", "A_b.c-d", "lanemate.dev/allocator", &long],
            &["", "/a", "a/", "a/b/c", "-a", "a b", "X/a", &too_long],
        );
        check(is_label_value, &["", "a", "V_1.0", &long], &["-", "a/b", "a b", &too_long]);
        let identifier = format!("a.b/{}", "x".repeat(32));
        check(
            is_full_attribute_name,
            &["lanemate.dev/pcieSwitch", "a/_x1", &identifier],
            &["", "pcieSwitch", "/x", "a/", "a/1x", "a/x-y", "a/b/c", &format!("{identifier}x")],
        );
        check(is_attribute_name, &["memory", "lanemate.dev/memory"], &["", "a-b", "a.b", "a/"]);
    }
}
