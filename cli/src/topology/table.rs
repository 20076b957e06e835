//! The machine for a person at a terminal: the tree, the matrix, and what is left out, in 80 columns.

use lanemate_driver::topology::Topology;

use super::layout::{Branch, Device, Holder, Seated, numa_branches};
use super::matrix;
use super::report::{Gpu, Nic, Report};
use crate::paint::{Paint, Tone};
use crate::words::{WIDTH, counted, cut, memory, product, rate, wrap};

/// One line of the tree before its columns are aligned.
struct Line<'a> {
    /// Lines drawn from the parents.
    rail: String,
    /// What stands behind the rail.
    content: Content<'a>,
}

enum Content<'a> {
    Holder(&'static str, String),
    Device(Seated<'a>),
}

impl Line<'_> {
    /// Characters before the first column of a device.
    fn lead(&self) -> usize {
        match &self.content {
            Content::Holder(..) => 0,
            Content::Device(seated) => {
                self.rail.chars().count() + seated.device.name().chars().count()
            }
        }
    }
}

/// Renders one machine.
pub fn render(report: &Report, topology: &Topology, paint: Paint) -> String {
    let mut out = tree(report, topology, paint);
    out.push_str(&matrix::render(report, paint));
    out.push_str(&left_out(report, paint));
    out.push_str(&problems(report, paint));
    out
}

/// The headline and the tree of what is offered.
pub fn tree(report: &Report, topology: &Topology, paint: Paint) -> String {
    let mut out = headline(report, paint);
    let offered: Vec<_> =
        Device::all(report).into_iter().filter(|device| device.standing().offered).collect();
    let branches = numa_branches(topology, &offered);
    let trees: Vec<_> =
        branches.iter().map(|branch| (branch.label.as_str(), lines(branch))).collect();
    let all = trees.iter().flat_map(|(_, lines)| lines);
    let column = all.map(Line::lead).max().unwrap_or_default() + 2;
    for (label, lines) in &trees {
        out.push_str(&format!("\n{}\n", paint.tone(Tone::Title, label)));
        for line in lines {
            let content = content(line, column, paint);
            out.push_str(&format!("{}{content}\n", paint.tone(Tone::Quiet, &line.rail)));
        }
    }
    out
}

fn headline(report: &Report, paint: Paint) -> String {
    let gpus = report.gpus.iter().filter(|gpu| gpu.standing.offered).count();
    let nics = report.nics.iter().filter(|nic| nic.standing.offered).count();
    let out = report.gpus.len() + report.nics.len() - gpus - nics;
    let mut text = format!("{}, {}", counted(gpus, "GPU"), counted(nics, "NIC"));
    if gpus > 0 && nics > 0 {
        text.push_str(&format!(", {} within PXB", counted(report.aligned_pairs(), "pair")));
    }
    if out > 0 {
        text.push_str(&format!("; {out} left out"));
    }
    format!("{}  {text}\n", paint.tone(Tone::Title, &report.host))
}

fn lines<'a>(numa: &Branch<'a>) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    push_children(numa, "", &mut lines);
    lines
}

/// The children of a branch, each with the lines of its parents before it.
fn push_children<'a>(branch: &Branch<'a>, rail: &str, lines: &mut Vec<Line<'a>>) {
    let last = branch.devices.len() + branch.branches.len();
    let step =
        |index: usize| if index + 1 == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
    // What belongs together stands first; the NUMA node's singles come after its switches.
    let shift = if matches!(branch.holder, Holder::Numa) { branch.branches.len() } else { 0 };
    let devices = |lines: &mut Vec<Line<'a>>| {
        for (index, seated) in branch.devices.iter().enumerate() {
            let rail = format!("{rail}{}", step(index + shift).0);
            lines.push(Line { rail, content: Content::Device(seated.clone()) });
        }
    };
    if shift == 0 {
        devices(lines);
    }
    for (index, child) in branch.branches.iter().enumerate() {
        let index = index + if shift == 0 { branch.devices.len() } else { 0 };
        let content = Content::Holder(holder_word(&child.holder), child.label.clone());
        lines.push(Line { rail: format!("{rail}{}", step(index).0), content });
        push_children(child, &format!("{rail}{}", step(index).1), lines);
    }
    if shift > 0 {
        devices(lines);
    }
}

fn holder_word(holder: &Holder) -> &'static str {
    match holder {
        Holder::Numa => "",
        Holder::HostBridge => "host bridge",
        Holder::RootPort => "root port",
        Holder::Switch => "switch",
    }
}

fn content(line: &Line<'_>, column: usize, paint: Paint) -> String {
    let used = line.rail.chars().count();
    match &line.content {
        Content::Holder(word, address) => {
            format!("{} {address}", paint.tone(Tone::Quiet, word))
        }
        Content::Device(seated) => {
            let device = seated.device;
            let name = format!("{:width$}", device.name(), width = column.saturating_sub(used));
            let tone = if device.is_gpu() { Tone::Gpu } else { Tone::Nic };
            let address = format!("{:12}", device.address());
            let room = WIDTH.saturating_sub(column + address.chars().count() + 2);
            let words = device_words(seated, room, paint);
            format!("{}{address}  {words}", paint.tone(tone, &name)).trim_end().to_owned()
        }
    }
}

/// What a device is, with the warning that it carries, in at most `room` characters.
fn device_words(seated: &Seated<'_>, room: usize, paint: Paint) -> String {
    let warning = seated.device.standing().taint_words().join(", ");
    let plain = match seated.device {
        Device::Gpu(gpu) => gpu_words(gpu),
        Device::Nic(nic) => nic_words(nic),
    };
    let below = seated.below.as_ref().map(|a| format!("below {}", short_address(a)));
    let reserved = if warning.is_empty() { 0 } else { warning.chars().count() + 2 };
    let plain = cut(&plain, room.saturating_sub(reserved));
    let left = room.saturating_sub(reserved + plain.chars().count() + 2);
    let mut out = plain;
    if let Some(below) = below.filter(|below| below.chars().count() <= left) {
        out = format!("{out}  {}", paint.tone(Tone::Quiet, &below));
    }
    if !warning.is_empty() {
        out = format!("{out}  {}", paint.tone(Tone::Warning, &warning));
    }
    out
}

/// An address without its domain, which is that of the switch above.
fn short_address(address: &str) -> &str {
    address.split_once(':').map_or(address, |(_, rest)| rest)
}

fn gpu_words(gpu: &Gpu) -> String {
    let name = gpu.product_name.as_deref().map(|name| product(name).to_owned());
    let unnamed = gpu.pci_id.as_ref().map(|id| format!("PCI id {id}"));
    let memory = gpu.memory_bytes.filter(|_| name.is_none()).map(memory);
    [name.or(unnamed), memory].into_iter().flatten().collect::<Vec<_>>().join("  ")
}

fn nic_words(nic: &Nic) -> String {
    let is_down = nic.port_state.as_deref() == Some("Down");
    let rate = nic.bandwidth.filter(|_| !is_down).map(rate);
    let link: Vec<_> = [nic.link_layer.clone(), rate].into_iter().flatten().collect();
    let netdev = nic.netdevs.first().filter(|netdev| netdev.as_str() != nic.name());
    let parts = [link.join(" "), netdev.cloned().unwrap_or_default()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("  ")
}

fn left_out(report: &Report, paint: Paint) -> String {
    let rows = report.left_out();
    if rows.is_empty() {
        return String::new();
    }
    let names = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or_default();
    let mut out = format!("\n{}\n", paint.tone(Tone::Title, "Left out"));
    for row in rows {
        let lead = format!("{:names$}  {:12}  ", row.name, row.address);
        let indent = lead.chars().count();
        let lines = wrap(row.reason, WIDTH.saturating_sub(indent).max(20));
        let reason = lines.join(&format!("\n{:indent$}", ""));
        out.push_str(&format!("{}{reason}\n", paint.tone(Tone::Quiet, &lead)));
    }
    out
}

fn problems(report: &Report, paint: Paint) -> String {
    if report.problems.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{}\n", paint.tone(Tone::Warning, "Problems"));
    for problem in &report.problems {
        for line in wrap(&format!("{}: {}", problem.path, problem.message), WIDTH - 2) {
            out.push_str(&format!("  {line}\n"));
        }
    }
    out
}
