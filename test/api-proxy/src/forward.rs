//! Connections and requests: from the client to the API server, and back.

use std::sync::Arc;

use anyhow::Context;
use futures::{StreamExt as _, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, BodyStream, Full, Limited, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, RETRY_AFTER};
use hyper::http::uri::{Authority, Scheme};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::rules::{Action, Rules, Seen};

/// The API server takes 3 MiB.
const MAX_BODY: usize = 3 << 20;

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Body = UnsyncBoxBody<Bytes, Failure>;

/// Where requests go, and what they meet.
pub(crate) struct Forwarder {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    scheme: Scheme,
    authority: Authority,
    rules: Arc<Rules>,
}

/// Ends the connection.
#[derive(Debug, thiserror::Error)]
#[error("cut the connection: ordered by the test")]
struct Cut;

impl Forwarder {
    pub(crate) fn new(
        server: &str,
        connector: HttpsConnector<HttpConnector>,
        rules: Arc<Rules>,
    ) -> anyhow::Result<Self> {
        let parts = server.parse::<Uri>().context("read the URL of the API server")?.into_parts();
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            scheme: parts.scheme.context("the URL of the API server has no scheme")?,
            authority: parts.authority.context("the URL of the API server has no host")?,
            rules,
        })
    }

    /// What becomes of a request, whether or not its client stays.
    async fn act(&self, request: Request<Bytes>, seen: Seen) -> Result<Response<Body>, Failure> {
        let order = self.rules.take(&seen);
        match order.as_ref().map(|order| (order, order.action)) {
            Some((order, Action::Hold)) => order.over().await,
            Some((_, Action::Delay(time))) => tokio::time::sleep(time).await,
            Some((_, Action::CutBefore)) => return Err(Cut.into()),
            Some((_, Action::Respond { status, retry_after })) => {
                return refuse(status, retry_after);
            }
            _ => {}
        }
        let answer = self.client.request(self.addressed(request)?).await?;
        match order.as_ref().map(|order| (order, order.action)) {
            Some((order, Action::HoldAnswer)) => order.over().await,
            Some((_, Action::CutAfter)) => return Err(Cut.into()),
            _ => {}
        }
        Ok(answer.map(|body| self.passing(body, seen)))
    }

    /// The same request to the API server; its connection is another one.
    fn addressed(&self, request: Request<Bytes>) -> Result<Request<Full<Bytes>>, Failure> {
        let (mut head, body) = request.into_parts();
        let mut uri = head.uri.into_parts();
        uri.scheme = Some(self.scheme.clone());
        uri.authority = Some(self.authority.clone());
        head.uri = Uri::from_parts(uri)?;
        head.headers.remove(HOST);
        head.headers.remove(CONNECTION);
        Ok(Request::from_parts(head, Full::new(body)))
    }

    /// The body of an answer, each part of which waits while an order stalls it.
    fn passing(&self, body: Incoming, seen: Seen) -> Body {
        let rules = Arc::clone(&self.rules);
        let parts = stream::unfold((BodyStream::new(body), rules, seen), async |mut state| {
            let part = state.0.next().await?;
            state.1.pass(&state.2).await;
            Some((part.map_err(Failure::from), state))
        });
        UnsyncBoxBody::new(StreamBody::new(parts.boxed()))
    }
}

/// Takes connections until the task is ended; while the proxy is cut, they end at once.
pub(crate) async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    forwarder: Arc<Forwarder>,
    is_open: watch::Receiver<bool>,
) {
    // It fails when the listener does, and then every request of the test fails too.
    while let Ok((connection, _)) = listener.accept().await {
        let (acceptor, forwarder) = (acceptor.clone(), Arc::clone(&forwarder));
        tokio::spawn(attend(connection, acceptor, forwarder, is_open.clone()));
    }
}

async fn attend(
    connection: TcpStream,
    acceptor: TlsAcceptor,
    forwarder: Arc<Forwarder>,
    mut is_open: watch::Receiver<bool>,
) {
    if !*is_open.borrow_and_update() {
        return;
    }
    let talk = async {
        let Ok(connection) = acceptor.accept(connection).await else { return };
        let service = service_fn(|request| answer(Arc::clone(&forwarder), request));
        // It fails where the client goes or an order cuts it.
        let _ = http1::Builder::new().serve_connection(TokioIo::new(connection), service).await;
    };
    tokio::select! {
        () = talk => {}
        _ = is_open.wait_for(|is_open| !is_open) => {}
    }
}

/// In a task of its own: a request that is held reaches the API server when its client has gone, as one
/// that a network held would.
async fn answer(
    forwarder: Arc<Forwarder>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Failure> {
    let (head, body) = request.into_parts();
    let query = head.uri.query().unwrap_or_default().to_owned();
    let is_watch = query.split('&').any(|pair| pair == "watch=true" || pair == "watch=1");
    let method = if is_watch { "WATCH" } else { head.method.as_str() };
    let seen = Seen { method: method.to_owned(), path: head.uri.path().to_owned(), query };
    let body = Limited::new(body, MAX_BODY).collect().await?.to_bytes();
    let request = Request::from_parts(head, body);
    tokio::spawn(async move { forwarder.act(request, seen).await }).await?
}

/// An answer in the form of the API server's.
fn refuse(status: u16, retry_after: Option<u32>) -> Result<Response<Body>, Failure> {
    let reason = match status {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "ordered by the test", "reason": reason, "code": status,
    });
    let mut response = Response::builder().status(status).header(CONTENT_TYPE, "application/json");
    if let Some(seconds) = retry_after {
        response = response.header(RETRY_AFTER, seconds);
    }
    let frame = Ok::<_, Failure>(Frame::data(Bytes::from(body.to_string())));
    Ok(response.body(UnsyncBoxBody::new(StreamBody::new(stream::iter([frame]))))?)
}
