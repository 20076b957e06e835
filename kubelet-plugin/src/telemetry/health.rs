//! Health and readiness over HTTP on a unix socket.

use std::future::Future;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lanemate_runtime::telemetry::{answer, health};
use tokio::net::UnixListener;

use crate::grpc::Registration;
use crate::state::{Settings, State};

/// How long the state thread may take to answer: the wait for the lock that another instance holds
/// during an update, which no restart makes shorter, and the reading of the machine and some flushes
/// of the disk beside it. Several claims may wait for the lock one after the other; probes fail
/// several times before kubelet acts.
pub const PATIENCE: Duration = Settings::LOCK_WAIT.saturating_add(Duration::from_secs(10));

/// Most entries of the directory that are looked at: far more than sockets of ours.
const MOST_SWEPT: usize = 4096;

/// What has been reached; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Reached>);

#[derive(Debug, Default)]
struct Reached {
    registration: Mutex<Registration>,
    published: AtomicBool,
}

/// What the answers depend on; cheap to clone.
#[derive(Clone, Debug)]
pub struct Health {
    state: State,
    readiness: Readiness,
    patience: Duration,
}

impl Readiness {
    /// What kubelet says of the registration.
    pub fn set_registration(&self, said: Registration) {
        *self.0.registration.lock().unwrap_or_else(PoisonError::into_inner) = said;
    }

    /// The node's slices are in the cluster for the first time.
    pub fn set_published(&self) {
        self.0.published.store(true, Ordering::Relaxed);
    }
}

impl Health {
    /// Asks this state thread, and waits so long for it.
    pub fn new(state: State, readiness: Readiness, patience: Duration) -> Self {
        Self { state, readiness, patience }
    }
}

impl health::Health for Health {
    async fn stuck(&self) -> Vec<String> {
        match self.state.is_responsive(self.patience).await {
            true => Vec::new(),
            false => vec![format!("the state thread has not answered for {:?}", self.patience)],
        }
    }

    async fn missing(&self) -> Vec<String> {
        let reached = &self.readiness.0;
        let mut missing = self.stuck().await;
        let said = reached.registration.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match said {
            Registration::Registered => {}
            Registration::Awaited => {
                missing.push("kubelet has not accepted the registration".to_owned());
            }
            Registration::Refused(reason) => {
                missing.push(format!("kubelet has refused the registration: {reason}"));
            }
        }
        if !reached.published.load(Ordering::Relaxed) {
            missing.push("the node's ResourceSlices are not published".to_owned());
        }
        missing
    }
}

/// Binds the socket, in place of what an instance that died has left there. Sockets of other
/// instances that died are removed as well.
///
/// # Errors
/// What the operating system says.
pub fn bind(socket: &Path) -> io::Result<UnixListener> {
    if let Some(parent) = socket.parent() {
        std::fs::create_dir_all(parent)?;
        sweep(parent);
    }
    remove(socket)?;
    UnixListener::bind(socket)
}

/// Removes health sockets that nobody listens at. What cannot be looked at or removed stays: it is in
/// nobody's way.
fn sweep(directory: &Path) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().take(MOST_SWEPT).flatten();
    let is_health = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("health-") && name.ends_with(".sock")
    };
    for path in entries.map(|entry| entry.path()).filter(is_health) {
        let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if UnixStream::connect(&path).is_err_and(|error| refused(&error)) {
            let _ = remove(&path);
        }
    }
}

/// Answers `GET /healthz` and `GET /readyz` until told to stop, and removes the socket then.
///
/// # Errors
/// What the operating system says.
pub async fn serve(
    listener: UnixListener,
    health: Health,
    stopped: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let socket = listener.local_addr()?;
    answer(listener, health::routes(health), stopped).await?;
    socket.as_pathname().map_or(Ok(()), remove)
}

fn remove(socket: &Path) -> io::Result<()> {
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::{mpsc, oneshot};
    use tokio::task::JoinHandle;

    use super::*;
    use crate::args::Probe;
    use crate::fake_state::channel;
    use crate::state::Question;
    use crate::telemetry::probe;

    struct Served {
        _dir: tempfile::TempDir,
        socket: PathBuf,
        readiness: Readiness,
        questions: mpsc::Receiver<Question>,
        stop: oneshot::Sender<()>,
        task: JoinHandle<io::Result<()>>,
    }

    fn serve_in_a_directory() -> Served {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("plugin/health.sock");
        let (state, questions) = channel(Default::default());
        let readiness = Readiness::default();
        let health = Health::new(state, readiness.clone(), Duration::from_millis(300));
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async { stopped.await.unwrap_or_default() };
        let task = tokio::spawn(serve(bind(&socket).unwrap(), health, stopped));
        Served { _dir: dir, socket, readiness, questions, stop, task }
    }

    async fn ask(socket: &Path, about: Probe) -> Result<(), String> {
        let socket = socket.to_owned();
        let asked = tokio::task::spawn_blocking(move || probe::ask(&socket, about));
        asked.await.unwrap().map_err(|error| error.to_string())
    }

    /// A thread that answers whatever it is asked for its claims.
    fn answer_claims(mut questions: mpsc::Receiver<Question>) {
        tokio::spawn(async move {
            while let Some(question) = questions.recv().await {
                if let Question::Claims(answer) = question {
                    answer.send(Vec::new()).unwrap();
                }
            }
        });
    }

    #[tokio::test]
    async fn a_state_thread_that_hangs_is_neither_live_nor_ready() {
        let served = serve_in_a_directory();
        served.readiness.set_registration(Registration::Registered);
        served.readiness.set_published();
        for about in [Probe::Live, Probe::Ready] {
            let error = ask(&served.socket, about).await.unwrap_err();
            assert!(error.contains("the state thread has not answered for 300ms"), "{error}");
        }
        drop(served.questions);
        assert!(ask(&served.socket, Probe::Live).await.is_err());
    }

    #[tokio::test]
    async fn the_plugin_is_ready_when_it_is_registered_and_published() {
        let served = serve_in_a_directory();
        answer_claims(served.questions);
        assert_eq!(ask(&served.socket, Probe::Live).await, Ok(()));
        let error = ask(&served.socket, Probe::Ready).await.unwrap_err();
        let expect = "kubelet has not accepted the registration\n\
                      the node's ResourceSlices are not published";
        assert!(error.ends_with(expect), "{error}");
        served.readiness.set_published();
        let error = ask(&served.socket, Probe::Ready).await.unwrap_err();
        assert!(error.ends_with("kubelet has not accepted the registration"), "{error}");
        served.readiness.set_registration(Registration::Refused("no such version".to_owned()));
        let error = ask(&served.socket, Probe::Ready).await.unwrap_err();
        assert!(error.ends_with("refused the registration: no such version"), "{error}");
        served.readiness.set_registration(Registration::Registered);
        assert_eq!(ask(&served.socket, Probe::Ready).await, Ok(()));
    }

    #[tokio::test]
    async fn the_socket_replaces_a_stale_one_and_goes_with_its_server() {
        let served = serve_in_a_directory();
        answer_claims(served.questions);
        assert_eq!(ask(&served.socket, Probe::Live).await, Ok(()));
        served.task.abort();
        assert!(served.task.await.unwrap_err().is_cancelled());
        assert!(served.socket.exists(), "as after a kill");
        let [dead, alive] = ["health-dead.sock", "health-alive.sock"]
            .map(|name| served.socket.with_file_name(name));
        drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
        let _listening = std::os::unix::net::UnixListener::bind(&alive).unwrap();
        let again = bind(&served.socket).unwrap();
        assert_eq!((dead.exists(), alive.exists()), (false, true));
        let (state, _questions) = channel(Default::default());
        let health = Health::new(state, Readiness::default(), PATIENCE);
        serve(again, health, async {}).await.unwrap();
        assert!(!served.socket.exists());
        drop(served.stop);
    }
}
