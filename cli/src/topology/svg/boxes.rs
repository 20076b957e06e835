//! Boxes in boxes: NUMA nodes hold switches, switches hold GPUs on the left and NICs on the right, and
//! wires with the path class join the two.

use std::collections::BTreeSet;

use lanemate_api::PathClass;
use lanemate_driver::ids::Kind;

use super::super::layout::{Branch, Device, Holder};
use super::super::report::Report;
use super::canvas::{Anchor, Area, Canvas, fitted, text_width};
use super::chip;

const CHIP: i32 = 40;
const SPACE: i32 = 8;
const PAD: i32 = 10;
const HEAD: i32 = 26;
/// Room for the wires and the class between GPUs and NICs.
const GAP: i32 = 60;
/// A column this wide takes two chips beside each other.
const TWO_CHIPS: i32 = 320;
/// A box this wide puts its mixed boxes side by side.
const SIDE_BY_SIDE: i32 = 700;

/// One column of a box: the devices of one kind, and boxes with that kind alone.
struct Column<'b, 'a> {
    width: i32,
    /// Items with their y; offered devices first, then boxes, then what is left out.
    items: Vec<(i32, Item<'b, 'a>)>,
    /// Height of what is not left out, and of all.
    heights: (i32, i32),
}

/// What stands in one line of a column.
enum Item<'b, 'a> {
    Chips(Vec<Device<'a>>),
    Box(&'b Branch<'a>),
}

/// Height of a branch's box at a width.
pub fn height(branch: &Branch<'_>, width: i32) -> i32 {
    let inner = width - 2 * PAD;
    let stack = stack(branch, inner).1;
    let (_, low) = face_to_face(&columns(branch, inner));
    let between = if stack > 0 && low > 0 { SPACE } else { 0 };
    HEAD + stack + between + low + PAD
}

/// Draws a branch's box.
pub fn draw(canvas: &mut Canvas, report: &Report, branch: &Branch<'_>, at: (i32, i32), width: i32) {
    let area = Area { x: at.0, y: at.1, width, height: height(branch, width) };
    let (class, word, radius) = match branch.holder {
        Holder::Numa => ("numa", "", 8),
        Holder::HostBridge => ("bridge", "host bridge ", 6),
        Holder::RootPort => ("bridge", "root port ", 6),
        Holder::Switch => ("switch", "switch ", 6),
    };
    let title = format!("{word}{}", branch.label);
    canvas.rect(class, area, radius);
    let heading = if matches!(branch.holder, Holder::Numa) { "h2" } else { "mono" };
    let title = fitted(&title, 10, width - 2 * PAD);
    canvas.text(heading, (at.0 + PAD, at.1 + 17), Anchor::Start, &title);

    let inner = width - 2 * PAD;
    let (places, stacked) = stack(branch, inner);
    let (x, mut y) = (at.0 + PAD, at.1 + HEAD);
    for (child, area) in mixed(branch).zip(places) {
        draw(canvas, report, child, (x + area.x, y + area.y), area.width);
    }
    if stacked > 0 {
        y += stacked + SPACE;
    }
    draw_columns(canvas, report, branch, (x, y), inner);
}

/// Places the mixed boxes of a branch; gives their total height too.
fn stack(branch: &Branch<'_>, inner: i32) -> (Vec<Area>, i32) {
    let boxes: Vec<_> = mixed(branch).collect();
    let lanes = if inner >= SIDE_BY_SIDE && boxes.len() > 1 { 2 } else { 1 };
    masonry(inner, lanes, SPACE, boxes.iter().map(|b| |width| height(b, width)))
}

/// Puts boxes of a width into lanes, each into the lane that ends first.
pub fn masonry<F: Fn(i32) -> i32>(
    inner: i32,
    lanes: i32,
    space: i32,
    boxes: impl Iterator<Item = F>,
) -> (Vec<Area>, i32) {
    let width = (inner - space * (lanes - 1)) / lanes;
    let mut ends = vec![0; usize::try_from(lanes).unwrap_or(1)];
    let mut areas = Vec::new();
    for height in boxes {
        let lane = ends.iter().enumerate().min_by_key(|(_, end)| **end).map_or(0, |(lane, _)| lane);
        let Some(end) = ends.get_mut(lane) else { continue };
        let y = if *end > 0 { *end + space } else { 0 };
        let x = i32::try_from(lane).unwrap_or_default() * (width + space);
        let area = Area { x, y, width, height: height(width) };
        *end = y + area.height;
        areas.push(area);
    }
    (areas, ends.into_iter().max().unwrap_or_default())
}

fn mixed<'b, 'a>(branch: &'b Branch<'a>) -> impl Iterator<Item = &'b Branch<'a>> {
    branch.branches.iter().filter(|child| child.is_mixed())
}

/// GPUs left, NICs right.
fn columns<'b, 'a>(branch: &'b Branch<'a>, inner: i32) -> [Column<'b, 'a>; 2] {
    let width = if branch.is_mixed() { (inner - GAP) / 2 } else { inner };
    [Kind::Gpu, Kind::Nic].map(|kind| Column::new(branch, kind, width))
}

/// The y of each column so that what they offer stands face to face, and the height of both.
fn face_to_face(columns: &[Column<'_, '_>; 2]) -> ([i32; 2], i32) {
    let tallest = columns.iter().map(|column| column.heights.0).max().unwrap_or_default();
    let starts = columns.each_ref().map(|column| match column.heights.0 {
        0 => 0,
        offered => (tallest - offered) / 2,
    });
    let ends = columns.iter().zip(starts).map(|(column, start)| start + column.heights.1);
    (starts, ends.max().unwrap_or_default())
}

impl<'b, 'a> Column<'b, 'a> {
    fn new(branch: &'b Branch<'a>, kind: Kind, width: i32) -> Self {
        let own = branch.devices.iter().map(|seated| seated.device);
        let (offered, left_out): (Vec<_>, Vec<_>) =
            own.filter(|d| d.kind() == kind).partition(|d| d.standing().offered);
        let has_kind = |(gpus, nics)| if kind == Kind::Gpu { gpus > 0 } else { nics > 0 };
        let pure = branch.branches.iter().filter(|child| !child.is_mixed());
        let boxes = pure.filter(|child| has_kind(child.count()));

        let mut column = Self { width, items: Vec::new(), heights: (0, 0) };
        column.push_chips(&offered);
        boxes.for_each(|child| column.push(height(child, width), Item::Box(child)));
        column.heights.0 = column.heights.1;
        column.push_chips(&left_out);
        column
    }

    fn push_chips(&mut self, devices: &[Device<'a>]) {
        for row in devices.chunks(self.per_row()) {
            self.push(CHIP, Item::Chips(row.to_vec()));
        }
    }

    fn push(&mut self, height: i32, item: Item<'b, 'a>) {
        let y = if self.items.is_empty() { 0 } else { self.heights.1 + SPACE };
        self.items.push((y, item));
        self.heights.1 = y + height;
    }

    fn per_row(&self) -> usize {
        if self.width >= TWO_CHIPS { 2 } else { 1 }
    }

    fn draw(&self, canvas: &mut Canvas, report: &Report, (x, y): (i32, i32)) {
        let lanes = i32::try_from(self.per_row()).unwrap_or(1);
        let width = (self.width - SPACE * (lanes - 1)) / lanes;
        for (item_y, item) in &self.items {
            let y = y + item_y;
            match item {
                Item::Box(branch) => draw(canvas, report, branch, (x, y), self.width),
                Item::Chips(devices) => {
                    for (lane, device) in (0..).zip(devices) {
                        let x = x + lane * (width + SPACE);
                        chip::draw(canvas, *device, Area { x, y, width, height: CHIP });
                    }
                }
            }
        }
    }

    fn offered(&self) -> Vec<Device<'a>> {
        let below = |(_, item): &(i32, Item<'b, 'a>)| match item {
            Item::Chips(devices) => devices.clone(),
            Item::Box(branch) => branch.all_devices(),
        };
        let mut all: Vec<_> = self.items.iter().flat_map(below).collect();
        all.retain(|device| device.standing().offered);
        all
    }

    /// The y in the middle of each item that offers something.
    fn middles(&self) -> Vec<i32> {
        let middle = |(y, item): &(i32, Item<'b, 'a>)| {
            let (devices, height) = match item {
                Item::Chips(devices) => (devices.clone(), CHIP),
                Item::Box(branch) => (branch.all_devices(), height(branch, self.width)),
            };
            devices.iter().any(|device| device.standing().offered).then_some(y + height / 2)
        };
        self.items.iter().filter_map(middle).collect()
    }
}

/// Draws both columns, and between them the class with a wire to each.
fn draw_columns(
    canvas: &mut Canvas,
    report: &Report,
    branch: &Branch<'_>,
    (x, y): (i32, i32),
    inner: i32,
) {
    let columns = columns(branch, inner);
    let [gpus, nics] = &columns;
    let ([left, right], _) = face_to_face(&columns);
    let nics_x = x + inner - nics.width;
    let mut wires = Wires { spine: x + inner / 2, ends: Vec::new() };
    for middle in gpus.middles() {
        wires.ends.push((x + gpus.width, y + left + middle));
    }
    for middle in nics.middles() {
        wires.ends.push((nics_x, y + right + middle));
    }
    let class = joined_class(report, branch, &columns);
    if let Some((class, words)) = &class {
        let above = (mixed(branch).next().is_some() && inner < SIDE_BY_SIDE).then_some(y - SPACE);
        wires.draw(canvas, above);
        wires.draw_class(canvas, *class, words);
    }
    gpus.draw(canvas, report, (x, y + left));
    nics.draw(canvas, report, (nics_x, y + right));
}

/// The classes between the devices of the two columns; where one column is empty and a switch or
/// host bridge joins the other to boxes above, those to the devices in there. Nothing for SYS.
fn joined_class(
    report: &Report,
    branch: &Branch<'_>,
    [gpus, nics]: &[Column<'_, '_>; 2],
) -> Option<(PathClass, String)> {
    let (mut left, mut right) = (gpus.offered(), nics.offered());
    if branch.holder != Holder::Numa && left.is_empty() != right.is_empty() {
        let boxed = mixed(branch).flat_map(Branch::all_devices);
        let boxed: Vec<_> = boxed.filter(|device| device.standing().offered).collect();
        let side = if left.is_empty() { (&mut left, Kind::Gpu) } else { (&mut right, Kind::Nic) };
        side.0.extend(boxed.iter().filter(|device| device.kind() == side.1));
    }
    let mut classes = BTreeSet::new();
    for (gpu, nic) in left.iter().flat_map(|gpu| right.iter().map(move |nic| (gpu, nic))) {
        let (Some(gpu), Some(nic)) = (gpu.function(), nic.function()) else { continue };
        classes.extend(report.path(gpu, nic).map(|path| path.class));
    }
    let (nearest, farthest) = (*classes.first()?, *classes.last()?);
    let words =
        if nearest == farthest { nearest.to_string() } else { format!("{nearest}–{farthest}") };
    (nearest != PathClass::Sys).then_some((nearest, words))
}

/// A spine in the middle of a box, with wires to what it joins.
struct Wires {
    spine: i32,
    ends: Vec<(i32, i32)>,
}

impl Wires {
    /// `above` is the y of boxes that the spine reaches up to.
    fn draw(&self, canvas: &mut Canvas, above: Option<i32>) {
        let ys = || self.ends.iter().map(|end| end.1);
        let top = ys().chain(above).min().unwrap_or_default();
        let bottom = ys().max().unwrap_or_default();
        if top < bottom {
            canvas.wire((self.spine, top), (self.spine, bottom));
        }
        for end in &self.ends {
            canvas.wire((self.spine, end.1), *end);
        }
    }

    fn draw_class(&self, canvas: &mut Canvas, class: PathClass, words: &str) {
        let ys = || self.ends.iter().map(|end| end.1);
        let y = (ys().min().unwrap_or_default() + ys().max().unwrap_or_default()) / 2;
        let width = text_width(words, 10) + 12;
        let area = Area { x: self.spine - width / 2, y: y - 8, width, height: 16 };
        canvas.rect(if class <= PathClass::Pxb { "near" } else { "far" }, area, 8);
        canvas.text("pill", (self.spine, y + 4), Anchor::Middle, words);
    }
}
