//! One round: what was planned in it so far, and what it has found out.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::Planned;
use super::notices::Waiting;
use super::refusals::Grounds;
use super::timing::earlier;
use crate::change::Change;
use crate::index::Index;

/// One round.
pub struct Round<'a> {
    /// What was planned.
    pub planned: &'a mut Planned,
    /// The time.
    pub now: Timestamp,
    /// Changes that the plan may have in all.
    pub most: usize,
    /// Refusals put into words.
    pub words: usize,
    /// Shapes of claims that no node has the devices for. What is free only shrinks within a round.
    pub short: BTreeMap<Vec<u64>, Option<Arc<Waiting>>>,
    /// A head was found, and the node that is kept for it.
    pub head: Option<Option<String>>,
    /// What a refusal rests on now.
    pub grounds: Grounds,
}

/// Whether a node is kept for a pod.
pub enum Head {
    /// It is too young, or another one is before it.
    Not,
    /// A node was kept for it in the round before.
    Is(Option<String>),
    /// It may be, once its best node is found.
    Unjudged,
}

impl Round<'_> {
    /// Plans a change, which is under way from now on.
    pub fn push(&mut self, index: &mut Index, change: Change) {
        index.start(&change, self.now);
        self.planned.changes.push(change);
    }

    /// Time alone changes something then.
    pub fn again(&mut self, time: Timestamp) {
        self.planned.next = earlier(self.planned.next, Some(time));
    }

    /// Keeps a node for the head, off those that come later.
    pub fn keep(&mut self, node: Option<String>) {
        self.grounds.kept.clone_from(&node);
        self.head = Some(node);
    }
}
