//! Escapes and bracket expressions of a pattern, written out for the other syntax.

use super::Reader;

/// Names of the general categories, in small letters and without blanks and hyphens. Every other name
/// is one of a script.
const CATEGORIES: [&str; 77] = [
    "c",
    "cc",
    "cf",
    "cn",
    "co",
    "cs",
    "l",
    "lc",
    "ll",
    "lm",
    "lo",
    "lt",
    "lu",
    "m",
    "mc",
    "me",
    "mn",
    "n",
    "nd",
    "nl",
    "no",
    "p",
    "pc",
    "pd",
    "pe",
    "pf",
    "pi",
    "po",
    "ps",
    "s",
    "sc",
    "sk",
    "sm",
    "so",
    "z",
    "zl",
    "zp",
    "zs",
    "other",
    "control",
    "cntrl",
    "format",
    "unassigned",
    "privateuse",
    "surrogate",
    "letter",
    "casedletter",
    "lowercaseletter",
    "modifierletter",
    "otherletter",
    "titlecaseletter",
    "uppercaseletter",
    "mark",
    "combiningmark",
    "spacingmark",
    "enclosingmark",
    "nonspacingmark",
    "number",
    "decimalnumber",
    "digit",
    "letternumber",
    "othernumber",
    "punctuation",
    "punct",
    "connectorpunctuation",
    "dashpunctuation",
    "closepunctuation",
    "finalpunctuation",
    "initialpunctuation",
    "otherpunctuation",
    "openpunctuation",
    "symbol",
    "currencysymbol",
    "modifiersymbol",
    "mathsymbol",
    "othersymbol",
    "separator",
];

/// Scripts whose name is as long as the short names, which there are only on our side.
const SHORT_SCRIPTS: [&str; 7] = ["ahom", "cham", "kawi", "lisu", "newa", "thai", "toto"];

const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

impl Reader<'_> {
    /// What follows a backslash outside of brackets; the backslash is taken.
    pub(super) fn escape(&mut self) -> Result<(), String> {
        let assertion = match self.peek() {
            Some('A') => Some(r"\A"),
            Some('z') => Some(r"\z"),
            // Words are ASCII there.
            Some('b') => Some(r"(?-u:\b)"),
            Some('B') => Some(r"(?-u:\B)"),
            _ => None,
        };
        if let Some(assertion) = assertion {
            self.take();
            self.atom(assertion);
            return Ok(());
        }
        if self.eat("Q") {
            let (literal, rest) = self.rest.split_once(r"\E").unwrap_or((self.rest, ""));
            self.rest = rest;
            self.repeated = false;
            for c in literal.chars() {
                self.atom(&code(c));
            }
            return Ok(());
        }
        let text = match self.set()? {
            Some(set) => format!("[{set}]"),
            None => code(self.character()?),
        };
        self.atom(&text);
        Ok(())
    }

    /// A set such as `\d` or `\pL` behind a backslash, as an item of a bracket expression.
    fn set(&mut self) -> Result<Option<String>, String> {
        let known = match self.peek() {
            Some('d') => "0-9",
            Some('D') => "[^0-9]",
            Some('w') => "0-9A-Za-z_",
            Some('W') => "[^0-9A-Za-z_]",
            Some('s') => r"\t\n\f\r ",
            Some('S') => r"[^\t\n\f\r ]",
            Some('p') => return self.property(false).map(Some),
            Some('P') => return self.property(true).map(Some),
            _ => return Ok(None),
        };
        self.take();
        Ok(Some(known.to_owned()))
    }

    /// `pL`, `p{Greek}` or `p{^Greek}`.
    fn property(&mut self, negated: bool) -> Result<String, String> {
        self.take();
        let name = match self.take() {
            Some('{') => {
                let (name, rest) = self.rest.split_once('}').ok_or(r"\p{ without a }")?;
                self.rest = rest;
                name.to_owned()
            }
            Some(letter) => letter.to_string(),
            None => return Err(r"\p without a name".to_owned()),
        };
        let (bare, negated) = match name.strip_prefix('^') {
            Some(bare) => (bare, !negated),
            None => (name.as_str(), negated),
        };
        let plain = bare.replace(['_', '-', ' '], "").to_ascii_lowercase();
        let unknown = || format!(r"\p{{{name}}} is no category or script");
        if plain.is_empty() || !plain.chars().all(|c| c.is_ascii_lowercase()) {
            return Err(unknown());
        }
        let letter = if negated { 'P' } else { 'p' };
        Ok(match plain.as_str() {
            "any" | "ascii" => format!(r"\{letter}{{{plain}}}"),
            category if CATEGORIES.contains(&category) || category.ends_with("separator") => {
                format!(r"\{letter}{{gc={plain}}}")
            }
            script if script.len() == 4 && !SHORT_SCRIPTS.contains(&script) => {
                return Err(unknown());
            }
            script => format!(r"\{letter}{{sc={script}}}"),
        })
    }

    /// A character behind a backslash.
    fn character(&mut self) -> Result<char, String> {
        let c = self.take().ok_or("a backslash at the end")?;
        let code = match c {
            '0' => self.octal(0),
            // One digit alone would be a reference to a group.
            '1'..='7' if self.peek().is_some_and(|next| next.is_digit(8)) => {
                self.octal(c.to_digit(8).unwrap_or_default())
            }
            'x' => self.hexadecimal()?,
            'a' => 7,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'v' => 11,
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => u32::from(c),
            c => return Err(format!(r"unknown escape \{c}")),
        };
        char::from_u32(code).ok_or_else(|| "an escape that is no character".to_owned())
    }

    /// Up to two more digits.
    fn octal(&mut self, first: u32) -> u32 {
        let mut code = first;
        for _ in 0..2 {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(8)) else { break };
            self.take();
            code = code * 8 + digit;
        }
        code
    }

    /// `61` or `{61}`.
    fn hexadecimal(&mut self) -> Result<u32, String> {
        let wrong = || r"\x needs two hexadecimal digits, or {digits}".to_owned();
        let digits = if self.eat("{") {
            let (digits, rest) = self.rest.split_once('}').ok_or_else(wrong)?;
            self.rest = rest;
            digits
        } else {
            let (digits, rest) = self.rest.split_at_checked(2).ok_or_else(wrong)?;
            self.rest = rest;
            digits
        };
        if !digits.chars().all(|c| c.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        u32::from_str_radix(digits, 16).map_err(|_| wrong())
    }

    /// A bracket expression whose opening bracket is taken.
    pub(super) fn class(&mut self) -> Result<(), String> {
        let mut out = String::from(if self.eat("^") { "[^" } else { "[" });
        let mut first = true;
        // A closing bracket at the start is a character.
        while first || self.peek() != Some(']') {
            first = false;
            out.push_str(&self.item()?);
        }
        self.take();
        out.push(']');
        self.atom(&out);
        Ok(())
    }

    fn item(&mut self) -> Result<String, String> {
        if let Some((name, rest)) =
            self.rest.strip_prefix("[:").and_then(|inner| inner.split_once(":]"))
        {
            let known = POSIX.contains(&name.strip_prefix('^').unwrap_or(name));
            self.rest = rest;
            return match known {
                true => Ok(format!("[:{name}:]")),
                false => Err(format!("[:{name}:] is no class")),
            };
        }
        if let Some(escaped) = self.rest.strip_prefix('\\') {
            let before = std::mem::replace(&mut self.rest, escaped);
            if let Some(set) = self.set()? {
                return Ok(set);
            }
            self.rest = before;
        }
        let low = self.member()?;
        if !self.rest.starts_with('-') || self.rest.starts_with("-]") || self.rest.len() < 2 {
            return Ok(code(low));
        }
        self.take();
        let high = self.member()?;
        if high < low {
            return Err(format!("the range {low}-{high} goes backwards"));
        }
        Ok(format!("{}-{}", code(low), code(high)))
    }

    fn member(&mut self) -> Result<char, String> {
        match self.take() {
            None => Err("[ without a ]".to_owned()),
            Some('\\') => self.character(),
            Some(c) => Ok(c),
        }
    }
}

/// A character, in a form that has no meaning of its own anywhere.
pub(super) fn code(c: char) -> String {
    if c.is_alphanumeric() { c.to_string() } else { format!(r"\x{{{:x}}}", u32::from(c)) }
}
