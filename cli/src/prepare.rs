//! `prepare`: what the plugin would write on a node for an allocated claim, written below given
//! directories.

use std::path::Path;

use anyhow::{Context, bail};
use k8s_openapi::api::resource::v1::ResourceClaim;
use lanemate_driver::claim::allocated::AllocatedClaim;
use lanemate_driver::files::{Durability, Roots, apply};
use lanemate_driver::pending::{ClaimRef, DEFAULT_NAMESPACE};
use lanemate_driver::prepare::{Base, PrepareOptions, PreparePlan, plan};

use crate::args::PrepareArgs;
use crate::hosts::{self, Loaded};
use crate::input;
use crate::objects::Objects;
use crate::output;

/// Runs the command.
pub fn run(args: &PrepareArgs) -> anyhow::Result<()> {
    let file = input::name(&args.claim);
    let claim = AllocatedClaim::parse(&claim(&args.claim)?).with_context(|| file.clone())?;
    let loaded = hosts::only(&args.machines)?;
    let roots = roots(args)?;
    let plan = planned(&loaded, &claim, &roots.metadata).with_context(|| file)?;
    for note in &plan.notes {
        output::tell(&format!("note: {note}"));
    }
    apply(&plan.files, &roots, Durability::Kept)?;
    output::print(&summary(&plan, &roots))
}

/// The only claim of a file, which may hold objects of other kinds.
fn claim(file: &Path) -> anyhow::Result<ResourceClaim> {
    let mut objects = Objects::load(&[file.to_owned()], DEFAULT_NAMESPACE)?;
    if let Some(broken) = objects.broken_claims.first() {
        bail!("{broken}");
    }
    match (objects.claims.pop(), objects.claims.is_empty()) {
        (Some(only), true) => Ok(only),
        (None, _) => match objects.warnings.first() {
            Some(unread) => bail!("{unread}: expected a ResourceClaim"),
            None => bail!("{}: expected a ResourceClaim, found none", input::name(file)),
        },
        (Some(last), false) => {
            let all = objects.claims.iter().chain([&last]);
            let names: Vec<String> =
                all.map(|claim| ClaimRef::of(&claim.metadata).to_string()).collect();
            bail!("{}: expected one ResourceClaim, found {}", input::name(file), names.join(", "))
        }
    }
}

fn roots(args: &PrepareArgs) -> anyhow::Result<Roots> {
    let absolute = |dir: &Path| {
        std::path::absolute(dir).with_context(|| format!("{}: not a directory", dir.display()))
    };
    let cdi = absolute(&args.cdi_root)?;
    let metadata = match &args.metadata_dir {
        Some(dir) => absolute(dir)?,
        None => cdi.join("metadata"),
    };
    Ok(Roots { cdi, metadata })
}

/// What to write for a claim on a machine, with metadata files in a directory.
pub fn planned(
    loaded: &Loaded,
    claim: &AllocatedClaim,
    metadata: &Path,
) -> anyhow::Result<PreparePlan> {
    let facts = &loaded.machine.facts;
    let text = metadata.to_str().map(str::to_owned);
    let metadata = text.with_context(|| format!("{}: not UTF-8 text", metadata.display()))?;
    let (mut options, problems) =
        loaded.source.with_host(|host, _| PrepareOptions::read(host, facts, "", metadata));
    for problem in problems {
        output::tell(&format!("problem: {}: {}", problem.path, problem.message));
    }
    options.topology_override.clone_from(&loaded.override_xml);
    Ok(plan(claim, facts, &loaded.machine.inventory, &options)?)
}

/// The files, and what kubelet would be told.
fn summary(plan: &PreparePlan, roots: &Roots) -> String {
    let mut out = String::new();
    for file in &plan.files {
        let root = match file.path.base {
            Base::Cdi => &roots.cdi,
            Base::Metadata => &roots.metadata,
        };
        out.push_str(&format!("wrote {}\n", root.join(&file.path.path).display()));
    }
    let requests = plan.devices.iter().map(|device| device.request.chars().count());
    let devices = plan.devices.iter().map(|device| device.device.chars().count());
    let (requests, names) = (requests.max().unwrap_or_default(), devices.max().unwrap_or_default());
    for device in &plan.devices {
        let ids = device.cdi_device_ids.join(" ");
        out.push_str(&format!("{:requests$}  {:names$}  {ids}\n", device.request, device.device));
    }
    out
}
