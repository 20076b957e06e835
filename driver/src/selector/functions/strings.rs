//! The strings extension, version 2. Positions count characters.

use std::borrow::Cow;

use super::super::error::EvalError;
use super::super::eval::no_overload;
use super::super::value::{Budget, Evaluated, Value};
use super::standard::int;
use super::strings_format::format;
use super::{Declaration, global, member};

pub(super) const FUNCTIONS: &[Declaration] = &[
    member("charAt", "string, int -> string", char_at),
    member("format", "string, list(dyn) -> string", format),
    member("indexOf", "string, string -> int", index_of),
    member("indexOf", "string, string, int -> int", index_of),
    member("lastIndexOf", "string, string -> int", last_index_of),
    member("lastIndexOf", "string, string, int -> int", last_index_of),
    member("join", "list(string) -> string", join),
    member("join", "list(string), string -> string", join),
    member("lowerAscii", "string -> string", |args, budget| {
        map_text(args, "lowerAscii", budget, |text| text.to_ascii_lowercase())
    }),
    member("upperAscii", "string -> string", |args, budget| {
        map_text(args, "upperAscii", budget, |text| text.to_ascii_uppercase())
    }),
    member("trim", "string -> string", |args, budget| {
        map_text(args, "trim", budget, |text| text.trim().to_owned())
    }),
    member("replace", "string, string, string -> string", replace),
    member("replace", "string, string, string, int -> string", replace),
    member("split", "string, string -> list(string)", split),
    member("split", "string, string, int -> list(string)", split),
    member("substring", "string, int -> string", substring),
    member("substring", "string, int, int -> string", substring),
    global("strings.quote", "string -> string", |args, budget| {
        map_text(args, "strings.quote", budget, quoted)
    }),
];

fn out_of_range<'a>(function: &'static str, index: i64) -> Evaluated<'a> {
    Err(EvalError::Refused { function, problem: std::format!("index {index} is out of range") })
}

/// Byte offset of a character position; the end counts.
fn offset(text: &str, position: i64) -> Option<usize> {
    let position = usize::try_from(position).ok()?;
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(position)
}

/// Character position of a byte offset.
fn position<'a>(text: &str, offset: usize) -> Value<'a> {
    int(text.get(..offset).unwrap_or_default().chars().count())
}

fn map_text<'a>(
    args: &[Value<'a>],
    function: &str,
    budget: &mut Budget,
    change: fn(&str) -> String,
) -> Evaluated<'a> {
    match args {
        [Value::Text(text)] => Value::built(change(text), budget),
        _ => Err(no_overload(function, args)),
    }
}

fn char_at<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let [Value::Text(text), Value::Int(index)] = args else {
        return Err(no_overload("charAt", args));
    };
    budget.spend_text(text.len())?;
    match offset(text, *index) {
        Some(at) => {
            let found = text.get(at..).and_then(|rest| rest.chars().next());
            Ok(Value::text(found.map(String::from).unwrap_or_default()))
        }
        None => out_of_range("charAt", *index),
    }
}

fn index_of<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let (text, wanted, start) = match args {
        [Value::Text(text), Value::Text(wanted)] => (text, wanted, 0),
        [Value::Text(text), Value::Text(wanted), Value::Int(start)] => (text, wanted, *start),
        _ => return Err(no_overload("indexOf", args)),
    };
    budget.spend_text(text.len())?;
    if start < 0 {
        return out_of_range("indexOf", start);
    }
    // Behind the end nothing is found but the empty text, which is found at the end.
    let Some(at) = offset(text, start) else {
        return Ok(if wanted.is_empty() { position(text, text.len()) } else { Value::Int(-1) });
    };
    let hit = text.get(at..).and_then(|rest| rest.find(&**wanted));
    Ok(hit.map_or(Value::Int(-1), |hit| position(text, at + hit)))
}

fn last_index_of<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let (text, wanted, last) = match args {
        [Value::Text(text), Value::Text(wanted)] => (text, wanted, None),
        [Value::Text(text), Value::Text(wanted), Value::Int(last)] => (text, wanted, Some(*last)),
        _ => return Err(no_overload("lastIndexOf", args)),
    };
    budget.spend_text(text.len())?;
    if let Some(last) = last.filter(|last| *last < 0) {
        return out_of_range("lastIndexOf", last);
    }
    let end = match last.map(|last| offset(text, last)) {
        // Behind the last character nothing is found but the empty text.
        Some(at) if at.is_none_or(|at| at == text.len()) && !wanted.is_empty() => {
            return Ok(Value::Int(-1));
        }
        None | Some(None) => text.len(),
        // A hit may start at the position, and go on behind it.
        Some(Some(at)) => {
            let behind = at.saturating_add(wanted.len()).min(text.len());
            (0..=behind).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default()
        }
    };
    let hit = text.get(..end).and_then(|head| head.rfind(&**wanted));
    Ok(hit.map_or(Value::Int(-1), |hit| position(text, hit)))
}

fn join<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let (elements, separator) = match args {
        [Value::List(elements)] => (elements, ""),
        [Value::List(elements), Value::Text(separator)] => (elements, &**separator),
        _ => return Err(no_overload("join", args)),
    };
    let mut joined = String::new();
    for (index, element) in elements.iter().enumerate() {
        let Value::Text(text) = element else {
            return Err(no_overload("join", std::slice::from_ref(element)));
        };
        budget.spend_text(text.len() + separator.len())?;
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(text);
    }
    Value::built(joined, budget)
}

/// A limit of replacements or parts; a negative one is none.
fn limit(limit: i64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

fn replace<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let (text, old, new, count) = match args {
        [Value::Text(text), Value::Text(old), Value::Text(new)] => (text, old, new, usize::MAX),
        [Value::Text(text), Value::Text(old), Value::Text(new), Value::Int(count)] => {
            (text, old, new, limit(*count))
        }
        _ => return Err(no_overload("replace", args)),
    };
    // Paid ahead: the result may be longer than both texts by far.
    let hits = if old.is_empty() { text.len() + 1 } else { text.matches(&**old).count() };
    budget.spend_text(text.len() + hits.min(count).saturating_mul(new.len()))?;
    Value::built(text.replacen(&**old, new, count), budget)
}

fn split<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let (text, separator, parts) = match args {
        [Value::Text(text), Value::Text(separator)] => (text, separator, usize::MAX),
        [Value::Text(text), Value::Text(separator), Value::Int(parts)] => {
            (text, separator, limit(*parts))
        }
        _ => return Err(no_overload("split", args)),
    };
    budget.spend(text.len())?;
    let owned = |part: &str| Value::text(part.to_owned());
    let parts: Vec<Value<'a>> = if separator.is_empty() {
        // Characters, the rest of the text being the last part.
        let whole = text.char_indices().map(|(at, c)| (at, c.len_utf8()));
        whole
            .take(parts)
            .enumerate()
            .map(|(index, (at, length))| {
                let end = if index + 1 == parts { text.len() } else { at + length };
                owned(text.get(at..end).unwrap_or_default())
            })
            .collect()
    } else {
        text.splitn(parts, &**separator).map(owned).collect()
    };
    Value::list(parts, budget)
}

fn substring<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let (text, start, end) = match args {
        [Value::Text(text), Value::Int(start)] => (text, *start, None),
        [Value::Text(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return Err(no_overload("substring", args)),
    };
    budget.spend_text(text.len())?;
    let from = offset(text, start);
    let to = end.map_or(Some(text.len()), |end| offset(text, end));
    match from.zip(to).and_then(|(from, to)| text.get(from..to)) {
        Some(part) => Value::built(part.to_owned(), budget),
        None => out_of_range("substring", end.filter(|_| from.is_some()).unwrap_or(start)),
    }
}

/// The text as a literal, quotes included.
fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '\u{7}' => Cow::Borrowed("\\a"),
        '\u{8}' => Cow::Borrowed("\\b"),
        '\u{c}' => Cow::Borrowed("\\f"),
        '\n' => Cow::Borrowed("\\n"),
        '\r' => Cow::Borrowed("\\r"),
        '\t' => Cow::Borrowed("\\t"),
        '\u{b}' => Cow::Borrowed("\\v"),
        '\\' => Cow::Borrowed("\\\\"),
        '"' => Cow::Borrowed("\\\""),
        other => Cow::Owned(other.to_string()),
    });
    std::format!("\"{}\"", escaped.collect::<String>())
}
