//! ResourceClasses, one write at a time for each: the index as [`crate::classes`] wants to see it.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::{Planned, timing};
use crate::change::{Change, Report};
use crate::classes::compile::compile;
use crate::classes::{Seen, Waits, step};
use crate::id::{Id, Uid};
use crate::index::Index;

/// How soon it counts that a class is used, or no longer used: classes themselves are looked at when they change.
const LOOK: SignedDuration = SignedDuration::from_secs(1);

/// What is remembered of writes, and of the last look.
#[derive(Debug, Default)]
pub struct Kinds {
    waits: Waits,
    /// Version of the classes, and when they are looked at again.
    looked: Option<(u64, Timestamp)>,
}

impl Kinds {
    /// A change of a class is over.
    pub fn note(&mut self, report: &Report, now: Timestamp) {
        self.waits.note(report, now);
    }

    /// Plans the next write of each class, as many as the writer takes.
    pub fn plan(&mut self, index: &mut Index, now: Timestamp, room: usize, planned: &mut Planned) {
        let version = index.classes_version();
        if self.looked.is_some_and(|(seen, again)| seen == version && now < again) {
            return;
        }
        let again = timing::after(now, LOOK);
        self.looked = Some((version, again));
        let classes: Vec<Id> =
            index.resource_classes().filter_map(|class| Id::of(&class.metadata)).collect();
        let known: BTreeSet<Uid> = classes.iter().map(|id| id.uid.clone()).collect();
        self.waits.retain(|uid| known.contains(uid));
        if !classes.is_empty() {
            planned.look_at(again);
        }
        for id in classes {
            let name = &id.key.name;
            if planned.changes.len() >= room || index.in_flight(&id.uid) {
                continue;
            }
            let Some(class) = index.resource_class(name).cloned() else { continue };
            let compiled = compile(&class, index.classes());
            let device_class = index.device_class(name);
            let user = index.user_of_class(name).map(|claim| claim.id.key.clone());
            let seen = Seen { class: &class, device_class, compiled, user };
            if let Some(until) = self.waits.until(&id.uid, &seen, now) {
                planned.look_at(until);
                continue;
            }
            let Some(step) = step(&seen, now) else { continue };
            self.waits.start(id.uid.clone(), &seen, now);
            let change = Change::Class(Box::new(step.change));
            index.start(&change, now);
            planned.changes.push(change);
            planned.notices.extend(step.notice);
        }
    }
}
