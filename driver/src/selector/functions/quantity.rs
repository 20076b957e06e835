//! Kubernetes quantities, exact, in nano-units.

use std::cmp::Ordering;

use lanemate_api::Quantity;

use super::super::error::EvalError;
use super::super::eval::no_overload;
use super::super::value::{Budget, Evaluated, Value};
use super::{Declaration, global, member};

pub(super) const FUNCTIONS: &[Declaration] = &[
    global("quantity", "string -> quantity", quantity),
    global("isQuantity", "string -> bool", is_quantity),
    global("sign", "quantity -> int", sign),
    member("isInteger", "quantity -> bool", is_integer),
    member("asInteger", "quantity -> int", as_integer),
    member("asApproximateFloat", "quantity -> double", as_float),
    member("add", "quantity, quantity -> quantity", |args, _| sum(args, "add", i128::checked_add)),
    member("add", "quantity, int -> quantity", |args, _| sum(args, "add", i128::checked_add)),
    member("sub", "quantity, quantity -> quantity", |args, _| sum(args, "sub", i128::checked_sub)),
    member("sub", "quantity, int -> quantity", |args, _| sum(args, "sub", i128::checked_sub)),
    member("compareTo", "quantity, quantity -> int", |args, _| {
        Ok(Value::Int(order(args, "compareTo")? as i64))
    }),
    member("isGreaterThan", "quantity, quantity -> bool", |args, _| {
        Ok(Value::Bool(order(args, "isGreaterThan")?.is_gt()))
    }),
    member("isLessThan", "quantity, quantity -> bool", |args, _| {
        Ok(Value::Bool(order(args, "isLessThan")?.is_lt()))
    }),
];

const NANOS: i128 = 1_000_000_000;

fn quantity<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let [Value::Text(text)] = args else { return Err(no_overload("quantity", args)) };
    budget.spend_text(text.len())?;
    let quantity: Quantity = text.parse().map_err(|error: lanemate_api::quantity::ParseQuantityError| {
        EvalError::Refused { function: "quantity", problem: error.to_string() }
    })?;
    Ok(Value::Quantity(quantity.nanos()))
}

fn is_quantity<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let [Value::Text(text)] = args else { return Err(no_overload("isQuantity", args)) };
    budget.spend_text(text.len())?;
    Ok(Value::Bool(text.parse::<Quantity>().is_ok()))
}

fn nanos(args: &[Value<'_>], function: &str) -> Result<i128, EvalError> {
    match args {
        [Value::Quantity(nanos)] => Ok(*nanos),
        _ => Err(no_overload(function, args)),
    }
}

fn sign<'a>(args: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    Ok(Value::Int(nanos(args, "sign")?.cmp(&0) as i64))
}

fn whole(nanos: i128) -> Option<i64> {
    if nanos % NANOS == 0 { i64::try_from(nanos / NANOS).ok() } else { None }
}

fn is_integer<'a>(args: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    Ok(Value::Bool(whole(nanos(args, "isInteger")?).is_some()))
}

fn as_integer<'a>(args: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    whole(nanos(args, "asInteger")?).map(Value::Int).ok_or_else(|| EvalError::Refused {
        function: "asInteger",
        problem: "the quantity is no integer of 64 bits".to_owned(),
    })
}

fn as_float<'a>(args: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    let nanos = nanos(args, "asApproximateFloat")?;
    // Whole and fraction apart keep integers exact.
    Ok(Value::Double((nanos / NANOS) as f64 + (nanos % NANOS) as f64 / 1e9))
}

fn sum<'a>(
    args: &[Value<'a>],
    function: &str,
    apply: fn(i128, i128) -> Option<i128>,
) -> Evaluated<'a> {
    let (a, b) = match args {
        [Value::Quantity(a), Value::Quantity(b)] => (*a, *b),
        [Value::Quantity(a), Value::Int(b)] => (*a, i128::from(*b) * NANOS),
        _ => return Err(no_overload(function, args)),
    };
    apply(a, b).map(Value::Quantity).ok_or(EvalError::Overflow("quantity"))
}

fn order(args: &[Value<'_>], function: &str) -> Result<Ordering, EvalError> {
    match args {
        [Value::Quantity(a), Value::Quantity(b)] => Ok(a.cmp(b)),
        _ => Err(no_overload(function, args)),
    }
}
