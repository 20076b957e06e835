//! Events on claims and on the node, for people.

use tokio::sync::mpsc;

use crate::claim_id::ClaimId;

/// Events that wait for the API server. More are dropped: they repeat, and memory is bounded.
const WAITING: usize = 256;

/// Where to tell of an event; cheap to clone. Never waits.
#[derive(Clone, Debug)]
pub struct Events {
    sender: mpsc::Sender<Event>,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What it is about.
    pub about: About,
    /// `Warning`, or else `Normal`.
    pub is_warning: bool,
    /// One word for programs, such as `PrepareFailed`.
    pub reason: &'static str,
    /// A sentence for people.
    pub note: String,
}

/// The object of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// A claim.
    Claim(ClaimId),
    /// This node.
    Node,
}

impl Events {
    /// The two ends: where to tell, and what is told.
    pub fn channel() -> (Self, mpsc::Receiver<Event>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self { sender }, receiver)
    }

    /// Something that needs attention.
    pub fn warn(&self, about: About, reason: &'static str, note: String) {
        self.tell(Event { about, is_warning: true, reason, note });
    }

    /// Something that went well.
    pub fn inform(&self, about: About, reason: &'static str, note: String) {
        self.tell(Event { about, is_warning: false, reason, note });
    }

    fn tell(&self, event: Event) {
        if let Err(error) = self.sender.try_send(event) {
            tracing::warn!(%error, "event dropped");
        }
    }
}
