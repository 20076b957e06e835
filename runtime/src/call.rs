//! One call of the API server: bounded in time, and its failure in words that say what to do.

use std::error::Error;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use kube::core::Status;

/// A call that takes longer has failed: the API server answers within a second, or not at all.
pub const LIMIT: Duration = Duration::from_secs(5);

/// Why a call has failed. Each names the deed, such as `get node n1`.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No answer in time; a write may have been done.
    #[error("{deed}: no answer from the API server within {within:?}")]
    TimedOut {
        /// The deed.
        deed: String,
        /// The time that was waited.
        within: Duration,
    },
    /// No connection, or none that lasted; a write may have been done.
    #[error("{deed}: the API server cannot be reached: {reason}")]
    Unreachable {
        /// The deed.
        deed: String,
        /// The chain of causes.
        reason: String,
    },
    /// There is no such object, or no such kind of object.
    #[error("{deed}: not found: {message}")]
    NotFound {
        /// The deed.
        deed: String,
        /// The API server's words.
        message: String,
    },
    /// The object is not as the caller thought.
    #[error("{deed}: changed by others: {message}")]
    Conflict {
        /// The deed.
        deed: String,
        /// The API server's words.
        message: String,
    },
    /// A right is missing.
    #[error(
        "{deed}: the service account lacks the right: {message}; \
         apply the manifests in deploy/rbac"
    )]
    Forbidden {
        /// The deed.
        deed: String,
        /// The API server's words, which name the verb and the resource.
        message: String,
    },
    /// The API server cannot serve now.
    #[error("{deed}: the API server cannot serve now: {message}")]
    Busy {
        /// The deed.
        deed: String,
        /// The API server's words.
        message: String,
        /// When to come again, if it said so.
        retry_after: Option<Duration>,
    },
    /// An answer came that makes no sense; a write may have been done.
    #[error("{deed}: the answer makes no sense: {reason}")]
    Garbled {
        /// The deed.
        deed: String,
        /// The chain of causes.
        reason: String,
    },
    /// The API server will not do it however often it is asked.
    #[error("{deed}: {message}")]
    Refused {
        /// The deed.
        deed: String,
        /// What was said.
        message: String,
    },
}

/// Calls the API server, at most [`LIMIT`] long.
///
/// # Errors
/// See [`CallError`].
pub async fn call<T>(
    deed: impl FnOnce() -> String,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, CallError> {
    call_within(LIMIT, deed, request).await
}

/// Calls the API server where the caller has less time than [`LIMIT`]; it never takes more.
///
/// # Errors
/// See [`CallError`].
pub async fn call_within<T>(
    within: Duration,
    deed: impl FnOnce() -> String,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, CallError> {
    let within = within.min(LIMIT);
    let end = Instant::now() + within;
    let mut request = pin!(request);
    // The clock first: a process that was stopped and goes on must not send what is too late.
    let request = poll_fn(|context| match Instant::now() < end {
        true => request.as_mut().poll(context),
        false => Poll::Pending,
    });
    match tokio::time::timeout(within, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(CallError::new(deed(), &error)),
        Err(_) => Err(CallError::TimedOut { deed: deed(), within }),
    }
}

impl CallError {
    fn new(deed: String, error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(deed, status),
            kube::Error::Service(_) | kube::Error::HyperError(_) | kube::Error::ReadEvents(_) => {
                Self::Unreachable { deed, reason: chain(error) }
            }
            kube::Error::SerdeError(_) => Self::Garbled { deed, reason: chain(error) },
            _ => Self::Refused { deed, message: chain(error) },
        }
    }

    fn of_status(deed: String, status: &Status) -> Self {
        let message = status.message.clone();
        match status.code {
            404 => Self::NotFound { deed, message },
            409 => Self::Conflict { deed, message },
            401 | 403 => Self::Forbidden { deed, message },
            408 | 410 | 429 | 500..=599 => {
                let seconds = status.details.as_ref().map_or(0, |about| about.retry_after_seconds);
                let retry_after = (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)));
                let message = format!("{} {} {message}", status.code, status.reason);
                Self::Busy { deed, message, retry_after }
            }
            code => Self::Refused { deed, message: format!("{code} {} {message}", status.reason) },
        }
    }

    /// True where the same call may succeed a little later.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::TimedOut { .. } | Self::Unreachable { .. } | Self::Busy { .. })
    }

    /// True where there is no such object or kind.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// True where the object has to be read again.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }

    /// How long the API server wants to be left alone.
    pub fn retry_after(&self) -> Duration {
        match self {
            Self::Busy { retry_after, .. } => retry_after.unwrap_or_default(),
            _ => Duration::ZERO,
        }
    }
}

/// An error and its causes; the outermost often says nothing.
fn chain(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !words.contains(&text) {
            words = format!("{words}: {text}");
        }
        cause = error.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn a_request_whose_time_is_over_is_not_sent() {
        let is_sent = Cell::new(false);
        let request = async {
            is_sent.set(true);
            Ok(())
        };
        let error = call_within(Duration::ZERO, || "get a".to_owned(), request).await.unwrap_err();
        assert_eq!(error.to_string(), "get a: no answer from the API server within 0ns");
        assert!(error.is_passing() && !is_sent.get());
        let longer = async { Ok(7) };
        let answer = call_within(Duration::from_secs(3600), || "get a".to_owned(), longer).await;
        assert_eq!(answer.unwrap(), 7);
    }

    #[tokio::test]
    async fn an_answer_that_makes_no_sense_is_told_from_a_refusal() {
        let wrong = serde_json::from_str::<u8>("<html>").unwrap_err();
        let request = async { Err::<(), _>(kube::Error::SerdeError(wrong)) };
        let error = call(|| "get a".to_owned(), request).await.unwrap_err();
        assert!(matches!(error, CallError::Garbled { .. }), "{error:?}");
        assert!(error.to_string().starts_with("get a: the answer makes no sense"), "{error}");
    }
}
