//! Golden files of what the program prints, in `cli/tests/golden`. `UPDATE_GOLDEN=1 cargo test` rewrites them; the diff is
//! the review.

use std::path::PathBuf;

/// Compares a text with a golden file.
pub fn check_golden(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, golden, "{name}: UPDATE_GOLDEN=1 rewrites it");
}
