//! The records on disk: `claims/<uid>.json`, and `quarantine/` for those that cannot be used.
//!
//! All of this is done under the lock of the state directory. Each operation reads the files again,
//! since another plugin may have written them; they are few and small, and parsed only when their
//! bytes differ from the last time. File times are no substitute: two writes within a tick of the kernel's
//! clock have one time, and a freed inode is used again at once.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lanemate_driver::claim::allocated::ClaimUid;
use lanemate_driver::files::{Durability, FilesError, remove_file, sweep, write_atomically};

use super::record::{MAX_BYTES, Readable, Record, RecordError, RecordState};

/// Most entries of a directory that are looked at: far more than a node has devices.
const MAX_ENTRIES: usize = 65_536;
/// Most files in quarantine that are kept after their claim was dealt with, for people to look at.
const MAX_RESOLVED: usize = 64;
/// Ends the name of a record, in use and in quarantine.
const ENDING: &str = ".json";
/// Ends the name of a file in quarantine whose claim was dealt with.
const RESOLVED: &str = ".resolved";

/// The two directories.
#[derive(Debug)]
pub struct Records {
    claims: PathBuf,
    quarantine: PathBuf,
    /// What was parsed last, by the bytes.
    parsed: BTreeMap<ClaimUid, (Vec<u8>, Arc<Record>)>,
}

/// What the directory holds.
#[derive(Debug, Default)]
pub struct OnDisk {
    /// Records.
    pub good: BTreeMap<ClaimUid, Arc<Record>>,
    /// What stands in the place of records.
    pub bad: Vec<Bad>,
}

/// A file that is no record, or one that this version cannot read.
#[derive(Clone, Debug)]
pub struct Bad {
    /// From the name of the file.
    pub uid: ClaimUid,
    /// What is wrong with it.
    pub error: RecordError,
    /// What can be told of it all the same.
    pub readable: Option<Readable>,
}

/// A step that failed.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// On a path.
    #[error("{step} {path}: {error}")]
    Step {
        /// What was tried.
        step: &'static str,
        /// On what.
        path: PathBuf,
        /// What the operating system says.
        error: io::Error,
    },
    /// While a file was written or removed.
    #[error(transparent)]
    File(#[from] FilesError),
    /// It would be larger than what is read.
    #[error("record of claim {uid}: {bytes} bytes, at most {MAX_BYTES} are kept")]
    TooLarge {
        /// The claim.
        uid: ClaimUid,
        /// Size.
        bytes: usize,
    },
    /// It cannot be written as JSON.
    #[error("record of claim {uid}: {error}")]
    Encode {
        /// The claim.
        uid: ClaimUid,
        /// Why.
        error: serde_json::Error,
    },
}

impl Bad {
    /// True for a record of a newer version, whose bytes are what was written.
    pub fn is_newer(&self) -> bool {
        matches!(self.error, RecordError::Newer { .. })
    }
}

impl Records {
    /// The records below a state directory.
    pub fn new(state: &Path) -> Self {
        Self {
            claims: state.join("claims"),
            quarantine: state.join("quarantine"),
            parsed: BTreeMap::new(),
        }
    }

    /// Removes what writers that died have left.
    ///
    /// # Errors
    /// The step that failed.
    pub fn sweep(&self) -> Result<(), RecordsError> {
        Ok(sweep(&self.claims)?)
    }

    /// Reads all records. Files whose names are none of ours are left alone.
    ///
    /// # Errors
    /// The directory or a file cannot be read, which says nothing about the records.
    pub fn read(&mut self) -> Result<OnDisk, RecordsError> {
        let mut on_disk = OnDisk::default();
        for name in names(&self.claims)? {
            let uid = name.strip_suffix(ENDING).and_then(|stem| stem.parse::<ClaimUid>().ok());
            let Some(uid) = uid else { continue };
            let path = self.claims.join(&name);
            match self.read_one(&uid, &path)? {
                Ok(record) => {
                    on_disk.good.insert(uid, record);
                }
                Err(bad) => on_disk.bad.push(bad),
            }
        }
        self.parsed.retain(|uid, _| on_disk.good.contains_key(uid));
        Ok(on_disk)
    }

    fn read_one(
        &mut self,
        uid: &ClaimUid,
        path: &Path,
    ) -> Result<Result<Arc<Record>, Bad>, RecordsError> {
        let bytes = match read_bounded(path)? {
            Ok(bytes) => bytes,
            Err(found) => {
                let error = RecordError::Form(found);
                return Ok(Err(Bad { uid: uid.clone(), error, readable: None }));
            }
        };
        if let Some((_, record)) = self.parsed.get(uid).filter(|(same, _)| *same == bytes) {
            return Ok(Ok(Arc::clone(record)));
        }
        let decoded = Record::decode(&bytes).and_then(|record| {
            let other = || RecordError::Form(format!("the record of claim {}", record.uid));
            (record.uid == *uid).then(|| record.clone()).ok_or_else(other)
        });
        Ok(match decoded {
            Ok(record) => {
                let record = Arc::new(record);
                self.parsed.insert(uid.clone(), (bytes, Arc::clone(&record)));
                Ok(record)
            }
            Err(error) => Err(Bad { uid: uid.clone(), error, readable: Readable::of(&bytes) }),
        })
    }

    /// Writes a record.
    ///
    /// # Errors
    /// The step that failed. The file is then as it was, or as it should be.
    pub fn write(&self, record: &Record) -> Result<(), RecordsError> {
        // Until a claim is prepared a loss of power may take its record: no container has its devices
        // yet, and the boot after it undoes what there is. It must not leave a broken one.
        let durability = match record.state {
            RecordState::Reserved => Durability::Whole,
            RecordState::Prepared | RecordState::Releasing => Durability::Kept,
        };
        let uid = &record.uid;
        let bytes =
            record.encode().map_err(|error| RecordsError::Encode { uid: uid.clone(), error })?;
        if bytes.len() > MAX_BYTES {
            return Err(RecordsError::TooLarge { uid: uid.clone(), bytes: bytes.len() });
        }
        Ok(write_atomically(&self.path(uid), 0o600, &bytes, durability)?)
    }

    /// Removes a record, for good. What is gone already is no error.
    ///
    /// # Errors
    /// The step that failed.
    pub fn remove(&self, uid: &ClaimUid) -> Result<(), RecordsError> {
        Ok(remove_file(&self.path(uid))?)
    }

    /// Moves a record that cannot be used to quarantine.
    ///
    /// # Errors
    /// The step that failed.
    pub fn set_aside(&self, uid: &ClaimUid) -> Result<PathBuf, RecordsError> {
        fs::create_dir_all(&self.quarantine).map_err(step("create directory", &self.quarantine))?;
        let free = |number: &usize| {
            let stem = self.quarantine.join(format!("{uid}.{number}"));
            !stem.with_added_extension("json").exists()
                && !stem.with_added_extension("resolved").exists()
        };
        let number = (0..MAX_ENTRIES).find(free).unwrap_or(MAX_ENTRIES);
        let place = self.quarantine.join(format!("{uid}.{number}{ENDING}"));
        fs::rename(self.path(uid), &place).map_err(step("move to", &place))?;
        for directory in [&self.quarantine, &self.claims] {
            sync(directory)?;
        }
        Ok(place)
    }

    /// Moves what stands in the place of a record to quarantine, if there is something.
    ///
    /// # Errors
    /// The step that failed.
    pub fn set_aside_if_there(&self, uid: &ClaimUid) -> Result<(), RecordsError> {
        if fs::symlink_metadata(self.path(uid)).is_ok() {
            self.set_aside(uid)?;
        }
        Ok(())
    }

    /// The claims whose record lies in quarantine and was not dealt with, with what is known of them
    /// and whether that is what was written.
    ///
    /// # Errors
    /// The directory or a file cannot be read, which says nothing about the records.
    pub fn in_quarantine(
        &self,
    ) -> Result<BTreeMap<ClaimUid, Option<(Readable, bool)>>, RecordsError> {
        let mut found = BTreeMap::new();
        for (uid, name) in self.open_names()? {
            let readable = read_bounded(&self.quarantine.join(name))?.ok().and_then(|bytes| {
                let newer = matches!(Record::decode(&bytes), Err(RecordError::Newer { .. }));
                Readable::of(&bytes).map(|readable| (readable, newer))
            });
            // The last one is the latest.
            found.insert(uid, readable);
        }
        Ok(found)
    }

    /// The claim of records in quarantine was dealt with: they stay there for people to look at.
    ///
    /// # Errors
    /// The step that failed.
    pub fn resolve(&self, uid: &ClaimUid) -> Result<(), RecordsError> {
        let mut moved = false;
        for (_, name) in self.open_names()?.into_iter().filter(|(of, _)| of == uid) {
            let from = self.quarantine.join(&name);
            let to = from.with_extension("resolved");
            fs::rename(&from, &to).map_err(step("move to", &to))?;
            moved = true;
        }
        if moved {
            sync(&self.quarantine)?;
            self.remove_oldest_resolved();
        }
        Ok(())
    }

    /// Names in quarantine of the form `<uid>.<n>.json`.
    fn open_names(&self) -> Result<Vec<(ClaimUid, String)>, RecordsError> {
        let claim = |name: String| {
            let (stem, _) = name.strip_suffix(ENDING)?.rsplit_once('.')?;
            Some((stem.parse().ok()?, name))
        };
        Ok(names(&self.quarantine)?.into_iter().filter_map(claim).collect())
    }

    /// What cannot be removed now can be later.
    fn remove_oldest_resolved(&self) {
        let names = names(&self.quarantine).unwrap_or_default();
        let resolved = names.iter().filter(|name| name.ends_with(RESOLVED));
        let mut by_time: Vec<_> = resolved
            .map(|name| {
                let path = self.quarantine.join(name);
                (fs::symlink_metadata(&path).and_then(|data| data.modified()).ok(), path)
            })
            .collect();
        by_time.sort_unstable();
        let over = by_time.len().saturating_sub(MAX_RESOLVED);
        for (_, path) in by_time.into_iter().take(over) {
            let _ = fs::remove_file(path);
        }
    }

    fn path(&self, uid: &ClaimUid) -> PathBuf {
        self.claims.join(format!("{uid}{ENDING}"))
    }
}

fn step(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecordsError {
    let path = path.to_owned();
    move |error| RecordsError::Step { step, path, error }
}

fn sync(directory: &Path) -> Result<(), RecordsError> {
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(step("flush directory", directory))
}

/// Names in a directory, sorted; none where it is missing. Those that are no text are none of ours.
pub(super) fn names(directory: &Path) -> Result<Vec<String>, RecordsError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(step("list", directory))?,
    };
    let mut names = Vec::new();
    for entry in entries.take(MAX_ENTRIES) {
        let entry = entry.map_err(step("list", directory))?;
        names.extend(entry.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}

/// The bytes of a file, or why what stands there can be no record. An error says nothing about it: the
/// process may lack memory or descriptors.
pub(super) fn read_bounded(path: &Path) -> Result<Result<Vec<u8>, String>, RecordsError> {
    match read_at_most(path, MAX_BYTES) {
        Err(error) if is_spoilt(&error) => Ok(Err(error.to_string())),
        read => read.map_err(step("read", path)),
    }
}

fn read_at_most(path: &Path, most: usize) -> io::Result<Result<Vec<u8>, String>> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_file() {
        return Ok(Err("not a regular file".to_owned()));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0).min(most));
    File::open(path)?.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok(if bytes.len() > most { Err(format!("larger than {most} bytes")) } else { Ok(bytes) })
}

/// True when the medium has lost the file, whatever is tried: Linux says `EIO`, or `EBADMSG` or `EUCLEAN`
/// where a checksum or a structure of the file system is wrong. They have no [`io::ErrorKind`].
fn is_spoilt(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(5 | 74 | 117))
}
