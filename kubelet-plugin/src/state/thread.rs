//! The thread that owns the node's state. Its work waits for disks, which would hold up a runtime.

use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use jiff::Timestamp;
use lanemate_driver::machine::Machine;
use lanemate_driver::resource_slice::Mode;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::node::{Node, Reading, Settings, Source};
use super::{Fetched, Held, PrepareError, Question, State, UnprepareError, WAITING};
use crate::claim_id::ClaimId;
use crate::kubernetes::events::Events;
use crate::telemetry::metrics::Metrics;

/// The thread's own ends.
struct Thread {
    node: Node,
    questions: mpsc::Receiver<Question>,
    held: watch::Sender<Arc<Vec<Held>>>,
    machine: watch::Sender<Arc<Machine>>,
    mode: watch::Sender<Mode>,
}

/// Reads the machine, brings records and files into order, and starts the thread. The thread ends when
/// the last [`State`] is dropped; that it ends earlier, by a panic, is for the caller to see by the
/// handle.
///
/// # Errors
/// The thread cannot be made. Trouble with directories is none: each operation tries again.
pub fn start(
    settings: Settings,
    source: Source,
    metrics: Metrics,
    events: Events,
) -> io::Result<(State, JoinHandle<()>)> {
    let mut node = Node::new(settings, source, metrics, events);
    let reading = node.read(Timestamp::now());
    node.start(&reading);
    let (held, held_receiver) = watch::channel(Arc::new(node.held()));
    let (machine, machine_receiver) = watch::channel(node.machine());
    let (mode, mode_receiver) = watch::channel(node.mode());
    let (state, questions) = State::channel(held_receiver, machine_receiver, mode_receiver);
    let thread = Thread { node, questions, held, machine, mode };
    let handle = Builder::new().name("state".to_owned()).spawn(move || thread.run())?;
    Ok((state, handle))
}

impl Thread {
    fn run(mut self) {
        while let Some(first) = self.questions.blocking_recv() {
            // All that wait are asked by now, so one reading, begun later, is fresh for each.
            let mut waiting = vec![first];
            while let Ok(next) = self.questions.try_recv() {
                waiting.push(next);
                if waiting.len() >= WAITING {
                    break;
                }
            }
            let mut reading = None;
            for question in waiting {
                self.answer(question, &mut reading);
            }
        }
    }

    /// Whoever asked may have given up, so that an answer is not taken is no error. What is published
    /// is brought up to date first.
    fn answer(&mut self, question: Question, reading: &mut Option<Reading>) {
        let now = Timestamp::now();
        match question {
            Question::Ticket(uid, answer) => {
                let _ = answer.send(self.node.ticket(&uid, now));
            }
            Question::Prepare(fetched, deadline, answer) => {
                let late = claim_of(&fetched).filter(|_| Instant::now() >= deadline);
                let prepared = match late {
                    Some(claim) => Err(PrepareError::Late(claim)),
                    None => {
                        let reading = reading.get_or_insert_with(|| self.node.read(now));
                        self.node.prepare(&fetched, reading, now)
                    }
                };
                self.publish();
                let _ = answer.send(prepared);
            }
            Question::Prepared(claim, answer) => {
                let reading = reading.get_or_insert_with(|| self.node.read(now));
                let prepared = self.node.prepared(&claim, reading);
                self.publish();
                let _ = answer.send(prepared);
            }
            Question::Unprepare(claim, deadline, answer) => {
                let unprepared = if Instant::now() < deadline {
                    self.node.unprepare(&claim, now)
                } else {
                    Err(UnprepareError::Late(claim))
                };
                self.publish();
                let _ = answer.send(unprepared);
            }
            Question::Claims(answer) => {
                let claims = self.node.claims();
                self.publish();
                let _ = answer.send(claims);
            }
            Question::Reconcile(fates, answer) => {
                let reading = reading.get_or_insert_with(|| self.node.read(now));
                let reconciled = self.node.reconcile(fates, reading, now);
                self.publish();
                let _ = answer.send(reconciled);
            }
            Question::Rescan(answer) => {
                reading.get_or_insert_with(|| self.node.read(now));
                self.node.refresh();
                self.publish();
                let _ = answer.send(());
            }
            Question::Tend(answer) => {
                let _ = answer.send(self.tend(reading, now));
            }
        }
    }

    /// The machine is read only where something is missing: this is asked every second.
    fn tend(&mut self, reading: &mut Option<Reading>, now: Timestamp) -> bool {
        if !self.node.misses_files() {
            return true;
        }
        let reading = reading.get_or_insert_with(|| self.node.read(now));
        let is_whole = self.node.tend(reading);
        self.publish();
        is_whole
    }

    /// Sends what has changed.
    fn publish(&self) {
        let (held, machine, mode) = (self.node.held(), self.node.machine(), self.node.mode());
        self.held.send_if_modified(|last| {
            let is_new = **last != held;
            if is_new {
                *last = Arc::new(held);
            }
            is_new
        });
        self.machine.send_if_modified(|last| {
            let is_new = !Arc::ptr_eq(last, &machine);
            *last = machine;
            is_new
        });
        self.mode.send_if_modified(|last| std::mem::replace(last, mode) != mode);
    }
}

/// The claim that is asked for, if it has a name at all.
fn claim_of(fetched: &Fetched) -> Option<ClaimId> {
    let metadata = &fetched.claim.metadata;
    Some(ClaimId {
        namespace: metadata.namespace.clone()?,
        name: metadata.name.clone()?,
        uid: metadata.uid.as_deref()?.parse().ok()?,
    })
}
