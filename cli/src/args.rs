//! What a user can type: commands, options and their help.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::demo::DemoArgs;
use crate::named::NamedFile;
use crate::plan::args::PlanArgs;

#[cfg(not(feature = "cluster"))]
const LONG_ABOUT: &str = "\
GPUs together with the RDMA NICs under the same PCIe switch, for Kubernetes.

Looks at this machine, or at a captured one (--host), and shows what a Kubernetes node like it would \
offer. Nothing here needs a cluster or a GPU.";
#[cfg(feature = "cluster")]
const LONG_ABOUT: &str = "\
GPUs together with the RDMA NICs under the same PCIe switch, for Kubernetes.

Looks at this machine, or at a captured one (--host), and shows what a Kubernetes node like it would \
offer. Only explain, status and check need a cluster, and nothing needs a GPU.";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "lanemate",
    version,
    about = "GPUs together with the RDMA NICs under the same PCIe switch, for Kubernetes",
    long_about = LONG_ABOUT,
    after_help = "\
Examples:
  lanemate demo                                        the main job, on a captured machine
  lanemate topology                                    this machine
  lanemate topology --host dgx-h100.yaml -o svg        a captured one, drawn
  lanemate slices --host dgx-h100.yaml                 what its node would publish
  lanemate plan -f class.yaml claim.yaml --host dgx-h100.yaml

Exit status: 0 done, 1 broken input or IO, 2 wrong usage, 3 does not fit.",
    arg_required_else_help = true
)]
pub struct Cli {
    /// When to use colour; NO_COLOR and TERM=dumb turn `auto` off
    // Behind the options of a command.
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "WHEN",
        display_order = 900
    )]
    pub color: Color,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    // On a terminal only. No help of their own: the words say it.
    #[default]
    Auto,
    Always,
    Never,
}

/// The commands, in the order in which one meets them.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// See the main job from end to end on a captured machine; needs no cluster and no GPU
    Demo(DemoArgs),
    /// Show a machine as a tree, how near each GPU is to each NIC, and what is left out and why
    Topology(TopologyArgs),
    /// Print the ResourceSlices that the node would publish
    Slices(SlicesArgs),
    /// Allocate the pending claims among given objects and machines: who gets what, or why not
    Plan(PlanArgs),
    /// Write the CDI spec and the metadata of an allocated claim
    Prepare(PrepareArgs),
    /// Record a machine as one YAML file, without what identifies it
    Capture(CaptureArgs),
    /// Say why claims wait, or where they sit, in a cluster
    #[cfg(feature = "cluster")]
    Explain(crate::cluster::args::ExplainArgs),
    /// Show what each node of a cluster offers, what is free, and who waits
    #[cfg(feature = "cluster")]
    Status(crate::cluster::args::StatusArgs),
    /// Say whether a cluster is set up right, and what to do where it is not
    #[cfg(feature = "cluster")]
    Check(crate::cluster::args::CheckArgs),
}

/// Which machines, and how to read them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Machines")]
pub struct MachineArgs {
    /// A captured machine instead of this one; repeat it for several. Its node name is the
    /// capture's metadata.name, or NAME
    #[arg(long = "host", value_name = "[NAME=]FILE")]
    pub hosts: Vec<NamedFile>,
    #[command(flatten)]
    pub live: LiveArgs,
    /// An NCCL topology XML that decides nearness instead of sysfs (virtual machines hide
    /// switches); NAME= says for which host
    #[arg(long = "override", value_name = "[NAME=]FILE")]
    pub overrides: Vec<NamedFile>,
    /// The plugin's configuration: which devices to leave out
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Who allocates in the cluster: our controller (free devices carry its taint), or kube-scheduler
    #[arg(long, value_enum, default_value_t)]
    pub mode: Mode,
}

/// The machine this runs on.
#[derive(Debug, Args)]
#[command(next_help_heading = "Machines")]
pub struct LiveArgs {
    /// Where the file system of the live machine is found
    #[arg(long, value_name = "DIR", default_value = "/", conflicts_with = "hosts")]
    pub root: PathBuf,
    /// Node name of the live machine [default: its host name]
    #[arg(long, value_name = "NAME", conflicts_with = "hosts")]
    pub node: Option<String>,
}

/// Who allocates in the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Our controller.
    #[default]
    Controller,
    /// kube-scheduler.
    Scheduler,
}

/// Arguments of `topology`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lanemate topology                                  this machine
  lanemate topology --host dgx-h100.yaml             a captured one
  lanemate topology --host vm.yaml --override topo.xml
  lanemate topology -o json | jq '.paths[] | select(.class == \"PIX\")'
  lanemate topology -o svg > machine.svg             a drawing

How near a GPU and a NIC are, in the words of `nvidia-smi topo -m`:
  PIX   below the same innermost switch
  PXB   below the same root port, through several switches
  PHB   through one host bridge
  NODE  through several host bridges of one NUMA node
  SYS   across NUMA nodes, or unknown")]
pub struct TopologyArgs {
    /// How to print it
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: TopologyOutput,
    #[command(flatten)]
    pub machines: MachineArgs,
}

/// Forms of `topology`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TopologyOutput {
    /// Tree, matrix and reasons.
    #[default]
    Table,
    /// For programs; several hosts are an array.
    Json,
    /// The same as YAML.
    Yaml,
    /// A drawing of one machine.
    Svg,
}

/// Arguments of `slices`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lanemate slices --host dgx-h100.yaml
  lanemate slices --host n1=dgx-h100.yaml --host n2=dgx-h100.yaml > slices.yaml
  lanemate slices --host dgx-h100.yaml -o table")]
pub struct SlicesArgs {
    /// How to print them
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: SlicesOutput,
    #[command(flatten)]
    pub machines: MachineArgs,
}

/// Forms of `slices`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SlicesOutput {
    /// As `kubectl apply` takes it; several slices are a List.
    #[default]
    Yaml,
    /// The same as JSON.
    Json,
    /// One line a device.
    Table,
}

/// Arguments of `prepare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  lanemate prepare --host dgx-h100.yaml --claim claim.yaml --cdi-root /tmp/cdi

Takes those results of the claim that name our driver and this node's pool.")]
pub struct PrepareArgs {
    /// A ResourceClaim with status.allocation, YAML or JSON; - is standard input
    #[arg(long, value_name = "FILE")]
    pub claim: PathBuf,
    /// Where the CDI spec goes; a node uses /var/run/cdi
    #[arg(long, value_name = "DIR")]
    pub cdi_root: PathBuf,
    /// Where the metadata files go [default: metadata, below the CDI root]
    #[arg(long, value_name = "DIR")]
    pub metadata_dir: Option<PathBuf>,
    #[command(flatten)]
    pub machines: MachineArgs,
}

/// Arguments of `capture`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lanemate capture --to machine.yaml
  lanemate topology --host machine.yaml

Records exactly what discovery reads. Serials, GUIDs, MAC and IP addresses, GPU UUIDs and the host
name are replaced by made-up ones of the same form, so that the file can be shared; have a look at
it all the same.")]
pub struct CaptureArgs {
    /// Where to write it [default: stdout]
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
    /// Record a captured machine again instead of this one
    #[arg(long = "host", value_name = "FILE", help_heading = "Machines")]
    pub hosts: Option<NamedFile>,
    #[command(flatten)]
    pub live: LiveArgs,
}
