//! What was considered: how each node ranks, or why it does not fit.

use lanemate_driver::allocation::Rank;

use super::outcome::{Considered, Outcome, Verdict};
use super::report::worst_class;
use crate::paint::{Paint, Tone};
use crate::words::{WIDTH, wrap};

/// Terms of the rank in order of weight: the first that differs decides.
const TERMS: [&str; 8] = ["WISHES", "WORST", "SUM", "HOPS", "NICS LEFT", "GPUS LEFT", "BROKEN", ""];

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
    let width = names.max().unwrap_or_default().max("NODE".len());
    let mut fitting: Vec<(&Considered, &Rank)> = verdict
        .considered
        .iter()
        .filter_map(|node| Some((node, node.rank.as_ref().ok()?)))
        .collect();
    fitting.sort_by_key(|(node, rank)| {
        (verdict.chosen() != Some(node.node.as_str()), **rank, node.node.as_str())
    });
    let mut out = String::new();
    if !fitting.is_empty() {
        let head = format!("    {:width$}  {}", "NODE", TERMS.join("  "));
        out += &format!("{}\n", paint.tone(Tone::Quiet, head.trim_end()));
    }
    for (node, rank) in fitting {
        let chosen = verdict.chosen() == Some(node.node.as_str());
        let mark = if chosen { "  > " } else { "    " };
        out += &format!("{mark}{:width$}  {}\n", node.node, terms(rank));
    }
    for node in &verdict.considered {
        if let Err(reason) = &node.rank {
            out += &short(&node.node, width, reason, paint);
        }
    }
    out
}

fn terms(rank: &Rank) -> String {
    let wishes = rank.wishes.0;
    let worst = worst_class(rank).map_or_else(|| "-".to_owned(), |class| class.to_string());
    let terms = [
        format!("{}+{}", wishes.within, wishes.across),
        worst,
        rank.rating.sum.to_string(),
        rank.rating.hops.to_string(),
        rank.nics_left.to_string(),
        rank.gpus_left.to_string(),
        rank.groups_broken.to_string(),
    ];
    let padded = TERMS.iter().zip(terms).map(|(head, term)| format!("{term:>0$}", head.len()));
    padded.collect::<Vec<_>>().join("  ")
}

fn short(node: &str, width: usize, reason: &str, paint: Paint) -> String {
    let lines = wrap(reason, WIDTH.saturating_sub(width + 6).max(20));
    let mut out = String::new();
    let mut head = format!("    {node:width$}");
    for line in lines {
        out += &format!("{head}  {}\n", paint.tone(Tone::Quiet, &line));
        head = " ".repeat(width + 4);
    }
    out
}
