//! `capture`: this machine as one YAML file that can be shared.

use anyhow::{Context, bail};
use lanemate_driver::discovery::capture::MAX_CAPTURE_BYTES;
use lanemate_driver::discovery::{anonymise, record};

use crate::args::CaptureArgs;
use crate::hosts;
use crate::output;

/// Runs the command. The name given to a captured machine is kept: it is no host name.
pub fn run(args: &CaptureArgs) -> anyhow::Result<()> {
    let mut sources = hosts::sources(args.hosts.as_slice(), &args.live)?;
    let source = sources.pop().context("no machine to capture")?;
    let (mut capture, facts) =
        source.with_host(|host, gpus| record(host, gpus, source.name.as_str()));
    let known = source.capture();
    capture.source = known.and_then(|known| known.source.clone());
    capture.derived = known.is_some_and(|known| known.derived);
    capture.topology_override = known.and_then(|known| known.topology_override.clone());
    let mut anonymous = anonymise(&capture)?;
    if known.is_some() {
        anonymous.name.clone_from(&source.name);
    }
    for problem in &facts.problems {
        output::tell(&format!("problem: {}: {}", problem.path, problem.message));
    }
    let yaml = anonymous.to_yaml();
    if yaml.len() > MAX_CAPTURE_BYTES {
        let (found, most) = (yaml.len() >> 20, MAX_CAPTURE_BYTES >> 20);
        bail!("the capture takes {found} MiB: more than {most} MiB cannot be read again");
    }
    match &args.to {
        None => output::print(&yaml),
        Some(file) => {
            let name = file.display();
            std::fs::write(file, yaml).with_context(|| format!("write {name}"))?;
            let functions = facts.functions.len();
            output::print(&format!("wrote {name}: {functions} PCI functions and bridges\n"))
        }
    }
}
