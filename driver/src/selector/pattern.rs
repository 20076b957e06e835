//! Regular expressions as RE2 reads them, on the `regex` crate: a pattern is read by RE2's rules and
//! written out in a form that both understand alike. There, `\d`, `\w`, `\s` and `\b` are ASCII, a bracket
//! expression has no set operators, repetitions are bounded, and some escapes and flags do not exist.

mod classes;

use regex::{Regex, RegexBuilder};

use classes::code;

/// Bytes that a compiled pattern may take; upstream's patterns are smaller by far.
const MAX_COMPILED: usize = 1 << 20;

/// Levels of groups. Compiling recurses once for each.
const MAX_NESTING: u32 = 50;

/// RE2's bound on a repetition, and on nested ones together.
const MAX_REPEAT: u32 = 1000;

/// Compiles a pattern. The error is a text for the author.
pub(super) fn compile(source: &str) -> Result<Regex, String> {
    let named = |reason: &str| format!("pattern {source:?}: {reason}");
    let rewritten = Reader::new(source).read().map_err(|reason| named(&reason))?;
    RegexBuilder::new(&rewritten)
        .size_limit(MAX_COMPILED)
        .dfa_size_limit(MAX_COMPILED)
        .nest_limit(MAX_NESTING)
        .build()
        .map_err(|error| {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim();
            named(reason.trim_start_matches("error: "))
        })
}

/// Reads a pattern and writes it out anew.
struct Reader<'s> {
    rest: &'s str,
    out: String,
    /// Flags that were read and are not written yet: a repetition behind them is one of what is before
    /// them.
    flags: String,
    /// The groups that are open, outermost first, and the whole pattern before them.
    groups: Vec<Group>,
    /// Whether what was read last is a repetition, which must not be repeated by itself.
    repeated: bool,
}

/// What matters for repetitions: how often the parts repeat at most.
#[derive(Default)]
struct Group {
    most: u32,
    /// Of the last part, if there is one since the group or alternative began.
    last: Option<u32>,
}

impl<'s> Reader<'s> {
    fn new(source: &'s str) -> Self {
        Self {
            rest: source,
            out: String::new(),
            flags: String::new(),
            groups: vec![Group::default()],
            repeated: false,
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next();
        self.rest = chars.as_str();
        next
    }

    fn eat(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn group(&mut self) -> Result<&mut Group, String> {
        self.groups.last_mut().ok_or_else(|| ") without a (".to_owned())
    }

    fn write(&mut self, text: &str) {
        self.out.push_str(&std::mem::take(&mut self.flags));
        self.out.push_str(text);
    }

    /// Writes a part that can be repeated.
    fn atom(&mut self, text: &str) {
        self.write(text);
        self.part(1);
    }

    fn part(&mut self, repeats: u32) {
        self.repeated = false;
        if let Some(group) = self.groups.last_mut() {
            group.last = Some(repeats);
            group.most = group.most.max(repeats);
        }
    }

    fn read(mut self) -> Result<String, String> {
        while let Some(c) = self.take() {
            match c {
                '(' => self.open()?,
                ')' => {
                    let group = self.groups.pop().filter(|_| !self.groups.is_empty());
                    let group = group.ok_or(") without a (")?;
                    self.write(")");
                    self.part(group.most.max(1));
                }
                '|' => {
                    self.write("|");
                    self.group()?.last = None;
                    self.repeated = false;
                }
                '*' | '+' | '?' => self.repeat(&c.to_string(), 1)?,
                '{' => match self.counts()? {
                    Some((text, times)) => self.repeat(&text, times)?,
                    None => self.atom(r"\{"),
                },
                '[' => self.class()?,
                '\\' => self.escape()?,
                '.' | '^' | '$' => self.atom(&c.to_string()),
                other => self.atom(&code(other)),
            }
        }
        if self.groups.len() > 1 { Err("( without a )".to_owned()) } else { Ok(self.out) }
    }

    /// What follows an opening bracket. Groups are not captured: nobody asks for them.
    fn open(&mut self) -> Result<(), String> {
        if !self.eat("?") {
            return self.begin("(?:");
        }
        if self.eat("P<") || self.eat("<") {
            let (name, rest) = self.rest.split_once('>').ok_or("a group without a name")?;
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                return Err(format!("{name:?} is no name of a group"));
            }
            self.rest = rest;
            return self.begin("(?:");
        }
        let end = self.rest.find([':', ')']).ok_or("flags without an end")?;
        let (flags, rest) = self.rest.split_at(end);
        let (on, off) = flags.split_once('-').unwrap_or((flags, "i"));
        let known = |flags: &str| flags.chars().all(|c| matches!(c, 'i' | 'm' | 's' | 'U'));
        if !known(on) || !known(off) || off.is_empty() {
            return Err(format!("(?{flags} has flags other than i, m, s and U"));
        }
        self.rest = rest;
        if self.eat(":") {
            return self.begin(&format!("(?{flags}:"));
        }
        self.take();
        self.repeated = false;
        if !flags.is_empty() {
            self.flags.push_str(&format!("(?{flags})"));
        }
        Ok(())
    }

    fn begin(&mut self, text: &str) -> Result<(), String> {
        self.write(text);
        self.groups.push(Group::default());
        self.repeated = false;
        Ok(())
    }

    /// `n}`, `n,}` or `n,m}`, and how often it repeats; anything else is plain text.
    fn counts(&mut self) -> Result<Option<(String, u32)>, String> {
        let Some((inside, rest)) = self.rest.split_once('}') else { return Ok(None) };
        let number = |text: &str| {
            let fits = text.chars().all(|c| c.is_ascii_digit())
                && !(text.len() > 1 && text.starts_with('0'));
            (fits && !text.is_empty()).then(|| text.parse().unwrap_or(u32::MAX))
        };
        let (low, high) = inside.split_once(',').unwrap_or((inside, inside));
        let Some(least) = number(low) else { return Ok(None) };
        let most = if high.is_empty() { None } else { Some(number(high)) };
        if most == Some(None) {
            return Ok(None);
        }
        let most = most.flatten().unwrap_or(least);
        if most > MAX_REPEAT || least > most {
            return Err(format!("{{{inside}}} is no repetition of at most {MAX_REPEAT}"));
        }
        self.rest = rest;
        Ok(Some((format!("{{{inside}}}"), most)))
    }

    fn repeat(&mut self, operator: &str, times: u32) -> Result<(), String> {
        if self.repeated {
            return Err(format!("{operator} repeats a repetition"));
        }
        let last = self.group()?.last.ok_or_else(|| format!("{operator} repeats nothing"))?;
        let product = if times == 0 { 1 } else { last.saturating_mul(times) };
        if times > 1 && product > MAX_REPEAT {
            return Err(format!("nested repetitions of more than {MAX_REPEAT}"));
        }
        self.out.push_str(operator);
        if self.eat("?") {
            self.out.push('?');
        }
        self.part(product);
        self.repeated = true;
        Ok(())
    }
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
