//! Where the sockets are, and the files that they leave behind.

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lanemate_api::names;
use lanemate_api::validation::format::is_hyphenated;
use lanemate_driver::stable_hash::stable_hash;
use tokio::net::{UnixListener, UnixStream};

/// `sun_path` has 108 bytes, the closing zero among them (unix(7)).
const LONGEST_PATH: usize = 107;
/// Most entries that [`sweep`] looks at: two instances and the remains of some crashes are a handful.
const MOST_ENTRIES: usize = 4096;
/// A socket whose owner lives takes or refuses a connection at once; its queue may be full.
const CONNECT: Duration = Duration::from_secs(1);
/// Between the two looks at a silent socket: its owner has bound it and listens a moment later.
const SECOND_LOOK: Duration = Duration::from_millis(100);

/// The two sockets of one instance. Absolute, valid UTF-8, and short enough for the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketPaths {
    dra: String,
    registration: String,
}

/// A socket file that this process has made. Removed when dropped, unless another one took its place.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: Identity,
}

/// Tells a file from another one under the same path. Numbers of inodes are used again, so the time
/// of creation, which sockets keep as time of modification, is a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    made: (i64, i64),
}

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// It would become a part of a file name.
    #[error("pod UID {0:?} is not at most 64 letters, digits and dashes, as Kubernetes gives them")]
    BadPodUid(String),
    /// Kubelet is told the path.
    #[error("directory {0:?} for sockets is not an absolute path in UTF-8")]
    BadDirectory(PathBuf),
    /// The kernel would not take it.
    #[error(
        "socket path {path} has {} bytes, and the kernel takes at most {LONGEST_PATH}: \
         use a shorter directory",
        path.len()
    )]
    TooLong {
        /// The shortest path that there is.
        path: String,
    },
    /// Something else is there.
    #[error("bind {0}: there is a file that is not a socket: remove it")]
    NotASocket(PathBuf),
    /// Another process serves there.
    #[error(
        "bind {0}: another process listens there: only one may run without a pod UID of its own"
    )]
    Served(PathBuf),
    /// The operating system refuses.
    #[error("{step} {path}: {error}")]
    Io {
        /// What was tried.
        step: &'static str,
        /// On what.
        path: PathBuf,
        /// What the operating system says. The message has it, so it is no source of its own.
        error: io::Error,
    },
}

impl SocketPaths {
    /// `<plugins>/lanemate.dev/dra-<uid>.sock` and `<registry>/lanemate.dev@<uid>-reg.sock`: names of
    /// their own let two instances serve during an update. The UID is hashed where the path would be
    /// too long, and left out where there is none.
    ///
    /// Kubelet sends the percent-encoded path of the registration socket as the `:authority` of its
    /// calls. Our HTTP/2 library refuses percent signs in the name of a host and takes them before
    /// an `@`, as the name of a user, so one stands in front of a part that can be a host.
    ///
    /// # Errors
    /// A directory that is not absolute, a path that is too long even so, a UID that is none.
    pub fn new(
        plugins: &Path,
        registry: &Path,
        pod_uid: Option<&str>,
    ) -> Result<Self, SocketError> {
        if let Some(uid) = pod_uid
            && !(uid.len() <= 64 && is_hyphenated(uid, |byte| byte.is_ascii_alphanumeric()))
        {
            return Err(SocketError::BadPodUid(uid.to_owned()));
        }
        let dra = |uid: Option<&str>| match uid {
            Some(uid) => format!("{}/dra-{uid}.sock", names::DRIVER),
            None => format!("{}/dra.sock", names::DRIVER),
        };
        let registration = |uid: Option<&str>| match uid {
            Some(uid) => format!("{}@{uid}-reg.sock", names::DRIVER),
            None => format!("{}@reg.sock", names::DRIVER),
        };
        Ok(Self {
            dra: fitting(plugins, pod_uid, dra)?,
            registration: fitting(registry, pod_uid, registration)?,
        })
    }

    /// Where claims are served.
    pub fn dra(&self) -> &str {
        &self.dra
    }

    /// Where kubelet finds the driver.
    pub fn registration(&self) -> &str {
        &self.registration
    }
}

fn fitting(
    directory: &Path,
    pod_uid: Option<&str>,
    name: impl Fn(Option<&str>) -> String,
) -> Result<String, SocketError> {
    let text = directory
        .to_str()
        .filter(|_| directory.is_absolute())
        .ok_or_else(|| SocketError::BadDirectory(directory.to_owned()))?;
    let text = text.trim_end_matches('/');
    let path = format!("{text}/{}", name(pod_uid));
    if path.len() <= LONGEST_PATH {
        return Ok(path);
    }
    let hashed = pod_uid.map(|uid| format!("{:016x}", stable_hash(uid.as_bytes())));
    let path = format!("{text}/{}", name(hashed.as_deref()));
    if path.len() <= LONGEST_PATH { Ok(path) } else { Err(SocketError::TooLong { path }) }
}

/// Listens at a path, in a directory that is made where it is missing. A dead socket there is
/// replaced.
///
/// # Errors
/// Something else is there, another process listens there, or the operating system refuses.
pub async fn bind(path: &str) -> Result<(UnixListener, SocketFile), SocketError> {
    let path = Path::new(path);
    if let Some(directory) = path.parent() {
        // As kubelet makes its own: nobody but root has business there.
        let made = DirBuilder::new().recursive(true).mode(0o750).create(directory);
        made.map_err(failed("create directory", directory))?;
    }
    clear(path).await?;
    let listener = UnixListener::bind(path).map_err(failed("bind", path))?;
    let found = fs::symlink_metadata(path).map_err(failed("look at", path))?;
    let file = SocketFile { path: path.to_owned(), identity: Identity::of(&found) };
    let allowed = fs::set_permissions(path, Permissions::from_mode(0o600));
    allowed.map_err(failed("set permissions of", path))?;
    Ok((listener, file))
}

async fn clear(path: &Path) -> Result<(), SocketError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("look at", path)(error)),
    };
    if !found.file_type().is_socket() {
        return Err(SocketError::NotASocket(path.to_owned()));
    }
    if !is_silent(path).await {
        return Err(SocketError::Served(path.to_owned()));
    }
    remove(path).map_err(failed("remove", path))
}

/// Removes what crashed instances have left: sockets with our names at which nobody listens. Kubelet
/// would try them for ever. What cannot be removed is logged, and stands in nobody's way.
pub async fn sweep(paths: &SocketPaths) {
    let prefix = format!("{}@", names::DRIVER);
    let registration = |name: &str| name.starts_with(&prefix) && name.ends_with("reg.sock");
    let dra =
        |name: &str| name == "dra.sock" || (name.starts_with("dra-") && name.ends_with(".sock"));
    let mut silent = silent_sockets(Path::new(&paths.registration), registration).await;
    silent.extend(silent_sockets(Path::new(&paths.dra), dra).await);
    if silent.is_empty() {
        return;
    }
    tokio::time::sleep(SECOND_LOOK).await;
    for (path, identity) in silent {
        let same = fs::symlink_metadata(&path).is_ok_and(|now| Identity::of(&now) == identity);
        if !same || !is_silent(&path).await {
            continue;
        }
        let removed = remove(&path);
        let path = path.display();
        match removed {
            Ok(()) => tracing::info!(%path, "removed the socket of an instance that is gone"),
            Err(error) => tracing::warn!(%path, %error, "cannot remove the socket of nobody"),
        }
    }
}

/// Sockets beside `own` with names of ours, at which nobody listens.
async fn silent_sockets(own: &Path, is_ours: impl Fn(&str) -> bool) -> Vec<(PathBuf, Identity)> {
    let entries = own.parent().map(fs::read_dir);
    // A directory that cannot be read cannot be bound in either, and that error is the better one.
    let Some(Ok(entries)) = entries else { return Vec::new() };
    let mut silent = Vec::new();
    for entry in entries.take(MOST_ENTRIES).flatten() {
        let path = entry.path();
        if !entry.file_name().to_str().is_some_and(&is_ours) {
            continue;
        }
        if let Ok(found) = fs::symlink_metadata(&path)
            && found.file_type().is_socket()
            && is_silent(&path).await
        {
            silent.push((path, Identity::of(&found)));
        }
    }
    silent
}

/// True when it is certain that nobody listens.
async fn is_silent(path: &Path) -> bool {
    let connected = tokio::time::timeout(CONNECT, UnixStream::connect(path)).await;
    matches!(connected, Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn failed(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SocketError {
    let path = path.to_owned();
    move |error| SocketError::Io { step, path, error }
}

impl Identity {
    fn of(file: &Metadata) -> Self {
        Self { device: file.dev(), inode: file.ino(), made: (file.mtime(), file.mtime_nsec()) }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let own = fs::symlink_metadata(&self.path)
            .is_ok_and(|found| Identity::of(&found) == self.identity);
        if own && let Err(error) = remove(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the socket");
        }
    }
}
