//! Rust source as far as the rules need it: code without comments and literals, and its functions.

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    /// Line of the word `fn`, from 1.
    pub line: usize,
    /// Lines from there to the closing brace, both counted.
    pub lines: usize,
}

/// The lines before the first `#[cfg(test)]` that stands on a module.
pub fn before_tests(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let tests = (0..lines.len()).find(|index| {
        lines[*index].trim() == "#[cfg(test)]"
            && lines.get(index + 1).is_some_and(|next| next.trim_start().starts_with("mod "))
    });
    let mut kept = lines[..tests.unwrap_or(lines.len())].join("\n");
    kept.push('\n');
    kept
}

/// The text with every comment and the inside of every literal blanked, line by line the same.
pub fn code_only(text: &str) -> String {
    let source: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < source.len() {
        let end = match skipped(&source, at) {
            Some(end) => end,
            None => {
                code.push(source[at]);
                at += 1;
                continue;
            }
        };
        for symbol in &source[at..end] {
            code.push(if *symbol == '\n' { '\n' } else { ' ' });
        }
        at = end;
    }
    code
}

/// Functions with a body, in order, nested ones included. `text` is code without literals.
pub fn functions(code: &str) -> Vec<Function> {
    let source: Vec<char> = code.chars().collect();
    let mut found = Vec::new();
    let mut line = 1;
    for at in 0..source.len() {
        if source[at] == '\n' {
            line += 1;
        }
        if !is_word(&source, at, "fn") {
            continue;
        }
        let name = word_after(&source, at + 2);
        // `fn(u8) -> u8` is a type.
        if name.is_empty() {
            continue;
        }
        if let Some(open) = body_start(&source, at)
            && let Some(close) = matching_brace(&source, open)
        {
            let inside = source[at..close].iter().filter(|symbol| **symbol == '\n').count();
            found.push(Function { name, line, lines: inside + 1 });
        }
    }
    found
}

/// The words of a text: runs of letters, digits and underscores.
pub fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|symbol: char| !is_word_part(symbol)).filter(|word| !word.is_empty())
}

/// Where the comment or literal that starts here ends; absent if none starts here.
fn skipped(source: &[char], at: usize) -> Option<usize> {
    let follows = |text: &str| starts_with(source, at, text);
    if follows("//") {
        return Some(find(source, at, |symbol| symbol == '\n'));
    }
    if follows("/*") {
        return Some(block_comment_end(source, at));
    }
    let preceded = at > 0 && is_word_part(source[at - 1]);
    if source[at] == 'r' && (!preceded || is_literal_prefix(source, at)) {
        let hashes = source[at + 1..].iter().take_while(|symbol| **symbol == '#').count();
        if source.get(at + 1 + hashes) == Some(&'"') {
            return Some(raw_string_end(source, at + 2 + hashes, hashes));
        }
    }
    match source[at] {
        '"' => Some(quoted_end(source, at + 1, '"')),
        '\'' => char_literal_end(source, at),
        _ => None,
    }
}

/// `br"…"` and `cr"…"`: the prefix alone stands before the `r`.
fn is_literal_prefix(source: &[char], at: usize) -> bool {
    let prefix = ['b', 'c'].contains(&source[at - 1]);
    prefix && (at < 2 || !is_word_part(source[at - 2]))
}

/// Block comments nest.
fn block_comment_end(source: &[char], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at < source.len() {
        if starts_with(source, at, "/*") {
            depth += 1;
            at += 2;
        } else if starts_with(source, at, "*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    source.len()
}

fn raw_string_end(source: &[char], start: usize, hashes: usize) -> usize {
    let closing: String = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let end = (start..source.len()).find(|at| starts_with(source, *at, &closing));
    end.map_or(source.len(), |at| at + closing.len())
}

fn quoted_end(source: &[char], start: usize, quote: char) -> usize {
    let mut at = start;
    while at < source.len() && source[at] != quote {
        at += if source[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(source.len())
}

/// `'a'` and `'\n'` are literals, `'a` is a lifetime or a label.
fn char_literal_end(source: &[char], at: usize) -> Option<usize> {
    match (source.get(at + 1), source.get(at + 2)) {
        (Some('\\'), _) => Some(quoted_end(source, at + 1, '\'')),
        (Some(_), Some('\'')) => Some(at + 3),
        _ => None,
    }
}

/// The brace that opens the body; absent for a declaration that ends with `;`.
fn body_start(source: &[char], start: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, symbol) in source.iter().enumerate().skip(start) {
        match symbol {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '{' if depth == 0 => return Some(at),
            ';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

fn matching_brace(source: &[char], open: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, symbol) in source.iter().enumerate().skip(open) {
        match symbol {
            '{' => depth += 1,
            '}' if depth == 1 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn is_word(source: &[char], at: usize, word: &str) -> bool {
    let before = at > 0 && (is_word_part(source[at - 1]) || source[at - 1] == '#');
    let after = source.get(at + word.len()).is_some_and(|symbol| is_word_part(*symbol));
    starts_with(source, at, word) && !before && !after
}

fn word_after(source: &[char], at: usize) -> String {
    let start = find(source, at, |symbol| !symbol.is_whitespace());
    source[start..].iter().take_while(|symbol| is_word_part(**symbol)).collect()
}

fn find(source: &[char], from: usize, wanted: impl Fn(char) -> bool) -> usize {
    (from..source.len()).find(|at| wanted(source[*at])).unwrap_or(source.len())
}

fn starts_with(source: &[char], at: usize, text: &str) -> bool {
    text.chars().enumerate().all(|(offset, symbol)| source.get(at + offset) == Some(&symbol))
}

fn is_word_part(symbol: char) -> bool {
    symbol.is_alphanumeric() || symbol == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_code(text: &str, expect: &str) {
        let squeezed: Vec<String> = code_only(text)
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(squeezed.join("\n"), expect, "{text}");
        assert_eq!(code_only(text).lines().count(), text.lines().count());
    }

    fn check_functions(text: &str, expect: &[(&str, usize, usize)]) {
        let found = functions(&code_only(text));
        let found: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.line, f.lines)).collect();
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn comments_and_literals_are_blanked() {
        for (text, expect) in [
            ("a // b { \"\nc", "a\nc"),
            ("a /* b /* { */ \" */ c", "a c"),
            ("a \"{ // \\\" }\" b", "a b"),
            ("a \"one\ntwo\" b", "a\nb"),
            ("a r\"\\\" b", "a b"),
            ("a r#\"{ \" }\"# b", "a b"),
            ("a br##\"\"# {\"## c", "a b c"),
            ("a '{' b", "a b"),
            ("a '\\'' b '\"' c", "a b c"),
            ("a '\\u{7b}' b", "a b"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("'outer: loop { break 'outer }", "'outer: loop { break 'outer }"),
            ("r#fn r#\"{\"#", "r#fn"),
            ("for r in x { \"}\" }", "for r in x { }"),
        ] {
            check_code(text, expect);
        }
    }

    #[test]
    fn functions_are_found_with_their_lines() {
        check_functions("fn one() {}", &[("one", 1, 1)]);
        check_functions("\npub const fn two(\n  a: u8,\n) -> u8 {\n  a\n}\n", &[("two", 2, 5)]);
        check_functions("trait T { fn declared(&self); fn given(&self) {} }", &[("given", 1, 1)]);
        check_functions("type F = fn(u8) -> u8;\nlet f: fn() = g;", &[]);
        check_functions("fn a() {\n fn b() {\n }\n}", &[("a", 1, 4), ("b", 2, 2)]);
        check_functions("fn a() -> [u8; { 2 }] {\n}", &[("a", 1, 2)]);
        check_functions("fn a() {\n  '{'; \"{\"; // {\n}\nfn b() {}", &[("a", 1, 3), ("b", 4, 1)]);
        check_functions("macro fnord() {}", &[]);
    }

    #[test]
    fn test_modules_are_cut_but_test_imports_are_not() {
        assert_eq!(before_tests("a\n#[cfg(test)]\nmod tests {\n}\n"), "a\n");
        assert_eq!(before_tests("#[cfg(test)]\nuse x;\na\n"), "#[cfg(test)]\nuse x;\na\n");
    }
}
