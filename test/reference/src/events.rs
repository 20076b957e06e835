//! The page of events: reasons and what they are about, from the constants of the two programs.

use crate::constants::{self, Constant};
use crate::markdown::{code, page, table};
use crate::repository;

/// Where the reasons of each program stand.
const SOURCES: [(&str, &str); 4] = [
    ("controller", "controller/src/plan/notices.rs"),
    ("controller", "controller/src/plan/repair"),
    ("kubelet plugin", "kubelet-plugin/src/service.rs"),
    ("kubelet plugin", "kubelet-plugin/src/state"),
];

/// The page.
///
/// # Errors
/// When a source cannot be read.
pub fn render() -> Result<String, String> {
    let rows: Vec<Vec<String>> = reasons()?
        .into_iter()
        .map(|(program, reason)| {
            let meaning = reason.meaning.replace("The reason of an event", "An event");
            vec![code(&reason.value), program.to_owned(), meaning]
        })
        .collect();
    Ok(page(
        "Events",
        "Reasons of the events that Lanemate writes. What is done then, and whether anybody has to act: \
         [operations](../operations.md#events).",
        &table(&["reason", "by", "about"], &rows),
    ))
}

/// Program and reason, in the order of the sources.
///
/// # Errors
/// When a source cannot be read.
pub fn reasons() -> Result<Vec<(&'static str, Constant)>, String> {
    let mut found = Vec::new();
    for (program, path) in SOURCES {
        let files = match path.ends_with(".rs") {
            true => vec![path.to_owned()],
            false => repository::files(path, ".rs")?,
        };
        for file in files.iter().filter(|file| !file.contains("/tests")) {
            let all = constants::of(&repository::read(file)?);
            found.extend(all.into_iter().filter(is_reason).map(|constant| (program, constant)));
        }
    }
    Ok(found)
}

/// Reasons are words in camel case; other texts of these files are not.
fn is_reason(constant: &Constant) -> bool {
    let starts = constant.value.starts_with(|letter: char| letter.is_ascii_uppercase());
    starts && constant.value.chars().all(|letter| letter.is_ascii_alphanumeric())
}
