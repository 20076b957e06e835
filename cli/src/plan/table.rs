//! `plan` for a person at a terminal: what is placed, then what is not and why, in 80 columns.

use lanemate_api::{AllocatedUnit, PathClass};
use lanemate_driver::allocation::Allocation;
use lanemate_driver::pending::{ClaimRef, PodRef};

use super::explain;
use super::outcome::{Answer, Outcome, Placed, RefusalKind, Refused, Timing, Verdict};
use crate::paint::{Paint, Tone};
use crate::words::{WIDTH, counted, wrap};

/// One line of a claim: what a set of devices is, and the devices.
struct Row {
    lead: String,
    tone: Tone,
    devices: Vec<String>,
}

/// Renders everything.
pub fn render(outcome: &Outcome, explain: bool, paint: Paint) -> String {
    let mut sections = Vec::new();
    for (verdict, placed) in outcome.placed() {
        sections.push(placed_section(verdict, placed, paint) + &explained(verdict, explain, paint));
    }
    for (verdict, refused) in outcome.refused() {
        let section = refused_section(verdict, refused, paint);
        sections.push(section + &explained(verdict, explain, paint));
    }
    sections.push(summary(outcome, paint));
    sections.extend(outcome.timing.as_ref().map(timing));
    sections.join("\n")
}

fn explained(verdict: &Verdict, explain: bool, paint: Paint) -> String {
    if explain { explain::nodes(verdict, paint) } else { String::new() }
}

fn placed_section(verdict: &Verdict, placed: &Placed, paint: Paint) -> String {
    let mut out = String::new();
    for (claim, allocation) in verdict.claims.iter().zip(&placed.allocations) {
        let title = paint.tone(Tone::Title, &claim.to_string());
        let pod = for_pod(verdict.pod.as_ref(), claim);
        out += &format!("{title} on {}{}\n", placed.node, paint.tone(Tone::Quiet, &pod));
        out += &rows(&rows_of(allocation), paint);
    }
    if !placed.optimal {
        out += "  The search budget was spent: there may be a better choice.\n";
    }
    out
}

fn refused_section(verdict: &Verdict, refused: &Refused, paint: Paint) -> String {
    let names = verdict.claim_names().join(", ");
    let pod = verdict.claims.first().map(|claim| for_pod(verdict.pod.as_ref(), claim));
    let what = match refused.kind {
        RefusalKind::NoFit if verdict.claims.len() > 1 => "do not fit",
        RefusalKind::NoFit => "does not fit",
        RefusalKind::Error => "error",
    };
    let mut out = format!(
        "{} {}{}\n",
        paint.tone(Tone::Title, &names),
        paint.tone(Tone::Warning, what),
        paint.tone(Tone::Quiet, &pod.unwrap_or_default())
    );
    for (number, clause) in refused.reason.split("; ").enumerate() {
        let indent = if number == 0 { 2 } else { 4 };
        for line in wrap(clause, WIDTH - indent) {
            out += &format!("{:indent$}{line}\n", "");
        }
    }
    out
}

/// The pod, without the namespace that it shares with its claim.
fn for_pod(pod: Option<&PodRef>, claim: &ClaimRef) -> String {
    match pod {
        Some(pod) if pod.namespace == claim.namespace => format!(" for pod {}", pod.name),
        Some(pod) => format!(" for pod {pod}"),
        None => String::new(),
    }
}

/// Units first, then the devices outside units by request.
fn rows_of(allocation: &Allocation) -> Vec<Row> {
    let mut rows: Vec<Row> = allocation.units.iter().map(unit_row).collect();
    let in_units = |pool: &str, device: &str| {
        let devices = allocation.units.iter().flat_map(|unit| &unit.devices);
        devices.into_iter().any(|other| other.pool == pool && other.device == device)
    };
    let results = allocation.result.devices.iter();
    for result in results.flat_map(|devices| devices.results.iter().flatten()) {
        if in_units(&result.pool, &result.device) {
            continue;
        }
        match rows.iter_mut().find(|row| row.tone == Tone::Quiet && row.lead == result.request) {
            Some(row) => row.devices.push(result.device.clone()),
            None => rows.push(Row {
                lead: result.request.clone(),
                tone: Tone::Quiet,
                devices: vec![result.device.clone()],
            }),
        }
    }
    rows
}

fn unit_row(unit: &AllocatedUnit) -> Row {
    let class = unit.class.map(|class| class.to_string()).unwrap_or_default();
    let via = unit.via.as_ref().map(|via| format!(" via {via}")).unwrap_or_default();
    let near = unit.class.is_none_or(|class| class <= PathClass::Pxb);
    Row {
        lead: format!("{class:4}{via}").trim_end().to_owned(),
        tone: if near { Tone::Near } else { Tone::Warning },
        devices: unit.devices.iter().map(|device| device.device.clone()).collect(),
    }
}

fn rows(rows: &[Row], paint: Paint) -> String {
    let lead = rows.iter().map(|row| row.lead.chars().count()).max().unwrap_or_default();
    let widest = rows.iter().flat_map(|row| &row.devices).map(|name| name.chars().count()).max();
    let (lead_width, name) = (lead + 4, widest.unwrap_or_default());
    let per_line = (WIDTH.saturating_sub(lead_width) / (name + 2)).max(1);
    if rows.is_empty() {
        return "  no devices\n".to_owned();
    }
    let mut out = String::new();
    for row in rows {
        let toned = paint.tone(row.tone, &row.lead);
        let pad = " ".repeat(lead - row.lead.chars().count());
        let mut head = format!("  {toned}{pad}");
        for devices in row.devices.chunks(per_line) {
            let names: Vec<String> =
                devices.iter().map(|device| paint_device(device, paint)).collect();
            out += &format!("{head}  {}\n", names.join("  ").trim_end());
            head = " ".repeat(lead + 2);
        }
    }
    out
}

/// Names of our devices tell their kind.
fn paint_device(name: &str, paint: Paint) -> String {
    let tone = if name.starts_with("gpu-") {
        Tone::Gpu
    } else if name.starts_with("nic-") {
        Tone::Nic
    } else {
        return name.to_owned();
    };
    paint.tone(tone, name)
}

fn summary(outcome: &Outcome, paint: Paint) -> String {
    let claims = |answer: fn(&Answer) -> bool| {
        let verdicts = outcome.verdicts.iter().filter(|verdict| answer(&verdict.answer));
        verdicts.map(|verdict| verdict.claims.len()).sum::<usize>()
    };
    let placed = claims(|answer| matches!(answer, Answer::Placed(_)));
    let refused =
        claims(|answer| matches!(answer, Answer::Refused(r) if r.kind == RefusalKind::NoFit));
    let broken =
        claims(|answer| matches!(answer, Answer::Refused(r) if r.kind == RefusalKind::Error));
    if placed + refused + broken == 0 {
        return "No claim is pending.\n".to_owned();
    }
    let mut text = format!("{} placed", counted(placed, "claim"));
    if refused > 0 {
        let verb = if refused == 1 { "does" } else { "do" };
        text += &paint.tone(Tone::Warning, &format!(", {refused} {verb} not fit"));
    }
    if broken > 0 {
        let verb = if broken == 1 { "is" } else { "are" };
        text += &paint.tone(Tone::Warning, &format!(", {broken} {verb} broken"));
    }
    text + "\n"
}

fn timing(timing: &Timing) -> String {
    format!(
        "One decision, of {}: fastest {:.1?}, median {:.1?}, p99 {:.1?}\n",
        timing.decisions, timing.min, timing.median, timing.p99
    )
}
