//! The proxy between a client of kube and a small server without TLS.
#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use lanemate_test_proxy::{ApiProxy, Matcher};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// A server that keeps what it is asked, and streams to watches what the test sends.
#[derive(Clone, Default)]
struct Server {
    heard: Arc<Mutex<Vec<String>>>,
    watch: Arc<Mutex<Option<mpsc::UnboundedReceiver<&'static str>>>>,
}

impl Server {
    async fn start() -> (Self, String) {
        let server = Self::default();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(serve).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (server, url)
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    /// Waits until it has heard so many requests.
    async fn until_heard(&self, count: usize) {
        let heard = async {
            while self.heard().len() < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), heard).await.unwrap();
    }

    /// What is sent here comes out of the next watch.
    fn events(&self) -> mpsc::UnboundedSender<&'static str> {
        let (events, sent) = mpsc::unbounded_channel();
        *self.watch.lock().unwrap() = Some(sent);
        events
    }
}

async fn serve(State(server): State<Server>, request: Request) -> Body {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let who = head.headers.get(AUTHORIZATION).map(|who| who.to_str().unwrap().to_owned());
    let said = format!(
        "{} {} {} {}",
        head.method,
        head.uri,
        who.unwrap_or_default(),
        String::from_utf8_lossy(&body)
    );
    server.heard.lock().unwrap().push(said.clone());
    let watch = server.watch.lock().unwrap().take();
    match watch {
        Some(sent) if head.uri.query() == Some("watch=1") => {
            let events = futures::stream::unfold(sent, async |mut sent| {
                Some((Ok::<_, std::io::Error>(sent.recv().await?), sent))
            });
            Body::from_stream(events)
        }
        _ => Body::from(said),
    }
}

async fn start() -> (Server, ApiProxy, Client) {
    let (server, url) = Server::start().await;
    let proxy = ApiProxy::start(&url, None).await.unwrap();
    let client = client(&proxy).await;
    (server, proxy, client)
}

async fn client(proxy: &ApiProxy) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(&proxy.kubeconfig("secret")).unwrap();
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    // Requests are counted here.
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

async fn send(client: &Client, method: &str, path: &str, body: &str) -> kube::Result<String> {
    let request = axum::http::Request::builder().method(method).uri(path);
    client.request_text(request.body(body.as_bytes().to_vec()).unwrap()).await
}

#[tokio::test]
async fn a_request_reaches_the_server_as_it_was_sent_and_is_seen() {
    let (server, proxy, client) = start().await;
    let answer = send(&client, "PUT", "/a/b?c=d", "words").await.unwrap();
    assert_eq!(answer, "PUT /a/b?c=d Bearer secret words");
    assert_eq!(server.heard(), [answer]);
    let seen = proxy.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!((seen[0].method.as_str(), seen[0].path.as_str()), ("PUT", "/a/b"));
    assert_eq!(proxy.count(&Matcher::new("PUT", "/b")), 1);
    assert_eq!(proxy.count(&Matcher::new("GET", "/b")), 0);
}

#[tokio::test]
async fn a_request_that_is_held_is_not_heard_of_before_its_release() {
    let (server, proxy, client) = start().await;
    let rule = proxy.hold(Matcher::new("PUT", "/held"));
    let held = tokio::spawn({
        let client = client.clone();
        async move { send(&client, "PUT", "/held", "").await }
    });
    rule.until_caught(1).await.unwrap();
    send(&client, "PUT", "/other", "").await.unwrap();
    assert_eq!(server.heard().len(), 1);
    rule.release();
    held.await.unwrap().unwrap();
    assert_eq!(server.heard().len(), 2);
}

#[tokio::test]
async fn a_request_that_is_held_is_heard_of_though_its_client_has_gone() {
    let (server, proxy, client) = start().await;
    let rule = proxy.hold(Matcher::path("/held"));
    let held = tokio::spawn(async move { send(&client, "PUT", "/held", "late").await });
    rule.until_caught(1).await.unwrap();
    held.abort();
    assert!(held.await.unwrap_err().is_cancelled());
    assert!(server.heard().is_empty());
    rule.release();
    server.until_heard(1).await;
    assert_eq!(server.heard(), ["PUT /held Bearer secret late"]);
}

#[tokio::test]
async fn an_answer_that_is_held_comes_after_the_deed() {
    let (server, proxy, client) = start().await;
    let rule = proxy.hold_answer(Matcher::path("/held"));
    let held = tokio::spawn(async move { send(&client, "PUT", "/held", "").await });
    server.until_heard(1).await;
    assert!(!held.is_finished());
    rule.release();
    held.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_connection_ends_before_or_after_the_server_has_heard() {
    let (server, proxy, client) = start().await;
    let before = proxy.cut_before(Matcher::path("/before"));
    let after = proxy.cut_after(Matcher::path("/after").times(1));
    assert!(send(&client, "PUT", "/before", "").await.is_err());
    assert!(server.heard().is_empty());
    assert!(send(&client, "PUT", "/after", "").await.is_err());
    assert_eq!(server.heard().len(), 1);
    // Once was ordered.
    send(&client, "PUT", "/after", "").await.unwrap();
    assert_eq!((before.caught(), after.caught()), (1, 1));
    before.release();
    send(&client, "PUT", "/before", "").await.unwrap();
}

#[tokio::test]
async fn the_proxy_answers_itself_with_the_status_that_was_ordered() {
    let (server, proxy, client) = start().await;
    for status in [409, 410, 429, 500] {
        let _rule = proxy.respond(Matcher::path("/refused"), status, Some(7));
        let error = send(&client, "GET", "/refused", "").await.unwrap_err();
        let kube::Error::Api(refusal) = error else { panic!("{error}") };
        assert_eq!(refusal.code, status);
    }
    let _rule = proxy.respond(Matcher::path("/refused"), 429, Some(7));
    let request = axum::http::Request::get("/refused").body(kube::client::Body::empty()).unwrap();
    let answer = client.send(request).await.unwrap();
    assert_eq!(answer.headers()["retry-after"], "7");
    assert!(server.heard().is_empty());
}

#[tokio::test]
async fn a_delay_makes_a_request_late() {
    let (server, proxy, client) = start().await;
    let time = Duration::from_millis(50);
    let _rule = proxy.delay(Matcher::path("/late"), time);
    let started = Instant::now();
    send(&client, "GET", "/late", "").await.unwrap();
    assert!(started.elapsed() >= time);
    assert_eq!(server.heard().len(), 1);
}

#[tokio::test]
async fn a_watch_streams_through_stalls_and_is_cut() {
    let (server, proxy, client) = start().await;
    let events = server.events();
    let watch = || axum::http::Request::get("/pods?watch=1").body(Vec::new()).unwrap();
    let mut lines = client.request_stream(watch()).await.unwrap().lines();
    events.send("one\n").unwrap();
    assert_eq!(lines.try_next().await.unwrap().as_deref(), Some("one"));
    assert_eq!(proxy.count(&Matcher::new("WATCH", "/pods")), 1);

    let rule = proxy.stall(Matcher::new("WATCH", "/pods"));
    events.send("two\n").unwrap();
    rule.until_caught(1).await.unwrap();
    // Other requests pass meanwhile.
    send(&client, "GET", "/pods", "").await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(50), lines.try_next()).await;
    assert!(early.is_err(), "{early:?}");
    rule.release();
    assert_eq!(lines.try_next().await.unwrap().as_deref(), Some("two"));

    proxy.cut();
    assert!(!matches!(lines.try_next().await, Ok(Some(_))));
    assert!(send(&client, "GET", "/pods", "").await.is_err());
    proxy.mend();
    send(&client, "GET", "/pods", "").await.unwrap();
}

#[tokio::test]
async fn a_server_that_nobody_vouches_for_is_not_believed() {
    // The proxy itself is such a server for another one.
    let (server, inner, _) = start().await;
    let outer = ApiProxy::start(&inner.url(), None).await.unwrap();
    assert!(send(&client(&outer).await, "GET", "/", "").await.is_err());
    assert!(server.heard().is_empty());

    let kubeconfig = Kubeconfig::from_yaml(&inner.kubeconfig("")).unwrap();
    let authority = kubeconfig.clusters[0].cluster.clone().unwrap().certificate_authority.unwrap();
    let outer = ApiProxy::start(&inner.url(), Some(authority.as_ref())).await.unwrap();
    send(&client(&outer).await, "GET", "/", "").await.unwrap();
}
