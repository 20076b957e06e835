//! Waits for a condition, never without end.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// A busy machine is slow; what has not come by then does not come.
const LONGEST: Duration = Duration::from_secs(60);
const BETWEEN: Duration = Duration::from_millis(50);

/// Asks every 50 ms until the answer is there, for a minute at most. The error names what was
/// awaited, and how things stood last: `Ok(Err(state))` of the question is "not yet", `Err` ends
/// the wait at once.
pub async fn until<T>(
    what: &str,
    mut question: impl AsyncFnMut() -> anyhow::Result<Result<T, String>>,
) -> anyhow::Result<T> {
    let end = Instant::now() + LONGEST;
    loop {
        match question().await? {
            Ok(answer) => return Ok(answer),
            Err(state) if Instant::now() >= end => {
                anyhow::bail!("waited {} s for {what}; at last: {state}", LONGEST.as_secs());
            }
            Err(_) => sleep(BETWEEN).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_comes_late_ends_the_wait() {
        let mut asked = 0;
        let answer = until("three", async || {
            asked += 1;
            Ok(if asked == 3 { Ok(asked) } else { Err(format!("{asked}")) })
        });
        assert_eq!(answer.await.ok(), Some(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_in_vain_says_for_what_and_how_things_stood() {
        let error = until::<()>("a pod", async || Ok(Err("Pending".to_owned()))).await;
        let message = error.map_err(|error| error.to_string());
        assert_eq!(message, Err("waited 60 s for a pod; at last: Pending".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_ends_the_wait_at_once() {
        let started = Instant::now();
        let error = until::<()>("a pod", async || anyhow::bail!("refused")).await;
        assert_eq!(error.map_err(|error| error.to_string()), Err("refused".to_owned()));
        assert_eq!(started.elapsed(), Duration::ZERO);
    }
}
