//! SPDX licence expressions, decided against the allow list of `deny.toml`.

use crate::repository;

/// The strings of `allow = [...]` in the section `[licenses]` of `deny.toml`.
pub fn allowed() -> Result<Vec<String>, String> {
    let text = repository::read("deny.toml")?;
    let section = text.split_once("[licenses]").ok_or("deny.toml: no [licenses]")?.1;
    let list = section.split_once("allow = [").ok_or("deny.toml: no licenses.allow")?.1;
    let list = list.split_once(']').ok_or("deny.toml: licenses.allow is not closed")?.0;
    Ok(list.split('"').skip(1).step_by(2).map(str::to_owned).collect())
}

/// Whether a choice of licences within `expression` is allowed. `/` is the old spelling of OR.
pub fn permits(expression: &str, allowed: &[String]) -> Result<bool, String> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words, allowed };
    let answer = parser.any().ok_or_else(|| format!("not an SPDX expression: {expression:?}"))?;
    match parser.words {
        [] => Ok(answer),
        rest => Err(format!("not an SPDX expression: {expression:?}: left over {rest:?}")),
    }
}

/// Consumes words from the left; depth is bounded by the number of opening brackets.
struct Parser<'a> {
    words: &'a [&'a str],
    allowed: &'a [String],
}

impl<'a> Parser<'a> {
    fn any(&mut self) -> Option<bool> {
        let mut answer = self.all()?;
        while self.take("OR") {
            answer |= self.all()?;
        }
        Some(answer)
    }

    fn all(&mut self) -> Option<bool> {
        let mut answer = self.one()?;
        while self.take("AND") {
            answer &= self.one()?;
        }
        Some(answer)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let answer = self.any()?;
            return self.take(")").then_some(answer);
        }
        let name = self.word()?;
        if ["OR", "AND", "WITH", ")"].contains(&name) {
            return None;
        }
        let name = match self.take("WITH") {
            true => format!("{name} WITH {}", self.word()?),
            false => name.to_owned(),
        };
        Some(self.allowed.contains(&name))
    }

    fn word(&mut self) -> Option<&'a str> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.words.first() == Some(&word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_decided_by_choice_and_conjunction() {
        let allowed = ["MIT", "Apache-2.0", "Unicode-3.0"].map(str::to_owned);
        for (expression, expect) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("MIT/GPL-3.0", true),
            ("MIT AND GPL-3.0", false),
            ("(MIT OR GPL-3.0) AND Unicode-3.0", true),
            ("(MIT OR Apache-2.0) AND BSD-3-Clause", false),
            ("GPL-3.0 AND MIT OR MIT", true),
            ("Apache-2.0 WITH LLVM-exception", false),
            ("Apache-2.0 WITH LLVM-exception OR MIT", true),
        ] {
            assert_eq!(permits(expression, &allowed), Ok(expect), "{expression}");
        }
        for broken in ["", "MIT OR", "(MIT", "MIT MIT", "WITH x", "MIT)"] {
            assert!(permits(broken, &allowed).is_err(), "{broken}");
        }
    }
}
