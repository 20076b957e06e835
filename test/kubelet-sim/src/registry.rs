//! The registry directory: what appears there is asked, checked and told; what goes is forgotten.
//!
//! ```text
//! socket appears -> GetInfo -> checks -> registered -> NotifyRegistrationStatus
//!                      |          `-> told why not, and tried again after a while
//!                      `-> nobody there: tried again after a while
//! socket gone, or another one in its place -> forgotten
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tonic::Request;
use tonic::transport::Channel;

use crate::connection::{Connection, Named};
use crate::generated::registration::registration_client::RegistrationClient;
use crate::generated::registration::{InfoRequest, PluginInfo, RegistrationStatus};
use crate::{Device, Plugin, Settings, Version};

/// Kubelet tries again after half a second, then more and more slowly.
const RETRY: Duration = Duration::from_millis(500);
/// For an answer from a registration socket.
const CALL: Duration = Duration::from_secs(5);

/// What kubelet knows until it ends.
#[derive(Debug, Default)]
pub struct Memory {
    /// Oldest first.
    pub instances: Vec<Instance>,
    /// Sockets that could not be registered, with the reason.
    pub failures: BTreeMap<PathBuf, String>,
    /// What is prepared, by driver and UID.
    pub prepared: BTreeMap<(String, String), Vec<Device>>,
}

/// One of the plugins of a driver.
#[derive(Debug)]
pub struct Instance {
    pub driver: String,
    pub socket: PathBuf,
    pub endpoint: PathBuf,
    pub versions: Vec<String>,
    pub connection: Option<Connection>,
}

/// A socket file, told from another one under the same path.
type Identity = (u64, i64, i64);

/// What was tried with a socket.
struct Seen {
    identity: Identity,
    /// Absent once it is registered.
    retry_at: Option<Instant>,
}

/// Looks at the directory until it is dropped.
pub async fn watch(settings: Settings, memory: Arc<Mutex<Memory>>) {
    let mut seen: BTreeMap<PathBuf, Seen> = BTreeMap::new();
    loop {
        let sockets = sockets(&settings.registry);
        forget(&memory, &mut seen, &sockets);
        for (socket, identity) in sockets {
            let due = match seen.get(&socket).map(|seen| seen.retry_at) {
                None => true,
                Some(retry_at) => retry_at.is_some_and(|at| at <= Instant::now()),
            };
            if !due {
                continue;
            }
            let failure = register(&memory, &socket).await.err();
            let retry_at = failure.is_some().then(|| Instant::now() + RETRY);
            seen.insert(socket.clone(), Seen { identity, retry_at });
            let mut memory = lock(&memory);
            match failure {
                Some(reason) => memory.failures.insert(socket, reason),
                None => memory.failures.remove(&socket),
            };
        }
        connect(&memory).await;
        tokio::time::sleep(settings.poll).await;
    }
}

/// A thread that panicked in a test has left nothing half done here.
pub fn lock(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hidden files are none, as for kubelet. A directory that is missing is empty.
fn sockets(registry: &Path) -> BTreeMap<PathBuf, Identity> {
    let entries = fs::read_dir(registry).into_iter().flatten().flatten();
    let visible = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    let socket = |entry: fs::DirEntry| -> io::Result<Option<(PathBuf, Identity)>> {
        let found = entry.metadata()?;
        let identity = (found.ino(), found.mtime(), found.mtime_nsec());
        Ok(found.file_type().is_socket().then(|| (entry.path(), identity)))
    };
    visible.filter_map(|entry| socket(entry).ok().flatten()).collect()
}

fn forget(
    memory: &Mutex<Memory>,
    seen: &mut BTreeMap<PathBuf, Seen>,
    sockets: &BTreeMap<PathBuf, Identity>,
) {
    seen.retain(|socket, seen| sockets.get(socket) == Some(&seen.identity));
    let mut memory = lock(memory);
    memory.instances.retain(|instance| seen.contains_key(&instance.socket));
    memory.failures.retain(|socket, _| seen.contains_key(socket));
}

async fn register(memory: &Mutex<Memory>, socket: &Path) -> Result<(), String> {
    let channel = Connection::to(socket, Named::ByPath).await?.channel();
    let info = get_info(channel.clone()).await?;
    let wrong = wrong(&info).or_else(|| taken(&lock(memory), &info));
    if let Some(reason) = wrong {
        // What matters is the reason; the plugin may be gone already.
        let _ = notify(channel, false, reason.clone()).await;
        return Err(reason);
    }
    let endpoint = PathBuf::from(info.endpoint);
    let connection = Connection::to(&endpoint, Named::Localhost).await.ok();
    lock(memory).instances.push(Instance {
        driver: info.name,
        socket: socket.to_owned(),
        endpoint,
        versions: info.supported_versions,
        connection,
    });
    let told = notify(channel, true, String::new()).await;
    if told.is_err() {
        lock(memory).instances.retain(|instance| instance.socket != socket);
    }
    told
}

async fn get_info(channel: Channel) -> Result<PluginInfo, String> {
    let mut request = Request::new(InfoRequest {});
    request.set_timeout(CALL);
    let answer = RegistrationClient::new(channel).get_info(request).await;
    answer.map(|info| info.into_inner()).map_err(|status| format!("GetInfo: {status:?}"))
}

async fn notify(channel: Channel, plugin_registered: bool, error: String) -> Result<(), String> {
    let mut request = Request::new(RegistrationStatus { plugin_registered, error });
    request.set_timeout(CALL);
    let answer = RegistrationClient::new(channel).notify_registration_status(request).await;
    answer.map(drop).map_err(|status| format!("NotifyRegistrationStatus: {status:?}"))
}

/// What kubelet would not take.
fn wrong(info: &PluginInfo) -> Option<String> {
    if info.r#type != "DRAPlugin" {
        return Some(format!("plugin type {:?} is not DRAPlugin", info.r#type));
    }
    if !is_dns_subdomain(&info.name) {
        return Some(format!("plugin name {:?} is not a DNS subdomain", info.name));
    }
    if !Path::new(&info.endpoint).is_absolute() {
        return Some(format!("endpoint {:?} is not an absolute path", info.endpoint));
    }
    let known = [Version::V1, Version::V1beta1].map(Version::service);
    if !info.supported_versions.iter().any(|version| known.contains(&version.as_str())) {
        return Some(format!(
            "supported versions {:?} have none of {known:?}",
            info.supported_versions
        ));
    }
    None
}

fn taken(memory: &Memory, info: &PluginInfo) -> Option<String> {
    let taken = memory
        .instances
        .iter()
        .any(|other| other.driver == info.name && other.endpoint == Path::new(&info.endpoint));
    taken.then(|| format!("endpoint {:?} of {} is registered already", info.endpoint, info.name))
}

fn is_dns_subdomain(text: &str) -> bool {
    let part = |part: &str| {
        let bytes = part.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        ends.iter().all(|end| end.is_some_and(|byte| *byte != b'-'))
            && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
    };
    text.len() <= 253 && text.split('.').all(part)
}

/// Connections that were lost are made again.
async fn connect(memory: &Mutex<Memory>) {
    let lost: Vec<PathBuf> = {
        let memory = lock(memory);
        let lost = memory.instances.iter().filter(|instance| !instance.is_connected());
        lost.map(|instance| instance.endpoint.clone()).collect()
    };
    for endpoint in lost {
        // Nobody there: tried again at the next look.
        let Ok(connection) = Connection::to(&endpoint, Named::Localhost).await else { continue };
        let mut memory = lock(memory);
        if let Some(instance) = memory.instances.iter_mut().find(|i| i.endpoint == endpoint) {
            instance.connection = Some(connection);
        }
    }
}

impl Instance {
    pub fn is_connected(&self) -> bool {
        self.connection.as_ref().is_some_and(Connection::is_open)
    }

    pub fn plugin(&self) -> Plugin {
        Plugin {
            driver: self.driver.clone(),
            socket: self.socket.clone(),
            endpoint: self.endpoint.clone(),
            versions: self.versions.clone(),
            connected: self.is_connected(),
        }
    }
}
