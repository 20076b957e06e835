//! `check` for people.

use super::{Check, Outcome};
use crate::paint::{Paint, Tone};
use crate::words::{WIDTH, wrap};

/// Widest name of a check.
const NAME: usize = 15;
const MARK: usize = 4;

/// Renders all lines and how many failed.
pub fn render(checks: &[Check], paint: Paint) -> String {
    let mut out: String = checks.iter().map(|check| line(check, paint)).collect();
    let failed = checks.iter().filter(|check| check.is_failed()).count();
    out += &match failed {
        0 => "\nThe cluster is set up right.\n".to_owned(),
        failed => {
            let words = format!("{failed} of {} checks failed", checks.len());
            format!("\n{}\n", paint.tone(Tone::Warning, &words))
        }
    };
    out
}

fn line(check: &Check, paint: Paint) -> String {
    let (mark, tone) = match check.result {
        Outcome::Ok => ("ok", Tone::Near),
        Outcome::Note => ("note", Tone::Quiet),
        Outcome::Failed => ("FAIL", Tone::Warning),
    };
    let indent = MARK + NAME + 4;
    let mut found = wrap(&check.found, WIDTH - indent).into_iter();
    let pad = " ".repeat(MARK - mark.len());
    let first = found.next().unwrap_or_default();
    let mut out = format!("{}{pad}  {:NAME$}  {first}\n", paint.tone(tone, mark), check.name);
    for line in found {
        out += &format!("{:indent$}{line}\n", "");
    }
    for line in check.todo.iter().flat_map(|todo| wrap(&format!("-> {todo}"), WIDTH - indent)) {
        out += &format!("{:indent$}{line}\n", "");
    }
    out
}
