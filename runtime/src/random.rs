//! Numbers that differ from call to call and from process to process, for jitter and for ids. Not
//! for secrets.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// Any number. The keys of a hasher are the randomness that the standard library has.
pub fn number() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A time, give or take a tenth, so that the nodes of a cluster do not come all at once.
pub fn jittered(time: Duration) -> Duration {
    // 0 to 200 thousandths above nine tenths.
    let thousandths = 900 + u32::try_from(number() % 201).unwrap_or_default();
    time.saturating_mul(thousandths) / 1000
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn numbers_differ_and_times_stay_within_a_tenth() {
        let numbers: BTreeSet<u64> = (0..100).map(|_| number()).collect();
        assert!(numbers.len() > 90, "{}", numbers.len());
        for _ in 0..1000 {
            let time = jittered(Duration::from_secs(100));
            assert!((90..=110).contains(&time.as_secs()), "{time:?}");
        }
    }
}
