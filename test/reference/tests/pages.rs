//! The pages of `docs/user/reference` say what the code says, and what other pages name is in them.
//! `UPDATE_GOLDEN=1 cargo test -p lanemate-reference` writes them; the difference is to be reviewed.
#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::BTreeSet;

use clap::CommandFactory;
use lanemate_reference::{attributes, events, fields, flags, metrics, names, repository};

const DIRECTORY: &str = "docs/user/reference";

/// Flags of other programs that the pages name, and those that every program has.
const OTHERS: [&str; 10] = [
    // All.
    "--help",
    "--version",
    // cargo
    "--bin",
    "--features",
    "--release",
    // kubectl and helm
    "--all",
    "--create-namespace",
    "--for",
    "--set",
    "--timeout",
];

fn pages() -> Vec<(&'static str, String)> {
    let controller = "Explanations: [the controller](../controller.md).";
    let plugin = "Explanations: [the kubelet plugin](../kubelet-plugin.md).";
    let cli = "Explanations: [the command line](../cli.md), [commands for a cluster]\
               (../cluster-commands.md).";
    let class = "Explanations and examples: [ResourceClasses](../resource-classes.md).";
    let state =
        "Written by the kubelet plugin, read by the controller: [concepts](../concepts.md).";
    vec![
        ("controller-flags", flags::render(&lanemate_controller::args::Cli::command(), controller)),
        (
            "kubelet-plugin-flags",
            flags::render(&lanemate_kubelet_plugin::args::Cli::command(), plugin),
        ),
        ("cli-flags", flags::render(&lanemate::args::Cli::command(), cli)),
        (
            "resourceclass",
            fields::render("deploy/crds/resourceclasses.lanemate.dev.yaml", class).unwrap(),
        ),
        ("nodestate", fields::render("deploy/crds/nodestates.lanemate.dev.yaml", state).unwrap()),
        ("attributes", attributes::render().unwrap()),
        ("metrics", metrics::render().unwrap()),
        ("events", events::render().unwrap()),
        ("taints-and-labels", names::render().unwrap()),
    ]
}

#[test]
fn the_pages_are_what_the_code_says() {
    let mut stale = Vec::new();
    let mut expected = BTreeSet::new();
    for (name, found) in pages() {
        let file = format!("{DIRECTORY}/{name}.md");
        let path = repository::root().join(&file);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &found).unwrap();
        }
        if std::fs::read_to_string(&path).unwrap_or_default() != found {
            stale.push(file.clone());
        }
        expected.insert(file);
    }
    assert!(
        stale.is_empty(),
        "{stale:?} differ: run with UPDATE_GOLDEN=1 and review the difference"
    );
    let there: BTreeSet<String> =
        repository::files(DIRECTORY, ".md").unwrap().into_iter().collect();
    assert_eq!(there, expected);
}

/// Words of a page that begin like this and go on with these letters.
fn words<'a>(text: &'a str, start: &str, is_part: fn(char) -> bool) -> Vec<&'a str> {
    let found = text.match_indices(start).filter(|(at, _)| {
        let before = text[..*at].chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || "-_/.".contains(letter))
    });
    let word = |at: usize| {
        let end = text[at..].find(|letter| !is_part(letter)).map_or(text.len(), |end| at + end);
        text[at..end].trim_end_matches(['-', '_'])
    };
    found.map(|(at, _)| word(at)).filter(|word| word.len() > start.len()).collect()
}

/// Pages written by hand.
fn written() -> Vec<(String, String)> {
    let files = repository::files("docs/user", ".md").unwrap();
    let files = files.into_iter().filter(|file| !file.starts_with(DIRECTORY));
    let pages: Vec<_> =
        files.map(|file| (file.clone(), repository::read(&file).unwrap())).collect();
    assert!(pages.len() > 10, "{}", pages.len());
    pages
}

#[test]
fn every_flag_that_a_page_names_is_in_the_reference() {
    let is_part = |letter: char| letter.is_ascii_lowercase() || letter == '-';
    let all = pages();
    let known = all.iter().filter(|(name, _)| name.ends_with("-flags"));
    let known: BTreeSet<&str> = known.flat_map(|(_, text)| words(text, "--", is_part)).collect();
    assert!(known.len() > 30, "{known:?}");
    let mut found = Vec::new();
    for (page, text) in written() {
        // An arrow is no flag.
        let lines = text.lines().filter(|line| !line.contains("-->"));
        let named = lines.flat_map(|line| words(line, "--", is_part)).map(str::to_owned);
        let is_known =
            |flag: &String| known.contains(flag.as_str()) || OTHERS.contains(&flag.as_str());
        found.extend(named.filter(|flag| !is_known(flag)).map(|flag| format!("{page}: {flag}")));
    }
    assert!(
        found.is_empty(),
        "no flag of ours, and not among those of others:\n{}",
        found.join("\n")
    );
}

#[test]
fn every_metric_that_a_page_names_is_in_the_reference() {
    let is_part = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let text = metrics::render().unwrap();
    let known: BTreeSet<&str> = words(&text, "lanemate_", is_part).into_iter().collect();
    assert!(known.len() > 20, "{known:?}");
    // Targets of the log.
    let crates = ["lanemate_controller", "lanemate_kubelet_plugin"];
    let mut seen = 0;
    let mut found = Vec::new();
    for (page, text) in written() {
        for word in words(&text, "lanemate_", is_part) {
            seen += 1;
            let family = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|ending| word.strip_suffix(ending))
                .unwrap_or(word);
            // `lanemate_node_.*` stands for several.
            let start = known.iter().any(|name| name.starts_with(&format!("{word}_")));
            let pattern = start && text.contains(&format!("{word}_.*"));
            if !known.contains(family) && !pattern && !crates.contains(&word) {
                found.push(format!("{page}: {word}"));
            }
        }
    }
    assert!(found.is_empty(), "no metric of ours:\n{}", found.join("\n"));
    assert!(seen > 20, "{seen}");
}

#[test]
fn every_reason_of_an_event_is_explained() {
    let reasons = events::reasons().unwrap();
    assert!(reasons.len() > 12, "{reasons:?}");
    let page = repository::read("docs/user/operations.md").unwrap();
    let missing: Vec<_> = reasons
        .iter()
        .filter(|(_, reason)| !page.contains(&format!("`{}`", reason.value)))
        .collect();
    assert!(missing.is_empty(), "docs/user/operations.md does not explain {missing:?}");
}
