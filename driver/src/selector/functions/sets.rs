//! Lists as sets: order and repetition do not count.

use super::super::access;
use super::super::error::EvalError;
use super::super::eval::no_overload;
use super::super::value::{Budget, Evaluated, Value};
use super::{Declaration, global};

pub(super) const FUNCTIONS: &[Declaration] = &[
    global("sets.contains", "list(A), list(A) -> bool", |args, budget| {
        let (a, b) = lists(args, "sets.contains")?;
        Ok(Value::Bool(contains_all(a, b, budget)?))
    }),
    global("sets.equivalent", "list(A), list(A) -> bool", |args, budget| {
        let (a, b) = lists(args, "sets.equivalent")?;
        Ok(Value::Bool(contains_all(a, b, budget)? && contains_all(b, a, budget)?))
    }),
    global("sets.intersects", "list(A), list(A) -> bool", intersects),
];

type Lists<'v, 'a> = (&'v Value<'a>, &'v Value<'a>);

fn lists<'v, 'a>(args: &'v [Value<'a>], function: &str) -> Result<Lists<'v, 'a>, EvalError> {
    match args {
        [a @ Value::List(_), b @ Value::List(_)] => Ok((a, b)),
        _ => Err(no_overload(function, args)),
    }
}

fn elements<'v, 'a>(list: &'v Value<'a>) -> &'v [Value<'a>] {
    match list {
        Value::List(elements) => elements,
        _ => &[],
    }
}

fn contains_all<'a>(
    list: &Value<'a>,
    sublist: &Value<'a>,
    budget: &mut Budget,
) -> Result<bool, EvalError> {
    for element in elements(sublist) {
        if !access::contains(list, element, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn intersects<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let (a, b) = lists(args, "sets.intersects")?;
    for element in elements(a) {
        if access::contains(b, element, budget)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
