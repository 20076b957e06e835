//! Versions as drivers write them, made into semantic versions.

/// Up to three integers between dots, without leading zeros and padded with `.0`; absent for
/// anything else. `580.82.07` becomes `580.82.7`.
pub fn normalised(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.trim().split('.').collect();
    let digits = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if parts.len() > 3 || !parts.iter().all(digits) {
        return None;
    }
    // A number too long for 64 bits is no version that a driver writes.
    let numbers: Option<Vec<u64>> = parts.iter().map(|part| part.parse().ok()).collect();
    let mut numbers = numbers?;
    numbers.resize(3, 0);
    Some(numbers.iter().map(u64::to_string).collect::<Vec<_>>().join("."))
}

/// A CUDA version as the library gives it, 1000 times major plus 10 times minor.
pub fn cuda(version: u32) -> String {
    format!("{}.{}.0", version / 1000, version % 1000 / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_become_semantic_or_are_left_out() {
        for (text, expect) in [
            ("580.82.07", Some("580.82.7")),
            ("9.0", Some("9.0.0")),
            ("550", Some("550.0.0")),
            ("000.0", Some("0.0.0")),
            ("1.2.3.4", None),
            ("1..2", None),
            ("6.8.5-rc1", None),
            ("+1", None),
            ("", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(normalised(text).as_deref(), expect, "{text}");
        }
    }

    #[test]
    fn cuda_versions_are_split_at_the_thousands() {
        assert_eq!((cuda(13000), cuda(12080)), ("13.0.0".to_owned(), "12.8.0".to_owned()));
    }
}
