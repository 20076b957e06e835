//! Serves both sockets from the first bind to the last call.

use std::future::{Future, pending};
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::Stream;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

use super::ClaimServer;
use super::dra::{Dra, LONGEST_CALL, Work};
use super::generated::dra_v1::dra_plugin_server::DraPluginServer;
use super::generated::dra_v1beta1::dra_plugin_server::DraPluginServer as DraPluginServerV1beta1;
use super::generated::registration::registration_server::RegistrationServer;
use super::registration::{Registrar, Registration};
use super::sockets::{self, SocketError, SocketFile, SocketPaths};

/// Bytes of a call of kubelet's to the registration socket: a flag and a reason.
const LONGEST_STATUS: usize = 64 * 1024;
/// After a connection that could not be taken, which mostly means that too many files are open.
const AFTER_BAD_ACCEPT: Duration = Duration::from_millis(100);

/// For the reply on its way, when the work is done and the connection is still open.
const LAST_REPLY: Duration = Duration::from_secs(1);

/// Where and how long.
#[derive(Clone, Debug)]
pub struct Config {
    /// Kubelet's directory for plugins, `/var/lib/kubelet/plugins`.
    pub plugins: PathBuf,
    /// Kubelet's directory for registration sockets, `/var/lib/kubelet/plugins_registry`.
    pub registry: PathBuf,
    /// UID of the pod that this process runs in; absent when no other instance runs beside it.
    pub pod_uid: Option<String>,
    /// A call is answered within this time, see [`Config::ANSWER_WITHIN`].
    pub answer_within: Duration,
    /// Calls in flight have so much time after the shutdown. Should be less than the pod's grace
    /// period.
    pub drain_within: Duration,
}

/// The running servers.
#[derive(Debug)]
pub struct Serving {
    /// Where they are.
    pub paths: SocketPaths,
    /// What kubelet said of the registration.
    pub registered: watch::Receiver<Registration>,
    task: JoinHandle<Result<(), ServeError>>,
}

/// Why kubelet is not served, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// No socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// A server ended though nobody stopped it.
    #[error("the server at {socket} has ended by itself: {reason}")]
    Ended {
        /// Its socket.
        socket: String,
        /// What it said.
        reason: String,
    },
    /// The shutdown did not wait for them any longer.
    #[error("calls of kubelet were still worked on {0:?} after the shutdown began")]
    NotDrained(Duration),
}

/// A bound socket.
struct Bound {
    listener: UnixListener,
    file: SocketFile,
}

impl Config {
    /// Kubelet waits 45 s, half of the time between two of its attempts.
    pub const ANSWER_WITHIN: Duration = Duration::from_secs(40);
    /// A pod has 30 s by default to end.
    pub const DRAIN_WITHIN: Duration = Duration::from_secs(20);
}

impl Serving {
    /// Waits until both servers have ended; `Ok` when they were told to. May be dropped and called
    /// again; after it has returned it must not be.
    ///
    /// # Errors
    /// A server has ended by itself, or the shutdown left calls behind.
    pub async fn ended(&mut self) -> Result<(), ServeError> {
        (&mut self.task).await.unwrap_or_else(|error| {
            let socket = self.paths.dra().to_owned();
            Err(ServeError::Ended { socket, reason: error.to_string() })
        })
    }
}

/// Removes sockets of instances that are gone, binds both sockets, the one for claims first, and
/// serves until the shutdown: then no new connection is taken, and calls in flight are finished.
///
/// # Errors
/// A socket cannot be bound; nothing serves then.
pub async fn serve<S: ClaimServer>(
    config: Config,
    claims: Arc<S>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<Serving, ServeError> {
    let paths = SocketPaths::new(&config.plugins, &config.registry, config.pod_uid.as_deref())?;
    sockets::sweep(&paths).await;
    let (dra, work) = Dra::new(claims, config.answer_within);
    let (registrar, registered) = Registrar::new(paths.dra());
    let at_dra = Bound::at(paths.dra()).await?;
    let at_registry = Bound::at(paths.registration()).await?;
    let servers = Servers { dra, work, registrar, paths: paths.clone() };
    let task = tokio::spawn(servers.run(at_dra, at_registry, shutdown, config.drain_within));
    Ok(Serving { paths, registered, task })
}

struct Servers<S> {
    dra: Dra<S>,
    work: Work,
    registrar: Registrar,
    paths: SocketPaths,
}

impl<S: ClaimServer> Servers<S> {
    async fn run(
        self,
        at_dra: Bound,
        at_registry: Bound,
        shutdown: impl Future<Output = ()> + Send,
        drain_within: Duration,
    ) -> Result<(), ServeError> {
        let Self { dra, work, registrar, paths } = self;
        let (stop, stopped) = oneshot::channel::<()>();
        let v1 = DraPluginServer::new(dra.clone()).max_decoding_message_size(LONGEST_CALL);
        let v1beta1 = DraPluginServerV1beta1::new(dra).max_decoding_message_size(LONGEST_CALL);
        let dra = Server::builder().add_service(v1).add_service(v1beta1);
        let mut dra = pin!(dra.serve_with_incoming_shutdown(incoming(at_dra.listener), async {
            // An error means that the other end is gone, which is a reason to stop, too.
            let _ = stopped.await;
        }));
        let registrar =
            RegistrationServer::new(registrar).max_decoding_message_size(LONGEST_STATUS);
        let mut registration = Box::pin(
            Server::builder()
                .add_service(registrar)
                // Stopped by dropping it.
                .serve_with_incoming_shutdown(incoming(at_registry.listener), pending()),
        );
        tokio::select! {
            () = shutdown => {}
            ended = &mut dra => return Err(ended_early(paths.dra(), ended)),
            ended = &mut registration => return Err(ended_early(paths.registration(), ended)),
        }
        tracing::info!("kubelet is no longer served; calls in flight are finished");
        // Kubelet sees that the file is gone and turns to another instance.
        drop(at_registry.file);
        drop(registration);
        // Its receiver lives in the server.
        let _ = stop.send(());
        let drained = tokio::time::timeout(drain_within, async {
            let ended = tokio::select! {
                ended = &mut dra => ended,
                // A connection on which nothing is said would hold the server up for ever.
                () = async { work.done().await; sleep(LAST_REPLY).await } => Ok(()),
            };
            work.done().await;
            ended
        });
        let ended = drained.await.map_err(|_| ServeError::NotDrained(drain_within))?;
        drop(at_dra.file);
        ended.map_err(|error| ended_early(paths.dra(), Err(error)))
    }
}

impl Bound {
    async fn at(path: &str) -> Result<Self, SocketError> {
        let (listener, file) = sockets::bind(path).await?;
        Ok(Self { listener, file })
    }
}

/// Connections. One that fails costs a moment: the server asks for the next one at once.
fn incoming(listener: UnixListener) -> impl Stream<Item = io::Result<UnixStream>> + Send {
    UnixListenerStream::new(listener).then(async |connection| {
        if let Err(error) = &connection {
            tracing::warn!(%error, "cannot take a connection from kubelet");
            sleep(AFTER_BAD_ACCEPT).await;
        }
        connection
    })
}

fn ended_early(socket: &str, ended: Result<(), tonic::transport::Error>) -> ServeError {
    let reason = match ended {
        Ok(()) => "no more connections".to_owned(),
        Err(error) => error.to_string(),
    };
    ServeError::Ended { socket: socket.to_owned(), reason }
}
