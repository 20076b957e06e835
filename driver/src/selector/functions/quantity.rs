//! Kubernetes quantities, exact.

use std::cmp::Ordering;

use lanemate_api::Quantity;

use super::super::error::EvalError;
use super::super::eval::no_overload;
use super::super::value::{Budget, Evaluated, Value};
use super::amount::{Amount, Stored};
use super::{Declaration, global, member};

pub(super) const FUNCTIONS: &[Declaration] = &[
    global("quantity", "string -> quantity", quantity),
    global("isQuantity", "string -> bool", is_quantity),
    global("sign", "quantity -> int", sign),
    member("isInteger", "quantity -> bool", is_integer),
    member("asInteger", "quantity -> int", as_integer),
    member("asApproximateFloat", "quantity -> double", as_float),
    member("add", "quantity, quantity -> quantity", |args, _| {
        sum(args, "add", Quantity::checked_add)
    }),
    member("add", "quantity, int -> quantity", |args, _| sum(args, "add", Quantity::checked_add)),
    member("sub", "quantity, quantity -> quantity", |args, _| {
        sum(args, "sub", Quantity::checked_sub)
    }),
    member("sub", "quantity, int -> quantity", |args, _| sum(args, "sub", Quantity::checked_sub)),
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

fn quantity<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let [Value::Text(text)] = args else { return Err(no_overload("quantity", args)) };
    budget.spend_text(text.len())?;
    match Stored::read(text) {
        Ok(stored) => Ok(Value::Quantity(stored.into())),
        Err(error) => Err(EvalError::Refused { function: "quantity", problem: error.to_string() }),
    }
}

fn is_quantity<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let [Value::Text(text)] = args else { return Err(no_overload("isQuantity", args)) };
    budget.spend_text(text.len())?;
    Ok(Value::Bool(Stored::read(text).is_ok()))
}

fn single<'v, 'a>(args: &'v [Value<'a>], function: &str) -> Result<&'v Amount<'a>, EvalError> {
    match args {
        [Value::Quantity(amount)] => Ok(amount),
        _ => Err(no_overload(function, args)),
    }
}

fn sign<'a>(args: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    Ok(Value::Int(single(args, "sign")?.quantity().sign().into()))
}

fn is_integer<'a>(args: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    Ok(Value::Bool(single(args, "isInteger")?.stored().as_integer().is_some()))
}

fn as_integer<'a>(args: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    let amount = single(args, "asInteger")?;
    amount.stored().as_integer().map(Value::Int).ok_or_else(|| EvalError::Refused {
        function: "asInteger",
        problem: format!("{} is not stored as an integer of 64 bits", amount.quantity()),
    })
}

fn as_float<'a>(args: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    Ok(Value::Double(single(args, "asApproximateFloat")?.stored().as_approximate_float()))
}

fn sum<'a>(
    args: &[Value<'a>],
    function: &str,
    apply: fn(Quantity, Quantity) -> Option<Quantity>,
) -> Evaluated<'a> {
    let (a, b) = match args {
        [Value::Quantity(a), Value::Quantity(b)] => (a.stored(), b.stored()),
        [Value::Quantity(a), Value::Int(b)] => (a.stored(), Stored::of_units(*b)),
        _ => return Err(no_overload(function, args)),
    };
    let total = apply(a.quantity, b.quantity).ok_or(EvalError::Overflow("quantity"))?;
    Ok(Value::Quantity(a.sum(&b, total).into()))
}

fn order(args: &[Value<'_>], function: &str) -> Result<Ordering, EvalError> {
    match args {
        [Value::Quantity(a), Value::Quantity(b)] => Ok(a.quantity().cmp(b.quantity())),
        _ => Err(no_overload(function, args)),
    }
}
