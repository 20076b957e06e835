//! Conversions between types.

use std::sync::Arc;

use super::super::error::EvalError;
use super::super::eval::no_overload;
use super::super::value::{Budget, Evaluated, Value};
use super::{Declaration, global};

pub(super) const FUNCTIONS: &[Declaration] = &[
    global("dyn", "A -> dyn", |args, _| the_same(args)),
    global("type", "A -> type(A)", kind),
    global("int", "int -> int", int),
    global("int", "uint -> int", int),
    global("int", "double -> int", int),
    global("int", "string -> int", int),
    global("uint", "uint -> uint", uint),
    global("uint", "int -> uint", uint),
    global("uint", "double -> uint", uint),
    global("uint", "string -> uint", uint),
    global("double", "double -> double", double),
    global("double", "int -> double", double),
    global("double", "uint -> double", double),
    global("double", "string -> double", double),
    global("bool", "bool -> bool", boolean),
    global("bool", "string -> bool", boolean),
    global("bytes", "bytes -> bytes", bytes),
    global("bytes", "string -> bytes", bytes),
    global("string", "string -> string", string),
    global("string", "bool -> string", string),
    global("string", "int -> string", string),
    global("string", "uint -> string", string),
    global("string", "double -> string", string),
    global("string", "bytes -> string", string),
    global("string", "ip -> string", string),
    global("string", "cidr -> string", string),
];

/// A number as Go's shortest general format writes it: an exponent below 1e-4 and from 1e6 on.
pub(super) fn double_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if value == 0.0 || (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

/// A value as messages name it.
pub(in super::super) fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Text(text) => text.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Double(value) => double_text(*value),
        other => other.kind().to_owned(),
    }
}

fn the_same<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    args.first().cloned().ok_or_else(|| no_overload("dyn", args))
}

fn kind<'a>(args: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    args.first().map(|value| Value::Kind(value.kind())).ok_or_else(|| no_overload("type", args))
}

fn refused(function: &'static str, text: &str, wanted: &str) -> EvalError {
    EvalError::Refused { function, problem: format!("{text:?} is no {wanted}") }
}

fn int<'a>(args: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    /// The first double above every i64.
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    let overflow = || EvalError::Overflow("integer");
    Ok(Value::Int(match args {
        [Value::Int(value)] => *value,
        [Value::Uint(value)] => i64::try_from(*value).map_err(|_| overflow())?,
        [Value::Double(value)] if *value > -BEYOND && *value < BEYOND => *value as i64,
        [Value::Double(_)] => return Err(overflow()),
        [Value::Text(text)] => text.parse().map_err(|_| refused("int", text, "integer"))?,
        _ => return Err(no_overload("int", args)),
    }))
}

fn uint<'a>(args: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    /// The first double above every u64.
    const BEYOND: f64 = 18_446_744_073_709_551_616.0;
    let overflow = || EvalError::Overflow("unsigned integer");
    Ok(Value::Uint(match args {
        [Value::Uint(value)] => *value,
        [Value::Int(value)] => u64::try_from(*value).map_err(|_| overflow())?,
        [Value::Double(value)] if *value >= 0.0 && *value < BEYOND => *value as u64,
        [Value::Double(_)] => return Err(overflow()),
        // No sign, not even a plus.
        [Value::Text(text)] if text.starts_with(|c: char| c.is_ascii_digit()) => {
            text.parse().map_err(|_| refused("uint", text, "unsigned integer"))?
        }
        [Value::Text(text)] => return Err(refused("uint", text, "unsigned integer")),
        _ => return Err(no_overload("uint", args)),
    }))
}

fn double<'a>(args: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    Ok(Value::Double(match args {
        [Value::Double(value)] => *value,
        // Rounded to the nearest double, as CEL does.
        [Value::Int(value)] => *value as f64,
        [Value::Uint(value)] => *value as f64,
        [Value::Text(text)] => {
            read_double(text).ok_or_else(|| refused("double", text, "number of 64 bits"))?
        }
        _ => return Err(no_overload("double", args)),
    }))
}

/// Reads a double as Go does: digits in groups by `_`, hexadecimal ones with a binary exponent, and
/// nothing that is too large.
fn read_double(text: &str) -> Option<f64> {
    let bare = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    match bare.to_ascii_lowercase().as_str() {
        "nan" => return (bare.len() == text.len()).then_some(f64::NAN),
        "inf" | "infinity" => return Some(sign * f64::INFINITY),
        _ => {}
    }
    let is_hex = bare.starts_with("0x") || bare.starts_with("0X");
    let lone = |pair: &[u8]| match pair {
        [b'_', other] | [other, b'_'] => {
            !(other.is_ascii_digit()
                || is_hex && matches!(other, b'a'..=b'f' | b'A'..=b'F' | b'x' | b'X'))
        }
        _ => false,
    };
    if bare.starts_with('_') || bare.ends_with('_') || bare.as_bytes().windows(2).any(lone) {
        return None;
    }
    let digits = bare.replace('_', "");
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let value = if is_hex { read_hexadecimal(digits.get(2..)?)? } else { digits.parse().ok()? };
    value.is_finite().then_some(sign * value)
}

/// `1.8p-2`, with the exponent that it must have. Digits beyond 64 bits are refused.
fn read_hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once(['p', 'P'])?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let bits = u64::from_str_radix(&format!("{whole}{fraction}"), 16).ok()?;
    let places = i32::try_from(fraction.len()).ok()?.checked_mul(4)?;
    let exponent: i32 = exponent.parse().ok()?;
    Some(bits as f64 * 2_f64.powi(exponent.checked_sub(places)?))
}

fn boolean<'a>(args: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    Ok(Value::Bool(match args {
        [Value::Bool(value)] => *value,
        [Value::Text(text)] => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
            "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
            other => return Err(refused("bool", other, "truth value")),
        },
        _ => return Err(no_overload("bool", args)),
    }))
}

fn bytes<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    Ok(Value::Bytes(match args {
        [Value::Bytes(value)] => Arc::clone(value),
        [Value::Text(text)] => {
            budget.spend_text(text.len())?;
            text.as_bytes().into()
        }
        _ => return Err(no_overload("bytes", args)),
    }))
}

fn string<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let text = match args {
        [Value::Text(_)] => return the_same(args),
        [Value::Bool(value)] => value.to_string(),
        [Value::Int(value)] => value.to_string(),
        [Value::Uint(value)] => value.to_string(),
        [Value::Double(value)] => double_text(*value),
        [Value::Bytes(value)] => match std::str::from_utf8(value) {
            Ok(text) => text.to_owned(),
            Err(_) => return Err(refused("string", "these bytes", "UTF-8")),
        },
        [Value::Ip(address)] => address.to_string(),
        [Value::Cidr(cidr)] => cidr.to_string(),
        _ => return Err(no_overload("string", args)),
    };
    Value::built(text, budget)
}
