//! The lock of the state directory. During a rolling update two plugins share the directory, so each
//! holds the lock for the length of one operation.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The other plugin holds it for some flushes of a disk, so this is soon enough.
const POLL: Duration = Duration::from_millis(10);

/// The lock, held until this is dropped or the process ends.
#[derive(Debug)]
pub struct Lock {
    /// Closing it gives the lock back.
    _file: File,
}

/// The lock was not had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The file cannot be used.
    #[error("lock {path}: {error}")]
    Unusable {
        /// The lock file.
        path: PathBuf,
        /// What the operating system says.
        error: io::Error,
    },
    /// Somebody else has it.
    #[error(
        "lock {path}: held by another process for {} ms: does another plugin of this node hang?",
        waited.as_millis()
    )]
    Held {
        /// The lock file.
        path: PathBuf,
        /// How long it was waited for.
        waited: Duration,
    },
}

impl Lock {
    /// Waits for the lock, at most for a time. A wait of zero tries once.
    ///
    /// # Errors
    /// The file cannot be used, or the time is over.
    pub fn take(path: &Path, wait: Duration) -> Result<Self, LockError> {
        let unusable = |error| LockError::Unusable { path: path.to_owned(), error };
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path)
            .map_err(unusable)?;
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::Error(error)) => return Err(unusable(error)),
                Err(TryLockError::WouldBlock) => {}
            }
            let waited = begun.elapsed();
            if waited >= wait {
                return Err(LockError::Held { path: path.to_owned(), waited });
            }
            thread::sleep(POLL.min(wait.saturating_sub(waited)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_it_until_it_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let first = Lock::take(&path, Duration::ZERO).unwrap();
        for wait in [Duration::ZERO, Duration::from_millis(30)] {
            let refused = Lock::take(&path, wait).unwrap_err();
            assert!(matches!(refused, LockError::Held { waited, .. } if waited >= wait));
        }
        drop(first);
        Lock::take(&path, Duration::ZERO).unwrap();
    }

    #[test]
    fn a_place_where_no_file_can_be_is_an_error_with_its_path() {
        let error = Lock::take(Path::new("/nowhere/lock"), Duration::ZERO).unwrap_err();
        assert!(error.to_string().starts_with("lock /nowhere/lock: No such file"), "{error}");
    }
}
