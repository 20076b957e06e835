//! What a user can type: flags, their environment variables and their help.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use lanemate_runtime::duration::duration;
use lanemate_runtime::telemetry::logging::LogFormat;

/// The whole command line. What clap cannot check alone is checked by [`crate::settings`].
#[derive(Debug, Parser)]
#[command(
    name = "lanemate-controller",
    version,
    about = "Lanemate's part beside kube-scheduler: gives pods their GPUs and RDMA NICs",
    long_about = "Lanemate's part beside kube-scheduler: allocates the ResourceClaims of pods that wait with the \
        scheduling gate lanemate.dev/placement, pins each pod to the node of its devices, and compiles ResourceClasses \
        to DeviceClasses.\n\nOf several instances one holds the lease and works; the others wait to take over.",
    after_help = "\
Examples:
  lanemate-controller                                      in a pod, as its service account
  lanemate-controller --kubeconfig ~/.kube/config --log-format text
  lanemate-controller uninstall --dry-run                  says what an uninstallation would do

Durations are written as 90s, 5m or 1h30m.
Exit status: 0 ended as asked, 1 something failed or the lease was lost, 2 wrong usage."
)]
pub struct Cli {
    /// What else to do than to run.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Who allocates in the cluster; the same as that of the plugins
    #[arg(long, value_enum, default_value_t)]
    pub mode: Mode,
    /// How the cluster is reached.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// How one of several instances is chosen.
    #[command(flatten)]
    pub lease: LeaseArgs,
    /// What is told.
    #[command(flatten)]
    pub telemetry: TelemetryArgs,
}

/// What else the program does than to run.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Print the version
    Version,
    /// Take Lanemate out of the cluster: its controller, gates, finalizers and policies
    #[command(
        long_about = "Takes Lanemate out of the cluster: ends the controller, refuses to go on while devices are in use, then \
            removes the policies that put the gate lanemate.dev/placement on pods, the gate from all pods, the finalizer \
            lanemate.dev/class-protection from ResourceClasses, and the policies of the fence. What remains are objects that \
            `kubectl delete -f` or Helm removes.\n\nIt can be interrupted, and goes on when it is run again."
    )]
    Uninstall(UninstallArgs),
}

/// What is taken out, and how.
#[derive(Clone, Debug, Args)]
pub struct UninstallArgs {
    /// Namespace of the controller and of its lease
    #[arg(
        long,
        env = "POD_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "lanemate-system"
    )]
    pub namespace: String,
    /// Name of the controller's Deployment
    #[arg(long, value_name = "NAME", default_value = "lanemate-controller")]
    pub deployment: String,
    /// Name of the controller's lease
    #[arg(long, value_name = "NAME", default_value = "lanemate-controller")]
    pub lease_name: String,
    /// The longest wait for one thing, such as the end of the controller's pods
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = duration)]
    pub timeout: Duration,
    /// Change nothing, and say what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// How the cluster is reached.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// How the cluster is reached.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// How to reach the API server [default: as the pod's service account]
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

/// How one of several instances is chosen.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Lease")]
pub struct LeaseArgs {
    /// Namespace of the lease
    #[arg(
        long,
        env = "POD_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "lanemate-system"
    )]
    pub lease_namespace: String,
    /// Name of the lease
    #[arg(long, value_name = "NAME", default_value = "lanemate-controller")]
    pub lease_name: String,
    /// Name of this instance [default: the host name and a random number]
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub identity: Option<String>,
    /// How long others wait for an instance that is silent; whole seconds
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = duration)]
    pub lease_duration: Duration,
}

/// What the controller tells about itself.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Telemetry")]
pub struct TelemetryArgs {
    /// Where /metrics, /healthz and /readyz are served, or `off`
    #[arg(long, value_name = "IP:PORT", default_value = "0.0.0.0:9098")]
    pub http_address: String,
    /// Form of the log, on stderr
    #[arg(long, value_enum, default_value_t)]
    pub log_format: LogFormat,
    /// error, warn, info, debug or trace; for single parts as in info,lanemate_controller=debug
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log_level: String,
}

/// Who allocates in the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// This program
    #[default]
    Controller,
    /// kube-scheduler: then this program has nothing to do, and refuses to run
    Scheduler,
}
