//! The command line and the files that it names, checked once and as a whole: a person sees all
//! mistakes together, and nothing inside has to check again.

use std::fmt;
use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use lanemate_api::names;
use lanemate_api::validation::format::{is_dns_subdomain, is_hyphenated};
use lanemate_driver::config::Config;
use lanemate_driver::resource_slice::Mode;
use lanemate_driver::topology::Override;
use lanemate_runtime::telemetry::logging::{self, LogSettings};
use tracing_subscriber::EnvFilter;

use crate::args::{self, Cli, DirectoryArgs, NodeArgs, OfferArgs, TelemetryArgs};

/// Longest path of a socket: `sun_path` has 108 bytes, one of which ends it.
const MAX_SOCKET_BYTES: usize = 107;
/// Largest configuration or NCCL topology file: a thousand times what they need.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// What the plugin runs with.
#[derive(Debug)]
pub struct Settings {
    /// Name of the node.
    pub node: String,
    /// UID of the pod that this runs in.
    pub pod_uid: Option<String>,
    /// How the machine is read.
    pub machine: MachineSettings,
    /// Where sockets and files are.
    pub directories: Directories,
    /// Who allocates in the cluster.
    pub mode: Mode,
    /// How to reach the API server; absent for the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// How often the machine is read again.
    pub rescan_interval: Duration,
    /// How often claims on record are compared with the cluster.
    pub reconcile_interval: Duration,
    /// How long a claim must be gone before its devices are taken back unasked.
    pub claim_gone_grace: Duration,
    /// Where metrics are served.
    pub metrics_address: Option<SocketAddr>,
    /// Where probes ask.
    pub health_socket: PathBuf,
    /// The log.
    pub log: LogSettings,
}

/// How the machine is read.
#[derive(Debug, Default)]
pub struct MachineSettings {
    /// The machine's file system, or a captured machine.
    pub root: PathBuf,
    /// Where the NVIDIA driver is installed, relative to the root; empty where that is the root.
    pub driver_root: String,
    /// What the site leaves out.
    pub config: Config,
    /// The NCCL topology XML that the configuration names.
    pub topology_override: Option<TopologyOverride>,
}

/// An NCCL topology XML, as written and as understood.
#[derive(Clone, Debug)]
pub struct TopologyOverride {
    /// As written.
    pub text: String,
    /// As understood.
    pub parsed: Override,
}

/// Directories, all absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directories {
    /// Kubelet's, for all plugins.
    pub plugins: PathBuf,
    /// Ours below it: the socket that kubelet calls, and by default all that we keep.
    pub plugin: PathBuf,
    /// Where plugins register with kubelet.
    pub registry: PathBuf,
    /// Kubelet's list of claims that it has prepared.
    pub kubelet_claims: PathBuf,
    /// Records.
    pub state: PathBuf,
    /// CDI specs.
    pub cdi: PathBuf,
    /// Metadata files, as containers get them mounted.
    pub metadata: PathBuf,
}

/// All that is wrong with the command line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", told(.0))]
pub struct SettingsError(Vec<Mistake>);

/// One flag that is wrong.
#[derive(Debug, PartialEq, Eq)]
struct Mistake {
    flag: &'static str,
    message: String,
}

/// Collects mistakes; what is built beside one is never used.
#[derive(Default)]
struct Mistakes(Vec<Mistake>);

impl Settings {
    /// Checks the command line and reads the files that it names.
    ///
    /// # Errors
    /// Everything that is wrong, one line each.
    pub fn check(cli: Cli) -> Result<Self, SettingsError> {
        let mut mistakes = Mistakes::default();
        let node = mistakes.node_name(&cli.node);
        mistakes.pod_uid(cli.node.pod_uid.as_deref());
        let directories = mistakes.directories(&cli.directories);
        let health_socket = mistakes.health_socket(&cli);
        let machine = mistakes.machine(&cli.node, &cli.offer);
        let metrics_address = mistakes.metrics_address(&cli.telemetry.metrics_address);
        let kubeconfig = cli.cluster.kubeconfig;
        if let Some(file) = kubeconfig.as_deref().filter(|file| !file.is_file()) {
            mistakes.add("--kubeconfig", file.display(), "expected a file");
        }
        let log = mistakes.log(&cli.telemetry);
        if !mistakes.0.is_empty() {
            return Err(SettingsError(mistakes.0));
        }
        Ok(Self {
            node,
            pod_uid: cli.node.pod_uid,
            machine,
            directories,
            mode: match cli.offer.mode {
                args::Mode::Controller => Mode::Controller,
                args::Mode::Scheduler => Mode::Scheduler,
            },
            kubeconfig,
            rescan_interval: cli.cluster.rescan_interval,
            reconcile_interval: cli.cluster.reconcile_interval,
            claim_gone_grace: cli.cluster.claim_gone_grace,
            metrics_address,
            health_socket,
            log,
        })
    }
}

/// Where `probe` and the plugin meet.
pub fn health_socket(cli: &Cli) -> PathBuf {
    let uid = cli.node.pod_uid.iter().map(|uid| format!("-{uid}")).collect::<String>();
    let usual = || plugin_directory(&cli.directories).join(format!("health{uid}.sock"));
    cli.telemetry.health_socket.clone().unwrap_or_else(usual)
}

fn plugins_directory(args: &DirectoryArgs) -> PathBuf {
    args.plugins_dir.clone().unwrap_or_else(|| args.kubelet_root.join("plugins"))
}

fn plugin_directory(args: &DirectoryArgs) -> PathBuf {
    plugins_directory(args).join(names::DRIVER)
}

impl Mistakes {
    fn add(&mut self, flag: &'static str, value: impl fmt::Display, expected: impl fmt::Display) {
        let value = value.to_string();
        self.0.push(Mistake { flag, message: format!("{value:?}: {expected}") });
    }

    fn node_name(&mut self, args: &NodeArgs) -> String {
        const EXPECTED: &str = "expected lower-case letters, digits, - and . (a node's name)";
        match args.node_name.as_deref() {
            Some(name) if is_dns_subdomain(name) => return name.to_owned(),
            Some(name) => self.add("--node-name", name, EXPECTED),
            None => self.0.push(Mistake {
                flag: "--node-name",
                message: "missing: expected the node's name in the cluster, here or in NODE_NAME"
                    .to_owned(),
            }),
        }
        String::new()
    }

    fn pod_uid(&mut self, uid: Option<&str>) {
        // It becomes part of file names.
        let is_uid =
            |uid: &&str| uid.len() <= 64 && is_hyphenated(uid, |b| b.is_ascii_alphanumeric());
        if let Some(uid) = uid.filter(|uid| !is_uid(uid)) {
            let expected = "expected at most 64 letters, digits and dashes (a pod's metadata.uid)";
            self.add("--pod-uid", uid, expected);
        }
    }

    fn directories(&mut self, args: &DirectoryArgs) -> Directories {
        let plugin = plugin_directory(args);
        let or = |given: &Option<PathBuf>, usual: PathBuf| given.clone().unwrap_or(usual);
        let directories = Directories {
            registry: or(&args.registry_dir, args.kubelet_root.join("plugins_registry")),
            kubelet_claims: args.kubelet_root.join("dra_manager_state"),
            state: or(&args.state_dir, plugin.join("state")),
            cdi: args.cdi_root.clone(),
            metadata: or(&args.metadata_dir, plugin.join("metadata")),
            plugins: plugins_directory(args),
            plugin,
        };
        let given = [
            ("--kubelet-root", Some(&args.kubelet_root)),
            ("--plugins-dir", args.plugins_dir.as_ref()),
            ("--registry-dir", args.registry_dir.as_ref()),
            ("--state-dir", args.state_dir.as_ref()),
            ("--metadata-dir", args.metadata_dir.as_ref()),
            ("--cdi-root", Some(&args.cdi_root)),
        ];
        for (flag, path) in given.into_iter().filter_map(|(flag, path)| Some((flag, path?))) {
            self.directory(flag, path);
        }
        // A record or a metadata file there would be read as a CDI spec, and the other way round.
        for (flag, path) in
            [("--state-dir", &directories.state), ("--metadata-dir", &directories.metadata)]
        {
            if *path == directories.cdi {
                self.add(flag, path.display(), "expected another directory than --cdi-root");
            }
        }
        if directories.state == directories.metadata {
            let expected = "expected another directory than --metadata-dir";
            self.add("--state-dir", directories.state.display(), expected);
        }
        directories
    }

    /// Absolute, UTF-8, without `..`: kubelet and the container runtime read the same text.
    fn directory(&mut self, flag: &'static str, path: &Path) {
        let plain =
            path.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_)));
        if !path.is_absolute() || !plain || path.to_str().is_none() || path == Path::new("/") {
            self.add(flag, path.display(), "expected an absolute path of a directory, without ..");
        } else if path.exists() && !path.is_dir() {
            self.add(flag, path.display(), "expected a directory, found something else");
        }
    }

    fn health_socket(&mut self, cli: &Cli) -> PathBuf {
        let socket = health_socket(cli);
        if !socket.is_absolute() || socket.as_os_str().len() > MAX_SOCKET_BYTES {
            let expected = format!("expected an absolute path of at most {MAX_SOCKET_BYTES} bytes");
            self.add("--health-socket", socket.display(), expected);
        }
        socket
    }

    fn machine(&mut self, node: &NodeArgs, offer: &OfferArgs) -> MachineSettings {
        if !node.root.is_dir() && !node.root.is_file() {
            let expected =
                "expected a directory with a machine's files, or a file of lanemate capture";
            self.add("--root", node.root.display(), expected);
        }
        let driver_root = &*node.driver_root;
        if !driver_root.starts_with('/') || driver_root.split('/').any(|part| part == "..") {
            let expected = "expected an absolute path of a directory, without ..";
            self.add("--driver-root", driver_root, expected);
        }
        let config = offer.config.as_deref().map(|file| self.config(file)).unwrap_or_default();
        let topology_override = config
            .topology_override
            .as_deref()
            .and_then(|xml| self.topology_override(offer.config.as_deref(), xml));
        MachineSettings {
            root: node.root.clone(),
            driver_root: driver_root.trim_matches('/').to_owned(),
            config,
            topology_override,
        }
    }

    fn config(&mut self, file: &Path) -> Config {
        let config = text(file).and_then(|text| Config::parse(&text).map_err(|e| e.to_string()));
        config.unwrap_or_else(|error| {
            self.add("--config", file.display(), error);
            Config::default()
        })
    }

    fn topology_override(&mut self, config: Option<&Path>, xml: &Path) -> Option<TopologyOverride> {
        let base = config.and_then(Path::parent).unwrap_or(Path::new(""));
        let file = base.join(xml);
        let read = || {
            let text = text(&file)?;
            let parsed = Override::parse(&text).map_err(|error| error.to_string())?;
            Ok::<_, String>(TopologyOverride { text, parsed })
        };
        read()
            .map_err(|error| {
                let config = config.unwrap_or(Path::new("")).display();
                let problem = format!("topologyOverride: {}: {error}", file.display());
                self.add("--config", config, problem);
            })
            .ok()
    }

    fn metrics_address(&mut self, text: &str) -> Option<SocketAddr> {
        if text == "off" {
            return None;
        }
        let address = text.parse();
        if address.is_err() {
            let expected = "expected IP:PORT such as 0.0.0.0:9099 or [::]:9099, or off";
            self.add("--metrics-address", text, expected);
        }
        address.ok()
    }

    fn log(&mut self, args: &TelemetryArgs) -> LogSettings {
        let filter = logging::filter(&args.log_level).unwrap_or_else(|| {
            let expected = "expected error, warn, info, debug or trace, or a list such as \
                            info,lanemate_kubelet_plugin=debug";
            self.add("--log-level", &args.log_level, expected);
            EnvFilter::default()
        });
        LogSettings { format: args.log_format, filter }
    }
}

/// The text of a file that is not larger than such files are.
fn text(file: &Path) -> Result<String, String> {
    let open = fs::File::open(file).map_err(|error| format!("cannot be read: {error}"))?;
    let mut bytes = Vec::new();
    let read = open.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("expected at most {} MiB", MAX_FILE_BYTES >> 20));
    }
    String::from_utf8(bytes).map_err(|_| "expected UTF-8 text".to_owned())
}

fn told(mistakes: &[Mistake]) -> String {
    let line = |mistake: &Mistake| format!("{} {}", mistake.flag, mistake.message);
    mistakes.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
