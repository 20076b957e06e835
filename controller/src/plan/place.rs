//! The placing of pods: one batch in the order of serving.
//!
//! ```text
//! waiting pods, in order --in flight?--> skip
//!                        --refused on grounds that still hold?--> skip
//!                        --pod::next--> Ungate | Clear | Place, each started at once in the index
//!                                       `-> refused: remembered; smaller later pods go on (back-fill)
//!                                            `-> the first that has waited long keeps its best node
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::back_off::BackOffs;
use super::belongs::Belongs;
use super::decide::{Decided, Memories, Nodes, Others, Question};
use super::head::{self, Kept};
use super::notices::{self, Notices, Waiting};
use super::pod::{self, Cleared, Next, Work};
use super::refusals::{Grounds, Refusal, Refusals};
use super::round::{Head, Round};
use super::timing::{self, JUDGE_AGAIN, earlier};
use super::{About, Notice, Planned, Settings, assignment, order};
use crate::change::{Change, ClaimWrite, Clear, Place, Release, Ungate, Write};
use crate::id::{Id, Key, Uid};
use crate::index::{Index, PodFacts};

/// What the placing of pods remembers from round to round.
#[derive(Debug, Default)]
pub struct Placing {
    settings: Settings,
    pub(super) belongs: Belongs,
    pub(super) memories: Memories,
    pub(super) refusals: Refusals,
    pub(super) notices: Notices,
    pub(super) back_offs: BackOffs,
    kept: Option<Kept>,
    /// Pods that get their devices, with the claims that are written and what is to be told when they are.
    pub(super) under_way: BTreeMap<Uid, (Id, Vec<Key>, String)>,
    rounds: u64,
}

/// Rounds between two in which what is gone is forgotten: the look at all that is remembered costs as much as a round.
const FORGET_EVERY: u64 = 64;

impl Placing {
    /// Nothing is remembered.
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Plans for all waiting pods; `most` is the number of changes that the plan may have in all.
    pub fn plan(&mut self, index: &mut Index, now: Timestamp, most: usize, planned: &mut Planned) {
        self.belongs.begin(index);
        self.tell_placed(index, planned);
        if self.rounds.is_multiple_of(FORGET_EVERY) {
            self.forget(index);
        }
        self.rounds += 1;
        let capacity =
            (index.cluster().capacity_version(), index.other_cluster().capacity_version());
        let grounds = Grounds {
            capacity,
            classes: self.belongs.version(),
            fit: Some(index.fit_version()),
            kept: None,
        };
        let (words, short) = (0, BTreeMap::new());
        let mut round = Round { planned, now, most, words, short, head: None, grounds };
        for uid in order::in_order(index.waiting()) {
            if round.planned.changes.len() >= round.most {
                break;
            }
            self.one(index, &uid, &mut round);
        }
        if round.head.is_none() {
            self.kept = None;
        }
    }

    fn one(&mut self, index: &mut Index, uid: &Uid, round: &mut Round<'_>) {
        let Some(pod) = index.pod(uid) else { return };
        let keys = pod::claims_of(pod);
        let claims = keys.iter().filter_map(|key| index.claim(key));
        if index.in_flight(uid) || claims.map(|claim| &claim.id.uid).any(|c| index.in_flight(c)) {
            return;
        }
        let head = self.head_of(pod, round);
        let refusal = self.refusals.standing((pod, index), &round.grounds, round.now);
        let refusal = refusal.map(|refusal| (refusal.until, refusal.waiting.clone()));
        if let (Some((until, waiting)), Head::Not | Head::Is(_)) = (refusal, &head) {
            if let Head::Is(node) = head {
                round.keep(node);
            }
            self.see(pod.created, index, &keys, round);
            if waiting.is_none() && self.may_word(uid, round) {
                let pod = pod.clone();
                return self.put_into_words(index, &pod, round);
            }
            return self.told(&pod.id, until, waiting.as_deref(), round);
        }
        self.belongs.learn(index, keys.iter());
        let Some(pod) = index.pod(uid).cloned() else { return };
        self.see(pod.created, index, &keys, round);
        match pod::next(&pod, index, &self.belongs, round.now) {
            Next::Nothing => {}
            Next::Later(time) => round.again(time),
            Next::Ungate => {
                let (pod, version) = (pod.id, pod.version);
                round.push(index, Change::Ungate(Ungate { pod, version }));
            }
            Next::Wait(waiting) => self.tell(&pod.id, &waiting, round),
            Next::Clear(cleared) => self.clear(index, &pod, cleared, round),
            Next::Work(work) if work.open.is_empty() => self.settle(index, &pod, &work, round),
            Next::Work(work) => self.decide(index, &pod, &work, round),
        }
    }

    /// Finds devices for the open claims of a pod.
    fn decide(&mut self, index: &mut Index, pod: &PodFacts, work: &Work, round: &mut Round<'_>) {
        let shapes: Vec<u64> = work
            .open
            .iter()
            .filter_map(|(_, id)| self.belongs.get(&id.uid).map(|known| known.shape))
            .collect();
        let may_lead = matches!(self.head_of(pod, round), Head::Unjudged | Head::Is(_));
        if let Some(known) = round.short.get(&shapes)
            && !may_lead
        {
            let words = known.clone();
            return self.refused(index, pod, work, (false, words), round);
        }
        let question = match Question::read(index, work) {
            Ok(question) => question,
            Err(waiting) => {
                let words = Some(Arc::new(waiting));
                return self.refused(index, pod, work, (false, words), round);
            }
        };
        let others = Others::read(index, work);
        let kept = round.grounds.kept.clone();
        let (now, back_offs) = (round.now, &self.back_offs);
        let kept = kept.as_deref();
        let nodes = Nodes { index, pod, work, others: &others, back_offs, kept, now };
        let (decided, was_unfit) = question.answer(&mut self.memories, &nodes);
        round.planned.stats.decisions += 1;
        if let Some(decided) = decided {
            return self.place(index, (pod, work, &others), decided, round);
        }
        if may_lead && !work.is_settled && work.place.only.is_none() {
            let same = |kept: &&Kept| kept.pod == pod.id.uid && now < kept.until;
            let kept = self.kept.as_ref().filter(same).cloned();
            let kept =
                kept.unwrap_or_else(|| head::keep(&question.problem, &mut self.memories, &nodes));
            round.keep(kept.node.clone());
            self.kept = Some(kept);
        }
        let words = self.may_word(&pod.id.uid, round).then(|| {
            round.words += 1;
            Arc::new(question.refusal(&mut self.memories, &nodes))
        });
        if !was_unfit {
            round.short.insert(shapes, words.clone());
        }
        self.refused(index, pod, work, (was_unfit, words), round);
    }

    /// Remembers that nothing fits; what a crash has left allocated for the pod is taken back, so that all of its claims
    /// are planned anew.
    fn refused(
        &mut self,
        index: &mut Index,
        pod: &PodFacts,
        work: &Work,
        (was_unfit, waiting): (bool, Option<Arc<Waiting>>),
        round: &mut Round<'_>,
    ) {
        if !work.own.is_empty() {
            let why = format!("the other claims of pod {} do not fit beside it", pod.id);
            let cleared = Cleared { claims: work.own.clone(), why, back_off: None };
            return self.clear(index, pod, cleared, round);
        }
        let mut grounds = round.grounds.clone();
        if !was_unfit {
            grounds.fit = None;
        }
        // The head itself is not kept off its node.
        if self.kept.as_ref().is_some_and(|kept| kept.pod == pod.id.uid) {
            grounds.kept = None;
        }
        let again = was_unfit.then(|| timing::after(round.now, JUDGE_AGAIN));
        let until = earlier(again, self.back_offs.next_end(&pod.id.uid, round.now));
        let refusal = Refusal::new((pod, index), grounds, until, waiting.clone());
        self.refusals.add(&pod.id.uid, refusal);
        self.told(&pod.id, until, waiting.as_deref(), round);
    }

    /// Hands over what is allocated: the pod is added to its claims, and let go.
    fn settle(&mut self, index: &mut Index, pod: &PodFacts, work: &Work, round: &mut Round<'_>) {
        let others = Others::read(index, work);
        let node = work.place.only.clone();
        let (now, back_offs) = (round.now, &self.back_offs);
        if let Some(name) = &node {
            let nodes = Nodes { index, pod, work, others: &others, back_offs, kept: None, now };
            if let Some(why) = nodes.unfit_in_itself(name, &mut self.memories.others) {
                let why = format!("node {name}: the pod cannot run here: {why}");
                if work.own.is_empty() {
                    return self.tell(&pod.id, &Waiting::for_now(why), round);
                }
                let cleared = Cleared { claims: work.own.clone(), why, back_off: None };
                return self.clear(index, pod, cleared, round);
            }
        }
        let words = match &node {
            Some(node) => format!("node {node}: claims that are allocated already"),
            None => "claims that are allocated already".to_owned(),
        };
        let (node, writes, entries) = (node.unwrap_or_default(), Vec::new(), Vec::new());
        let decided = Decided { node, writes, entries, words };
        self.place(index, (pod, work, &others), decided, round);
    }

    fn place(
        &mut self,
        index: &mut Index,
        (pod, work, others): (&PodFacts, &Work, &Others),
        decided: Decided,
        round: &mut Round<'_>,
    ) {
        let Decided { node, writes: mut claims, mut entries, words } = decided;
        let reserve = |claim: &Id| ClaimWrite { claim: claim.clone(), write: Write::Reserve };
        claims.extend(work.to_reserve.iter().map(reserve));
        for (entry, devices) in &work.held {
            entries.extend(assignment::of_devices(entry, devices, index.cluster().node(&node)));
        }
        let is_judged =
            !matches!(others, Others::Unjudged) && index.unmodelled(&pod.needs).is_none();
        let pin = (is_judged && !node.is_empty()).then(|| node.clone());
        let assignment = assignment::encode(&entries);
        let release = match (work.is_gated, &pod.object) {
            (false, _) => None,
            // The pod is about to be seen.
            (true, None) => return,
            (true, Some(pod)) => Some(Release { pod: pod.clone(), pin, assignment }),
        };
        self.refusals.remove(&pod.id.uid);
        let keys = claims.iter().map(|write| write.claim.key.clone()).collect();
        self.under_way.insert(pod.id.uid.clone(), (pod.id.clone(), keys, words));
        let place = Place { pod: pod.id.clone(), node, claims, release };
        round.push(index, Change::Place(Box::new(place)));
    }

    fn clear(
        &mut self,
        index: &mut Index,
        pod: &PodFacts,
        cleared: Cleared,
        round: &mut Round<'_>,
    ) {
        let Cleared { claims, why, back_off } = cleared;
        for id in claims {
            let Some(version) = index.claim(&id.key).map(|claim| claim.version.clone()) else {
                continue;
            };
            round.push(index, Change::Clear(Clear { claim: id, version, why: why.clone() }));
        }
        if let Some(node) = back_off {
            self.back_offs.add(&pod.id.uid, &node, round.now);
            round.planned.notices.push(Notice {
                about: About::Pod(pod.id.clone()),
                is_warning: true,
                reason: notices::MOVED,
                note: format!("{why}; another node is looked for"),
            });
        }
    }

    fn forget(&mut self, index: &Index) {
        let lives = |uid: &Uid| index.pod(uid).is_some();
        self.refusals.retain(lives);
        self.notices.retain(lives);
        self.back_offs.retain(lives);
        self.belongs.retain(|uid| index.claim_by_uid(uid).is_some());
    }

    /// Counts a pod that waits for devices of ours.
    fn see(&self, created: Option<Timestamp>, index: &Index, keys: &[Key], round: &mut Round<'_>) {
        let open = keys.iter().filter_map(|key| index.claim(key));
        let open = open.filter(|claim| claim.grant.is_none());
        let known = open.filter_map(|claim| self.belongs.get(&claim.id.uid));
        let stats = &mut round.planned.stats;
        let mut waits = false;
        for known in known.filter(|known| known.is_ours()) {
            waits = true;
            for (class, count) in &known.wants {
                match stats.wanted.get_mut(class) {
                    Some(sum) => *sum += count,
                    None => {
                        stats.wanted.insert(class.clone(), *count);
                    }
                }
            }
        }
        if waits {
            stats.waiting += 1;
            stats.oldest = earlier(stats.oldest, created);
        }
    }

    /// Whether a pod, if it is refused, is the one that a node is kept for.
    fn head_of(&self, pod: &PodFacts, round: &mut Round<'_>) -> Head {
        let Some(due) = head::due(pod, self.settings.head_waits) else { return Head::Not };
        if round.head.is_some() {
            return Head::Not;
        }
        if round.now < due {
            round.again(due);
            return Head::Not;
        }
        match &self.kept {
            Some(kept) if kept.pod == pod.id.uid && round.now < kept.until => {
                round.again(kept.until);
                Head::Is(kept.node.clone())
            }
            _ => Head::Unjudged,
        }
    }
}
