//! Regular expressions. Constant patterns of `matches` do not come here, they are compiled ahead.

use super::super::error::EvalError;
use super::super::eval::no_overload;
use super::super::pattern;
use super::super::value::{Budget, Evaluated, Value};
use super::{Declaration, global, member};

pub(super) const FUNCTIONS: &[Declaration] = &[
    global("matches", "string, string -> bool", matches),
    member("matches", "string, string -> bool", matches),
    member("find", "string, string -> string", find),
    member("findAll", "string, string -> list(string)", find_all),
    member("findAll", "string, string, int -> list(string)", find_all),
];

/// Steps that compiling a pattern costs: 20 us for an ordinary one, some milliseconds for the largest.
pub(in super::super) const COMPILE_STEPS: usize = 20_000;

fn compiled(
    function: &'static str,
    source: &str,
    budget: &mut Budget,
) -> Result<regex::Regex, EvalError> {
    budget.spend(COMPILE_STEPS + source.len() * 10)?;
    pattern::compile(source).map_err(|problem| EvalError::Refused { function, problem })
}

fn matches<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let [Value::Text(text), Value::Text(source)] = args else {
        return Err(no_overload("matches", args));
    };
    budget.spend(text.len())?;
    Ok(Value::Bool(compiled("matches", source, budget)?.is_match(text)))
}

fn find<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let [Value::Text(text), Value::Text(source)] = args else {
        return Err(no_overload("find", args));
    };
    budget.spend(text.len())?;
    Ok(first(&compiled("find", source, budget)?, text))
}

/// The first hit, or an empty text.
pub(in super::super) fn first<'a>(pattern: &regex::Regex, text: &str) -> Value<'a> {
    Value::text(pattern.find(text).map(|hit| hit.as_str().to_owned()).unwrap_or_default())
}

/// The first hits.
pub(in super::super) fn all<'a>(
    pattern: &regex::Regex,
    text: &str,
    limit: usize,
    budget: &mut Budget,
) -> Evaluated<'a> {
    budget.spend(text.len())?;
    let hits = pattern.find_iter(text).take(limit);
    Value::list(hits.map(|hit| Value::text(hit.as_str().to_owned())).collect(), budget)
}

fn find_all<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let (text, source, limit) = match args {
        [Value::Text(text), Value::Text(source)] => (text, source, usize::MAX),
        [Value::Text(text), Value::Text(source), Value::Int(limit)] => {
            (text, source, usize::try_from(*limit).unwrap_or(usize::MAX))
        }
        _ => return Err(no_overload("findAll", args)),
    };
    all(&compiled("findAll", source, budget)?, text, limit, budget)
}
