//! Tombstones: which claims were unprepared lately.
//!
//! A claim may be prepared again after Unprepare, and a late Prepare that read the claim before
//! Unprepare must not bring it back. So each Unprepare leaves a mark, unique to it; who prepares looks at
//! the mark, then reads the claim, and a mark that has changed since means that the reading is stale.
//! The files are shared by the two plugins of a rolling update. They need not survive a crash of the
//! machine, after which no call of before is under way: so they are not flushed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use lanemate_driver::claim::allocated::ClaimUid;

/// Kubelet gives up a call after 45 s, and tries again within seconds.
const LIFE: SignedDuration = SignedDuration::from_mins(10);
/// Most tombstones; the oldest go. 256 pods may end within `LIFE` four times over.
const MAX: usize = 1024;
/// Tombstones are swept once in so many, and not only by age: a sweep lists the directory.
const SWEEP_EVERY: u64 = 64;
/// Largest file; a mark is 60 bytes.
const MAX_BYTES: u64 = 256;

/// The tombstones of the node.
#[derive(Debug)]
pub struct Tombstones {
    directory: PathBuf,
    /// Names the process in its marks.
    instance: String,
    written: u64,
    /// Those whose file could not be written: they hold for this process.
    unwritten: BTreeMap<ClaimUid, String>,
}

impl Tombstones {
    /// The tombstones in a directory, which need not exist yet.
    pub fn new(directory: PathBuf, instance: String) -> Self {
        Self { directory, instance, written: 0, unwritten: BTreeMap::new() }
    }

    /// The mark of the latest Unprepare of a claim, if that was not long ago.
    pub fn mark(&self, uid: &ClaimUid, now: Timestamp) -> Option<String> {
        // The other plugin may have left one after ours could not be written.
        let marks = self.unwritten.get(uid).cloned().into_iter().chain(self.read(uid.as_str()));
        marks.filter(|mark| is_alive(mark, now)).max_by_key(|mark| time(mark))
    }

    /// Leaves a new mark.
    ///
    /// # Errors
    /// The file cannot be written. The mark holds for this process all the same.
    pub fn put(&mut self, uid: &ClaimUid, now: Timestamp) -> io::Result<()> {
        self.written += 1;
        let mark = format!("{} {} {}", now.as_nanosecond(), self.instance, self.written);
        if self.written % SWEEP_EVERY == 1 {
            self.sweep(now);
        }
        let written = self.write(uid, &mark);
        if written.is_ok() {
            self.unwritten.remove(uid);
        } else if self.unwritten.len() < MAX {
            self.unwritten.insert(uid.clone(), mark);
        }
        written
    }

    fn write(&self, uid: &ClaimUid, mark: &str) -> io::Result<()> {
        fs::create_dir_all(&self.directory)?;
        // Renamed, so that no reader sees half of it; the name is no UID.
        let temporary = self.directory.join(format!(".{uid}"));
        fs::write(&temporary, mark)?;
        fs::rename(&temporary, self.directory.join(uid.as_str()))
    }

    fn read(&self, name: &str) -> Option<String> {
        let path = self.directory.join(name);
        let is_small = fs::metadata(&path).is_ok_and(|metadata| metadata.len() <= MAX_BYTES);
        is_small.then(|| fs::read_to_string(path).ok()).flatten()
    }

    /// Removes those whose time is over, and the oldest where there are too many. What cannot be
    /// removed now can be later.
    fn sweep(&mut self, now: Timestamp) {
        self.unwritten.retain(|_, mark| is_alive(mark, now));
        let names = fs::read_dir(&self.directory).into_iter().flatten();
        let names = names.filter_map(|entry| Some(entry.ok()?.file_name()));
        let mut alive = Vec::new();
        for name in names.take(MAX + 2 * SWEEP_EVERY as usize) {
            let mark = name.to_str().and_then(|name| self.read(name));
            match mark.filter(|mark| is_alive(mark, now)).and_then(|mark| time(&mark)) {
                Some(time) => alive.push((time, name)),
                None => drop(fs::remove_file(self.directory.join(name))),
            }
        }
        alive.sort_unstable();
        let over = alive.len().saturating_sub(MAX - SWEEP_EVERY as usize);
        for (_, name) in alive.into_iter().take(over) {
            let _ = fs::remove_file(self.directory.join(name));
        }
    }
}

/// A mark begins with the time at which it was made.
fn time(mark: &str) -> Option<Timestamp> {
    Timestamp::from_nanosecond(mark.split(' ').next()?.parse().ok()?).ok()
}

fn is_alive(mark: &str, now: Timestamp) -> bool {
    // One from the future was made before the clock was set back: it counts.
    time(mark).is_some_and(|made| now.duration_since(made) < LIFE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn uid(text: &str) -> ClaimUid {
        text.parse().unwrap()
    }

    fn count(directory: &tempfile::TempDir) -> usize {
        fs::read_dir(directory.path()).unwrap().count()
    }

    #[test]
    fn each_unprepare_has_a_mark_of_its_own_which_others_see_for_ten_minutes() {
        let directory = tempfile::tempdir().unwrap();
        let mut one = Tombstones::new(directory.path().join("t"), "a".to_owned());
        let other = Tombstones::new(directory.path().join("t"), "b".to_owned());
        let uid = uid("uid-1");
        assert_eq!(one.mark(&uid, at(0)), None);
        one.put(&uid, at(0)).unwrap();
        let first = one.mark(&uid, at(1)).unwrap();
        assert_eq!(other.mark(&uid, at(599)), Some(first.clone()));
        assert_eq!(other.mark(&uid, at(-3600)), Some(first.clone()));
        assert_eq!(other.mark(&uid, at(600)), None);
        one.put(&uid, at(0)).unwrap();
        assert_ne!(one.mark(&uid, at(1)), Some(first));
    }

    #[test]
    fn their_number_is_bounded_and_the_oldest_go() {
        let directory = tempfile::tempdir().unwrap();
        let mut tombstones = Tombstones::new(directory.path().to_owned(), "a".to_owned());
        for index in 0..1500 {
            tombstones.put(&uid(&format!("u{index}")), at(index / 10)).unwrap();
            assert!(index % 100 != 0 || count(&directory) <= MAX);
        }
        assert!(tombstones.mark(&uid("u1499"), at(150)).is_some());
        assert_eq!(tombstones.mark(&uid("u0"), at(150)), None);
        tombstones.written = 0;
        tombstones.put(&uid("last"), at(10_000)).unwrap();
        assert_eq!(count(&directory), 1);
    }

    #[test]
    fn where_no_file_can_be_written_the_mark_holds_for_this_process() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("t");
        fs::write(&place, "no directory").unwrap();
        let mut tombstones = Tombstones::new(place.clone(), "a".to_owned());
        tombstones.put(&uid("u"), at(0)).unwrap_err();
        assert!(tombstones.mark(&uid("u"), at(599)).is_some());
        assert_eq!(tombstones.mark(&uid("u"), at(600)), None);
        fs::remove_file(&place).unwrap();
        tombstones.put(&uid("u"), at(1)).unwrap();
        assert!(tombstones.unwritten.is_empty() && count(&directory) == 1);
    }

    #[test]
    fn a_later_mark_of_another_process_counts_more_than_one_in_memory() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("t");
        fs::write(&place, "no directory").unwrap();
        let mut one = Tombstones::new(place.clone(), "a".to_owned());
        one.put(&uid("u"), at(0)).unwrap_err();
        fs::remove_file(&place).unwrap();
        let before = one.mark(&uid("u"), at(1));
        let mut other = Tombstones::new(place, "b".to_owned());
        other.put(&uid("u"), at(1)).unwrap();
        assert_ne!(one.mark(&uid("u"), at(2)), before);
        assert_eq!(one.mark(&uid("u"), at(2)), other.mark(&uid("u"), at(2)));
    }

    #[test]
    fn what_is_no_tombstone_is_swept() {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in [("u1", ""), ("u2", "x"), (".u3", "1"), ("u4", &*"9".repeat(999))] {
            fs::write(directory.path().join(name), text).unwrap();
        }
        let mut tombstones = Tombstones::new(directory.path().to_owned(), "a".to_owned());
        assert_eq!(tombstones.mark(&uid("u2"), at(0)), None);
        tombstones.put(&uid("u"), at(0)).unwrap();
        assert_eq!(count(&directory), 1);
    }
}
