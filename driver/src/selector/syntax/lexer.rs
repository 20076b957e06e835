//! Text to tokens.

use super::super::error::{Position, Problem};

/// A token, and the byte at which it begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub at: usize,
    pub kind: TokenKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind {
    Name(String),
    /// A field in backquotes, which may have characters that a name has not.
    Quoted(String),
    /// Without its sign.
    Int(u64),
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    Symbol(&'static str),
}

/// Longer ones first.
const SYMBOLS: [&str; 24] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",",
    "(", ")", "[", "]", "{", "}",
];

/// All tokens of a source.
pub(super) fn tokens(source: &str) -> Result<Vec<Token>, Problem> {
    let mut lexer = Lexer { source, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blanks();
        let at = lexer.at;
        let Some(next) = lexer.peek() else { return Ok(tokens) };
        let kind = if let Some((quote, raw, bytes)) = lexer.text_start() {
            lexer.text(at, quote, raw, bytes)?
        } else if next.is_ascii_alphabetic() || next == '_' {
            TokenKind::Name(lexer.take_while(|c| c.is_ascii_alphanumeric() || c == '_').to_owned())
        } else if next.is_ascii_digit() || lexer.starts_fraction() {
            lexer.number(at)?
        } else if next == '`' {
            lexer.quoted(at)?
        } else if let Some(symbol) = SYMBOLS.iter().find(|s| lexer.rest().starts_with(**s)) {
            lexer.at += symbol.len();
            TokenKind::Symbol(symbol)
        } else {
            return lexer.fail(at, format!("unexpected character {next:?}"));
        };
        tokens.push(Token { at, kind });
    }
}

struct Lexer<'s> {
    source: &'s str,
    at: usize,
}

impl<'s> Lexer<'s> {
    fn rest(&self) -> &'s str {
        self.source.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn take_while(&mut self, holds: fn(char) -> bool) -> &'s str {
        let rest = self.rest();
        let end = rest.find(|c| !holds(c)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    fn fail<T>(&self, at: usize, message: impl Into<String>) -> Result<T, Problem> {
        Err(Problem::Syntax { at: Position::of(self.source, at), message: message.into() })
    }

    fn skip_blanks(&mut self) {
        loop {
            self.take_while(|c| c.is_ascii_whitespace());
            if !self.rest().starts_with("//") {
                return;
            }
            self.take_while(|c| c != '\n');
        }
    }

    fn quoted(&mut self, start: usize) -> Result<TokenKind, Problem> {
        self.at += 1;
        let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ');
        let name = self.take_while(inner).to_owned();
        if name.is_empty() || self.take() != Some('`') {
            return self.fail(start, "a field in backquotes has letters, digits, and - _ . / only");
        }
        Ok(TokenKind::Quoted(name))
    }

    fn starts_fraction(&self) -> bool {
        let digit = self.rest().strip_prefix('.').and_then(|rest| rest.chars().next());
        digit.is_some_and(|c| c.is_ascii_digit())
    }

    fn number(&mut self, start: usize) -> Result<TokenKind, Problem> {
        let (digits, radix) = match self.rest().strip_prefix("0x") {
            Some(_) => {
                self.at += 2;
                (self.take_while(|c| c.is_ascii_hexdigit()), 16)
            }
            None => (self.take_while(|c| c.is_ascii_digit()), 10),
        };
        if radix == 10 && self.fraction() {
            let text = self.source.get(start..self.at).unwrap_or_default();
            return match text.parse::<f64>() {
                Ok(value) if value.is_finite() => Ok(TokenKind::Double(value)),
                _ => self.fail(start, format!("{text} is no double")),
            };
        }
        let unsigned = matches!(self.peek(), Some('u' | 'U'));
        if unsigned {
            self.at += 1;
        }
        let end = self.at;
        let name = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        self.at = end;
        if !matches!(name, "" | "in") {
            return self.fail(start, "a number runs into a name");
        }
        match u64::from_str_radix(digits, radix) {
            Ok(value) if unsigned => Ok(TokenKind::Uint(value)),
            Ok(value) => Ok(TokenKind::Int(value)),
            Err(_) => self.fail(start, "a whole number needs digits and at most 64 bits"),
        }
    }

    /// Takes `.5`, `e10` or both.
    fn fraction(&mut self) -> bool {
        let start = self.at;
        if self.starts_fraction() {
            self.at += 1;
            self.take_while(|c| c.is_ascii_digit());
        }
        let rest = self.rest();
        if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits.starts_with(|c: char| c.is_ascii_digit()) {
                self.at += rest.len() - digits.len();
                self.take_while(|c| c.is_ascii_digit());
            }
        }
        self.at > start
    }

    /// Takes the prefix and opening quotes of a text: the quotes, and whether it is raw and bytes.
    fn text_start(&mut self) -> Option<(&'static str, bool, bool)> {
        let rest = self.rest();
        let quoted = rest.trim_start_matches(['r', 'R', 'b', 'B']);
        let prefix = rest.get(..rest.len() - quoted.len())?.to_ascii_lowercase();
        if !matches!(prefix.as_str(), "" | "r" | "b" | "br") {
            return None;
        }
        let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|q| quoted.starts_with(q))?;
        self.at += prefix.len() + quote.len();
        Some((quote, prefix.contains('r'), prefix.contains('b')))
    }

    fn text(
        &mut self,
        start: usize,
        quote: &str,
        raw: bool,
        bytes: bool,
    ) -> Result<TokenKind, Problem> {
        let mut content = Vec::new();
        loop {
            if self.rest().starts_with(quote) {
                self.at += quote.len();
                break;
            }
            match self.take() {
                None => return self.fail(start, "text without a closing quote"),
                Some('\n' | '\r') if quote.len() == 1 => {
                    return self.fail(start, "text without a closing quote on its line");
                }
                // Lines end alike on every system.
                Some('\r') => {
                    if self.peek() != Some('\n') {
                        content.push(b'\n');
                    }
                }
                Some('\\') if !raw => self.escape(&mut content, bytes)?,
                Some(c) => content.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        if bytes {
            return Ok(TokenKind::Bytes(content));
        }
        match String::from_utf8(content) {
            Ok(text) => Ok(TokenKind::Text(text)),
            Err(_) => self.fail(start, "text that is no UTF-8"),
        }
    }

    /// The rest of an escape whose backslash is taken.
    fn escape(&mut self, content: &mut Vec<u8>, bytes: bool) -> Result<(), Problem> {
        let start = self.at.saturating_sub(1);
        let unknown = "unknown escape; write r\"...\" for a text with backslashes";
        let simple = match self.take() {
            Some('a') => 7,
            Some('b') => 8,
            Some('t') => b'\t',
            Some('n') => b'\n',
            Some('v') => 11,
            Some('f') => 12,
            Some('r') => b'\r',
            Some(c @ ('"' | '\'' | '\\' | '?' | '`')) => u8::try_from(c).unwrap_or(b'?'),
            Some('x' | 'X') => return self.code(start, 2, 16, bytes, content),
            Some('u') if !bytes => return self.code(start, 4, 16, false, content),
            Some('U') if !bytes => return self.code(start, 8, 16, false, content),
            Some('0'..='3') => {
                self.at -= 1;
                return self.code(start, 3, 8, bytes, content);
            }
            _ => return self.fail(start, unknown),
        };
        content.push(simple);
        Ok(())
    }

    /// A number of digits as a character, or as a byte.
    fn code(
        &mut self,
        start: usize,
        digits: usize,
        radix: u32,
        byte: bool,
        content: &mut Vec<u8>,
    ) -> Result<(), Problem> {
        let mut code = 0_u32;
        for _ in 0..digits {
            let Some(digit) = self.take().and_then(|c| c.to_digit(radix)) else {
                return self.fail(start, format!("an escape needs {digits} digits here"));
            };
            code = code.wrapping_mul(radix) | digit;
        }
        if byte {
            content.push(u8::try_from(code).unwrap_or(u8::MAX));
            return Ok(());
        }
        match char::from_u32(code) {
            Some(c) => content.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
            None => return self.fail(start, "an escape that is no character"),
        }
        Ok(())
    }
}
