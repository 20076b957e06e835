//! `explain` for people.

use lanemate_api::PathClass;

use super::{DeviceReport, Explained, Explanation, NodesReason, PodReport, State};
use crate::paint::{Paint, Tone};
use crate::words::{WIDTH, counted, wrap};

/// Reasons of nodes that are told one by one; the most common come first.
const REASONS: usize = 8;
/// Nodes that are named before it says how many more there are.
const NAMED: usize = 4;

/// Renders everything.
pub fn render(explained: &Explained, paint: Paint) -> String {
    if explained.claims.is_empty() {
        return "No claim of this namespace waits.\n".to_owned();
    }
    let sections: Vec<String> =
        explained.claims.iter().map(|claim| section(claim, paint)).collect();
    sections.join("\n")
}

fn section(claim: &Explanation, paint: Paint) -> String {
    let title = paint.tone(Tone::Title, &claim.claim);
    let mut out = match (claim.state, &claim.node) {
        (State::Allocated, Some(node)) => format!("{title} has its devices on node {node}\n"),
        (State::Allocated, None) => format!("{title} has its devices\n"),
        (State::Waiting, _) => format!("{title} {}\n", paint.tone(Tone::Warning, "waits")),
        (State::NotMade, _) => {
            format!("{title} {}\n", paint.tone(Tone::Warning, "is not made yet"))
        }
        (State::Deleting, _) => format!("{title} is being deleted\n"),
    };
    out += &devices(claim, paint);
    let reason = claim.reason.iter().flat_map(|reason| reason.split("; "));
    for (number, clause) in reason.enumerate() {
        out += &indented(if number == 0 { 2 } else { 4 }, clause);
    }
    out += &nodes(&claim.nodes, paint);
    for pod in &claim.pods {
        out += &indented(2, &pod_line(pod));
    }
    if !claim.reserved_for.is_empty() {
        out += &indented(2, &format!("reserved for {}", claim.reserved_for.join(", ")));
    }
    for event in &claim.events {
        let times =
            if event.count > 1 { format!(", {} times", event.count) } else { String::new() };
        let age = event.age.as_ref().map(|age| format!(" {age} ago{times}")).unwrap_or_default();
        out += &indented(2, &format!("event{age}: {}: {}", event.reason, event.note));
    }
    out
}

fn indented(indent: usize, text: &str) -> String {
    let lines = wrap(text, WIDTH - indent);
    lines.iter().map(|line| format!("{:indent$}{line}\n", "")).collect()
}

/// Devices of units together, then the others.
fn devices(claim: &Explanation, paint: Paint) -> String {
    let mut out = String::new();
    let mut shown = Vec::new();
    for unit in &claim.units {
        let class = unit.class.map(|class| class.to_string()).unwrap_or_default();
        let via = unit.via.as_ref().map(|via| format!(" via {via}")).unwrap_or_default();
        let near = unit.class.is_none_or(|class| class <= PathClass::Pxb);
        let tone = if near { Tone::Near } else { Tone::Warning };
        out += &format!("  {}{via}\n", paint.tone(tone, &class));
        for device in claim.devices.iter().filter(|one| unit.devices.contains(&one.device)) {
            out += &device_line(4, device, paint);
            shown.push(&device.device);
        }
    }
    for device in claim.devices.iter().filter(|one| !shown.contains(&&one.device)) {
        out += &device_line(2, device, paint);
    }
    out
}

fn device_line(indent: usize, device: &DeviceReport, paint: Paint) -> String {
    let tone = if device.device.starts_with("gpu-") { Tone::Gpu } else { Tone::Nic };
    let pci = device.pci.as_deref().unwrap_or("-");
    let name = paint.tone(tone, &device.device);
    let mut line = format!("{:indent$}{name}  {pci}  {}", "", device.request);
    if let Some(state) = device.on_node {
        line += &format!("  {state}");
    }
    if device.is_gone {
        line += &paint.tone(Tone::Warning, "  no slice offers it any more");
    }
    if !device.also_held_by.is_empty() {
        let words = format!("  held by {} as well", device.also_held_by.join(", "));
        line += &paint.tone(Tone::Warning, &words);
    }
    line + "\n"
}

fn nodes(groups: &[NodesReason], paint: Paint) -> String {
    // What all nodes say is the reason already.
    if groups.len() < 2 {
        return String::new();
    }
    let mut out = String::new();
    for group in groups.iter().take(REASONS) {
        let named: Vec<&str> = group.nodes.iter().take(NAMED).map(String::as_str).collect();
        let more = group.nodes.len() - named.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        out += &indented(2, &format!("{}{more}", named.join(", ")));
        for line in wrap(&group.reason, WIDTH - 4) {
            out += &format!("    {}\n", paint.tone(Tone::Quiet, &line));
        }
    }
    let left: usize = groups.iter().skip(REASONS).map(|group| group.nodes.len()).sum();
    if left > 0 {
        out += &format!("  and {}, each for another reason: -o json\n", counted(left, "node"));
    }
    out
}

fn pod_line(pod: &PodReport) -> String {
    let node = pod.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
    let gates = if pod.gates.is_empty() {
        String::new()
    } else {
        format!(", scheduling gate {}", pod.gates.join(", "))
    };
    let scheduler = pod
        .unscheduled
        .as_ref()
        .map(|words| format!("; kube-scheduler: {words}"))
        .unwrap_or_default();
    format!("pod {} {}{node}{gates}{scheduler}", pod.name, pod.phase)
}
