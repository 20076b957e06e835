//! The commands that ask a cluster. They read, decide with the core of the controller, and write nothing.
//!
//! ```text
//! API server --read--> Seen --> explain: why a claim waits, or where it sits
//!                           --> status: what nodes offer, what is free, who waits
//! API server --dry runs, reviews of access--> check: what is not set up right
//! ```

mod age;
pub mod args;
mod check;
mod devices;
mod explain;
mod leader;
mod read;
mod status;

use std::process::ExitCode;

use anyhow::Context;
use jiff::Timestamp;
use serde::Serialize;

use self::args::{CheckArgs, ClusterOutput, ExplainArgs, StatusArgs};
use crate::output;
use crate::paint::Paint;

/// A check has failed.
const FAILED: u8 = 1;

/// Runs `explain`.
pub fn explain(args: &ExplainArgs, paint: Paint) -> anyhow::Result<()> {
    let explained = block_on(explain::explained(args, Timestamp::now()))?;
    print(args.output, &explained, || explain::table::render(&explained, paint))
}

/// Runs `status`.
pub fn status(args: &StatusArgs, paint: Paint) -> anyhow::Result<()> {
    let seen = block_on(async {
        let client = read::client(&args.cluster).await?;
        read::seen(&client, &args.cluster.system_namespace).await
    })?;
    let status = status::of(&seen, Timestamp::now())?;
    print(args.output, &status, || status::table::render(&status, paint))
}

/// Runs `check`; exit status 1 where a check failed.
pub fn check(args: &CheckArgs, paint: Paint) -> anyhow::Result<ExitCode> {
    let checks = block_on(check::checks(args, Timestamp::now()))?;
    print(args.output, &checks, || check::table::render(&checks, paint))?;
    let is_failed = checks.iter().any(check::Check::is_failed);
    Ok(if is_failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

/// One thread: the commands wait for the API server, one request after another.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the tasks of this command")?;
    runtime.block_on(work)
}

fn print(
    form: ClusterOutput,
    value: &impl Serialize,
    table: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    output::print(&match form {
        ClusterOutput::Table => table(),
        ClusterOutput::Json => output::json(value)?,
        ClusterOutput::Yaml => output::yaml(value)?,
    })
}
