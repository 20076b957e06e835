//! A proxy in front of a real API server, for tests of what happens between two requests.
//!
//! The process under test reaches it with a kubeconfig of its own and its usual token; each request is
//! recorded, meets the first rule of the test that fits, and goes to the API server as it came. Watches
//! stream through. HTTP/1.1 alone, and no upgrades, so that `exec` does not pass.
//!
//! ```text
//! request -> seen -> rule? -> API server -> rule? -> answer -> rule? -> client
//!                     |                      |                  |
//!                     hold, delay,           hold_answer,       stall
//!                     cut_before, respond    cut_after
//! ```

mod forward;
mod rules;
mod tls;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use tempfile::NamedTempFile;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::forward::Forwarder;
use crate::rules::{Action, Rules};

pub use crate::rules::{Matcher, Rule, Seen};

/// A running proxy; it ends when this is dropped.
pub struct ApiProxy {
    address: SocketAddr,
    authority: NamedTempFile,
    rules: Arc<Rules>,
    is_open: watch::Sender<bool>,
    server: JoinHandle<()>,
}

impl ApiProxy {
    /// Starts one on a free port of the loopback interface, in front of the API server at a URL, whose
    /// certificate the authority in a PEM file vouches for; none is needed for `http`.
    pub async fn start(server: &str, authority: Option<&Path>) -> anyhow::Result<Self> {
        let identity = tls::identity().context("make a certificate")?;
        let file = NamedTempFile::new().context("make a file for the authority")?;
        std::fs::write(file.path(), &identity.authority).context("write the authority")?;
        let connector = tls::connector(authority).context("trust the API server")?;
        let rules = Arc::new(Rules::default());
        let forwarder = Arc::new(Forwarder::new(server, connector, Arc::clone(&rules))?);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (is_open, now) = watch::channel(true);
        let server = tokio::spawn(forward::serve(listener, identity.acceptor, forwarder, now));
        Ok(Self { address, authority: file, rules, is_open, server })
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// A kubeconfig that leads whoever has the token through the proxy, as long as it runs.
    pub fn kubeconfig(&self, token: &str) -> String {
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {
                "server": self.url(), "certificate-authority": self.authority.path(),
            }}],
            "users": [{"name": "proxy", "user": {"token": token}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
        })
        .to_string()
    }

    /// Requests do not reach the API server before the rule is dropped; then they do, even when their
    /// client has gone meanwhile.
    pub fn hold(&self, matcher: Matcher) -> Rule {
        self.rules.add(matcher, Action::Hold)
    }

    /// The API server acts, and its answer waits until the rule is dropped.
    pub fn hold_answer(&self, matcher: Matcher) -> Rule {
        self.rules.add(matcher, Action::HoldAnswer)
    }

    /// No more of an answer's body passes until the rule is dropped: a watch, one that runs already
    /// included, shows nothing new.
    pub fn stall(&self, matcher: Matcher) -> Rule {
        self.rules.add(matcher, Action::Stall)
    }

    /// Requests reach the API server that much later.
    pub fn delay(&self, matcher: Matcher, time: Duration) -> Rule {
        self.rules.add(matcher, Action::Delay(time))
    }

    /// The connection ends before the API server hears of the request.
    pub fn cut_before(&self, matcher: Matcher) -> Rule {
        self.rules.add(matcher, Action::CutBefore)
    }

    /// The API server acts, and the connection ends before the answer.
    pub fn cut_after(&self, matcher: Matcher) -> Rule {
        self.rules.add(matcher, Action::CutAfter)
    }

    /// Requests are answered with this status, and `Retry-After` in seconds, by the proxy itself.
    pub fn respond(&self, matcher: Matcher, status: u16, retry_after: Option<u32>) -> Rule {
        self.rules.add(matcher, Action::Respond { status, retry_after })
    }

    /// Ends all connections, watches included, and the next ones at once, until [`ApiProxy::mend`].
    /// What the API server has heard of goes on there.
    pub fn cut(&self) {
        self.is_open.send_replace(false);
    }

    /// Takes connections again.
    pub fn mend(&self) {
        self.is_open.send_replace(true);
    }

    /// The requests so far, in the order of their arrival.
    pub fn seen(&self) -> Vec<Seen> {
        self.rules.seen()
    }

    /// How many requests so far fit.
    pub fn count(&self, matcher: &Matcher) -> usize {
        self.rules.seen().iter().filter(|seen| matcher.fits(seen)).count()
    }
}

impl Drop for ApiProxy {
    fn drop(&mut self) {
        self.cut();
        self.server.abort();
    }
}
