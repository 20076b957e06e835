//! Optional values; what evaluates an argument only if needed (`or`, `orValue`, `optMap`) is not here but a node.

use std::sync::Arc;

use super::super::error::EvalError;
use super::super::eval::no_overload;
use super::super::value::{Budget, Evaluated, Value};
use super::{Declaration, global, member};

pub(super) const FUNCTIONS: &[Declaration] = &[
    global("optional.of", "A -> optional(A)", of),
    global("optional.ofNonZeroValue", "A -> optional(A)", of_non_zero),
    global("optional.none", "-> optional(_)", |_, _| Ok(Value::NONE)),
    member("hasValue", "optional(A) -> bool", has_value),
    member("value", "optional(A) -> A", value),
    global("optional.unwrap", "list(optional(A)) -> list(A)", unwrap),
    member("unwrapOpt", "list(optional(A)) -> list(A)", unwrap),
];

fn of<'a>(args: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    match args {
        [value] => Ok(Value::some(value.clone())),
        _ => Err(no_overload("optional.of", args)),
    }
}

fn of_non_zero<'a>(args: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    let zero = match args {
        [Value::Null] => true,
        [Value::Bool(value)] => !value,
        [Value::Int(value)] => *value == 0,
        [Value::Uint(value)] => *value == 0,
        [Value::Double(value)] => *value == 0.0,
        [value] => super::super::access::size(value) == Some(0),
        _ => return Err(no_overload("optional.ofNonZeroValue", args)),
    };
    if zero { Ok(Value::NONE) } else { of(args, &mut Budget::new()) }
}

fn inner<'v, 'a>(
    args: &'v [Value<'a>],
    function: &str,
) -> Result<Option<&'v Arc<Value<'a>>>, EvalError> {
    match args {
        [Value::Optional(inner), ..] => Ok(inner.as_ref()),
        _ => Err(no_overload(function, args)),
    }
}

fn has_value<'a>(args: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    Ok(Value::Bool(inner(args, "hasValue")?.is_some()))
}

fn value<'a>(args: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    inner(args, "value")?.map(|inner| (**inner).clone()).ok_or(EvalError::EmptyOptional)
}

/// The values of the optionals that have one.
fn unwrap<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let [Value::List(optionals)] = args else { return Err(no_overload("unwrapOpt", args)) };
    let mut values = Vec::new();
    for optional in optionals.iter() {
        values.extend(inner(std::slice::from_ref(optional), "unwrapOpt")?.map(|v| (**v).clone()));
    }
    Value::list(values, budget)
}
