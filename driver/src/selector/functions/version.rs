//! Semantic versions 2.0.0; build metadata takes no part in comparisons.

use std::cmp::Ordering;

use semver::Version;

use super::super::error::EvalError;
use super::super::eval::no_overload;
use super::super::value::{Budget, Evaluated, Value};
use super::{Declaration, global, member};

pub(super) const FUNCTIONS: &[Declaration] = &[
    global("semver", "string -> semver", semver),
    global("semver", "string, bool -> semver", semver),
    global("isSemver", "string -> bool", is_semver),
    global("isSemver", "string, bool -> bool", is_semver),
    member("major", "semver -> int", |args, _| part(args, "major", |version| version.major)),
    member("minor", "semver -> int", |args, _| part(args, "minor", |version| version.minor)),
    member("patch", "semver -> int", |args, _| part(args, "patch", |version| version.patch)),
    member("compareTo", "semver, semver -> int", |args, _| {
        Ok(Value::Int(order(args, "compareTo")? as i64))
    }),
    member("isGreaterThan", "semver, semver -> bool", |args, _| {
        Ok(Value::Bool(order(args, "isGreaterThan")?.is_gt()))
    }),
    member("isLessThan", "semver, semver -> bool", |args, _| {
        Ok(Value::Bool(order(args, "isLessThan")?.is_lt()))
    }),
];

fn read(
    args: &[Value<'_>],
    function: &str,
    budget: &mut Budget,
) -> Result<Result<Version, String>, EvalError> {
    let (text, normalize) = match args {
        [Value::Text(text)] => (text, false),
        [Value::Text(text), Value::Bool(normalize)] => (text, *normalize),
        _ => return Err(no_overload(function, args)),
    };
    budget.spend_text(text.len())?;
    let normal = if normalize { normalized(text) } else { Ok(text.to_string()) };
    let version =
        normal.and_then(|normal| Version::parse(&normal).map_err(|error| error.to_string()));
    // Upstream reads the numbers of a pre-release as such, and they have 64 bits there.
    let version = version.and_then(|version| {
        let mut parts =
            version.pre.split('.').filter(|part| part.bytes().all(|b| b.is_ascii_digit()));
        match parts.find(|part| !part.is_empty() && part.parse::<u64>().is_err()) {
            Some(part) => Err(format!("{part} has more than 64 bits")),
            None => Ok(version),
        }
    });
    Ok(version.map_err(|problem| format!("{text:?}: {problem}")))
}

fn semver<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let version = read(args, "semver", budget)?;
    version
        .map(Value::Version)
        .map_err(|problem| EvalError::Refused { function: "semver", problem })
}

fn is_semver<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    Ok(Value::Bool(read(args, "isSemver", budget)?.is_ok()))
}

/// Drops a leading `v`, adds absent minor and patch as 0, and drops leading zeros.
fn normalized(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['-', '+'])) {
        return Err("a short version has no pre-release or build metadata".to_owned());
    }
    parts.resize(3, "0".to_owned());
    for part in &mut parts {
        let digits = part.trim_start_matches('0');
        if digits.len() < part.len() {
            let zero = if digits.starts_with(|c: char| c.is_ascii_digit()) { "" } else { "0" };
            *part = format!("{zero}{digits}");
        }
    }
    Ok(parts.join("."))
}

fn part<'a>(args: &[Value<'a>], function: &str, part: fn(&Version) -> u64) -> Evaluated<'a> {
    let [Value::Version(version)] = args else { return Err(no_overload(function, args)) };
    // Upstream's conversion wraps around, too.
    Ok(Value::Int(part(version).cast_signed()))
}

fn order(args: &[Value<'_>], function: &str) -> Result<Ordering, EvalError> {
    match args {
        [Value::Version(a), Value::Version(b)] => Ok(a.cmp_precedence(b)),
        _ => Err(no_overload(function, args)),
    }
}
