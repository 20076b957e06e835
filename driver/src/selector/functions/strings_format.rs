//! `text.format(list)`: the clauses %s %d %f %e %x %X %o %b and %%. Numbers of %f and %e are written as
//! in American English, and elements of lists and maps as in CEL.

use super::super::access;
use super::super::error::EvalError;
use super::super::eval::no_overload;
use super::super::value::{Budget, Evaluated, Value};
use super::convert::double_text;

/// Digits after the point where a clause names none.
const PRECISION: usize = 6;

/// Most digits that a clause may ask for; more than a double has.
const MAX_PRECISION: usize = 1100;

/// A piece of a pattern.
pub(in super::super) enum Piece {
    Plain(char),
    /// What to do with the next value, and the digits named for it.
    Clause(Clause, Option<usize>),
}

#[derive(Clone, Copy)]
pub(in super::super) enum Clause {
    Text,
    Decimal,
    Fixed,
    Scientific,
    Binary,
    Octal,
    Hexadecimal { upper: bool },
}

impl Clause {
    fn named(letter: char) -> Option<Self> {
        Some(match letter {
            's' => Self::Text,
            'd' => Self::Decimal,
            'f' => Self::Fixed,
            'e' => Self::Scientific,
            'b' => Self::Binary,
            'o' => Self::Octal,
            'x' => Self::Hexadecimal { upper: false },
            'X' => Self::Hexadecimal { upper: true },
            _ => return None,
        })
    }
}

/// Reads a pattern. The error says what is wrong with it.
pub(in super::super) fn pieces(pattern: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' || chars.next_if_eq(&'%').is_some() {
            pieces.push(Piece::Plain(c));
            continue;
        }
        let mut precision = None;
        if chars.next_if_eq(&'.').is_some() {
            let mut digits = String::new();
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            let known = digits.parse().ok().filter(|digits| *digits <= MAX_PRECISION);
            let known = known.ok_or(format!("a precision is no number up to {MAX_PRECISION}"))?;
            precision = Some(known);
        }
        let letter = chars.next().ok_or("the last clause has no letter")?;
        let clause = Clause::named(letter).ok_or(format!("%{letter} is no clause"))?;
        pieces.push(Piece::Clause(clause, precision));
    }
    Ok(pieces)
}

pub(super) fn format<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let [Value::Text(pattern), Value::List(values)] = args else {
        return Err(no_overload("format", args));
    };
    budget.spend(pattern.len())?;
    let mut out = String::new();
    let mut values = values.iter();
    for piece in pieces(pattern).map_err(|problem| refused(&problem))? {
        match piece {
            Piece::Plain(c) => out.push(c),
            Piece::Clause(clause, precision) => {
                let value = values.next().ok_or_else(|| refused("there are too few values"))?;
                write_clause(&mut out, clause, precision.unwrap_or(PRECISION), value, budget)?;
                budget.spend_text(out.len())?;
            }
        }
    }
    Value::built(out, budget)
}

fn refused(problem: &str) -> EvalError {
    EvalError::Refused { function: "format", problem: problem.to_owned() }
}

fn write_clause(
    out: &mut String,
    clause: Clause,
    digits: usize,
    value: &Value<'_>,
    budget: &mut Budget,
) -> Result<(), EvalError> {
    let text = match (clause, value) {
        (Clause::Text, value) => return write_value(out, value, budget),
        (Clause::Decimal, Value::Int(value)) => value.to_string(),
        (Clause::Decimal, Value::Uint(value)) => value.to_string(),
        (Clause::Fixed, value) => fixed(double(value)?, digits),
        // What is written as a precision counts as a width.
        (Clause::Scientific, value) => {
            let text = scientific(double(value)?);
            format!("{text:>digits$}")
        }
        (Clause::Binary, Value::Bool(value)) => u8::from(*value).to_string(),
        (Clause::Hexadecimal { upper }, Value::Text(text)) => hex(upper, text.as_bytes(), budget)?,
        (Clause::Hexadecimal { upper }, Value::Bytes(bytes)) => hex(upper, bytes, budget)?,
        (Clause::Binary | Clause::Octal | Clause::Hexadecimal { .. }, Value::Int(value)) => {
            let sign = if *value < 0 { "-" } else { "" };
            format!("{sign}{}", radix(clause, value.unsigned_abs()))
        }
        (Clause::Binary | Clause::Octal | Clause::Hexadecimal { .. }, Value::Uint(value)) => {
            radix(clause, *value)
        }
        (_, value) => {
            return Err(refused(&format!("a clause does not take {}", value.kind())));
        }
    };
    out.push_str(&text);
    Ok(())
}

fn double(value: &Value<'_>) -> Result<f64, EvalError> {
    match value {
        Value::Double(value) => Ok(*value),
        Value::Text(text) => match &**text {
            "NaN" => Ok(f64::NAN),
            "Infinity" => Ok(f64::INFINITY),
            "-Infinity" => Ok(f64::NEG_INFINITY),
            other => Err(refused(&format!("%f and %e do not take {other:?}"))),
        },
        other => Err(refused(&format!("%f and %e do not take {}", other.kind()))),
    }
}

fn not_finite(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        return Some("NaN");
    }
    value.is_infinite().then_some(if value > 0.0 { "∞" } else { "-∞" })
}

/// `-1,234.50`. There is no negative zero.
fn fixed(value: f64, digits: usize) -> String {
    if let Some(name) = not_finite(value) {
        return name.to_owned();
    }
    let text = format!("{:.digits$}", value.abs());
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{grouped}{fraction}")
}

/// `1.500000×10⁰²`.
fn scientific(value: f64) -> String {
    if let Some(name) = not_finite(value) {
        return name.to_owned();
    }
    let value = if value == 0.0 { 0.0 } else { value };
    let text = format!("{value:.PRECISION$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ("⁻", digits),
        None => ("", exponent),
    };
    let raised = |digit: u32| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(digit as usize);
    let raised: String =
        format!("{digits:0>2}").chars().filter_map(|c| raised(c.to_digit(10)?)).collect();
    format!("{mantissa}×10{sign}{raised}")
}

fn radix(clause: Clause, value: u64) -> String {
    match clause {
        Clause::Binary => format!("{value:b}"),
        Clause::Octal => format!("{value:o}"),
        Clause::Hexadecimal { upper: true } => format!("{value:X}"),
        _ => format!("{value:x}"),
    }
}

fn hex(upper: bool, bytes: &[u8], budget: &mut Budget) -> Result<String, EvalError> {
    budget.spend(bytes.len())?;
    let digits = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    Ok(if upper { digits.to_ascii_uppercase() } else { digits })
}

/// `%s`: texts bare at the top, lists and maps with their elements. Recurses as deep as values nest,
/// which is at most as deep as the expression.
fn write_value(out: &mut String, value: &Value<'_>, budget: &mut Budget) -> Result<(), EvalError> {
    budget.spend(1)?;
    match value {
        Value::Text(text) => {
            budget.spend_text(text.len())?;
            out.push_str(text);
        }
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(&value.to_string()),
        Value::Int(value) => out.push_str(&value.to_string()),
        Value::Uint(value) => out.push_str(&value.to_string()),
        Value::Double(value) => out.push_str(&double_text(*value)),
        Value::Bytes(bytes) => {
            budget.spend_text(bytes.len())?;
            let text =
                std::str::from_utf8(bytes).map_err(|_| refused("bytes that are no UTF-8"))?;
            out.push_str(text);
        }
        Value::Kind(name) => out.push_str(name),
        Value::List(elements) => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_element(out, element, budget)?;
            }
            out.push(']');
        }
        map => return write_map(out, map, budget),
    }
    Ok(())
}

/// A part of a list or map: quoted where it is a text.
fn write_element(
    out: &mut String,
    value: &Value<'_>,
    budget: &mut Budget,
) -> Result<(), EvalError> {
    match value {
        Value::Text(text) => {
            budget.spend_text(text.len())?;
            out.push_str(&quoted(text));
        }
        Value::Bytes(_) => {
            let mut text = String::new();
            write_value(&mut text, value, budget)?;
            out.push('b');
            out.push_str(&quoted(&text));
        }
        Value::Double(value) if value.is_finite() => out.push_str(&format!("{value:.PRECISION$}")),
        Value::Double(value) => out.push_str(&quoted(&double_text(*value))),
        other => write_value(out, other, budget)?,
    }
    Ok(())
}

/// A literal as Go writes it.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '"' | '\\' => out.extend(['\\', c]),
            c if c == ' ' || is_printable(c) => out.push(c),
            c if u32::from(c) < 0x80 => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if u32::from(c) < 0x1_0000 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    out.push('"');
    out
}

/// Whether a character is shown as it is: Rust and Go agree on letters, marks and signs, but Rust
/// escapes marks and quotes in some places, too.
fn is_printable(c: char) -> bool {
    let escaped = c.escape_debug();
    c == '\'' || escaped.len() == 1 || !c.is_control() && !c.is_whitespace() && c.is_alphanumeric()
}

/// Entries in the order of their written keys.
fn write_map(out: &mut String, map: &Value<'_>, budget: &mut Budget) -> Result<(), EvalError> {
    let Some(entries) = access::entries(map)? else {
        return Err(refused(&format!("%s does not take {}", map.kind())));
    };
    let mut written = Vec::new();
    for (key, value) in entries.iter() {
        if !matches!(key, Value::Text(_) | Value::Bool(_) | Value::Int(_) | Value::Uint(_)) {
            return Err(refused(&format!("%s does not take a map with keys of {}", key.kind())));
        }
        let mut entry = (String::new(), String::new());
        write_element(&mut entry.0, key, budget)?;
        write_element(&mut entry.1, value, budget)?;
        written.push(entry);
    }
    written.sort_by(|(a, _), (b, _)| a.cmp(b));
    let written: Vec<String> =
        written.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
    out.push_str(&format!("{{{}}}", written.join(", ")));
    Ok(())
}
