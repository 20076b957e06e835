//! ResourceClasses: each is compiled to a DeviceClass of the same name, tells whether that went well, and stays while
//! claims use it.
//!
//! ```text
//!                +--used or no longer used--> finalizer on, off
//! class, as seen +--no DeviceClass, or another than wanted--> create, replace   (broken: left as it is)
//!                +--status says something else--> status
//! to be deleted, and no longer used: DeviceClass deleted --> finalizer off
//! ```
//!
//! One write at a time for each class; the next is planned when its effect has been seen. What claims hold is never
//! touched.

pub mod compile;
pub mod protect;
pub mod status;
mod waits;

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::resource::v1::{DeviceClass, DeviceClassSpec};
use lanemate_api::ResourceClass;

use self::compile::{Broken, Standing, differs, wanted};
use self::protect::{is_deleting, users, with_protection};
use self::status::{Verdict, with_verdict};
use self::waits::Waits;
use crate::change::{Change, ClassChange, Report};
use crate::id::{Id, Key, Uid};
use crate::index::Index;
use crate::plan::{About, Notice, Planned};

/// Writes of one round: classes are few and change seldom, and pods that wait come first.
const MOST_CHANGES: usize = 16;
/// Between two looks at all claims: with 20,000 of them a look takes milliseconds, and rounds come a hundred times a second.
const BETWEEN_LOOKS: SignedDuration = SignedDuration::from_secs(1);

/// What is known of one class.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    /// The class.
    pub class: &'a ResourceClass,
    /// The DeviceClass of its name.
    pub device_class: Option<&'a DeviceClass>,
    /// What it compiles to.
    pub compiled: Result<DeviceClassSpec, Broken>,
    /// A claim that uses it: one that is allocated, or that an unfinished pod names.
    pub user: Option<Key>,
}

/// The next write for a class, and what to tell with it.
#[derive(Clone, Debug)]
pub struct Step {
    /// The write.
    pub change: ClassChange,
    /// What to tell.
    pub notice: Option<Notice>,
}

/// Plans for all classes, round after round.
#[derive(Debug, Default)]
pub struct ClassPlanner {
    waits: Waits,
    looked: Option<Timestamp>,
}

impl ClassPlanner {
    /// The next write of each class that needs one and does not wait for an earlier one; each is started in the index.
    /// A round looks at every claim, so that within a second of the last one it waits.
    pub fn plan(&mut self, index: &mut Index, now: Timestamp, room: usize) -> Planned {
        let next = self.looked.and_then(|looked| looked.checked_add(BETWEEN_LOOKS).ok());
        if let Some(next) = next.filter(|next| *next > now) {
            return Planned { next: Some(next), ..Planned::default() };
        }
        self.looked = Some(now);
        let mut users = users(index);
        let classes: Vec<ResourceClass> = index.resource_classes().cloned().collect();
        let compiled: Vec<_> =
            classes.iter().map(|class| compile::compile(class, index.classes())).collect();
        let seen = classes.iter().zip(compiled).map(|(class, compiled)| {
            let name = class.metadata.name.as_deref().unwrap_or_default();
            let device_class = index.device_class(name);
            Seen { class, device_class, compiled, user: users.remove(name) }
        });
        let seen: Vec<Seen<'_>> = seen.collect();
        let planned = self.plan_seen(seen, now, room.min(MOST_CHANGES));
        for change in &planned.changes {
            index.start(change, now);
        }
        planned
    }

    fn plan_seen<'a>(
        &mut self,
        classes: impl IntoIterator<Item = Seen<'a>>,
        now: Timestamp,
        most: usize,
    ) -> Planned {
        let mut planned = Planned::default();
        let mut there = BTreeSet::new();
        for seen in classes {
            let Some(uid) = seen.class.metadata.uid.clone().map(Uid) else { continue };
            there.insert(uid.clone());
            if let Some(until) = self.waits.until(&uid, &seen, now) {
                planned.next = planned.next.into_iter().chain([until]).min();
                continue;
            }
            let Some(step) = step(&seen, now) else { continue };
            if planned.changes.len() >= most {
                planned.next = Some(now);
                continue;
            }
            self.waits.start(uid, &seen, now);
            planned.notices.extend(step.notice);
            planned.changes.push(Change::Class(Box::new(step.change)));
        }
        self.waits.retain(|uid| there.contains(uid));
        planned
    }

    /// A write is over; reports of other changes are none of ours.
    pub fn note(&mut self, report: &Report, now: Timestamp) {
        self.waits.note(report, now);
    }
}

/// What to do next for a class; none where all is as it ought to be.
pub fn step(seen: &Seen<'_>, now: Timestamp) -> Option<Step> {
    let standing = Standing::of(seen.class, seen.device_class);
    let silent = |change| Some(Step { change, notice: None });
    if is_deleting(seen.class) {
        return match &seen.user {
            Some(user) => tell(seen, standing, Some(user), now),
            None => leave(seen.class, standing).and_then(silent),
        };
    }
    if let Some(class) = with_protection(seen.class, seen.user.is_some()) {
        return silent(ClassChange::Finalizers(class));
    }
    match keep(seen, standing) {
        Some(change) => silent(change),
        None => tell(seen, standing, None, now),
    }
}

/// The write that brings the DeviceClass to what it ought to be.
fn keep(seen: &Seen<'_>, standing: Standing<'_>) -> Option<ClassChange> {
    let spec = seen.compiled.as_ref().ok()?;
    match standing {
        Standing::Absent => Some(ClassChange::Create(wanted(seen.class, spec, None))),
        Standing::Ours(held) => {
            let wanted = wanted(seen.class, spec, Some(held));
            differs(held, &wanted).then_some(ClassChange::Replace(wanted))
        }
        Standing::Earlier | Standing::Foreign => None,
    }
}

/// The write that brings a class to its end.
fn leave(class: &ResourceClass, standing: Standing<'_>) -> Option<ClassChange> {
    match standing {
        Standing::Ours(held) if held.metadata.deletion_timestamp.is_none() => {
            Some(ClassChange::Delete(held.clone()))
        }
        _ => with_protection(class, false).map(ClassChange::Finalizers),
    }
}

/// The write of the condition, where it changes.
fn tell(
    seen: &Seen<'_>,
    standing: Standing<'_>,
    user: Option<&Key>,
    now: Timestamp,
) -> Option<Step> {
    let name = seen.class.metadata.name.as_deref().unwrap_or_default();
    let conflict = standing.conflict(name);
    let broken = conflict.as_ref().or(seen.compiled.as_ref().err());
    let verdict = Verdict::of(broken);
    let notice = notice(seen.class, &verdict);
    let verdict = match user {
        Some(user) => verdict.in_use(user),
        None => verdict,
    };
    let class = with_verdict(seen.class, &verdict, now)?;
    Some(Step { change: ClassChange::Status(class), notice })
}

/// An event where a class breaks, breaks in another way, or is mended.
fn notice(class: &ResourceClass, verdict: &Verdict) -> Option<Notice> {
    let before = class.ready();
    let reason = verdict.reason.as_str();
    let is_news = before.is_none_or(|before| before.reason != reason);
    let is_worth_it = !verdict.is_ready || before.is_some();
    (is_news && is_worth_it).then_some(())?;
    let about = About::Class(Id::of(&class.metadata)?);
    Some(Notice { about, is_warning: !verdict.is_ready, reason, note: verdict.message.clone() })
}

/// The UID of the class that a change is for.
pub fn subject(change: &ClassChange) -> Option<Uid> {
    let uid = match change {
        ClassChange::Create(class) | ClassChange::Replace(class) | ClassChange::Delete(class) => {
            let owners = class.metadata.owner_references.iter().flatten();
            let mut owners = owners.filter(|owner| owner.controller == Some(true));
            owners.next().map(|owner| owner.uid.clone())
        }
        ClassChange::Status(class) | ClassChange::Finalizers(class) => class.metadata.uid.clone(),
    };
    uid.map(Uid)
}

#[cfg(test)]
mod tests;
