//! What the model expects of an operation.

use std::collections::BTreeMap;
use std::fs;

use jiff::{SignedDuration, Timestamp};
use lanemate_kubelet_plugin::state::{Consumer, Fate, PrepareError, Prepared};

use super::disk::{self, Kind};
use super::world::{Late, World, held_by, uid};

/// How a Prepare may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    Prepared,
    Stale,
    Refused,
    /// A device may be held by a claim of which the plugin cannot know.
    PreparedOrRefused,
}

const TOMBSTONE: SignedDuration = SignedDuration::from_mins(10);
const GRACE: SignedDuration = SignedDuration::from_secs(60);

impl World {
    pub fn expected(&self, late: &Late) -> Expected {
        let claim = &late.fetched.claim;
        let uid = uid(claim);
        let status = claim.status.as_ref();
        if status.is_none_or(|status| status.allocation.is_none()) {
            return Expected::Refused;
        }
        if let Some(mark) = self.tombstone(uid) {
            let is_same = late.fetched.ticket.tombstone.as_ref() == Some(&mark);
            match late.fetched.consumer {
                Consumer::Alive if is_same => {}
                Consumer::Gone(_) if is_same => return Expected::Refused,
                _ => return Expected::Stale,
            }
        }
        if self.kind(uid) == Kind::Prepared {
            return Expected::Prepared;
        }
        let is_reserved = status.is_some_and(|status| status.reserved_for.is_some());
        if claim.metadata.deletion_timestamp.is_some() && !is_reserved {
            return Expected::Refused;
        }
        self.met(uid)
    }

    /// Whether another claim holds a device of a claim.
    fn met(&self, uid: &str) -> Expected {
        let wanted = held_by(&self.ever[uid]);
        let specs = disk::specs(self.root());
        // What is left of one without a CDI file is the words of a spoilt record, and the bit that has
        // flipped may have made them name another device.
        let is_sure = |other: &String| self.kind(other) != Kind::Lost || specs.contains(other);
        let mut others = self.model.iter().filter(|(other, _)| *other != uid);
        let is_held = others.clone().any(|(other, entry)| {
            is_sure(other) && entry.devices.iter().any(|device| wanted.contains(device))
        });
        match (is_held, others.all(|(other, _)| is_sure(other))) {
            (true, _) => Expected::Refused,
            (false, true) => Expected::Prepared,
            (false, false) => Expected::PreparedOrRefused,
        }
    }

    pub fn check_prepared(
        &self,
        late: &Late,
        expected: Expected,
        result: &Result<Prepared, PrepareError>,
    ) {
        let fits = match result {
            Ok(_) => matches!(expected, Expected::Prepared | Expected::PreparedOrRefused),
            Err(PrepareError::Stale(_)) => expected == Expected::Stale,
            Err(PrepareError::Refused(_)) => {
                matches!(expected, Expected::Refused | Expected::PreparedOrRefused)
            }
            Err(_) => false,
        };
        if !fits {
            self.fail(&format!("expected {expected:?}, found {result:?}"));
        }
        // The same without tombstones: what was read before Unprepare brings nothing back.
        let buried = self.unprepared.get(uid(&late.fetched.claim));
        let is_late = buried.is_some_and(|(operation, time)| {
            late.begun < *operation && self.now.duration_since(*time) < TOMBSTONE
        });
        if is_late && result.is_ok() {
            self.fail("a late call has brought a claim back");
        }
    }

    /// The mark of a tombstone that counts.
    fn tombstone(&self, uid: &str) -> Option<String> {
        let mark = fs::read_to_string(self.path("state/tombstones").join(uid)).ok()?;
        let made = mark.split(' ').next()?.parse().ok()?;
        let made = Timestamp::from_nanosecond(made).ok()?;
        (self.now.duration_since(made) < TOMBSTONE).then_some(mark)
    }

    /// What became of a claim, as the API server says.
    pub fn fate(&self, name: &str) -> Fate {
        match self.api.get(name) {
            Some(claim) => Fate::Exists(Box::new(claim.clone())),
            None => Fate::Gone,
        }
    }

    /// What reconciliation may make of each claim; with a fault, it may also do nothing.
    pub fn after_reconcile(
        &self,
        is_told: impl Fn(&str) -> bool,
        is_faulty: bool,
    ) -> BTreeMap<String, Vec<Kind>> {
        let mut allowed = BTreeMap::new();
        for (uid, entry) in &self.model {
            let may_go = !self.kubelet.contains(uid)
                && (self.gone.get(uid).is_some_and(|at| self.now.duration_since(*at) >= GRACE)
                    // Nothing can be read of it, so nobody can be asked.
                    || entry.kind == Kind::Lost);
            let mut kinds = Vec::new();
            match entry.kind {
                Kind::Releasing => kinds.push(Kind::Absent),
                Kind::Lost if is_told(uid) => kinds.push(Kind::Prepared),
                _ => {}
            }
            if may_go {
                kinds.push(Kind::Absent);
            }
            if is_faulty {
                kinds.push(Kind::Releasing);
            }
            allowed.insert(uid.clone(), kinds);
        }
        allowed
    }
}
