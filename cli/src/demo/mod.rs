//! `demo`: the main job from end to end on a captured machine, without a cluster and without a GPU.
//!
//! Every step reads the files that it wrote before, as the commands at its end do.

mod commands;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use k8s_openapi::api::resource::v1::ResourceClaim;
use lanemate_driver::claim::allocated::AllocatedClaim;
use lanemate_driver::files::{Durability, Roots, apply};
use lanemate_driver::prepare::{Base, PreparePlan};
use lanemate_driver::resource_slice::{Mode, RenderOptions, render};

use crate::args::{LiveArgs, MachineArgs};
use crate::hosts::{self, Loaded};
use crate::named::NamedFile;
use crate::paint::{Paint, Tone};
use crate::plan::args::PlanArgs;
use crate::words::{WIDTH, counted, wrap};
use crate::{output, plan, prepare, topology};

const CAPTURE: &str = include_str!("../../../test/hosts/captures/dgx-h100.yaml");
const CLASS: &str = include_str!("class.yaml");
const CLAIMS: &str = include_str!("claims.yaml");

/// Arguments of `demo`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lanemate demo
  lanemate demo --dir /tmp/lanemate-demo")]
pub struct DemoArgs {
    /// Where the files go [default: a new directory for temporary files]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// A claim, and what a node writes for it.
struct Prepared {
    claim: String,
    plan: PreparePlan,
}

/// Runs the demonstration.
pub fn run(args: &DemoArgs, paint: Paint) -> anyhow::Result<()> {
    let dir = directory(args)?;
    for (name, text) in
        [(commands::HOST, CAPTURE), (commands::CLASS, CLASS), (commands::CLAIMS, CLAIMS)]
    {
        write(&dir, name, text)?;
    }
    let host = hosts::only(&machine(&dir))?;
    let mut out = intro(&dir, paint);
    out += &heading(1, "A captured DGX H100 becomes a tree", paint);
    out += &topology::tree(&host.machine, paint);
    out += &published(&dir, &host, paint)?;
    let (text, claims) = placed(&dir, paint)?;
    out += &text;
    let prepared = prepared(&dir, &host, &claims)?;
    out += &handed_over(&prepared, paint);
    let first = prepared.first().map(|prepared| prepared.claim.as_str()).unwrap_or_default();
    out += &format!("\n{}\n", paint.tone(Tone::Title, "To repeat each step"));
    out += &commands::listed(&dir, first);
    output::print(&out)
}

/// The directory given, or a new one.
fn directory(args: &DemoArgs) -> anyhow::Result<PathBuf> {
    let (dir, made) = match &args.dir {
        Some(dir) => (dir.clone(), fs::create_dir_all(dir)),
        None => {
            let name = format!("lanemate-demo-{}", std::process::id());
            let dir = std::env::temp_dir().join(name);
            // What another user has put there is not written into.
            let made = fs::create_dir(&dir);
            (dir, made)
        }
    };
    made.with_context(|| format!("{}: make the directory", dir.display()))?;
    std::path::absolute(&dir).with_context(|| dir.display().to_string())
}

fn write(dir: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let path = dir.join(name);
    fs::write(&path, text).with_context(|| format!("{}: write", path.display()))
}

fn machine(dir: &Path) -> MachineArgs {
    MachineArgs {
        hosts: vec![NamedFile { name: None, file: dir.join(commands::HOST) }],
        live: LiveArgs { root: PathBuf::from("/"), node: None },
        overrides: Vec::new(),
        config: None,
        mode: crate::args::Mode::Controller,
    }
}

fn heading(number: u8, text: &str, paint: Paint) -> String {
    format!("\n{}\n\n", paint.tone(Tone::Title, &format!("{number}. {text}")))
}

fn intro(dir: &Path, paint: Paint) -> String {
    let text = "The main job of Lanemate on a captured machine: no cluster and no GPU is needed. \
                The files are in";
    let lines = wrap(text, WIDTH).join("\n");
    format!("{lines}\n{}\n", paint.tone(Tone::Quiet, &dir.display().to_string()))
}

/// Writes the slices that the node would publish.
fn published(dir: &Path, host: &Loaded, paint: Paint) -> anyhow::Result<String> {
    let options = RenderOptions { mode: Mode::Controller, generation: 1 };
    let slices = render(&host.machine.inventory, options);
    write(dir, commands::SLICES, &output::yaml(&output::objects(&slices)?)?)?;
    let devices = counted(host.machine.inventory.devices.len(), "device");
    let objects = counted(slices.len(), "ResourceSlice");
    let title = format!("Its node publishes {devices} in {objects}");
    Ok(heading(2, &title, paint) + &format!("As YAML in {}\n", commands::SLICES))
}

/// Places the claims, and writes those that have devices now.
fn placed(dir: &Path, paint: Paint) -> anyhow::Result<(String, Vec<ResourceClaim>)> {
    let files = [commands::CLASS, commands::CLAIMS].map(|name| dir.join(name));
    let outcome = plan::decided(&PlanArgs::of(files.into(), dir.join(commands::HOST)))?;
    let claims: Vec<ResourceClaim> =
        outcome.placed().flat_map(|(_, placed)| placed.claims.clone()).collect();
    for claim in &claims {
        write(dir, &commands::claim_file(&name_of(claim)), &output::yaml(claim)?)?;
    }
    let text = heading(3, "Three claims for pairs of a GPU and a NIC, one after another", paint);
    Ok((text + &plan::table(&outcome, paint), claims))
}

fn name_of(claim: &ResourceClaim) -> String {
    claim.metadata.name.clone().unwrap_or_default()
}

/// Writes what the containers of each claim get.
fn prepared(dir: &Path, host: &Loaded, claims: &[ResourceClaim]) -> anyhow::Result<Vec<Prepared>> {
    let cdi = dir.join(commands::CDI);
    let roots = Roots { metadata: cdi.join("metadata"), cdi };
    let prepared = claims.iter().map(|claim| {
        let allocated = AllocatedClaim::parse(claim)?;
        let plan = prepare::planned(host, &allocated, &roots.metadata)?;
        apply(&plan.files, &roots, Durability::Kept)?;
        Ok(Prepared { claim: name_of(claim), plan })
    });
    prepared.collect::<anyhow::Result<_>>().map_err(|error| anyhow!("prepare: {error:#}"))
}

fn handed_over(prepared: &[Prepared], paint: Paint) -> String {
    let mut out = heading(4, "On the node, a CDI spec per claim lets its containers in", paint);
    for Prepared { claim, plan } in prepared {
        out += &format!("{}\n", paint.tone(Tone::Title, claim));
        let specs = plan.files.iter().filter(|file| file.path.base == Base::Cdi);
        for spec in specs {
            out += &format!("  {}/{}\n", commands::CDI, spec.path.path);
        }
        let edits =
            plan.spec.devices.iter().flat_map(|device| &device.container_edits.device_nodes);
        let nodes: BTreeSet<&str> = edits.map(|node| node.path.as_str()).collect();
        let nodes: Vec<&str> = nodes.into_iter().collect();
        for line in wrap(&nodes.join("  "), WIDTH - 2) {
            out += &format!("  {}\n", paint.tone(Tone::Quiet, &line));
        }
    }
    out
}
