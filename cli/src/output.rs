//! What goes to stdout.

use std::io::{self, Write};

use anyhow::Context;
use serde::Serialize;

use crate::words::plain;

/// Prints text. A reader that has seen enough (`| head`) is no error.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done.context("write to stdout"),
    }
}

/// Tells on stderr what is worth knowing and no result. Nobody may be listening there.
pub fn tell(text: &str) {
    let _ = writeln!(io::stderr(), "{}", plain(text));
}

/// Indented JSON with a final newline.
pub fn json(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value).context("write JSON")? + "\n")
}

/// YAML that every reader takes for the same: texts that YAML 1.1 would read as something else
/// (`on`, `3.10`, `0000:16:00.0`) are quoted.
pub fn yaml(value: &impl Serialize) -> anyhow::Result<String> {
    serde_saphyr::to_string(value).context("write YAML")
}

/// One value as itself, several as an array.
pub fn one_or_many<T: Serialize>(mut values: Vec<T>) -> anyhow::Result<serde_json::Value> {
    let value = match (values.pop(), values.is_empty()) {
        (Some(only), true) => serde_json::to_value(only),
        (Some(last), false) => {
            values.push(last);
            serde_json::to_value(values)
        }
        (None, _) => serde_json::to_value(values),
    };
    value.context("write JSON")
}

/// A v1 List.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'a, T> {
    api_version: &'static str,
    kind: &'static str,
    items: &'a [T],
}

/// Kubernetes objects as `kubectl` takes them: one as itself, several as a List.
pub fn objects<T: Serialize>(items: &[T]) -> anyhow::Result<serde_json::Value> {
    let value = match items {
        [only] => serde_json::to_value(only),
        items => serde_json::to_value(List { api_version: "v1", kind: "List", items }),
    };
    value.context("write objects")
}
