//! Arguments of the commands that ask a cluster.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::Mode;

/// Namespace of the controller, as the manifests in `deploy` have it.
const SYSTEM: &str = "lanemate-system";

/// Which cluster.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// The kubeconfig; its current context counts [default: the first file of KUBECONFIG,
    /// ~/.kube/config, or the service account of the pod]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the controller
    #[arg(long, value_name = "NAME", default_value = SYSTEM)]
    pub system_namespace: String,
}

/// Forms of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ClusterOutput {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
    /// The same as YAML.
    Yaml,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lanemate explain                       every claim of the namespace that waits
  lanemate explain four-pairs -n ml      a claim
  lanemate explain pod/trainer -n ml     the claims of a pod

Decides what is pending with the controller's own core, on what the cluster says now, in the
controller's order; nothing is written.")]
pub struct ExplainArgs {
    /// A claim, or pod/NAME [default: every claim that waits]
    #[arg(value_name = "CLAIM|pod/NAME")]
    pub subject: Option<String>,
    /// Namespace [default: that of the kubeconfig's context]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: ClusterOutput,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Arguments of `status`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lanemate status
  lanemate status -o json | jq '.nodes[] | select(.gpus.free > 0) | .name'")]
pub struct StatusArgs {
    /// How to print it
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: ClusterOutput,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lanemate check
  lanemate check --system-namespace gpu-system
  lanemate check -o json | jq '.[] | select(.result == \"failed\")'

Writes nothing: what is tried out is tried with dry runs. Exit status: 1 where a check failed.")]
pub struct CheckArgs {
    /// Who shall allocate in the cluster [default: told from the DaemonSet, the controller and the slices]
    #[arg(long, value_enum, value_name = "MODE")]
    pub mode: Option<Mode>,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: ClusterOutput,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}
