//! Waits between tries: each twice as long as the one before, with jitter, so that the nodes of a
//! cluster do not come all at once.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

/// The first wait is between this and twice this.
const SHORTEST: Duration = Duration::from_millis(200);
/// The longest wait is between this and twice this, so 30 s at most.
const LONGEST: Duration = Duration::from_secs(15);

/// The waits of one thing that is tried again and again.
#[derive(Debug)]
pub struct Backoff {
    waits: ExponentialBackoff,
}

impl Default for Backoff {
    fn default() -> Self {
        let waits = ExponentialBuilder::new()
            .with_min_delay(SHORTEST)
            .with_max_delay(LONGEST)
            .with_factor(2.0)
            .with_jitter()
            .without_max_times();
        Self { waits: waits.build() }
    }
}

impl Backoff {
    /// The next wait.
    pub fn next_wait(&mut self) -> Duration {
        self.waits.next().unwrap_or(LONGEST)
    }

    /// Begins with short waits again.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

/// A time between a period and twice that, so that nodes started together do not stay in step.
pub fn spread(period: Duration) -> Duration {
    let waits = ExponentialBuilder::new().with_min_delay(period).with_jitter();
    waits.build().next().unwrap_or(period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_half_a_minute_and_begin_anew() {
        let mut backoff = Backoff::default();
        let waits: Vec<Duration> = (0..20).map(|_| backoff.next_wait()).collect();
        for (index, wait) in waits.iter().enumerate() {
            let least = SHORTEST.saturating_mul(1 << index.min(16)).min(LONGEST);
            assert!(*wait >= least && *wait <= least * 2, "{index}: {wait:?}");
        }
        let period = Duration::from_secs(100);
        assert!((period..=period * 2).contains(&spread(period)));
        backoff.reset();
        assert!(backoff.next_wait() <= SHORTEST * 2);
    }
}
