//! Bounds on the text, checked before the parser sees it: the parser, the tree and the evaluation
//! recurse once per level, so levels must be few.

use super::error::{Position, Problem};

/// Upstream's limit for `selectors[].cel.expression`.
pub(super) const MAX_BYTES: usize = 10 * 1024;

/// Levels of brackets. The parser needs up to 30 KiB of stack for one in an unoptimised build, and
/// threads have 2 MiB; twelve levels are the most that upstream's own examples use.
const MAX_BRACKETS: usize = 32;

/// Levels of the tree: brackets plus chains such as `a.b.c` or `a + b + c`. One costs the evaluation
/// about 2 KiB of stack. Chains of `&&` and `||` are free, they become one node.
const MAX_LEVELS: usize = 200;

/// Refuses a text that is too long, too deep, or not made of CEL's tokens.
pub(super) fn bound(source: &str) -> Result<(), Problem> {
    if source.len() > MAX_BYTES {
        return Err(Problem::TooLong { length: source.len(), limit: MAX_BYTES });
    }
    let mut scanner = Scanner { source, chars: source.chars().collect(), at: 0 };
    let mut nest = Nest::default();
    while let Some(token) = scanner.next()? {
        let place = scanner.at.saturating_sub(1);
        nest.take(token)
            .map_err(|limit| Problem::TooDeep { at: Position::of(source, place), limit })?;
    }
    Ok(())
}

/// What matters about a token for the depth of the tree.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    Open,
    Close,
    /// Ends a chain: `,`, `&&`, `||`, and `:` of a map.
    Separator,
    /// Adds a level to its chain.
    Link,
    /// `?` of a conditional, which stays open over `&&` and `||`.
    Conditional,
    Other,
}

/// One level of brackets.
#[derive(Default)]
struct Level {
    /// Conditionals so far.
    conditionals: usize,
    /// Links of the present chain.
    links: usize,
    /// Levels inside the deepest bracket of the present chain.
    inner: usize,
    /// Levels of the deepest chain that has ended.
    deepest: usize,
}

impl Level {
    fn levels(&self) -> usize {
        self.conditionals + self.deepest.max(self.links + self.inner)
    }

    fn end_chain(&mut self) {
        self.deepest = self.deepest.max(self.links + self.inner);
        (self.links, self.inner) = (0, 0);
    }
}

#[derive(Default)]
struct Nest {
    outer: Vec<Level>,
    level: Level,
}

impl Nest {
    fn take(&mut self, token: Token) -> Result<(), usize> {
        match token {
            Token::Open => {
                self.level.links += 1;
                self.outer.push(std::mem::take(&mut self.level));
            }
            Token::Close => {
                if let Some(outer) = self.outer.pop() {
                    let levels = std::mem::replace(&mut self.level, outer).levels();
                    self.level.inner = self.level.inner.max(levels);
                }
            }
            Token::Separator => self.level.end_chain(),
            Token::Link => self.level.links += 1,
            Token::Conditional => self.level.conditionals += 1,
            Token::Other => {}
        }
        if self.outer.len() > MAX_BRACKETS {
            return Err(MAX_BRACKETS);
        }
        let outside: usize = self.outer.iter().map(|level| level.conditionals + level.links).sum();
        if outside + self.level.levels() > MAX_LEVELS { Err(MAX_LEVELS) } else { Ok(()) }
    }
}

struct Scanner<'s> {
    source: &'s str,
    chars: Vec<char>,
    at: usize,
}

impl Scanner<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn fail<T>(&self, at: usize, message: impl Into<String>) -> Result<T, Problem> {
        Err(Problem::Syntax { at: Position::of(self.source, at), message: message.into() })
    }

    fn next(&mut self) -> Result<Option<Token>, Problem> {
        let Some(c) = self.peek(0) else { return Ok(None) };
        if c.is_ascii_alphanumeric() || c == '_' {
            return self.word().map(Some);
        }
        let start = self.at;
        self.at += 1;
        let token = match c {
            '"' | '\'' => {
                self.text(start, c, false)?;
                Token::Other
            }
            '/' if self.peek(0) == Some('/') => {
                while self.peek(0).is_some_and(|c| c != '\n') {
                    self.at += 1;
                }
                Token::Other
            }
            '`' => {
                while self.peek(0).is_some_and(|c| c != '`' && c != '\n') {
                    self.at += 1;
                }
                self.at += 1;
                Token::Other
            }
            '(' | '[' | '{' => Token::Open,
            ')' | ']' | '}' => Token::Close,
            ',' => Token::Separator,
            '&' | '|' if self.peek(0) == Some(c) => {
                self.at += 1;
                Token::Separator
            }
            // `.?` and `[?` are parts of a chain, anything else is a conditional.
            '?' => match start.checked_sub(1).and_then(|before| self.chars.get(before)) {
                Some('.' | '[') => Token::Other,
                _ => Token::Conditional,
            },
            '.' | '+' | '-' | '*' | '/' | '%' | '<' | '>' | '=' | '!' => {
                // `!=`, `<=`, `>=` and `==` are one link.
                if self.peek(0) == Some('=') {
                    self.at += 1;
                }
                Token::Link
            }
            ':' => Token::Other,
            c if c.is_ascii_whitespace() => Token::Other,
            other => return self.fail(start, format!("unexpected character {other:?}")),
        };
        Ok(Some(token))
    }

    /// A name, a number, or a text with a prefix.
    fn word(&mut self) -> Result<Token, Problem> {
        let start = self.at;
        while self.peek(0).is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            self.at += 1;
        }
        let word: String = self.chars.get(start..self.at).unwrap_or_default().iter().collect();
        let lower = word.to_ascii_lowercase();
        match self.peek(0) {
            Some(quote @ ('"' | '\'')) if matches!(lower.as_str(), "r" | "b" | "br" | "rb") => {
                self.at += 1;
                self.text(start, quote, lower.contains('r'))?;
                Ok(Token::Other)
            }
            _ if word == "in" => Ok(Token::Link),
            _ => Ok(Token::Other),
        }
    }

    /// The rest of a text whose opening quote has been taken.
    fn text(&mut self, start: usize, quote: char, raw: bool) -> Result<(), Problem> {
        let triple = self.peek(0) == Some(quote) && self.peek(1) == Some(quote);
        if triple {
            self.at += 2;
        }
        loop {
            match self.peek(0) {
                Some(c) if c == quote => {
                    let ends =
                        !triple || (self.peek(1) == Some(quote) && self.peek(2) == Some(quote));
                    self.at += if triple && ends { 3 } else { 1 };
                    if ends {
                        return Ok(());
                    }
                }
                Some('\\') if !raw => self.escape()?,
                None => return self.fail(start, "text without a closing quote"),
                Some('\n' | '\r') if !triple => {
                    return self.fail(start, "text without a closing quote on its line");
                }
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), Problem> {
        let (digits, radix) = match self.peek(1) {
            Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`') => (0, 0),
            Some('x' | 'X') => (2, 16),
            Some('u') => (4, 16),
            Some('U') => (8, 16),
            Some('0'..='3') => (2, 8),
            _ => return self.fail(self.at, "unknown escape; write r\"...\" for a raw text"),
        };
        let good = (2..2 + digits).all(|i| self.peek(i).is_some_and(|c| c.is_digit(radix)));
        if !good {
            return self.fail(self.at, "escape with too few digits");
        }
        self.at += 2 + digits;
        Ok(())
    }
}
