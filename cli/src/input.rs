//! Reads files that a user names; every error says which file, where in it, and what was expected.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use lanemate_driver::discovery::capture::MAX_CAPTURE_BYTES;

/// Largest file of one document: that of a capture, which is the largest kind of these.
const MAX_BYTES: u64 = MAX_CAPTURE_BYTES as u64;

/// A file that gives no text.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    #[error("{file}: cannot be read: {error}")]
    Read { file: String, error: io::Error },
    #[error("{file}: expected at most {} MiB", max >> 20)]
    TooLarge { file: String, max: u64 },
    #[error("{file}: line {line}: expected UTF-8 text")]
    NotText { file: String, line: usize },
}

/// A file as errors name it; `-` is standard input.
pub fn name(file: &Path) -> String {
    if is_stdin(file) { "stdin".to_owned() } else { file.display().to_string() }
}

fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}

/// Text of a file of one document; `-` is standard input.
pub fn text(file: &Path) -> Result<String, InputError> {
    text_of_at_most(file, MAX_BYTES)
}

/// Text of a file with so many bytes at most; `-` is standard input.
pub fn text_of_at_most(file: &Path, max: u64) -> Result<String, InputError> {
    let bytes = bytes(file, max).map_err(|error| InputError::Read { file: name(file), error })?;
    if bytes.len() as u64 > max {
        return Err(InputError::TooLarge { file: name(file), max });
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.as_bytes().iter().take(error.utf8_error().valid_up_to());
        let line = valid.filter(|byte| **byte == b'\n').count() + 1;
        InputError::NotText { file: name(file), line }
    })
}

/// At most one byte more than is taken, so that neither a device nor a pipe goes on for ever.
fn bytes(file: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if is_stdin(file) {
        io::stdin().lock().take(max + 1).read_to_end(&mut bytes)?;
    } else {
        File::open(file)?.take(max + 1).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}
