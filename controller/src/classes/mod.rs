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

use jiff::Timestamp;
use k8s_openapi::api::resource::v1::{DeviceClass, DeviceClassSpec};
use lanemate_api::ResourceClass;

use self::compile::{Broken, Standing, differs, wanted};
use self::protect::{is_deleting, with_protection};
use self::status::{Verdict, with_verdict};
pub use self::waits::Waits;
use crate::change::ClassChange;
use crate::id::{Id, Key, Uid};
use crate::plan::{About, Notice};

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
