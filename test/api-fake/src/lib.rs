//! A small API server in the process, for faults that the real one cannot be made to show.
//!
//! It is a fake: it keeps JSON objects by path, gives each write a resourceVersion and refuses what
//! is stale, and it knows nothing of schemas, finalizers, admission, authorization or garbage collection. Of
//! subresources it has `/status`, of patches what its own tests use. What an API server does on its own must be
//! tested against a real one. Here one can have a request answered with an error, late, never, or with fields
//! dropped, done late, and can count and read the requests.
//!
//! ```text
//! request -> log -> fault? -> store -> answer
//!                    |          |
//!                    |          +-> history -> watches
//!                    +-> status, hang, closed connection, dropped fields, lost answer
//! ```

mod answer;
mod fault;
mod resource;
mod server;
mod store;
mod watch;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use crate::fault::{Fault, Faults};
pub use crate::store::Refusal;
use crate::store::Store;

/// Collection of ResourceSlices.
pub const RESOURCE_SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
/// Collection of NodeStates.
pub const NODE_STATES: &str = "/apis/lanemate.dev/v1alpha1/nodestates";
/// Collection of nodes.
pub const NODES: &str = "/api/v1/nodes";

/// A running server; it ends when this is dropped.
#[derive(Debug)]
pub struct TestApi {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

/// What requests and tests share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Mutex<Store>,
    pub(crate) log: Mutex<Vec<Logged>>,
    pub(crate) written: Mutex<Vec<Written>>,
    pub(crate) faults: Faults,
    /// The newest resourceVersion: wakes watches and waiting tests.
    pub(crate) newest: tokio::sync::watch::Sender<u64>,
}

/// A request as it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// `GET`, `POST` and so on; `WATCH` for a watch.
    pub method: String,
    /// Path, without the query.
    pub path: String,
}

/// A request that met no status, no closed connection and no silence, with its body.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: Value,
}

impl TestApi {
    /// Starts a server on a free port of the loopback interface.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (newest, _) = tokio::sync::watch::channel(0);
        let shared = Arc::new(Shared {
            store: Mutex::default(),
            log: Mutex::default(),
            written: Mutex::default(),
            faults: Faults::default(),
            newest,
        });
        let server = tokio::spawn(server::serve(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, server })
    }

    /// `http://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Writes a kubeconfig for this server into a directory.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn kubeconfig_file(&self, directory: &Path) -> std::io::Result<PathBuf> {
        let file = directory.join("kubeconfig");
        let url = self.url();
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: fake,\n \
             clusters: [{{name: fake, cluster: {{server: \"{url}\"}}}}],\n \
             users: [{{name: fake, user: {{}}}}],\n \
             contexts: [{{name: fake, context: {{cluster: fake, user: fake}}}}]}}\n"
        );
        std::fs::write(&file, text)?;
        Ok(file)
    }

    /// The faults that are to come.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// Creates an object, or replaces it whatever its resourceVersion; watches see it. Returns it as
    /// stored.
    ///
    /// # Errors
    /// When the kind is unknown or the object has no name.
    pub fn put(&self, object: Value) -> Result<Value, Refusal> {
        let stored = self.store().put(object)?;
        self.tell();
        Ok(stored)
    }

    /// The object at a path.
    pub fn get(&self, path: &str) -> Option<Value> {
        self.store().get(path)
    }

    /// The objects below a path, by path.
    pub fn list(&self, prefix: &str) -> Vec<Value> {
        self.store().below(prefix)
    }

    /// Removes all objects below a path at once, and returns how many.
    pub fn remove(&self, prefix: &str) -> usize {
        let count = self.store().remove(prefix);
        self.tell();
        count
    }

    /// Answers requests for a resource, such as `nodestates`, as if it did not exist; or no more so.
    pub fn set_installed(&self, plural: &str, is_installed: bool) {
        self.store().set_installed(plural, is_installed);
    }

    /// The requests so far, oldest first.
    pub fn requests(&self) -> Vec<Logged> {
        lock(&self.shared.log).clone()
    }

    /// How many requests with a method, such as `POST` or `WATCH`, had a path with a prefix.
    pub fn count(&self, method: &str, prefix: &str) -> usize {
        let log = lock(&self.shared.log);
        log.iter().filter(|entry| entry.method == method && entry.path.starts_with(prefix)).count()
    }

    /// The bodies of the requests with a method and a path with a prefix, oldest first; those that were
    /// refused by a fault before they were read are missing.
    pub fn bodies(&self, method: &str, prefix: &str) -> Vec<Value> {
        let written = lock(&self.shared.written);
        let is_it = |entry: &&Written| entry.method == method && entry.path.starts_with(prefix);
        written.iter().filter(is_it).map(|entry| entry.body.clone()).collect()
    }

    /// Waits until a question about this server is answered by yes, and returns the answer.
    ///
    /// # Errors
    /// After 20 s, with what was waited for: a test that waits so long has failed.
    pub async fn wait<T>(
        &self,
        what: &str,
        mut question: impl FnMut(&Self) -> Option<T>,
    ) -> Result<T, String> {
        let mut newest = self.shared.newest.subscribe();
        let asking = async {
            loop {
                if let Some(answer) = question(self) {
                    return answer;
                }
                // Requests that change nothing are seen by looking again.
                let _ = tokio::time::timeout(Duration::from_millis(20), newest.changed()).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), asking)
            .await
            .map_err(|_| format!("waited 20 s for {what}; requests: {:#?}", self.requests()))
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        lock(&self.shared.store)
    }

    fn tell(&self) {
        self.shared.tell();
    }
}

impl Drop for TestApi {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Shared {
    /// Wakes whoever waits for changes.
    pub(crate) fn tell(&self) {
        let newest = lock(&self.store).version();
        self.newest.send_replace(newest);
    }
}

/// A test that panicked holding the lock leaves whole objects behind.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
