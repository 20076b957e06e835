//! Functions of the CEL standard that look at values.

use super::super::access;
use super::super::eval::no_overload;
use super::super::value::{Budget, Evaluated, Value};
use super::{Declaration, global, member};

pub(super) const FUNCTIONS: &[Declaration] = &[
    global("size", "string -> int", size),
    global("size", "bytes -> int", size),
    global("size", "list(dyn) -> int", size),
    global("size", "map(dyn, dyn) -> int", size),
    member("size", "string -> int", size),
    member("size", "bytes -> int", size),
    member("size", "list(dyn) -> int", size),
    member("size", "map(dyn, dyn) -> int", size),
    member("contains", "string, string -> bool", contains),
    member("startsWith", "string, string -> bool", starts_with),
    member("endsWith", "string, string -> bool", ends_with),
    member("includes", "dyn, dyn -> bool", includes),
];

/// A length or position as CEL counts it.
pub(super) fn int<'a>(number: usize) -> Value<'a> {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn size<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let count = args.first().and_then(access::size).ok_or_else(|| no_overload("size", args))?;
    budget.spend_text(count)?;
    Ok(int(count))
}

fn texts<'a>(
    args: &[Value<'a>],
    budget: &mut Budget,
    function: &str,
    holds: fn(&str, &str) -> bool,
) -> Evaluated<'a> {
    match args {
        [Value::Text(text), Value::Text(part)] => {
            budget.spend_text(text.len())?;
            Ok(Value::Bool(holds(text, part)))
        }
        _ => Err(no_overload(function, args)),
    }
}

fn contains<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    texts(args, budget, "contains", |text, part| text.contains(part))
}

fn starts_with<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    texts(args, budget, "startsWith", |text, part| text.starts_with(part))
}

fn ends_with<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    texts(args, budget, "endsWith", |text, part| text.ends_with(part))
}

/// A single value counts as a list of one, so that an attribute may become a list.
fn includes<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let (elements, wanted) = match args {
        [Value::List(elements), wanted] => (&**elements, wanted),
        [single, wanted] => (std::slice::from_ref(single), wanted),
        _ => return Err(no_overload("includes", args)),
    };
    for element in elements {
        if element.equals(wanted, budget)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
