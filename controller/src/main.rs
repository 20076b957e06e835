//! The program `lanemate-controller`.

use std::process::ExitCode;

use clap::Parser;
use lanemate_controller::args::Cli;

fn main() -> ExitCode {
    lanemate_controller::run::run(Cli::parse())
}
