//! `topology`: how near the GPUs and NICs of a machine are.

mod layout;
mod matrix;
mod report;
mod svg;
mod table;

use lanemate_driver::machine::Machine;
use report::Report;

use crate::args::{TopologyArgs, TopologyOutput};
use crate::hosts;
use crate::output;
use crate::paint::Paint;
use crate::run::Usage;

/// Runs the command.
pub fn run(args: &TopologyArgs, paint: Paint) -> anyhow::Result<()> {
    if args.output == TopologyOutput::Svg && args.machines.hosts.len() > 1 {
        return Err(Usage("-o svg draws one machine: expected one --host".to_owned()).into());
    }
    let machines = hosts::machines(&args.machines)?;
    let reports: Vec<Report> = machines.iter().map(Report::new).collect();
    let drawn = |draw: &dyn Fn(&Report, &Machine) -> String| {
        reports
            .iter()
            .zip(&machines)
            .map(|(report, machine)| draw(report, machine))
            .collect::<Vec<_>>()
            .join("\n")
    };
    output::print(&match args.output {
        TopologyOutput::Table => {
            drawn(&|report, machine| table::render(report, &machine.topology, paint))
        }
        TopologyOutput::Svg => drawn(&|report, machine| svg::render(report, &machine.topology)),
        TopologyOutput::Json => output::json(&output::one_or_many(reports)?)?,
        TopologyOutput::Yaml => output::yaml(&output::one_or_many(reports)?)?,
    })
}

/// The machine as a tree of what is offered, without matrix and reasons.
pub fn tree(machine: &Machine, paint: Paint) -> String {
    table::tree(&Report::new(machine), &machine.topology, paint)
}
