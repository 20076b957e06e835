//! Reads files that a user names; every error says which file, where in it, and what was expected.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use lanemate_driver::discovery::capture::MAX_CAPTURE_BYTES;
use serde::de::DeserializeOwned;

/// Largest file that is read: that of a capture, which is the largest kind read here.
const MAX_BYTES: u64 = MAX_CAPTURE_BYTES as u64;

/// Text of a file; `-` is standard input.
pub fn text(file: &Path) -> anyhow::Result<String> {
    let name = file.display();
    let bytes = bytes(file).with_context(|| format!("{name}: cannot be read"))?;
    if bytes.len() as u64 > MAX_BYTES {
        bail!("{name}: expected at most {} MiB", MAX_BYTES >> 20);
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.as_bytes().iter().take(error.utf8_error().valid_up_to());
        let line = valid.filter(|byte| **byte == b'\n').count() + 1;
        anyhow!("{name}: line {line}: expected UTF-8 text")
    })
}

/// At most one byte more than is taken, so that neither a device nor a pipe goes on for ever.
fn bytes(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    } else {
        File::open(file)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// One YAML or JSON document; an empty file is an empty document.
pub fn yaml<T: DeserializeOwned>(file: &Path) -> anyhow::Result<T> {
    let text = text(file)?;
    serde_saphyr::from_str(&text)
        .map_err(|error| anyhow!("{}: {}", file.display(), explain(&text, &error)))
}

/// The error in one line, with the line of the file that it is about.
fn explain(text: &str, error: &serde_saphyr::Error) -> String {
    let message = error.without_snippet().to_string();
    let message = message.split(" at line ").next().unwrap_or(&message).replace('\n', " ");
    let Some(location) = error.location() else { return message };
    let number = location.line();
    let line = usize::try_from(number).ok().and_then(|n| text.lines().nth(n.saturating_sub(1)));
    let quote = line.map(str::trim).filter(|line| !line.is_empty());
    let quote = quote.map(|line| format!(" {:?}", line.chars().take(60).collect::<String>()));
    format!("line {number}{}: {message}", quote.unwrap_or_default())
}
