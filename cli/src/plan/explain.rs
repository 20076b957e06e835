//! What was considered: how each node ranks, or why it does not fit.

use lanemate_driver::allocation::Rank;
use lanemate_driver::allocation::score::Wishes;

use super::outcome::{Considered, Outcome, Verdict};
use super::report::worst_class;
use crate::paint::{Paint, Tone};
use crate::words::{WIDTH, wrap};

/// Widest column of names; with it all terms of a rank fit into a line.
const NAME_WIDTH: usize = 20;

/// All decisions, each under its claims.
pub fn all(outcome: &Outcome, paint: Paint) -> String {
    let sections = outcome.verdicts.iter().filter(|verdict| !verdict.considered.is_empty());
    let section = |verdict: &Verdict| {
        let names = verdict.claim_names().join(", ");
        format!("{}\n{}", paint.tone(Tone::Title, &names), nodes(verdict, paint))
    };
    sections.map(section).collect::<Vec<_>>().join("\n")
}

/// The candidates of one decision; the chosen one is marked.
pub fn nodes(verdict: &Verdict, paint: Paint) -> String {
    // Of a single node that does not fit the refusal says it all.
    if let [] | [Considered { rank: Err(_), .. }] = verdict.considered.as_slice() {
        return String::new();
    }
    let names = verdict.considered.iter().map(|node| node.node.chars().count());
    let width = names.max().unwrap_or_default().clamp("NODE".len(), NAME_WIDTH);
    let mut fitting: Vec<(&Considered, &Rank)> = verdict
        .considered
        .iter()
        .filter_map(|node| Some((node, node.rank.as_ref().ok()?)))
        .collect();
    fitting.sort_by_key(|(node, rank)| {
        (verdict.chosen() != Some(node.node.as_str()), **rank, node.node.as_str())
    });
    let mut out = String::new();
    let wishes = fitting.iter().any(|(_, rank)| rank.wishes.0 != Wishes::default());
    if let Some((_, rank)) = fitting.first() {
        let heads: Vec<&str> = terms(rank, wishes).iter().map(|(head, _)| *head).collect();
        let head = format!("    {:width$}  {}", "NODE", heads.join("  "));
        out += &format!("{}\n", paint.tone(Tone::Quiet, &head));
    }
    for (node, rank) in fitting {
        let chosen = verdict.chosen() == Some(node.node.as_str());
        let mark = if chosen { "  > " } else { "    " };
        let terms = terms(rank, wishes);
        let terms = terms.iter().map(|(head, term)| format!("{term:>0$}", head.len()));
        let terms = terms.collect::<Vec<_>>().join("  ");
        out += &format!("{}  {terms}\n", lead(mark, &node.node, width));
    }
    for node in &verdict.considered {
        if let Err(reason) = &node.rank {
            out += &short(&node.node, width, reason, paint);
        }
    }
    out
}

/// The terms of a rank in order of weight, each with its head: the first that differs decides.
fn terms(rank: &Rank, wishes: bool) -> Vec<(&'static str, String)> {
    let Wishes { within, across } = rank.wishes.0;
    let worst = worst_class(rank).map_or_else(|| "-".to_owned(), |class| class.to_string());
    let met = wishes.then(|| ("WISHES", format!("{within}+{across}")));
    let others = [
        ("WORST", worst),
        ("SUM", rank.rating.sum.to_string()),
        ("HOPS", rank.rating.hops.to_string()),
        ("NICS LEFT", rank.nics_left.to_string()),
        ("GPUS LEFT", rank.gpus_left.to_string()),
        ("OPENED", rank.groups_broken.to_string()),
    ];
    met.into_iter().chain(others).collect()
}

/// The name of a node up to its column's end; a long one has a line of its own.
fn lead(mark: &str, node: &str, width: usize) -> String {
    if node.chars().count() <= width {
        return format!("{mark}{node:width$}");
    }
    format!("{mark}{node}\n    {:width$}", "")
}

fn short(node: &str, width: usize, reason: &str, paint: Paint) -> String {
    let lines = wrap(reason, WIDTH.saturating_sub(width + 6));
    let mut out = String::new();
    let mut head = lead("    ", node, width);
    for line in lines {
        out += &format!("{head}  {}\n", paint.tone(Tone::Quiet, &line));
        head = " ".repeat(width + 4);
    }
    out
}
