//! What a user can type: flags, their environment variables and their help.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use lanemate_runtime::duration::duration;
use lanemate_runtime::telemetry::logging::LogFormat;

/// The whole command line. What clap cannot check alone is checked by [`crate::settings`].
#[derive(Debug, Parser)]
#[command(
    name = "lanemate-kubelet-plugin",
    version,
    about = "Lanemate's part on a node: publishes its GPUs and RDMA NICs and prepares them for pods",
    long_about = "Lanemate's part on a node: publishes its GPUs and RDMA NICs as ResourceSlices, and \
        prepares the devices of allocated ResourceClaims when kubelet asks for it.\n\n\
        Runs as root on every node, as a DaemonSet. It needs kubelet's plugin directories and the CDI \
        directory, at the same paths inside the container as on the node, and the file system of the \
        node at --root.",
    after_help = "\
Examples:
  lanemate-kubelet-plugin --node-name $(hostname)          on the node itself, as root
  lanemate-kubelet-plugin --root /host                     in a pod that has / of the node at /host
  lanemate-kubelet-plugin probe ready                      is it registered and published?

Without a GPU, for a look (--root takes a file of `lanemate capture`, too):
  lanemate-kubelet-plugin --node-name n1 --root dgx-h100.yaml --kubeconfig ~/.kube/config \\
    --kubelet-root /tmp/kubelet --cdi-root /tmp/cdi

Durations are written as 90s, 5m or 1h30m.
Exit status: 0 ended as asked, 1 something failed, 2 wrong usage."
)]
pub struct Cli {
    /// What else to do than to run.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
    /// Where sockets and files are.
    #[command(flatten)]
    pub directories: DirectoryArgs,
    /// What the node offers.
    #[command(flatten)]
    pub offer: OfferArgs,
    /// How the cluster is reached, and when.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// What is told.
    #[command(flatten)]
    pub telemetry: TelemetryArgs,
}

/// What else the program does than to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Ask the plugin on this node how it is, for probes of kubelet: exit status 0 is well
    Probe {
        /// What to ask
        #[arg(value_enum)]
        about: Probe,
    },
    /// Print the version
    Version,
}

/// What a probe asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Probe {
    /// Does it work, or does it have to be restarted?
    Live,
    /// Is it registered with kubelet, and are the node's slices published?
    Ready,
}

/// Which node this is.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Node")]
pub struct NodeArgs {
    /// Name of the node in the cluster; required
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    pub node_name: Option<String>,
    /// UID of the pod that this runs in. It makes the names of the sockets unique, so that an update can
    /// start the new pod before the old one ends
    #[arg(long, env = "POD_UID", value_name = "UID", global = true)]
    pub pod_uid: Option<String>,
    /// File system of the node. Below it are read sys, proc, dev, etc/cdi and var/run/cdi. For tests and
    /// demonstrations: any directory with such files, or a file written by `lanemate capture`; it is
    /// read again at each scan
    #[arg(long, value_name = "DIR|FILE", default_value = "/")]
    pub root: PathBuf,
    /// Where the NVIDIA driver is installed, as a path on the node
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub driver_root: String,
}

/// Where sockets and files are.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Directories (the same path in the container as on the node)")]
pub struct DirectoryArgs {
    /// Kubelet's own directory; the next two are in it, and dra_manager_state, which is read
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet", global = true)]
    pub kubelet_root: PathBuf,
    /// Where kubelet calls plugins; ours gets a directory in it [default: <kubelet-root>/plugins]
    #[arg(long, value_name = "DIR", global = true)]
    pub plugins_dir: Option<PathBuf>,
    /// Where plugins register with kubelet [default: <kubelet-root>/plugins_registry]
    #[arg(long, value_name = "DIR")]
    pub registry_dir: Option<PathBuf>,
    /// One record per claim that holds devices; must survive restarts and reboots
    /// [default: <plugins-dir>/lanemate.dev/state]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Metadata files of claims, which containers get mounted [default: <plugins-dir>/lanemate.dev/metadata]
    #[arg(long, value_name = "DIR")]
    pub metadata_dir: Option<PathBuf>,
    /// Where the container runtime reads CDI specs
    #[arg(long, value_name = "DIR", default_value = "/var/run/cdi")]
    pub cdi_root: PathBuf,
}

/// What the node offers, and to whom.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "What is offered")]
pub struct OfferArgs {
    /// Who allocates in the cluster. Change it only while no claim holds a device
    #[arg(long, value_enum, default_value_t)]
    pub mode: Mode,
    /// Configuration file: which devices to leave out, and an NCCL topology file for machines that
    /// hide their switches
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// How the cluster is reached, and when things are done.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// How to reach the API server [default: as the pod's service account]
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// How often the machine is read again
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub rescan_interval: Duration,
    /// How often claims on record are compared with the cluster, give or take a tenth
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    pub reconcile_interval: Duration,
    /// How long a claim must be gone from the cluster before its devices are taken back without
    /// kubelet having asked for it
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub claim_gone_grace: Duration,
}

/// What the plugin tells about itself.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Telemetry")]
pub struct TelemetryArgs {
    /// Where Prometheus metrics are served, or `off`. Two instances may share the port during an update
    #[arg(long, value_name = "IP:PORT", default_value = "0.0.0.0:9099")]
    pub metrics_address: String,
    /// Where `probe` asks [default: <plugins-dir>/lanemate.dev/health[-<pod-uid>].sock]
    #[arg(long, value_name = "PATH", global = true)]
    pub health_socket: Option<PathBuf>,
    /// Form of the log, on stderr
    #[arg(long, value_enum, default_value_t)]
    pub log_format: LogFormat,
    /// error, warn, info, debug or trace; for single parts as in info,lanemate_kubelet_plugin=debug
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log_level: String,
}

/// Who allocates in the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Lanemate's controller; free devices carry its taint
    #[default]
    Controller,
    /// kube-scheduler, by the attributes of the devices
    Scheduler,
}
