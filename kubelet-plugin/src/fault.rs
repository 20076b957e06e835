//! Named points after the effects of the plugin, at which a test ends the process or lets a step
//! fail. Without the feature `fault-points` they are nothing.
//!
//! The variable `LANEMATE_FAULT` lists faults with commas between them: `<point>[:<n>[+]]=<what>`,
//! where `n` counts the passages from 1 (and `+` adds all later ones), and `what` is `kill`, `unwind`,
//! `ENOSPC`, `EROFS` or `EIO`. `prepare-file:2=kill` ends the process after the second file.

/// Declares the points, their names and their list in one place.
macro_rules! points {
    ($($(#[doc = $doc:literal])+ $point:ident = $name:literal,)+) => {
        /// A place between two effects.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Point {
            $($(#[doc = $doc])+ $point,)+
        }

        impl Point {
            /// All points.
            pub const ALL: &'static [Self] = &[$(Self::$point,)+];

            /// The name in `LANEMATE_FAULT`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$point => $name,)+
                }
            }
        }
    };
}

points! {
    /// Prepare has checked all, and done nothing yet.
    PrepareBegin = "prepare-begin",
    /// The record says `Reserved`.
    PrepareReserved = "prepare-reserved",
    /// A planned file is written; the CDI file is the last.
    PrepareFile = "prepare-file",
    /// The record says `Prepared`; kubelet has no answer yet.
    PrepareRecorded = "prepare-recorded",
    /// A failed Prepare has removed a file again.
    UndoFile = "undo-file",
    /// A failed Prepare has removed its record again.
    UndoRecord = "undo-record",
    /// Unprepare has read the records, and done nothing yet.
    UnprepareBegin = "unprepare-begin",
    /// The tombstone is written.
    UnprepareTombstone = "unprepare-tombstone",
    /// A file is removed; the CDI file is the first.
    UnprepareFile = "unprepare-file",
    /// The record is removed; kubelet has no answer yet.
    UnprepareRecord = "unprepare-record",
    /// A bad record was moved to quarantine.
    QuarantineMoved = "quarantine-moved",
    /// A lost record is written anew.
    RebuildRecorded = "rebuild-recorded",
    /// The record that a rebuilt one replaces is put away.
    RebuildResolved = "rebuild-resolved",
    /// A missing or different file of a prepared claim is written again.
    RepairFile = "repair-file",
    /// Reconciliation has written the tombstone of a claim that is gone.
    ReconcileTombstone = "reconcile-tombstone",
    /// Reconciliation has removed a file.
    ReconcileFile = "reconcile-file",
    /// Reconciliation has removed a record.
    ReconcileRecord = "reconcile-record",
    /// The mode in force is written.
    ModeStored = "mode-stored",
    /// A ResourceSlice is about to be created.
    PublishBeforeCreate = "publish-before-create",
    /// A ResourceSlice was created.
    PublishAfterCreate = "publish-after-create",
    /// A ResourceSlice is about to be updated.
    PublishBeforeUpdate = "publish-before-update",
    /// A ResourceSlice was updated.
    PublishAfterUpdate = "publish-after-update",
    /// A ResourceSlice is about to be deleted.
    PublishBeforeDelete = "publish-before-delete",
    /// A ResourceSlice was deleted.
    PublishAfterDelete = "publish-after-delete",
    /// The NodeState is about to be written.
    NodeStateBeforeWrite = "node-state-before-write",
    /// The NodeState was written.
    NodeStateAfterWrite = "node-state-after-write",
}

/// Passes a point.
///
/// # Errors
/// The fault that a test has put there.
#[cfg(not(feature = "fault-points"))]
#[inline]
pub const fn at(_: Point) -> std::io::Result<()> {
    Ok(())
}

#[cfg(feature = "fault-points")]
pub use injected::{Injection, Unwound, at, inject};

/// What the feature brings.
#[cfg(feature = "fault-points")]
mod injected {
    use std::cell::RefCell;
    use std::io;
    use std::str::FromStr;
    use std::sync::{Mutex, OnceLock, PoisonError};

    use super::Point;

    /// The variable that names the faults of a process.
    const VARIABLE: &str = "LANEMATE_FAULT";

    /// Faults of the thread that made it, until it is dropped: for tests within one process.
    #[derive(Debug)]
    #[must_use = "the faults end when it is dropped"]
    pub struct Injection(());

    /// The payload of an unwinding thread: it stands for the end of the process.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Unwound(pub Point);

    #[derive(Debug)]
    struct Fault {
        point: Point,
        /// The passage that it happens at, from 1.
        passage: u32,
        /// And at all later ones.
        and_later: bool,
        action: Action,
        passed: u32,
    }

    #[derive(Clone, Copy, Debug)]
    enum Action {
        Kill,
        Unwind,
        Fail(i32),
    }

    thread_local! {
        static OF_THREAD: RefCell<Vec<Fault>> = const { RefCell::new(Vec::new()) };
    }

    /// Puts faults into this thread, in the form of the variable.
    ///
    /// # Errors
    /// A text of another form.
    pub fn inject(faults: &str) -> Result<Injection, String> {
        let faults = parse(faults)?;
        OF_THREAD.with(|own| *own.borrow_mut() = faults);
        Ok(Injection(()))
    }

    impl Drop for Injection {
        fn drop(&mut self) {
            OF_THREAD.with(|own| own.borrow_mut().clear());
        }
    }

    /// Passes a point.
    ///
    /// # Errors
    /// The fault that a test has put there.
    pub fn at(point: Point) -> io::Result<()> {
        if let Some(action) = OF_THREAD.with(|own| due(&mut own.borrow_mut(), point)) {
            return act(action, point);
        }
        let faults = match of_process() {
            Ok(faults) => faults,
            Err(error) => return Err(io::Error::other(error.clone())),
        };
        let action = due(&mut faults.lock().unwrap_or_else(PoisonError::into_inner), point);
        action.map_or(Ok(()), |action| act(action, point))
    }

    fn of_process() -> &'static Result<Mutex<Vec<Fault>>, String> {
        static FAULTS: OnceLock<Result<Mutex<Vec<Fault>>, String>> = OnceLock::new();
        FAULTS.get_or_init(|| {
            let text = std::env::var(VARIABLE).unwrap_or_default();
            parse(&text).map(Mutex::new).map_err(|error| format!("{VARIABLE}: {error}"))
        })
    }

    fn due(faults: &mut [Fault], point: Point) -> Option<Action> {
        let mut action = None;
        for fault in faults.iter_mut().filter(|fault| fault.point == point) {
            fault.passed += 1;
            let is_due =
                fault.passed == fault.passage || (fault.and_later && fault.passed > fault.passage);
            action = action.or(is_due.then_some(fault.action));
        }
        action
    }

    fn act(action: Action, point: Point) -> io::Result<()> {
        match action {
            Action::Kill => {
                rustix::process::kill_process(
                    rustix::process::getpid(),
                    rustix::process::Signal::KILL,
                )?;
                // The signal reaches this thread before the call returns.
                Err(io::Error::other("killed"))
            }
            Action::Unwind => std::panic::resume_unwind(Box::new(Unwound(point))),
            Action::Fail(errno) => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    fn parse(text: &str) -> Result<Vec<Fault>, String> {
        text.split(',').filter(|fault| !fault.is_empty()).map(str::parse).collect()
    }

    impl FromStr for Fault {
        type Err = String;

        fn from_str(text: &str) -> Result<Self, String> {
            let form = || format!("{text:?} is not <point>[:<n>[+]]=<what>");
            let (place, action) = text.split_once('=').ok_or_else(form)?;
            let (name, passage) = place.split_once(':').unwrap_or((place, "1"));
            let and_later = passage.ends_with('+');
            let passage = passage.trim_end_matches('+').parse().map_err(|_| form())?;
            let point = Point::ALL.iter().copied().find(|point| point.name() == name);
            let point = point.ok_or_else(|| format!("{text:?}: there is no point {name:?}"))?;
            let action = match action {
                "kill" => Action::Kill,
                "unwind" => Action::Unwind,
                "EIO" => Action::Fail(rustix::io::Errno::IO.raw_os_error()),
                "ENOSPC" => Action::Fail(rustix::io::Errno::NOSPC.raw_os_error()),
                "EROFS" => Action::Fail(rustix::io::Errno::ROFS.raw_os_error()),
                _ => return Err(form()),
            };
            Ok(Self { point, passage, and_later, action, passed: 0 })
        }
    }
}

#[cfg(feature = "fault-points")]
#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn outcomes(faults: &str, passages: u32) -> Vec<bool> {
        let _faults = inject(faults).unwrap();
        (0..passages).map(|_| at(Point::PrepareFile).is_ok()).collect()
    }

    #[test]
    fn a_fault_happens_at_its_passage_and_no_other() {
        assert_eq!(outcomes("prepare-file=EIO", 3), [false, true, true]);
        assert_eq!(outcomes("prepare-file:2=ENOSPC,undo-file=EIO", 3), [true, false, true]);
        assert_eq!(outcomes("prepare-file:2+=EROFS", 3), [true, false, false]);
        assert_eq!(outcomes("undo-file=EIO", 1), [true]);
        assert_eq!(outcomes("", 1), [true]);
    }

    #[test]
    fn an_unwinding_thread_says_where() {
        let _faults = inject("mode-stored=unwind").unwrap();
        let payload = std::panic::catch_unwind(|| at(Point::ModeStored)).unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&Unwound(Point::ModeStored)));
    }

    #[test]
    fn a_fault_of_another_form_is_refused() {
        for text in ["prepare-file", "prepare-file:x=kill", "prepare-file=EPERM", "nowhere=kill"] {
            assert!(inject(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_point_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = Point::ALL.iter().map(|point| point.name()).collect();
        assert_eq!(names.len(), Point::ALL.len());
    }
}
