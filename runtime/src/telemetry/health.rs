//! Health and readiness over HTTP: what is asked, and how the answer looks.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;

/// Something that can say how it is.
pub trait Health: Clone + Send + Sync + 'static {
    /// What only a restart mends, one line each; empty when it is live.
    fn stuck(&self) -> impl Future<Output = Vec<String>> + Send;

    /// What it lacks for its work, one line each, what is stuck included; empty when it is ready.
    fn missing(&self) -> impl Future<Output = Vec<String>> + Send;
}

type Answer = (StatusCode, String);

/// `GET /healthz` and `GET /readyz`: 200 and `ok`, or 503 and a line for each reason.
pub fn routes<H: Health>(health: H) -> Router {
    Router::new()
        .route("/healthz", get(healthz::<H>))
        .route("/readyz", get(readyz::<H>))
        .with_state(health)
}

async fn healthz<H: Health>(State(health): State<H>) -> Answer {
    said(&health.stuck().await)
}

async fn readyz<H: Health>(State(health): State<H>) -> Answer {
    said(&health.missing().await)
}

fn said(reasons: &[String]) -> Answer {
    match reasons {
        [] => (StatusCode::OK, "ok\n".to_owned()),
        reasons => (StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_wrong_is_ok_and_each_reason_is_a_line() {
        assert_eq!(said(&[]), (StatusCode::OK, "ok\n".to_owned()));
        let reasons = ["a is late".to_owned(), "b is gone".to_owned()];
        let answer = (StatusCode::SERVICE_UNAVAILABLE, "a is late\nb is gone\n".to_owned());
        assert_eq!(said(&reasons), answer);
    }
}
