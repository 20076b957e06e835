//! Named formats of Kubernetes: `format.dns1123Label().validate(text)` is none where the text fits.

use super::super::eval::no_overload;
use super::super::value::{Budget, Evaluated, Value};
use super::url::is_request;
use super::{Declaration, global, member};

pub(super) const FUNCTIONS: &[Declaration] = &[
    global("format.named", "string -> optional(format)", named),
    global("format.dns1123Label", "-> format", |_, _| found("dns1123Label")),
    global("format.dns1123Subdomain", "-> format", |_, _| found("dns1123Subdomain")),
    global("format.dns1035Label", "-> format", |_, _| found("dns1035Label")),
    global("format.dns1123LabelPrefix", "-> format", |_, _| found("dns1123LabelPrefix")),
    global("format.dns1123SubdomainPrefix", "-> format", |_, _| found("dns1123SubdomainPrefix")),
    global("format.dns1035LabelPrefix", "-> format", |_, _| found("dns1035LabelPrefix")),
    global("format.qualifiedName", "-> format", |_, _| found("qualifiedName")),
    global("format.labelValue", "-> format", |_, _| found("labelValue")),
    global("format.uri", "-> format", |_, _| found("uri")),
    global("format.uuid", "-> format", |_, _| found("uuid")),
    global("format.byte", "-> format", |_, _| found("byte")),
    global("format.date", "-> format", |_, _| found("date")),
    global("format.datetime", "-> format", |_, _| found("datetime")),
    member("validate", "format, string -> optional(list(string))", validate),
];

/// A format that a text may have, by its place in [`FORMATS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Format(usize);

/// Whether a text has a format.
type Fits = fn(&str) -> bool;

const FORMATS: [(&str, Fits); 13] = [
    ("dns1123Label", is_label),
    ("dns1123Subdomain", is_subdomain),
    ("dns1035Label", is_older_label),
    ("dns1123LabelPrefix", |text| is_label(&completed(text))),
    ("dns1123SubdomainPrefix", |text| is_subdomain(&completed(text))),
    ("dns1035LabelPrefix", |text| is_older_label(&completed(text))),
    ("qualifiedName", |text| match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
        None => is_name(text),
    }),
    ("labelValue", |text| text.is_empty() || is_name(text)),
    ("uri", is_request),
    ("uuid", is_uuid),
    ("byte", is_base64),
    ("date", is_date),
    ("datetime", is_datetime),
];

/// Lower-case letters, digits and inner hyphens, at most 63.
fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_plain_label(text)
}

fn is_plain_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// A label that begins with a letter.
fn is_older_label(text: &str) -> bool {
    is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase())
}

/// Labels without a limit of their own, at most 253 characters together.
fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_plain_label)
}

/// A beginning of a name, made a whole one: its last two characters become a letter if it ends with a
/// hyphen.
fn completed(text: &str) -> String {
    let Some(before) = text.strip_suffix('-') else { return text.to_owned() };
    match before.char_indices().next_back() {
        Some((last, _)) => format!("{}a", before.get(..last).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Letters, digits and inner `-`, `_` and `.`, at most 63.
fn is_name(text: &str) -> bool {
    let outer = |c: char| c.is_ascii_alphanumeric();
    (1..=63).contains(&text.len())
        && text.chars().all(|c| outer(c) || matches!(c, '-' | '_' | '.'))
        && text.starts_with(outer)
        && text.ends_with(outer)
}

/// Hexadecimal digits, with or without a hyphen behind the 8th, 12th, 16th and 20th.
fn is_uuid(text: &str) -> bool {
    let mut digits = 0;
    let mut hyphen_allowed = false;
    for byte in text.bytes() {
        match byte {
            b'-' if hyphen_allowed => hyphen_allowed = false,
            digit if digit.is_ascii_hexdigit() => {
                digits += 1;
                hyphen_allowed = matches!(digits, 8 | 12 | 16 | 20);
            }
            _ => return false,
        }
    }
    digits == 32
}

/// Groups of four characters, the last one filled up by `=`.
fn is_base64(text: &str) -> bool {
    let bare = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !text.is_empty() && text.len().is_multiple_of(4) && bare.bytes().all(known)
}

/// Two digits at a place, if they are there.
fn two_digits(text: &str, at: usize) -> Option<u32> {
    let digits = text.get(at..at + 2)?;
    if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// `2026-01-31`.
fn is_date(text: &str) -> bool {
    let read = || {
        let year = two_digits(text, 0)? * 100 + two_digits(text, 2)?;
        Some((year, two_digits(text, 5)?, two_digits(text, 8)?))
    };
    let hyphens = text.len() == 10 && [4, 7].iter().all(|at| text.get(*at..at + 1) == Some("-"));
    let Some((year, month, day)) = read().filter(|_| hyphens) else { return false };
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// `2026-01-31T23:59:59.5Z`, or with an offset such as `+01:00`.
fn is_datetime(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let clock = || {
        let fits =
            two_digits(time, 0)? <= 23 && two_digits(time, 3)? <= 59 && two_digits(time, 6)? <= 59;
        let colons = time.get(2..3)? == ":" && time.get(5..6)? == ":";
        (fits && colons).then_some(time.get(8..)?)
    };
    is_date(date) && clock().is_some_and(is_fraction_and_zone)
}

/// A separator with digits or nothing, and then the zone.
fn is_fraction_and_zone(text: &str) -> bool {
    let is_zone = |zone: &str| {
        let offset = zone.len() == 6 && zone.starts_with(['+', '-']) && zone.get(3..4) == Some(":");
        zone == "z" || offset && two_digits(zone, 1).is_some() && two_digits(zone, 4).is_some()
    };
    let mut chars = text.chars();
    chars.next();
    let digits = chars.as_str();
    let zone = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    is_zone(text) || zone.len() < digits.len() && is_zone(zone)
}

fn find(name: &str) -> Option<Format> {
    FORMATS.iter().position(|(known, _)| *known == name).map(Format)
}

fn found<'a>(name: &str) -> Evaluated<'a> {
    find(name).map(Value::Format).ok_or_else(|| no_overload(name, &[]))
}

fn named<'a>(args: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    let [Value::Text(name)] = args else { return Err(no_overload("format.named", args)) };
    Ok(find(name).map_or(Value::NONE, |format| Value::some(Value::Format(format))))
}

fn validate<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let [Value::Format(Format(place)), Value::Text(text)] = args else {
        return Err(no_overload("validate", args));
    };
    budget.spend_text(text.len())?;
    match FORMATS.get(*place) {
        Some((name, fits)) if !fits(text) => {
            let problem = std::format!("{text:?} is no {name}");
            Ok(Value::some(Value::list(vec![Value::text(problem)], budget)?))
        }
        _ => Ok(Value::NONE),
    }
}
