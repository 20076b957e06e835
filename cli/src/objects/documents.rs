//! Text becomes documents: value trees, each with the place where it stands.
//!
//! YAML streams are cut at their document markers, so that an error names its document and line
//! and only one document's tree is in memory at a time. JSON is read as JSON, which is many times
//! faster.

use std::fmt;
use std::sync::Arc;

use lanemate_driver::yaml;
use serde_json::Value;

/// Nested lists and objects in one YAML document. An allocated claim with opaque parameters needs
/// about 12; serde_json allows 128 for JSON.
const YAML_DEPTH_MAX: usize = 64;
/// Nodes that aliases may add to one document: enough for shared snippets, far too few to hurt.
const YAML_ALIAS_NODES_MAX: usize = 100_000;

/// Where a document, or an object of a List, stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file as errors name it.
    pub file: Arc<str>,
    /// Counted from 1; documents without content do not count.
    pub document: usize,
    /// First line of the document, counted from 1; none where the parser does not tell.
    pub line: Option<usize>,
    /// Position in the List, such as `items[3]`; empty outside one.
    pub item: String,
}

/// A document that is neither YAML nor JSON.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {message}")]
pub struct SyntaxError {
    /// The file as errors name it.
    file: Arc<str>,
    /// What the parser says, with the line of the file.
    message: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: document {}", self.file, self.document)?;
        if let Some(line) = self.line {
            write!(f, " (line {line})")?;
        }
        if !self.item.is_empty() {
            write!(f, ", {}", self.item)?;
        }
        Ok(())
    }
}

/// Hands each document of a text to `take`, until one is broken or `take` fails.
pub fn each_document<E: From<SyntaxError>>(
    file: &Arc<str>,
    text: &str,
    mut take: impl FnMut(Place, Value) -> Result<(), E>,
) -> Result<(), E> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with('{') {
        match json_documents(text) {
            Ok(documents) => {
                for (index, document) in documents.into_iter().enumerate() {
                    take(place(file, index + 1, None), document)?;
                }
                return Ok(());
            }
            // `{kind: Pod}` is YAML that starts like JSON, but not in a file that says it is JSON.
            Err(error) if file.ends_with(".json") => {
                return Err(
                    SyntaxError { file: file.clone(), message: json_problem(&error) }.into()
                );
            }
            Err(_) => {}
        }
    }
    let chunks = yaml_chunks(text).filter(|(_, chunk)| has_content(chunk));
    for (index, (line, chunk)) in chunks.enumerate() {
        let place = place(file, index + 1, Some(line));
        match serde_saphyr::from_str_with_options::<Value>(chunk, yaml_options(chunk.len())) {
            Ok(document) => take(place, document)?,
            Err(error) => {
                let message = yaml::problem(chunk, line, &error);
                return Err(SyntaxError { file: file.clone(), message }.into());
            }
        }
    }
    Ok(())
}

fn place(file: &Arc<str>, document: usize, line: Option<usize>) -> Place {
    Place { file: file.clone(), document, line, item: String::new() }
}

/// JSON texts, one after another. All are read before the first is used, because YAML may begin
/// like JSON.
fn json_documents(text: &str) -> Result<Vec<Value>, serde_json::Error> {
    serde_json::Deserializer::from_str(text).into_iter().collect()
}

/// The documents of a YAML stream, each with its marker and the number of its first line. A line
/// that begins with `---` and white space is a marker wherever it stands (YAML 1.2, 9.1.2).
fn yaml_chunks(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_marker = |line: &str| {
        line.strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
    };
    let mut rest = text;
    let mut line = 1;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (mut end, mut lines) = (0, 0);
        for (index, text) in rest.split_inclusive('\n').enumerate() {
            if index > 0 && is_marker(text) {
                break;
            }
            end += text.len();
            lines += 1;
        }
        let (chunk, remaining) = rest.split_at(end);
        let first = line;
        (rest, line) = (remaining, line + lines);
        Some((first, chunk))
    })
}

/// Whether a chunk is more than markers, comments and white space.
fn has_content(chunk: &str) -> bool {
    chunk
        .lines()
        .map(str::trim)
        .any(|line| !line.is_empty() && !line.starts_with('#') && !matches!(line, "---" | "..."))
}

/// Options for a text of a known length. The length bounds what the text itself can hold, so the
/// parser's own limits, made for small configurations, are only kept for what grows beyond it:
/// depth and aliases.
fn yaml_options(bytes: usize) -> serde_saphyr::Options {
    // A node takes a byte, and a collection two events.
    let nodes = bytes + YAML_ALIAS_NODES_MAX;
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: YAML_DEPTH_MAX,
            max_nodes: nodes,
            max_events: nodes.saturating_mul(2),
            // Aliases may repeat each byte of the text, on average, no more than once.
            max_total_scalar_bytes: bytes.saturating_mul(2),
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: YAML_ALIAS_NODES_MAX,
        },
        with_snippet: false,
    }
}

/// What is wrong with a JSON text, with its line in front.
fn json_problem(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or(&message);
    format!("line {}, column {}: {message}", error.line(), error.column())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn documents(file: &str, text: &str) -> Result<Vec<(usize, Option<usize>, Value)>, String> {
        let mut seen = Vec::new();
        each_document(&Arc::from(file), text, |place, value| {
            seen.push((place.document, place.line, value));
            Ok::<(), SyntaxError>(())
        })
        .map_err(|error| error.to_string())?;
        Ok(seen)
    }

    fn check(text: &str, expect: &[(usize, Option<usize>, Value)]) {
        assert_eq!(documents("f", text).as_deref(), Ok(expect), "{text:?}");
    }

    #[test]
    fn yaml_documents_are_cut_at_their_markers() {
        let (a, b) = (json!({"a": 1}), json!({"b": 2}));
        let both = [(1, Some(1), a.clone()), (2, Some(2), b.clone())];
        check("", &[]);
        check("# nothing\n---\n...\n\n", &[]);
        check("a: 1", &[(1, Some(1), a.clone())]);
        check("\u{feff}a: 1\n", &[(1, Some(1), a.clone())]);
        check("a: 1\n---\nb: 2\n", &both);
        check("a: 1\r\n---\r\nb: 2\r\n", &both);
        check("a: 1\n--- {b: 2}", &both);
        check("a: 1\n--- # next\nb: 2\n---\n", &both);
        check(
            "# head\n---\na: 1\n...\n---\n---\nb: 2",
            &[(1, Some(2), a.clone()), (2, Some(6), b.clone())],
        );
        check("{a: 1}\n---\n{b: 2}", &both);
        check("a: |\n  ---\n  x\n", &[(1, Some(1), json!({"a": "---\nx\n"}))]);
        check("---a: 1", &[(1, Some(1), json!({"---a": 1}))]);
    }

    #[test]
    fn json_texts_may_follow_one_another() {
        let (a, b) = (json!({"a": 1}), json!({"b": 2}));
        check("{\"a\": 1}", &[(1, None, a.clone())]);
        check("\n {\"a\": 1}\n{\"b\": 2}\n", &[(1, None, a), (2, None, b)]);
    }

    #[test]
    fn a_broken_document_is_named_with_its_line() {
        for (file, text, expect) in [
            ("f.yaml", "a: 1\n---\nb: [1,\n", "f.yaml: line "),
            ("f.yaml", "a: 1\n---\nb: 1\n c: 2\n", "f.yaml: line 4 \"c: 2\": "),
            ("f.yaml", "a: 1\na: 2\n", "f.yaml: line 2 \"a: 2\": "),
            ("f.json", "{\"a\": 1", "f.json: line 1, column 7: EOF while parsing an object"),
            ("f.json", "{\"a\": 1} x", "f.json: line 1, column 10: expected value"),
        ] {
            let error = documents(file, text).unwrap_err();
            assert!(error.starts_with(expect), "{error}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        assert!(documents("f", &("[".repeat(60) + &"]".repeat(60))).is_ok());
        assert!(documents("f", &("[".repeat(100) + &"]".repeat(100))).is_err());
        assert!(documents("f", &"[".repeat(1_000_000)).is_err());
        let block: String = (0..1000).map(|depth| " ".repeat(depth) + "a:\n").collect();
        assert!(documents("f", &block).is_err());
        assert!(documents("f.json", &"{\"a\":".repeat(1_000_000)).is_err());
    }

    #[test]
    fn aliases_serve_but_cannot_explode() {
        check("a: &x {b: 1}\nc: *x\n", &[(1, Some(1), json!({"a": {"b": 1}, "c": {"b": 1}}))]);
        let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
            laughs += &format!("a{level}: &a{level} [{aliases}]\n");
        }
        let error = documents("f", &laughs).unwrap_err();
        assert!(error.ends_with(": nested too deeply, or aliases repeat too much"), "{error}");
        let long = format!("a: &x {}\nb: [{}]\n", "y".repeat(1_000_000), vec!["*x"; 90].join(", "));
        assert!(documents("f", &long).is_err());
    }

    #[test]
    fn many_documents_and_large_ones_are_read() {
        let many = "a: 1\n---\n".repeat(5000);
        assert_eq!(documents("f", &many).unwrap().len(), 5000);
        let large = "- {a: 1, b: [x, y]}\n".repeat(40_000);
        let read = documents("f", &large).unwrap();
        assert_eq!(read[0].2.as_array().unwrap().len(), 40_000);
    }
}
