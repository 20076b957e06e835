//! Durations as people type them.

use std::time::Duration;

use jiff::SignedDuration;

/// `90s`, `5m`, `1h30m`, as the value of a flag; zero and less is refused, as nothing would wait.
///
/// # Errors
/// What was expected, for people.
pub fn duration(text: &str) -> Result<Duration, String> {
    let expected = "expected a time above zero, such as 90s, 5m or 1h30m";
    let duration: SignedDuration = text.parse().map_err(|_| expected.to_owned())?;
    let duration = Duration::try_from(duration).map_err(|_| expected.to_owned())?;
    if duration.is_zero() { Err(expected.to_owned()) } else { Ok(duration) }
}
