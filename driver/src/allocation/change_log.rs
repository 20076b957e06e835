//! Which nodes changed, in order, so that an answer kept for each node is renewed only where it may differ.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// The latest changes.
#[derive(Debug, Default)]
pub struct ChangeLog {
    names: VecDeque<Arc<str>>,
    /// Changes before those that are kept.
    dropped: u64,
}

/// Changes kept: some for each node of the largest cluster meant to be served. One who is further behind starts anew,
/// which costs no more.
const MAX_CHANGES: usize = 16_384;

impl ChangeLog {
    /// Notes that a node came, changed or went.
    pub fn push(&mut self, name: Arc<str>) {
        if self.names.len() >= MAX_CHANGES {
            self.names.pop_front();
            self.dropped += 1;
        }
        self.names.push_back(name);
    }

    /// Number of all changes so far.
    pub fn total(&self) -> u64 {
        self.dropped + self.names.len() as u64
    }

    /// Nodes that changed after the first `seen` changes; absent when that is no longer known.
    pub fn since(&self, seen: u64) -> Option<BTreeSet<&Arc<str>>> {
        let skipped = usize::try_from(seen.checked_sub(self.dropped)?).ok()?;
        (skipped <= self.names.len()).then(|| self.names.iter().skip(skipped).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_once_each_until_they_are_too_many() {
        let mut log = ChangeLog::default();
        for name in ["a", "b", "a"] {
            log.push(Arc::from(name));
        }
        let names = |log: &ChangeLog, seen| {
            let since = log.since(seen)?;
            Some(since.iter().map(|name| name.to_string()).collect::<Vec<_>>())
        };
        assert_eq!(log.total(), 3);
        assert_eq!(names(&log, 0).unwrap(), ["a", "b"]);
        assert_eq!(names(&log, 2).unwrap(), ["a"]);
        assert_eq!(names(&log, 3).unwrap(), Vec::<String>::new());
        assert_eq!(names(&log, 4), None, "of another cluster");
        for _ in 0..MAX_CHANGES {
            log.push(Arc::from("c"));
        }
        assert_eq!(log.total(), 3 + MAX_CHANGES as u64);
        assert_eq!(names(&log, 2), None);
        assert_eq!(names(&log, 3).unwrap(), ["c"]);
    }
}
