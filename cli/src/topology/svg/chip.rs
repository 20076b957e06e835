//! One device as a small box: its name and what it can do, its address and interface, or why it is left out.

use super::super::layout::Device;
use super::canvas::{Anchor, Area, Canvas, fitted, text_width};
use crate::words::{memory, rate};

/// Between name and note on one line.
const SPACE: i32 = 8;

/// One device: name and speed or memory above, address and interface below.
pub fn draw(canvas: &mut Canvas, device: Device<'_>, area: Area) {
    let standing = device.standing();
    let taints = standing.taint_words().join(", ");
    let class = match (standing.offered, taints.is_empty(), device.is_gpu()) {
        (false, _, _) => "left",
        (true, false, _) => "taint",
        (true, true, true) => "gpu",
        (true, true, false) => "nic",
    };
    canvas.rect(class, area, 5);
    let (left, right) = (area.x + 9, area.x + area.width - 9);
    let room = area.width - 18;
    let (high, low) = (area.y + 17, area.y + 31);
    let name = fitted(&chip_name(device), 13, room);
    if !standing.offered {
        let code = standing.reason.as_deref().and_then(|reason| reason.split(':').next());
        let words = format!("left out: {}", code.unwrap_or_default());
        canvas.text("name off", (left, high), Anchor::Start, &name);
        canvas.text("small off", (left, low), Anchor::Start, &fitted(&words, 10, room));
        return;
    }
    canvas.text("name", (left, high), Anchor::Start, &name);
    canvas.text("mono", (left, low), Anchor::Start, &device.address());
    let free = room - text_width(&name, 13) - SPACE;
    let (note, note_class) =
        if taints.is_empty() { (figure(device), "small") } else { (taints, "warn") };
    if !note.is_empty() && free >= 30 {
        canvas.text(note_class, (right, high), Anchor::End, &fitted(&note, 10, free));
    }
    let free = room - text_width(&device.address(), 10) - SPACE;
    if let Some(detail) = detail(device).filter(|detail| text_width(detail, 10) <= free) {
        canvas.text("small", (right, low), Anchor::End, &detail);
    }
}

fn chip_name(device: Device<'_>) -> String {
    match device {
        Device::Nic(nic) if nic.rdma_devices.is_empty() && nic.netdevs.is_empty() => {
            device.address()
        }
        _ => device.name(),
    }
}

/// Memory of a GPU; speed and link layer of a NIC.
fn figure(device: Device<'_>) -> String {
    match device {
        Device::Gpu(gpu) => gpu.memory_bytes.map(memory).unwrap_or_default(),
        Device::Nic(nic) => {
            let layer = match nic.link_layer.as_deref() {
                Some("InfiniBand") => Some("IB".to_owned()),
                Some("Ethernet") => Some("Eth".to_owned()),
                _ => None,
            };
            let words = [nic.bandwidth.map(rate), layer];
            words.into_iter().flatten().collect::<Vec<_>>().join(" ")
        }
    }
}

/// The network interface of a NIC that is known by its RDMA device.
fn detail(device: Device<'_>) -> Option<String> {
    match device {
        Device::Gpu(_) => None,
        Device::Nic(nic) => nic.netdevs.first().filter(|name| *name != nic.name()).cloned(),
    }
}
