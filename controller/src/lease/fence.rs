//! The time in which a write may still be answered.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Tells writers how long they may still write; cheap to clone.
///
/// Its clock is `CLOCK_MONOTONIC`: it goes on while the process is stopped, and no step of the wall clock moves it. It
/// does not count the time in which the whole machine is suspended.
#[derive(Clone, Debug)]
pub struct Fence {
    until: Arc<Mutex<Option<Instant>>>,
}

impl Fence {
    /// Open until then.
    pub fn until(end: Instant) -> Self {
        Self { until: Arc::new(Mutex::new(Some(end))) }
    }

    /// The time left; absent when nothing may be written any more.
    pub fn margin(&self) -> Option<Duration> {
        self.margin_at(Instant::now())
    }

    /// The time left at this instant.
    pub fn margin_at(&self, now: Instant) -> Option<Duration> {
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        until?.checked_duration_since(now).filter(|margin| !margin.is_zero())
    }

    /// Nothing more is written; it does not open again.
    pub fn close(&self) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Open longer, unless it is closed.
    pub(super) fn extend(&self, end: Instant) {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = until.map(|old| old.max(end));
    }
}
