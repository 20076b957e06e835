//! The command line as a library: `main.rs` only ends the process with what [`main`] says.

pub mod args;
mod capture;
#[cfg(feature = "cluster")]
mod cluster;
mod config;
mod demo;
mod hosts;
mod input;
mod named;
mod objects;
mod output;
mod paint;
mod plan;
mod prepare;
mod run;
mod slices;
mod topology;
mod words;

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use args::Cli;
use run::Usage;

const BROKEN_INPUT: u8 = 1;
const WRONG_USAGE: u8 = 2;

/// Reads the command line, does what it says, and tells of errors.
#[must_use]
pub fn main() -> ExitCode {
    match run::run(&parse()) {
        Ok(code) => code,
        Err(error) => {
            let line = format!("{error:#}").replace('\n', " ");
            output::tell(&format!("lanemate: {line}"));
            let usage = error.downcast_ref::<Usage>().is_some();
            ExitCode::from(if usage { WRONG_USAGE } else { BROKEN_INPUT })
        }
    }
}

/// Reads the command line; help and wrong usage end the program here, with status 0 and 2.
fn parse() -> Cli {
    let mut command = Cli::command();
    let program = std::env::args_os().next().unwrap_or_default();
    let program = Path::new(&program).file_name().and_then(OsStr::to_str);
    if let Some(name) = program.and_then(|name| name.strip_prefix("kubectl-")) {
        command = command.bin_name(format!("kubectl {name}"));
    }
    Cli::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
}
