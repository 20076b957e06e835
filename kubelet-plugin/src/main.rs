//! The node binary.

use std::process::ExitCode;

use clap::Parser;
use lanemate_kubelet_plugin::args::Cli;
use lanemate_kubelet_plugin::run;

fn main() -> ExitCode {
    run::run(Cli::parse())
}
