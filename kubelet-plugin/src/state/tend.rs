//! Files of prepared claims that somebody has removed, such as by wiping the CDI directory.
//!
//! Kubelet does not ask again for a pod that runs, and a container of it that starts anew needs the
//! files. So they are looked for all the time, which costs a `stat` each; content is compared by
//! reconciliation.

use super::node::{Node, Reading};
use super::record::RecordState;

impl Node {
    /// True when a file of a prepared claim is not there.
    pub fn misses_files(&self) -> bool {
        let records = self.view.records.values();
        let prepared = records.filter(|record| record.state == RecordState::Prepared);
        let mut effects = prepared.flat_map(|record| &record.effects);
        effects.any(|effect| !self.settings.roots.has(&effect.path))
    }

    /// Writes missing files again. True when none is missing any more.
    pub fn tend(&mut self, reading: &Reading) -> bool {
        let repaired = self.start(reading).repaired;
        for claim in &repaired {
            tracing::warn!(%claim, "files of a prepared claim were gone: written again");
        }
        !self.misses_files()
    }
}
