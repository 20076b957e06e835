//! What a test orders: which requests, and what becomes of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use tokio::sync::watch;

/// What has not come by then, even on a busy machine, does not come.
const LONGEST: Duration = Duration::from_secs(60);

/// A request as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// `GET`, `POST` and so on; `WATCH` for a watch.
    pub method: String,
    /// Path, without the query.
    pub path: String,
    /// What follows `?`, or nothing.
    pub query: String,
}

/// Chooses requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matcher {
    method: Option<&'static str>,
    path: String,
    times: usize,
}

/// An order of a test. It ends when this is dropped: what it holds goes on.
#[must_use = "the rule ends when this is dropped"]
pub struct Rule {
    order: Arc<Order>,
    rules: Arc<Mutex<Vec<Arc<Order>>>>,
}

/// All orders, and all requests.
#[derive(Default)]
pub(crate) struct Rules {
    orders: Arc<Mutex<Vec<Arc<Order>>>>,
    seen: Mutex<Vec<Seen>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Hold,
    HoldAnswer,
    Stall,
    Delay(Duration),
    CutBefore,
    CutAfter,
    Respond { status: u16, retry_after: Option<u32> },
}

pub(crate) struct Order {
    matcher: Matcher,
    pub(crate) action: Action,
    caught: watch::Sender<usize>,
    is_over: watch::Sender<bool>,
}

impl Matcher {
    /// Requests with this method, `WATCH` being that of watches, and these words in their path.
    pub fn new(method: &'static str, path: &str) -> Self {
        Self { method: Some(method), path: path.to_owned(), times: usize::MAX }
    }

    /// Requests with these words in their path, whatever their method.
    pub fn path(path: &str) -> Self {
        Self { method: None, path: path.to_owned(), times: usize::MAX }
    }

    /// The first so many of them.
    #[must_use]
    pub fn times(self, times: usize) -> Self {
        Self { times, ..self }
    }

    pub(crate) fn fits(&self, seen: &Seen) -> bool {
        self.method.is_none_or(|method| method == seen.method) && seen.path.contains(&self.path)
    }
}

impl Rule {
    /// How many requests it has met.
    pub fn caught(&self) -> usize {
        *self.order.caught.borrow()
    }

    /// Waits until it has met so many requests, for a minute at most.
    pub async fn until_caught(&self, count: usize) -> anyhow::Result<()> {
        let mut caught = self.order.caught.subscribe();
        let met = tokio::time::timeout(LONGEST, caught.wait_for(|caught| *caught >= count)).await;
        let what = || {
            let Order { matcher, action, .. } = &*self.order;
            format!("{action:?} of {matcher:?} met {} requests of {count}", self.caught())
        };
        met.with_context(what)?.map(drop).with_context(what)
    }

    /// Ends it.
    pub fn release(self) {}
}

impl Drop for Rule {
    fn drop(&mut self) {
        lock(&self.rules).retain(|order| !Arc::ptr_eq(order, &self.order));
        self.order.is_over.send_replace(true);
    }
}

impl Rules {
    pub(crate) fn add(&self, matcher: Matcher, action: Action) -> Rule {
        let (caught, is_over) = (watch::Sender::new(0), watch::Sender::new(false));
        let order = Arc::new(Order { matcher, action, caught, is_over });
        lock(&self.orders).push(Arc::clone(&order));
        Rule { order, rules: Arc::clone(&self.orders) }
    }

    /// Records a request, and says which order it meets: the oldest that fits and is not used up.
    pub(crate) fn take(&self, seen: &Seen) -> Option<Arc<Order>> {
        lock(&self.seen).push(seen.clone());
        let orders = lock(&self.orders);
        let order = orders.iter().find(|order| {
            order.action != Action::Stall
                && order.matcher.fits(seen)
                && *order.caught.borrow() < order.matcher.times
        })?;
        order.caught.send_modify(|caught| *caught += 1);
        Some(Arc::clone(order))
    }

    /// Returns when no order stalls what answers this request.
    pub(crate) async fn pass(&self, seen: &Seen) {
        // Each round waits for the end of one order; a test makes a handful.
        loop {
            let stalls =
                |order: &&Arc<Order>| order.action == Action::Stall && order.matcher.fits(seen);
            let Some(order) = lock(&self.orders).iter().find(stalls).cloned() else { return };
            order.caught.send_modify(|caught| *caught += 1);
            order.over().await;
        }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        lock(&self.seen).clone()
    }
}

impl Order {
    /// Returns when its rule is dropped.
    pub(crate) async fn over(&self) {
        // The sender lives in `self`.
        let _ = self.is_over.subscribe().wait_for(|is_over| *is_over).await;
    }
}

/// A panic elsewhere leaves nothing half done under these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
