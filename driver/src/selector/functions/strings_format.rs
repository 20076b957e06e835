//! `text.format(list)`: the clauses %s %d %f %e %x %X %o %b and %%.

use super::super::error::EvalError;
use super::super::eval::no_overload;
use super::super::value::{Budget, Evaluated, Value};
use super::convert::double_text;

/// Digits after the point where a clause names none.
const PRECISION: usize = 6;

/// Most digits that a clause may ask for.
const MAX_PRECISION: usize = 100;

pub(super) fn format<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let [Value::Text(pattern), Value::List(values)] = args else {
        return Err(no_overload("format", args));
    };
    let mut out = String::new();
    let mut chars = pattern.chars().peekable();
    let mut values = values.iter();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let precision = read_precision(&mut chars)?;
        let Some(clause) = chars.next() else { return Err(refused("a clause has no letter")) };
        let Some(value) = values.next() else { return Err(refused("there are too few values")) };
        write_clause(&mut out, clause, precision, value, budget)?;
        budget.spend_text(out.len())?;
    }
    Value::built(out, budget)
}

fn refused(problem: &str) -> EvalError {
    EvalError::Refused { function: "format", problem: problem.to_owned() }
}

fn read_precision(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
) -> Result<Option<usize>, EvalError> {
    if chars.next_if_eq(&'.').is_none() {
        return Ok(None);
    }
    let mut digits = String::new();
    while let Some(digit) = chars.next_if(char::is_ascii_digit) {
        digits.push(digit);
    }
    match digits.parse() {
        Ok(precision) if precision <= MAX_PRECISION => Ok(Some(precision)),
        _ => Err(refused("a precision is no number up to 100")),
    }
}

fn write_clause(
    out: &mut String,
    clause: char,
    precision: Option<usize>,
    value: &Value<'_>,
    budget: &mut Budget,
) -> Result<(), EvalError> {
    let digits = precision.unwrap_or(PRECISION);
    let text = match (clause, value) {
        ('s', value) => return write_value(out, value, budget),
        ('d', Value::Int(value)) => value.to_string(),
        ('d', Value::Uint(value)) => value.to_string(),
        ('d' | 'f' | 'e', Value::Double(value)) if !value.is_finite() => not_finite(*value),
        ('f', value) => std::format!("{:.digits$}", double(value)?),
        ('e', value) => exponent(std::format!("{:.digits$e}", double(value)?)),
        ('b', Value::Bool(value)) => u8::from(*value).to_string(),
        ('b' | 'o' | 'x' | 'X', Value::Int(value)) => {
            let sign = if *value < 0 { "-" } else { "" };
            std::format!("{sign}{}", radix(clause, value.unsigned_abs()))
        }
        ('b' | 'o' | 'x' | 'X', Value::Uint(value)) => radix(clause, *value),
        ('x' | 'X', Value::Text(text)) => hex(clause, text.as_bytes(), budget)?,
        ('x' | 'X', Value::Bytes(bytes)) => hex(clause, bytes, budget)?,
        (clause, value) => {
            return Err(refused(&std::format!("%{clause} does not take {}", value.kind())));
        }
    };
    out.push_str(&text);
    Ok(())
}

fn double(value: &Value<'_>) -> Result<f64, EvalError> {
    match value {
        Value::Double(value) => Ok(*value),
        Value::Int(value) => Ok(*value as f64),
        Value::Uint(value) => Ok(*value as f64),
        other => Err(refused(&std::format!("%f and %e do not take {}", other.kind()))),
    }
}

fn not_finite(value: f64) -> String {
    let name = if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    };
    name.to_owned()
}

/// `1.5e2` as `1.5e+02`.
fn exponent(text: String) -> String {
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    std::format!("{mantissa}e{sign}{digits:0>2}")
}

fn radix(clause: char, value: u64) -> String {
    match clause {
        'b' => std::format!("{value:b}"),
        'o' => std::format!("{value:o}"),
        'x' => std::format!("{value:x}"),
        _ => std::format!("{value:X}"),
    }
}

fn hex(clause: char, bytes: &[u8], budget: &mut Budget) -> Result<String, EvalError> {
    budget.spend(bytes.len())?;
    let digits = bytes.iter().map(|byte| std::format!("{byte:02x}")).collect::<String>();
    Ok(if clause == 'X' { digits.to_ascii_uppercase() } else { digits })
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
        Value::Double(value) if !value.is_finite() => out.push_str(&not_finite(*value)),
        Value::Double(value) => out.push_str(&double_text(*value)),
        Value::Bytes(bytes) => {
            budget.spend_text(bytes.len())?;
            out.push_str(&String::from_utf8_lossy(bytes));
        }
        Value::Kind(name) => out.push_str(name),
        Value::List(elements) => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_value(out, element, budget)?;
            }
            out.push(']');
        }
        map => return write_map(out, map, budget),
    }
    Ok(())
}

/// Entries in the order of their written keys.
fn write_map(out: &mut String, map: &Value<'_>, budget: &mut Budget) -> Result<(), EvalError> {
    let Some(entries) = super::super::access::entries(map)? else {
        return Err(refused(&std::format!("%s does not take {}", map.kind())));
    };
    let mut written = Vec::new();
    for (key, value) in entries.iter() {
        let mut entry = (String::new(), String::new());
        write_value(&mut entry.0, key, budget)?;
        write_value(&mut entry.1, value, budget)?;
        written.push(entry);
    }
    written.sort();
    let written: Vec<String> =
        written.into_iter().map(|(key, value)| std::format!("{key}: {value}")).collect();
    out.push_str(&std::format!("{{{}}}", written.join(", ")));
    Ok(())
}
