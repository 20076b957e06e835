//! What kubelet remembers: whether it still has a claim.
//!
//! After a force delete a claim can be gone while its containers still run. Kubelet keeps the claim in
//! its own checkpoint until Unprepare has succeeded. The form of that file is kubelet's own business
//! and changes between versions; the UID stands in it as text in all of them.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use lanemate_driver::claim::allocated::ClaimUid;

/// Largest checkpoint that is read: about 400 bytes per claim and pod, so far more than a node runs.
const MAX_BYTES: u64 = 16 << 20;

/// Whether kubelet has a claim in its checkpoint; absent when that cannot be told.
pub fn remembers(checkpoint: &Path, uid: &ClaimUid) -> Option<bool> {
    // Anything but a file, such as a pipe, could be waited for without end.
    let metadata = fs::metadata(checkpoint).ok().filter(fs::Metadata::is_file)?;
    if metadata.len() == 0 || metadata.len() > MAX_BYTES {
        return None;
    }
    let mut text = String::new();
    File::open(checkpoint).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text.contains(uid.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_remembered_or_not_or_it_cannot_be_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("dra_manager_state");
        let uid: ClaimUid = "0a6c2f1e-1".parse().unwrap();
        assert_eq!(remembers(&path, &uid), None);
        for (text, expect) in [
            (&b""[..], None),
            (b"\xff\xfe", None),
            (br#"{"data":"{\"ClaimUID\":\"0a6c2f1e-1\"}","checksum":1}"#, Some(true)),
            (br#"{"data":"{\"entries\":null}","checksum":1}"#, Some(false)),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(remembers(&path, &uid), expect, "{text:?}");
        }
        assert_eq!(remembers(directory.path(), &uid), None);
    }
}
