//! The mode in force: it changes only while no claim is held. A device that one allocator has granted
//! must not be offered to the other, which knows nothing of the grant.

use std::fs;
use std::path::PathBuf;

use lanemate_driver::files::{Durability, FilesError, write_atomically};
use lanemate_driver::resource_slice::Mode;

use crate::fault::{self, Point};
use crate::kubernetes::events::{About, Events};

/// The mode in force, kept in a file.
#[derive(Debug)]
pub struct ModeInForce {
    path: PathBuf,
    requested: Mode,
    stored: Option<Mode>,
    /// Told once that the change waits.
    told: bool,
}

/// The reason of an event on a node that is to change its mode and cannot yet.
const MODE_CHANGE_WAITS: &str = "ModeChangeWaits";
/// A mode by its word.
const WORDS: [(Mode, &str); 2] = [(Mode::Controller, "controller"), (Mode::Scheduler, "scheduler")];

/// The mode to use: the one asked for, but another one that is in force stays while a claim is held.
pub fn in_force(requested: Mode, stored: Option<Mode>, is_held: bool) -> Mode {
    stored.filter(|_| is_held).unwrap_or(requested)
}

impl ModeInForce {
    /// The mode of a file; one that is missing or of another form says nothing.
    pub fn read(path: PathBuf, requested: Mode) -> Self {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let stored = WORDS.iter().find(|(_, word)| *word == text.trim()).map(|(mode, _)| *mode);
        Self { path, requested, stored, told: false }
    }

    /// The mode in force.
    pub fn get(&self) -> Mode {
        self.stored.unwrap_or(self.requested)
    }

    /// Sees whether a change is due and can be made. The caller has the lock of the state directory.
    pub fn settle(&mut self, is_held: bool, events: &Events) {
        let due = in_force(self.requested, self.stored, is_held);
        if due != self.requested && !self.told {
            self.told = true;
            let note = format!(
                "mode {} is asked for, but mode {} stays in force until no claim holds a device of \
                 this node",
                word(self.requested),
                word(due)
            );
            tracing::warn!("{note}");
            events.warn(About::Node, MODE_CHANGE_WAITS, note);
        }
        if self.stored != Some(due) {
            match self.store(due) {
                Ok(()) => tracing::info!(mode = word(due), "mode in force"),
                Err(error) => tracing::warn!(%error, "the mode in force cannot be kept"),
            }
        }
    }

    fn store(&mut self, mode: Mode) -> Result<(), FilesError> {
        let text = format!("{}\n", word(mode));
        write_atomically(&self.path, 0o600, text.as_bytes(), Durability::Kept)?;
        self.stored = Some(mode);
        fault::at(Point::ModeStored).map_err(|error| FilesError {
            step: "after writing",
            path: self.path.clone(),
            error,
        })
    }
}

fn word(mode: Mode) -> &'static str {
    WORDS.iter().find(|(of, _)| *of == mode).map_or("", |(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_waits_until_nothing_is_held_and_survives_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mode");
        let (events, mut told) = Events::channel();
        let read = |requested| ModeInForce::read(path.clone(), requested);
        let mut mode = read(Mode::Controller);
        assert_eq!(mode.get(), Mode::Controller);
        mode.settle(true, &events);
        assert!(told.try_recv().is_err());

        let mut mode = read(Mode::Scheduler);
        for _ in 0..2 {
            mode.settle(true, &events);
            assert_eq!(mode.get(), Mode::Controller);
        }
        assert_eq!(told.try_recv().unwrap().reason, "ModeChangeWaits");
        assert!(told.try_recv().is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "controller\n");

        mode.settle(false, &events);
        assert_eq!(mode.get(), Mode::Scheduler);
        assert_eq!(read(Mode::Controller).get(), Mode::Scheduler);
    }

    #[test]
    fn a_file_of_another_form_says_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mode");
        fs::write(&path, b"\xffnonsense").unwrap();
        let (events, _told) = Events::channel();
        let mut mode = ModeInForce::read(path, Mode::Scheduler);
        mode.settle(true, &events);
        assert_eq!(mode.get(), Mode::Scheduler);
    }
}
