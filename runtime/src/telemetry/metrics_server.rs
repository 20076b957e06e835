//! Serves the metrics over HTTP. Two instances share the port while one takes over from the other: each
//! scrape then reaches one of them.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpSocket};

use super::answer;

/// Connections that wait to be accepted.
const WAITING: u32 = 64;
/// The form that [`encode`] writes.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Binds the port, beside another instance if there is one.
///
/// # Errors
/// What the operating system says.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    socket.listen(WAITING)
}

/// Answers `GET /metrics` until told to stop.
///
/// # Errors
/// What the operating system says.
pub async fn serve(
    listener: TcpListener,
    registry: Arc<Registry>,
    stopped: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    answer(listener, routes(registry), stopped).await
}

/// `GET /metrics`, for a server that answers more than that.
pub fn routes(registry: Arc<Registry>) -> Router {
    Router::new().route("/metrics", get(metrics)).with_state(registry)
}

async fn metrics(State(registry): State<Arc<Registry>>) -> Response {
    let mut text = String::new();
    match encode(&mut text, &registry) {
        Ok(()) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn a_request_that_is_never_finished_does_not_hold_up_the_end() {
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        stream.write_all(b"GET /metrics HT").await.unwrap();
        let stopped = tokio::time::sleep(std::time::Duration::from_millis(200));
        let served = serve(listener, Arc::default(), stopped);
        let within = std::time::Duration::from_secs(30);
        tokio::time::timeout(within, served).await.expect("the end of the server").unwrap();
    }

    #[tokio::test]
    async fn two_instances_share_a_port_and_answer() {
        let first = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = first.local_addr().unwrap();
        let second = bind(address).unwrap();
        let mut registry = Registry::default();
        crate::telemetry::process::register(&mut registry, "lanemate_test");
        let registry = Arc::new(registry);
        for listener in [first, second] {
            tokio::spawn(serve(listener, registry.clone(), std::future::pending()));
        }
        for _ in 0..4 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(answer.contains("process_resident_memory_bytes "), "{answer}");
            assert!(answer.ends_with("# EOF\n"), "{answer}");
        }
    }
}
