//! Regular expressions as RE2 reads them, on the `regex` crate: what the two read differently is
//! rewritten. There, `\d`, `\w`, `\s` and `\b` are ASCII, and a bracket expression has no set operators.

use regex::{Regex, RegexBuilder};

/// Bytes that a compiled pattern may take; upstream's patterns are smaller by far.
const MAX_COMPILED: usize = 1 << 20;

/// Levels of groups. Compiling recurses once for each.
const MAX_NESTING: u32 = 50;

/// Compiles a pattern. The error is a text for the author.
pub(super) fn compile(source: &str) -> Result<Regex, String> {
    RegexBuilder::new(&rewritten(source))
        .size_limit(MAX_COMPILED)
        .dfa_size_limit(MAX_COMPILED)
        .nest_limit(MAX_NESTING)
        .build()
        .map_err(|error| {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim().to_owned();
            format!("pattern {source:?}: {}", reason.trim_start_matches("error: "))
        })
}

fn rewritten(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut chars = source.chars().peekable();
    let mut in_class = false;
    // Where a `]` is a character and not the end.
    let mut class_start = false;
    while let Some(c) = chars.next() {
        let first_of_class = std::mem::take(&mut class_start);
        match c {
            '\\' => match chars.next() {
                Some('Q') if !in_class => quote(&mut out, &mut chars),
                Some(escaped) => escape(&mut out, escaped, in_class),
                None => out.push('\\'),
            },
            '[' if !in_class => {
                in_class = true;
                class_start = true;
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
            }
            // `[[:alpha:]]` is a class in both; any other bracket is a character.
            '[' if chars.peek() == Some(&':') => {
                out.push('[');
                for c in chars.by_ref() {
                    out.push(c);
                    if c == ']' {
                        break;
                    }
                }
            }
            '[' => out.push_str("\\["),
            ']' if in_class && first_of_class => out.push_str("\\]"),
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            // `&&`, `--` and `~~` are operators of sets only here.
            '&' | '~' if in_class => out.extend(['\\', c]),
            '-' if in_class && chars.peek() == Some(&'-') => out.push_str("\\-"),
            other => out.push(other),
        }
    }
    out
}

/// `\Q...\E` is a literal text, which the other syntax lacks.
fn quote(out: &mut String, chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    let mut literal = String::new();
    while let Some(c) = chars.next() {
        if c == '\\' && chars.next_if_eq(&'E').is_some() {
            break;
        }
        literal.push(c);
    }
    out.push_str(&regex::escape(&literal));
}

fn escape(out: &mut String, escaped: char, in_class: bool) {
    let ascii = match (escaped, in_class) {
        ('d', false) => "[0-9]",
        ('D', false) => "[^0-9]",
        ('w', false) => "[0-9A-Za-z_]",
        ('W', false) => "[^0-9A-Za-z_]",
        ('s', false) => r"[\t\n\f\r ]",
        ('S', false) => r"[^\t\n\f\r ]",
        ('d', true) => "0-9",
        ('D', true) => "[^0-9]",
        ('w', true) => "0-9A-Za-z_",
        ('W', true) => "[^0-9A-Za-z_]",
        ('s', true) => r"\t\n\f\r ",
        ('S', true) => r"[^\t\n\f\r ]",
        ('b', false) => r"(?-u:\b)",
        ('C', false) => ".",
        _ => {
            out.extend(['\\', escaped]);
            return;
        }
    };
    out.push_str(ascii);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, text: &str, expect: bool) {
        let compiled = compile(pattern).unwrap();
        assert_eq!(compiled.is_match(text), expect, "{pattern} on {text}");
    }

    #[test]
    fn patterns_match_as_in_re2() {
        check("H2.0$", "NVIDIA H200", true);
        check(r"^\w+ H\d00$", "NVIDIA H100", true);
        check(r"^\d$", "٣", false);
        check(r"^[\d]$", "٣", false);
        check(r"^\w$", "é", false);
        check(r"^\W$", "é", true);
        check(r"^[\D]$", "٣", true);
        check(r"\bH200\b", "éH200", true);
        check(r"\bH200\b", "aH200", false);
        check("^[[]$", "[", true);
        check("^[]a]+$", "]a", true);
        check("^[^]a]$", "]", false);
        check("^[a&&b]+$", "a&b", true);
        check("^[[:upper:]-]+$", "A-B", true);
        check(r"^\Qa.b\E$", "a.b", true);
        check(r"^\Qa.b\E$", "axb", false);
        check("(?i)nvidia", "NVIDIA", true);
        check(r"^a\.b$", "a.b", true);
        check(r"^\pL+$", "aé", true);
    }

    #[test]
    fn patterns_that_are_too_much_or_wrong_are_refused() {
        for pattern in ["(", "(?=a)", r"a\1", "((a{1000}){1000}){1000}", &"(".repeat(5000)] {
            assert!(compile(pattern).is_err(), "{pattern}");
        }
    }
}
