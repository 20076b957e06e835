//! Runs one command: reads machines, renders, prints.

use std::process::ExitCode;

use crate::args::{Cli, Command};
#[cfg(feature = "cluster")]
use crate::cluster;
use crate::paint::Paint;
use crate::{capture, demo, plan, prepare, slices, topology};

/// The command line asks for something that cannot be; exit status 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Runs the command.
pub fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    match &cli.command {
        Command::Demo(args) => demo::run(args, Paint::new(cli.color))?,
        Command::Topology(args) => topology::run(args, Paint::new(cli.color))?,
        Command::Slices(args) => slices::run(args, Paint::new(cli.color))?,
        Command::Plan(args) => return plan::run(args, Paint::new(cli.color)),
        Command::Prepare(args) => prepare::run(args)?,
        Command::Capture(args) => capture::run(args)?,
        #[cfg(feature = "cluster")]
        Command::Explain(args) => cluster::explain(args, Paint::new(cli.color))?,
        #[cfg(feature = "cluster")]
        Command::Status(args) => cluster::status(args, Paint::new(cli.color))?,
        #[cfg(feature = "cluster")]
        Command::Check(args) => return cluster::check(args, Paint::new(cli.color)),
    }
    Ok(ExitCode::SUCCESS)
}
