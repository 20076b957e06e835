//! How long ago something was, as `kubectl` writes it.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::events::v1::Event;

/// When an event was last seen.
pub fn last(event: &Event) -> Option<Timestamp> {
    let series = event.series.as_ref().map(|series| series.last_observed_time.0);
    let old = event.deprecated_last_timestamp.as_ref().map(|time| time.0);
    series.or(event.event_time.as_ref().map(|time| time.0)).or(old)
}

/// How often an event was seen.
pub fn count(event: &Event) -> i32 {
    let series = event.series.as_ref().map(|series| series.count);
    series.or(event.deprecated_count).unwrap_or(1)
}

/// The time between, in its two largest units below days: `5s`, `3m20s`, `2h5m`, `4d`.
pub fn words(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).max(SignedDuration::ZERO).as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (1.., ..) => format!("{days}d"),
        (0, 10.., _) => format!("{hours}h"),
        (0, 1.., _) => format!("{hours}h{}m", minutes % 60),
        (0, 0, 10..) => format!("{minutes}m"),
        (0, 0, 1..) => format!("{minutes}m{}s", seconds % 60),
        _ => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        for (seconds, expect) in [
            (-3, "0s"),
            (0, "0s"),
            (59, "59s"),
            (200, "3m20s"),
            (3599, "59m"),
            (7500, "2h5m"),
            (40_000, "11h"),
            (400_000, "4d"),
        ] {
            let now = Timestamp::from_second(1_000_000 + seconds).unwrap();
            assert_eq!(words(Timestamp::from_second(1_000_000).unwrap(), now), expect);
        }
    }
}
