//! `status` for people.

use super::{Kind, NodeReport, Status};
use crate::paint::{Paint, Tone};
use crate::words::{WIDTH, counted, cut, wrap};

/// Nodes, and waiting pods, that are shown; `-o json` has all.
const ROWS: usize = 200;
const PODS: usize = 10;
/// Classes with a column of their own: so many fit into the line.
const CLASSES: usize = 2;
/// Widest name of a node, and of a class.
const NODE: usize = 20;
const CLASS: usize = 14;

/// Renders everything.
pub fn render(status: &Status, paint: Paint) -> String {
    let mut out = summary(status, paint);
    if !status.nodes.is_empty() {
        out += "\n";
        out += &nodes(status, paint);
    }
    out += &oddities(&status.nodes, paint);
    if !status.waiting.is_empty() {
        out += "\n";
        out += &waiting(status, paint);
    }
    out
}

fn summary(status: &Status, paint: Paint) -> String {
    let mut lines = vec![("Controller", status.controller.words(), status.controller.is_fresh)];
    let (nodes, total) = (status.nodes.len(), &status.total);
    let plugins = format!("{} with devices, {} say what they hold", nodes, total.with_node_state);
    lines.push(("Nodes", plugins, total.with_node_state == nodes && nodes > 0));
    lines.push(("GPUs", kind(total.gpus), true));
    lines.push(("NICs", kind(total.nics), true));
    for units in &total.units {
        let broken = status.broken_classes.iter().find(|broken| broken.class == units.class);
        let words = match broken {
            Some(broken) => format!("{}: not ready: {}", units.class, broken.reason),
            None => format!("{}: {} more", units.class, counted(units.fit as usize, "unit")),
        };
        lines.push(("Class", words, broken.is_none()));
    }
    let waiting = counted(status.waiting.len(), "pod");
    lines.push(("Waiting", waiting, true));
    let line = |(name, words, is_well): (&str, String, bool)| {
        let words = if is_well { words } else { paint.tone(Tone::Warning, &words) };
        format!("{name:10}  {words}\n")
    };
    lines.into_iter().map(line).collect()
}

fn kind(kind: Kind) -> String {
    let Kind { offered, free, held, stranded, tainted } = kind;
    let mut words = format!("{offered} offered, {free} free, {held} held");
    if stranded > 0 {
        words += &format!(", {stranded} stranded");
    }
    if tainted > 0 {
        words += &format!(", {tainted} tainted");
    }
    words
}

/// One line a node.
fn nodes(status: &Status, paint: Paint) -> String {
    let names = status.nodes.iter().map(|node| node.name.chars().count());
    let width = names.max().unwrap_or_default().clamp("NODE".len(), NODE);
    let classes: Vec<String> =
        status.total.units.iter().take(CLASSES).map(|units| cut(&units.class, CLASS)).collect();
    let mut head =
        format!("{:width$}  {:>9}  {:>9}  {:>9}", "NODE", "FREE GPUS", "FREE NICS", "STRANDED");
    for class in &classes {
        head += &format!("  {class}");
    }
    let mut out = format!("{}\n", paint.tone(Tone::Quiet, &head));
    for node in status.nodes.iter().take(ROWS) {
        let free = |kind: Kind| format!("{}/{}", kind.free, kind.offered);
        let stranded = format!("{}+{}", node.gpus.stranded, node.nics.stranded);
        let mut line = format!(
            "{:width$}  {:>9}  {:>9}  {stranded:>9}",
            cut(&node.name, width),
            free(node.gpus),
            free(node.nics)
        );
        for (units, class) in node.units.iter().zip(&classes) {
            line += &format!("  {:>1$}", units.fit, class.chars().count());
        }
        out += &format!("{line}\n");
    }
    let left = status.nodes.len().saturating_sub(ROWS);
    if left > 0 {
        out += &format!("and {} more: -o json\n", counted(left, "node"));
    }
    out
}

/// What is to be looked at, by node.
fn oddities(nodes: &[NodeReport], paint: Paint) -> String {
    let mut lines = Vec::new();
    for node in nodes {
        let name = &node.name;
        lines.extend(node.conditions.iter().map(|condition| format!("{name}: {condition}")));
        if !node.has_node_state {
            lines.push(format!("{name}: no NodeState: its plugin does not say what it holds"));
        }
        lines.extend(node.problems.iter().map(|problem| format!("{name}: {problem}")));
        let taints = node.taints.iter();
        lines.extend(taints.map(|t| format!("{name}: {} on {}", t.taint, t.devices.join(", "))));
    }
    if lines.is_empty() {
        return String::new();
    }
    let mut out = "\n".to_owned();
    for text in lines.iter().take(ROWS) {
        for (number, line) in wrap(text, WIDTH - 2).iter().enumerate() {
            let indent = if number == 0 { "" } else { "  " };
            out += &format!("{indent}{}\n", paint.tone(Tone::Warning, line));
        }
    }
    if lines.len() > ROWS {
        out += &format!("and {} more: -o json\n", lines.len() - ROWS);
    }
    out
}

fn waiting(status: &Status, paint: Paint) -> String {
    let mut out = format!("{}\n", paint.tone(Tone::Quiet, "WAITING"));
    for pod in status.waiting.iter().take(PODS) {
        let age = pod.age.as_deref().unwrap_or("-");
        let text = format!("{}  {age}  {}", pod.pod, pod.claims.join(", "));
        out += &format!("{}\n", cut(&text, WIDTH));
    }
    let left = status.waiting.len().saturating_sub(PODS);
    if left > 0 {
        out += &format!("and {} more: -o json\n", counted(left, "pod"));
    }
    out += "why: lanemate explain pod/NAME -n NAMESPACE\n";
    out
}
