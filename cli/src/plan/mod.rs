//! `plan`: allocates the pending claims among given objects and machines, without a cluster.
//!
//! ```text
//! files --objects--> Objects --order--> Pending --+
//! hosts --machine--> slices ---+                  |
//!                              '--> Scene --------+--> Planner --> Outcome --> table, JSON, YAML
//! ```

pub mod args;
mod decide;
mod explain;
mod origin;
pub mod outcome;
mod report;
pub mod scene;
mod table;

use std::collections::BTreeMap;
use std::process::ExitCode;

use jiff::{RoundMode, Timestamp, TimestampRound, Unit};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceSlice};
use lanemate_driver::pending;
use lanemate_driver::resource_slice::{self, RenderOptions, render};

use self::args::{PlanArgs, PlanOutput};
use self::decide::{Explained, Planner, Settings};
use self::origin::Origins;
use self::outcome::{Outcome, RefusalKind};
use self::report::Report;
use self::scene::Scene;
use crate::args::{Color, Mode};
use crate::hosts;
use crate::objects::Objects;
use crate::output;
use crate::paint::Paint;

/// Something did not fit.
const DOES_NOT_FIT: u8 = 3;
/// Something is broken; wins over what does not fit.
const BROKEN: u8 = 1;

/// Runs the command.
pub fn run(args: &PlanArgs, paint: Paint) -> anyhow::Result<ExitCode> {
    let outcome = decided(args)?;
    print(args, &outcome, paint)?;
    Ok(status(&outcome))
}

/// Decides everything that is pending.
pub fn decided(args: &PlanArgs) -> anyhow::Result<Outcome> {
    let mut objects = Objects::load(&args.files, &args.namespace)?;
    let unknown = pending::admit_priorities(&mut objects.pods, &objects.priority_classes);
    let (scene, warnings) = Scene::new(&objects, &machine_slices(args)?, args.any_driver)?;
    let unknown = unknown.iter().map(ToString::to_string);
    for warning in objects.warnings.iter().cloned().chain(unknown).chain(warnings) {
        output::tell(&format!("warning: {warning}"));
    }
    let pending =
        pending::order(&objects.pods, &objects.claims, &objects.templates, &objects.broken());
    let settings = Settings {
        mode: args.machines.mode,
        now: args.now.map_or_else(now, Ok)?,
        repeat: args.repeat,
        explained: match args.output {
            _ if args.explain => Explained::All,
            PlanOutput::Json => Explained::Refused(None),
            PlanOutput::Table | PlanOutput::Yaml => Explained::None,
        },
    };
    let origins = Origins::of(&objects);
    Planner::new(&pending, origins, &objects.pods, scene, settings).run()
}

/// Decides everything that is pending in a cluster, as its controller would, with a word on every node for the given
/// claims. Devices that nodes hold, by holder, are not free either.
#[cfg(feature = "cluster")]
pub fn decided_in_cluster(
    objects: &Objects,
    held: &[(String, Vec<lanemate_driver::allocation::DeviceId>)],
    explained: std::collections::BTreeSet<pending::ClaimRef>,
) -> anyhow::Result<Outcome> {
    let scene = scene_of_cluster(objects, held)?;
    let pending =
        pending::order(&objects.pods, &objects.claims, &objects.templates, &objects.broken());
    let settings = Settings {
        mode: Mode::Controller,
        now: now()?,
        repeat: None,
        explained: Explained::Refused(Some(explained)),
    };
    Planner::new(&pending, Origins::of(objects), &objects.pods, scene, settings).run()
}

/// The nodes of a cluster; devices that nodes hold, by holder, are not free.
#[cfg(feature = "cluster")]
pub fn scene_of_cluster(
    objects: &Objects,
    held: &[(String, Vec<lanemate_driver::allocation::DeviceId>)],
) -> anyhow::Result<Scene> {
    let (mut scene, warnings) = Scene::new(objects, &BTreeMap::new(), false)?;
    for (holder, devices) in held {
        scene.hold(holder, devices);
    }
    for warning in warnings {
        output::tell(&format!("warning: {warning}"));
    }
    Ok(scene)
}

/// The answer as a person reads it.
pub fn table(outcome: &Outcome, paint: Paint) -> String {
    table::render(outcome, false, paint)
}

/// The slices that the machines given with `--host` would publish, by node.
fn machine_slices(args: &PlanArgs) -> anyhow::Result<BTreeMap<String, Vec<ResourceSlice>>> {
    let mode = match args.machines.mode {
        Mode::Controller => resource_slice::Mode::Controller,
        Mode::Scheduler => resource_slice::Mode::Scheduler,
    };
    let machines =
        args.machines.captured().map(|machines| hosts::machines(&machines)).transpose()?;
    let options = RenderOptions { mode, generation: 1 };
    let slices = machines.into_iter().flatten().map(|machine| {
        let slices = render(&machine.inventory, options);
        (machine.inventory.node, slices)
    });
    Ok(slices.collect())
}

/// The current time in whole seconds, as the API writes times.
fn now() -> Result<Timestamp, jiff::Error> {
    Timestamp::now().round(TimestampRound::new().smallest(Unit::Second).mode(RoundMode::Trunc))
}

fn print(args: &PlanArgs, outcome: &Outcome, paint: Paint) -> anyhow::Result<()> {
    match args.output {
        PlanOutput::Table => output::print(&table::render(outcome, args.explain, paint)),
        PlanOutput::Json => {
            complain(outcome, |kind| kind == RefusalKind::Error);
            output::print(&output::json(&Report::of(outcome, args.explain))?)
        }
        PlanOutput::Yaml => {
            if args.explain {
                output::tell(explain::all(outcome, Paint::new(Color::Never)).trim_end());
            }
            complain(outcome, |_| true);
            let claims: Vec<ResourceClaim> =
                outcome.placed().flat_map(|(_, placed)| placed.claims.clone()).collect();
            output::print(&output::yaml(&output::objects(&claims)?)?)
        }
    }
}

/// What the output itself does not say, or what a person has to mend, goes to stderr as well.
fn complain(outcome: &Outcome, about: impl Fn(RefusalKind) -> bool) {
    for (verdict, refused) in outcome.refused().filter(|(_, refused)| about(refused.kind)) {
        let claims = verdict.claim_names().join(", ");
        output::tell(&format!("lanemate: claim {claims}: {}", refused.reason));
    }
}

fn status(outcome: &Outcome) -> ExitCode {
    if outcome.has(RefusalKind::Error) {
        ExitCode::from(BROKEN)
    } else if outcome.has(RefusalKind::NoFit) {
        ExitCode::from(DOES_NOT_FIT)
    } else {
        ExitCode::SUCCESS
    }
}
