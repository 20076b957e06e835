//! How values are written for people: rates, memory, short names, widths.

use std::borrow::Cow;

/// Columns that every table fits into.
pub const WIDTH: usize = 80;

/// Bits per second as network people write them: `400G`, `2.5G`, `100M`.
pub fn rate(bits: u64) -> String {
    let (unit, suffix) =
        if bits >= 1_000_000_000 { (1_000_000_000, "G") } else { (1_000_000, "M") };
    let tenths = bits / (unit / 10);
    match tenths % 10 {
        0 => format!("{}{suffix}", tenths / 10),
        rest => format!("{}.{rest}{suffix}", tenths / 10),
    }
}

/// Bytes in whole GiB, rounded to the nearest.
pub fn memory(bytes: u64) -> String {
    const GIB: u64 = 1 << 30;
    format!("{} GiB", bytes / GIB + u64::from(bytes % GIB >= GIB / 2))
}

/// A product name without what everybody knows.
pub fn product(name: &str) -> &str {
    let name = name.trim();
    ["NVIDIA ", "AMD Instinct ", "AMD "].iter().find_map(|v| name.strip_prefix(v)).unwrap_or(name)
}

/// `1 GPU`, `2 GPUs`.
pub fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// A text of at most `limit` characters; what is cut ends in an ellipsis.
pub fn cut(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let kept: String = text.chars().take(limit.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// A text without characters that a terminal obeys.
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.chars().any(char::is_control) {
        return Cow::Borrowed(text);
    }
    let escaped = |c: char| match c.is_control() && !c.is_whitespace() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    Cow::Owned(text.chars().map(escaped).collect())
}

/// A text in lines of at most `limit` characters, broken at spaces; a longer word is broken too.
pub fn wrap(text: &str, limit: usize) -> Vec<String> {
    let limit = limit.max(1);
    let text = plain(text);
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        if !line.is_empty() && line.chars().count() + 1 + word.len() > limit {
            lines.push(std::mem::take(&mut line));
        }
        while word.len() > limit {
            lines.push(word.drain(..limit).collect());
        }
        if !line.is_empty() && !word.is_empty() {
            line.push(' ');
        }
        line.extend(word);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_memory_read_as_people_say_them() {
        let rates = [400_000_000_000, 2_500_000_000, 100_000_000, 56_000_000_000, 0].map(rate);
        assert_eq!(rates, ["400G", "2.5G", "100M", "56G", "0M"]);
        assert_eq!([85_520_809_984, 1 << 30, 0].map(memory), ["80 GiB", "1 GiB", "0 GiB"]);
    }

    #[test]
    fn long_texts_are_cut_or_wrapped_to_the_limit() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdefg", 6), "abcde…");
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("", 7), [""]);
        assert_eq!(wrap("an incomprehensible x", 7), ["an", "incompr", "ehensib", "le x"]);
        assert_eq!(wrap("1234567 8", 7), ["1234567", "8"]);
        assert_eq!(wrap("a\u{1b}[31m\nb", 80), ["a\\u{1b}[31m b"]);
    }
}
