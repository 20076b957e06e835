//! What people hear of the pods of a round.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::Planned;
use super::decide::{Nodes, Others, Question};
use super::notices::{self, Waiting};
use super::place::Placing;
use super::pod::{self, Next};
use super::round::Round;
use super::timing;
use crate::id::{Id, Key, Uid};
use crate::index::{Index, PodFacts};

/// Refusals put into words in one round. Each may have to judge all nodes; the others follow a second later.
const MAX_WORDS: usize = 64;

impl Placing {
    /// Puts a refusal into words that was made before.
    pub(super) fn put_into_words(
        &mut self,
        index: &mut Index,
        pod: &PodFacts,
        round: &mut Round<'_>,
    ) {
        let Next::Work(work) = pod::next(pod, index, &self.belongs, round.now) else { return };
        let others = Others::read(index, &work);
        let Ok(question) = Question::read(index, &work) else { return };
        let kept = round.grounds.kept.clone();
        let (kept, now, back_offs) = (kept.as_deref(), round.now, &self.back_offs);
        let (work, others) = (&work, &others);
        let nodes = Nodes { index, pod, work, others, back_offs, kept, now };
        let waiting = Arc::new(question.refusal(&mut self.memories, &nodes));
        round.words += 1;
        let standing = self.refusals.standing((pod, index), &round.grounds, now);
        let until = standing.and_then(|refusal| {
            refusal.waiting = Some(Arc::clone(&waiting));
            refusal.until
        });
        self.told(&pod.id, until, Some(&waiting), round);
    }

    /// Another refusal may be put into words in this round, and be told.
    pub(super) fn may_word(&self, pod: &Uid, round: &Round<'_>) -> bool {
        let may_tell = self.notices.may_tell_at(pod).is_none_or(|time| time <= round.now);
        may_tell && round.words < MAX_WORDS
    }

    /// Tells of a refusal, or when it can be put into words.
    pub(super) fn told(
        &mut self,
        pod: &Id,
        until: Option<Timestamp>,
        waiting: Option<&Waiting>,
        round: &mut Round<'_>,
    ) {
        if let Some(until) = until {
            round.again(until);
        }
        match waiting {
            Some(waiting) => self.tell(pod, waiting, round),
            None => {
                *round.planned.stats.refused.entry(notices::WAITING).or_default() += 1;
                let soon = timing::after(round.now, SignedDuration::from_secs(1));
                let may_tell = self.notices.may_tell_at(&pod.uid);
                round.again(may_tell.map_or(soon, |time| time.max(soon)));
            }
        }
    }

    /// Tells why a pod waits, and counts it.
    pub(super) fn tell(&mut self, pod: &Id, waiting: &Waiting, round: &mut Round<'_>) {
        *round.planned.stats.refused.entry(waiting.reason).or_default() += 1;
        let told = self.notices.tell(pod, waiting, round.now);
        if told.is_empty()
            && let Some(time) = self.notices.may_tell_at(&pod.uid)
        {
            round.again(time);
        }
        round.planned.notices.extend(told);
    }

    /// Tells those pods whose devices are written and that were told to wait, and forgets those that got none after all.
    pub(super) fn tell_placed(&mut self, index: &Index, planned: &mut Planned) {
        let (notices, now_placed) = (&mut self.notices, &mut planned.notices);
        self.under_way.retain(|uid, (id, claims, words)| {
            if index.in_flight(uid) {
                return true;
            }
            let is_allocated =
                |key: &Key| index.claim(key).is_some_and(|claim| claim.grant.is_some());
            if index.pod(uid).is_some() && claims.iter().all(is_allocated) {
                now_placed.extend(notices.placed(id, std::mem::take(words)));
            }
            false
        });
    }
}
