//! Arguments of `plan`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use lanemate_api::validation::format::is_dns_label;
use lanemate_driver::pending::DEFAULT_NAMESPACE;

use crate::args::{LiveArgs, MachineArgs, Mode};
use crate::named::NamedFile;

/// Most repetitions: 16 MB of durations.
const REPEAT_MAX: i64 = 1_000_000;

/// Which objects and machines there are, and how to print what becomes of the claims.
#[derive(Debug, Args)]
#[command(after_help = "\
Reads ResourceSlice, Node, Pod, PriorityClass, DeviceClass, ResourceClass, ResourceClaim and
ResourceClaimTemplate.
gpu.lanemate.dev and nic.lanemate.dev are built in. Claims that one Pod names are decided together.
Claims that are allocated already hold their devices and are left as they are.

--explain ranks nodes, the first term that differs decides: wishes met (units + pairs of units),
class of the farthest pair, sum of all classes (PIX 0 to SYS 4), hops between switches, NICs and
GPUs left free, and switches newly broken into.

Examples:
  lanemate plan -f class.yaml -f claim.yaml --host dgx-h100.yaml
  lanemate plan -f cluster.yaml --explain
  kubectl get -A -o json \\
    nodes,pods,resourceslices,resourceclaims,deviceclasses,resourceclasses | lanemate plan -f -
  lanemate plan -f class.yaml -f claim.yaml --host n1=a.yaml --host n2=b.yaml -o yaml")]
pub struct PlanArgs {
    /// Kubernetes objects, YAML or JSON; - is standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// Namespace of objects that name none
    #[arg(short, long, value_name = "NAME", default_value = DEFAULT_NAMESPACE, value_parser = namespace)]
    pub namespace: String,
    /// Decide for the devices of every driver, not of lanemate.dev alone
    #[arg(long)]
    pub any_driver: bool,
    /// Print what was considered: how each node ranks, or why it does not fit
    #[arg(long)]
    pub explain: bool,
    /// Take the first decision N times from the same state, and print how long one takes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=REPEAT_MAX))]
    pub repeat: Option<u32>,
    /// The time that allocations carry [default: the current time]
    #[arg(long, value_name = "RFC3339")]
    pub now: Option<Timestamp>,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: PlanOutput,
    #[command(flatten)]
    pub machines: PlanMachines,
}

/// Captured machines that take part as nodes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Machines")]
pub struct PlanMachines {
    /// A captured machine as a node, with the slices it would publish; repeat it for several. The
    /// node's name is the capture's metadata.name, or NAME
    #[arg(long = "host", value_name = "[NAME=]FILE")]
    hosts: Vec<NamedFile>,
    /// An NCCL topology XML that decides nearness instead of sysfs; NAME= says for which host
    #[arg(long = "override", value_name = "[NAME=]FILE", requires = "hosts")]
    overrides: Vec<NamedFile>,
    /// The plugin's configuration: which devices to leave out
    #[arg(long, value_name = "FILE", requires = "hosts")]
    config: Option<PathBuf>,
    /// Who allocates in the cluster: our controller, or kube-scheduler
    #[arg(long, value_enum, default_value_t)]
    pub mode: Mode,
}

/// Forms of `plan`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PlanOutput {
    /// Claims with their devices, then what does not fit and why.
    #[default]
    Table,
    /// For programs.
    Json,
    /// The claims with status.allocation.
    Yaml,
}

/// A name that a namespace can have.
fn namespace(text: &str) -> Result<String, &'static str> {
    if is_dns_label(text) {
        Ok(text.to_owned())
    } else {
        Err("expected a DNS label (a-z, 0-9 and inner -, at most 63)")
    }
}

impl PlanArgs {
    /// Files of objects and one captured machine; all else by default.
    pub fn of(files: Vec<PathBuf>, host: PathBuf) -> Self {
        let machines = PlanMachines {
            hosts: vec![NamedFile { name: None, file: host }],
            overrides: Vec::new(),
            config: None,
            mode: Mode::default(),
        };
        Self {
            files,
            namespace: DEFAULT_NAMESPACE.to_owned(),
            any_driver: false,
            explain: false,
            repeat: None,
            now: None,
            machines,
            output: PlanOutput::default(),
        }
    }
}

impl PlanMachines {
    /// The machines to read; none without `--host`, for this machine takes no part.
    pub fn captured(&self) -> Option<MachineArgs> {
        (!self.hosts.is_empty()).then(|| MachineArgs {
            hosts: self.hosts.clone(),
            live: LiveArgs { root: PathBuf::from("/"), node: None },
            overrides: self.overrides.clone(),
            config: self.config.clone(),
            mode: self.mode,
        })
    }
}
