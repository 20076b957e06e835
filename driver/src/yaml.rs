//! Says what is wrong with a YAML text, for the person who wrote it.

use serde_saphyr::MessageFormatter;

/// What is wrong with a YAML text, in one line: the line of the file that it is about, and what
/// stands there. The text begins at line `first`, counted from 1.
pub fn problem(text: &str, first: usize, error: &serde_saphyr::Error) -> String {
    let message = serde_saphyr::UserMessageFormatter.format_message(error).replace('\n', " ");
    // The parser names its counters, of which nobody knows.
    let message = match message.starts_with("YAML document too large or too complex") {
        true => "nested too deeply, or aliases repeat too much".to_owned(),
        false => message,
    };
    let line = error.location().and_then(|at| usize::try_from(at.line()).ok());
    let Some(line) = line.filter(|line| *line > 0) else { return message };
    let quote = text.lines().nth(line - 1).map(str::trim).filter(|line| !line.is_empty());
    let quote = quote.map(|line| format!(" {:?}", line.chars().take(60).collect::<String>()));
    format!("line {}{}: {message}", first + line - 1, quote.unwrap_or_default())
}
