//! The machine as a drawing: NUMA nodes with their switches, GPUs and NICs face to face, what is left
//! out in grey with the reason, and a legend.

mod boxes;
mod canvas;
mod chip;

use std::collections::BTreeMap;

use lanemate_api::PathClass;
use lanemate_driver::topology::Topology;

use super::layout::{Device, numa_branches};
use super::report::Report;
use crate::words::{counted, product};
use boxes::{draw, height, masonry};
use canvas::{Anchor, Area, Canvas, fitted, text_width};

const WIDTH: i32 = 960;
const MARGIN: i32 = 24;
/// Between NUMA nodes.
const SPACE: i32 = 16;
const ROW: i32 = 18;

/// Draws one machine.
pub fn render(report: &Report, topology: &Topology) -> String {
    let mut canvas = Canvas::default();
    let inner = WIDTH - 2 * MARGIN;
    canvas.text("h1", (MARGIN, 42), Anchor::Start, &fitted(&report.host, 22, inner));
    canvas.text("sub", (MARGIN, 64), Anchor::Start, &fitted(&subtitle(report), 13, inner));

    let top = 82;
    let branches = numa_branches(topology, &Device::all(report));
    let lanes = if branches.len() > 1 { 2 } else { 1 };
    let heights = branches.iter().map(|branch| |width| height(branch, width));
    let (areas, end) = masonry(inner, lanes, SPACE, heights);
    for (branch, area) in branches.iter().zip(areas) {
        draw(&mut canvas, report, branch, (MARGIN + area.x, top + area.y), area.width);
    }
    let y = draw_left_out(&mut canvas, report, top + end + SPACE);
    let y = draw_legend(&mut canvas, report, y);
    canvas.finish(&format!("{}: GPUs and NICs by PCIe switch", report.host), WIDTH, y)
}

fn subtitle(report: &Report) -> String {
    let mut products = BTreeMap::<&str, usize>::new();
    for gpu in report.gpus.iter().filter(|gpu| gpu.standing.offered) {
        *products.entry(gpu.product_name.as_deref().map_or("GPU", product)).or_default() += 1;
    }
    let mut parts: Vec<String> =
        products.iter().map(|(name, count)| format!("{count} × {name}")).collect();
    let nics = report.nics.iter().filter(|nic| nic.standing.offered).count();
    parts.push(counted(nics, "NIC"));
    if !products.is_empty() && nics > 0 {
        parts.push(format!("{} within PXB", counted(report.aligned_pairs(), "pair")));
    }
    parts.join("  ·  ")
}

/// The list of what is left out; gives the y below it.
fn draw_left_out(canvas: &mut Canvas, report: &Report, mut y: i32) -> i32 {
    let rows = report.left_out();
    if rows.is_empty() {
        return y;
    }
    let names = rows.iter().map(|row| text_width(row.name, 12)).max().unwrap_or_default().min(220);
    canvas.text("h2", (MARGIN, y + 12), Anchor::Start, "Left out");
    y += 12;
    for row in rows {
        y += ROW;
        let (second, third) = (MARGIN + names + 12, MARGIN + names + 112);
        canvas.text("off", (MARGIN, y), Anchor::Start, &fitted(row.name, 12, names));
        canvas.text("mono off", (second, y), Anchor::Start, &row.address);
        let reason = fitted(row.reason, 12, WIDTH - MARGIN - third);
        canvas.text("off", (third, y), Anchor::Start, &reason);
    }
    y + SPACE + 4
}

/// The legend; gives the height of the page.
fn draw_legend(canvas: &mut Canvas, report: &Report, y: i32) -> i32 {
    canvas.rule((MARGIN, WIDTH - MARGIN), y);
    let mut x = MARGIN;
    let tainted = Device::all(report).iter().any(|d| !d.standing().taint_words().is_empty());
    let kinds = [
        ("gpu", "GPU", true),
        ("nic", "RDMA NIC", true),
        ("taint", "offered with a taint", tainted),
        ("left", "left out", report_leaves_out(report)),
    ];
    for (class, words, _) in kinds.into_iter().filter(|kind| kind.2) {
        canvas.rect(class, Area { x, y: y + 15, width: 22, height: 14 }, 3);
        canvas.text("small", (x + 28, y + 26), Anchor::Start, words);
        x += 28 + text_width(words, 10) + 18;
    }
    for (column, class) in (0..).zip(PathClass::ALL) {
        let x = MARGIN + column * (WIDTH - 2 * MARGIN) / 5;
        let near = if class <= PathClass::Pxb { "near" } else { "far" };
        let width = text_width(class.as_str(), 10) + 12;
        canvas.rect(near, Area { x, y: y + 39, width, height: 16 }, 8);
        canvas.text("pill", (x + width / 2, y + 51), Anchor::Middle, class.as_str());
        canvas.text("small", (x + width + 6, y + 51), Anchor::Start, meaning(class));
    }
    y + 72
}

fn report_leaves_out(report: &Report) -> bool {
    Device::all(report).iter().any(|device| !device.standing().offered)
}

/// What a class says, in a few words.
fn meaning(class: PathClass) -> &'static str {
    match class {
        PathClass::Pix => "one switch",
        PathClass::Pxb => "switches of one root port",
        PathClass::Phb => "one host bridge",
        PathClass::Node => "one NUMA node",
        PathClass::Sys => "across NUMA nodes",
    }
}
