//! One write until its answer is definite: sent again as it is for as long as nobody knows whether it was taken.
//!
//! ```text
//! send --2xx--> Taken
//!   |--409, 404--> Conflict, Gone: no earlier copy can be taken any more either, its version is past
//!   |--no answer, 429, 5xx--> in doubt --wait, without a turn--> the same again
//!   |--other refusals--> Refused; in doubt only when every earlier copy is past too
//!   `--fence gone--> Fenced; a write in doubt stays so
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kube::Client;
use lanemate_runtime::backoff::Backoff;
use lanemate_runtime::call::{CallError, call_within};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::change::{Generations, Outcome};
use crate::id::{Id, Version};
use crate::lease::Fence;

/// Tries of a write that does no harm if it is taken late: with growing waits in between, some 15 s.
const TRIES: u32 = 6;
/// The API server gives up a request after a minute; what it has not done by then it will not do.
const PAST: Duration = Duration::from_secs(70);
/// The longest wait that the API server can ask for: its word is an estimate.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// What all jobs share.
pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) fence: Fence,
    pub(super) generations: Generations,
    /// At most [`lanemate_runtime::call::LIMIT`].
    pub(super) limit: Duration,
    pub(super) turns: Arc<Semaphore>,
    pub(super) doubts: Arc<AtomicUsize>,
}

/// One job: what it has written, and its turn.
pub(super) struct Job {
    pub(super) shared: Arc<Shared>,
    pub(super) written: Vec<(Id, Version)>,
    turn: Option<OwnedSemaphorePermit>,
}

/// How long to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// Until the answer is definite: what is taken late would hold devices that others think free.
    Settle,
    /// A few times: it is planned again.
    Some,
}

/// What became of a write.
pub(super) enum Answer<T> {
    /// Done, by this request.
    Taken(T),
    /// Changed by others, or by a request of ours whose answer was lost.
    Conflict(String),
    /// There is no such object.
    Gone(String),
    /// The API server will not do it.
    Refused(String),
    /// Nothing may be sent any more.
    Fenced,
}

/// A write on its way. One that is dropped before it was settled, as when its job is ended, stays counted.
struct Doubt(Option<Arc<AtomicUsize>>);

impl Job {
    /// Waits for its turn.
    pub(super) async fn begin(shared: Arc<Shared>) -> Self {
        let turn = Arc::clone(&shared.turns).acquire_owned().await.ok();
        Self { shared, written: Vec::new(), turn }
    }

    /// Sends until the answer is definite, or patience or the lease ends.
    pub(super) async fn send<T, F>(
        &mut self,
        patience: Patience,
        deed: &str,
        request: impl Fn(Client) -> F,
    ) -> Answer<T>
    where
        F: Future<Output = kube::Result<T>>,
    {
        let doubt = Doubt::begin(&self.shared.doubts, patience);
        let mut backoff = Backoff::default();
        let mut unanswered: Option<Instant> = None;
        let mut tries = 0;
        loop {
            let Some(margin) = self.shared.fence.margin() else {
                if unanswered.is_none() {
                    doubt.settle();
                }
                return Answer::Fenced;
            };
            tries += 1;
            let within = margin.min(self.shared.limit);
            let request = request(self.shared.client.clone());
            let error = match call_within(within, || deed.to_owned(), request).await {
                Ok(answer) => {
                    doubt.settle();
                    return Answer::Taken(answer);
                }
                Err(error) => error,
            };
            let may_be_done = error.is_passing() || matches!(error, CallError::Garbled { .. });
            let is_definite = match &error {
                CallError::Conflict { .. } | CallError::NotFound { .. } => true,
                _ if may_be_done => patience == Patience::Some && tries >= TRIES,
                _ => unanswered.is_none_or(|last| last.elapsed() > PAST),
            };
            if is_definite {
                doubt.settle();
                return Answer::of(&error);
            }
            if may_be_done {
                unanswered = Some(Instant::now());
            }
            tracing::debug!(%error, tries, "sent again");
            self.rest(backoff.next_wait().max(error.retry_after()).min(LONGEST_WAIT)).await;
        }
    }

    /// Waits, and lets others work meanwhile.
    async fn rest(&mut self, wait: Duration) {
        self.turn = None;
        tokio::time::sleep(wait).await;
        self.turn = Arc::clone(&self.shared.turns).acquire_owned().await.ok();
    }
}

impl Doubt {
    fn begin(doubts: &Arc<AtomicUsize>, patience: Patience) -> Self {
        let counted = (patience == Patience::Settle).then(|| Arc::clone(doubts));
        counted.iter().for_each(|doubts| _ = doubts.fetch_add(1, Ordering::Relaxed));
        Self(counted)
    }

    fn settle(self) {
        self.0.iter().for_each(|doubts| _ = doubts.fetch_sub(1, Ordering::Relaxed));
    }
}

impl<T> Answer<T> {
    fn of(error: &CallError) -> Self {
        let words = error.to_string();
        match error {
            CallError::Conflict { .. } => Self::Conflict(words),
            CallError::NotFound { .. } => Self::Gone(words),
            _ => Self::Refused(words),
        }
    }

    /// The object, or how the change ends without it; a conflict is for those who know what to do about it.
    pub(super) fn taken(self) -> Result<T, Outcome> {
        match self {
            Self::Taken(object) => Ok(object),
            Self::Conflict(words) | Self::Gone(words) => Err(Outcome::Superseded(words)),
            Self::Refused(words) => Err(Outcome::Refused(words)),
            Self::Fenced => Err(Outcome::Fenced),
        }
    }
}
