//! What went wrong and can be mended: pins, double, foreign, lost and left-over allocations.
//!
//! ```text
//! index --> rules --> wanted: change + object + version --> not in flight, not done before, room left --> Change
//!             |
//!             +--> notices (once per object and reason, again after five minutes), counts, next look
//! ```
//!
//! Nothing here is on the way of a pod that is well: the rules look at all claims, so they look once a second at most.

mod contested;
mod finalizer;
mod foreign;
mod memo;
mod orphan;
mod pinned;
mod scene;
mod unreserved;
mod vanished;
mod words;

use jiff::{SignedDuration, Timestamp};

pub use self::memo::{Counts, Repairs};
use self::scene::Scene;
use super::{Planned, timing};
use crate::index::Index;

/// Between two looks: every rule but one waits for longer than that, and a look at 20 000 claims takes milliseconds.
const LOOK_EVERY: SignedDuration = SignedDuration::from_secs(1);

/// What a rule is about; clocks and events are kept by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    Pinned,
    Contested,
    Foreign,
    NodeGone,
    Vanished,
    Orphan,
    Abandoned,
    Finalizer,
    Unreserved,
}

/// Plans repairs. Each change is started in the index as it is planned; no more than `room` are.
pub fn plan(memo: &mut Repairs, index: &mut Index, now: Timestamp, room: usize) -> Planned {
    if let Some(last) = memo.looked_at()
        && (last..timing::after(last, LOOK_EVERY)).contains(&now)
    {
        return Planned { next: Some(timing::after(last, LOOK_EVERY)), ..Planned::default() };
    }
    memo.begin(now);
    let mut scene = Scene::new(index, memo, now);
    // A device in two claims comes first: whatever is cleared for it needs no other repair.
    contested::look(&mut scene);
    pinned::look(&mut scene);
    vanished::look(&mut scene);
    foreign::look(&mut scene);
    orphan::look(&mut scene);
    finalizer::look(&mut scene);
    unreserved::look(&mut scene);
    let (wanted, mut planned) = scene.end();
    for wanted in wanted {
        if planned.changes.len() >= room {
            planned.next = timing::earlier(planned.next, Some(timing::after(now, LOOK_EVERY)));
            break;
        }
        memo.done(&wanted.object, &wanted.version, now);
        if let Some(workload) = &wanted.workload {
            memo.deleted(workload, now);
        }
        index.start(&wanted.change, now);
        planned.changes.push(wanted.change);
    }
    memo.end(now);
    planned
}

#[cfg(test)]
mod tests;
