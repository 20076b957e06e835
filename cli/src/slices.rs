//! `slices`: what the node would publish.

use k8s_openapi::api::resource::v1::ResourceSlice;
use lanemate_api::attribute;
use lanemate_driver::attribute::AttributeValue;
use lanemate_driver::ids::Kind;
use lanemate_driver::inventory::OfferedDevice;
use lanemate_driver::machine::Machine;
use lanemate_driver::resource_slice::{self, RenderOptions, render};

use crate::args::{Mode, SlicesArgs, SlicesOutput};
use crate::hosts;
use crate::output;
use crate::paint::{Paint, Tone};
use crate::words::{WIDTH, counted, cut, product};

/// Runs the command.
pub fn run(args: &SlicesArgs, paint: Paint) -> anyhow::Result<()> {
    let mode = match args.machines.mode {
        Mode::Controller => resource_slice::Mode::Controller,
        Mode::Scheduler => resource_slice::Mode::Scheduler,
    };
    let machines = hosts::machines(&args.machines)?;
    let options = RenderOptions { mode, generation: 1 };
    let slices: Vec<ResourceSlice> =
        machines.iter().flat_map(|machine| render(&machine.inventory, options)).collect();
    output::print(&match args.output {
        SlicesOutput::Yaml => output::yaml(&output::objects(&slices)?)?,
        SlicesOutput::Json => output::json(&output::objects(&slices)?)?,
        SlicesOutput::Table => table(&machines, paint),
    })
}

/// One line a device, in the order of the slices.
fn table(machines: &[Machine], paint: Paint) -> String {
    let mut out = String::new();
    for machine in machines {
        let devices = &machine.inventory.devices;
        let title = paint.tone(Tone::Title, &machine.inventory.node);
        let separator = if out.is_empty() { "" } else { "\n" };
        out.push_str(&format!("{separator}{title}  {}\n", counted(devices.len(), "device")));
        if devices.is_empty() {
            continue;
        }
        let widest = devices.iter().map(|device| device.name.chars().count()).max();
        let name = widest.unwrap_or_default().max("DEVICE".len());
        let head = format!("{:name$}  {:12}  NUMA  WHAT", "DEVICE", "SWITCH");
        out.push_str(&format!("{}\n", paint.tone(Tone::Quiet, &head)));
        for device in devices {
            out.push_str(&row(device, name, paint));
        }
    }
    out
}

fn row(device: &OfferedDevice, width: usize, paint: Paint) -> String {
    let text = |name: &str| match device.attributes.get(name) {
        Some(AttributeValue::String(text)) => text.clone(),
        Some(AttributeValue::Int(number)) => number.to_string(),
        _ => String::new(),
    };
    let (tone, what) = match device.kind {
        Kind::Gpu => (Tone::Gpu, product(&text(attribute::PRODUCT_NAME)).to_owned()),
        Kind::Nic => {
            let words = [text(attribute::RDMA_DEVICE), text(attribute::LINK_LAYER)];
            (Tone::Nic, words.join("  "))
        }
    };
    let name = paint.tone(tone, &format!("{:width$}", device.name));
    let place = format!("{:12}  {:4}", text(attribute::PCIE_SWITCH), text(attribute::NUMA_NODE));
    let taints: Vec<&str> = device
        .taints
        .iter()
        .map(|taint| taint.key.rsplit('/').next().unwrap_or(&taint.key))
        .collect();
    let line = format!("{name}  {place}  {}", cut(what.trim(), WIDTH.saturating_sub(width + 22)));
    let taints = paint.tone(Tone::Warning, &taints.join(", "));
    format!("{}\n", format!("{line}  {taints}").trim_end())
}
