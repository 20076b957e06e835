//! The plugin's binary, kept from being replaced while tests run.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What only a binary with fault points contains.
const VARIABLE: &[u8] = b"LANEMATE_FAULT";

/// The binary that these tests were built with, under a name of its own: a build of the plugin alone,
/// as `hack/e2e` makes it, puts one without fault points in its place.
pub fn path() -> &'static Path {
    static KEPT: OnceLock<PathBuf> = OnceLock::new();
    KEPT.get_or_init(|| {
        let built = Path::new(env!("CARGO_BIN_EXE_lanemate-kubelet-plugin"));
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lanemate-kubelet-plugin");
        let new = kept.with_extension(std::process::id().to_string());
        fs::hard_link(built, &new).unwrap();
        let content = fs::read(&new).unwrap();
        let has_faults = content.windows(VARIABLE.len()).any(|window| window == VARIABLE);
        fs::rename(&new, &kept).unwrap();
        // The name stays where both are the same file.
        let _ = fs::remove_file(&new);
        assert!(
            has_faults,
            "{}: another build has just replaced it by one without fault points: run the tests again",
            built.display()
        );
        kept
    })
}
