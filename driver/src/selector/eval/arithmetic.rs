//! Arithmetic and order. Overflow is an error, and so is every mix of types but in comparisons.

use std::cmp::Ordering;
use std::sync::Arc;

use super::super::error::EvalError;
use super::super::node::Operator;
use super::super::value::{Budget, Evaluated, Value};
use super::no_overload;

/// Applies an arithmetic or ordering operator.
pub(super) fn apply<'a>(
    operator: Operator,
    left: Value<'a>,
    right: Value<'a>,
    budget: &mut Budget,
) -> Evaluated<'a> {
    match operator {
        Operator::Less => compare(operator, &left, &right, Ordering::is_lt, budget),
        Operator::LessOrEqual => compare(operator, &left, &right, Ordering::is_le, budget),
        Operator::Greater => compare(operator, &left, &right, Ordering::is_gt, budget),
        Operator::GreaterOrEqual => compare(operator, &left, &right, Ordering::is_ge, budget),
        _ => match (&left, &right) {
            (Value::Int(a), Value::Int(b)) => ints(operator, *a, *b),
            (Value::Uint(a), Value::Uint(b)) => uints(operator, *a, *b),
            (Value::Double(a), Value::Double(b)) => match operator {
                Operator::Add => Ok(Value::Double(a + b)),
                Operator::Subtract => Ok(Value::Double(a - b)),
                Operator::Multiply => Ok(Value::Double(a * b)),
                Operator::Divide => Ok(Value::Double(a / b)),
                _ => Err(no_overload(operator.symbol(), &[left, right])),
            },
            _ if operator == Operator::Add => join(left, right, budget),
            _ => Err(no_overload(operator.symbol(), &[left, right])),
        },
    }
}

/// `-value`.
pub(super) fn negate(value: Value<'_>) -> Evaluated<'_> {
    match value {
        Value::Int(value) => {
            value.checked_neg().map(Value::Int).ok_or(EvalError::Overflow("integer"))
        }
        Value::Double(value) => Ok(Value::Double(-value)),
        other => Err(no_overload("-", &[other])),
    }
}

fn compare<'a>(
    operator: Operator,
    left: &Value<'_>,
    right: &Value<'_>,
    holds: fn(Ordering) -> bool,
    budget: &mut Budget,
) -> Evaluated<'a> {
    budget.spend(left.weight())?;
    match left.order(right) {
        Some(order) => Ok(Value::Bool(holds(order))),
        None if left.is_number() && right.is_number() => Err(EvalError::Refused {
            function: operator.symbol(),
            problem: "NaN has no order".to_owned(),
        }),
        None => Err(EvalError::NoOverload {
            function: operator.symbol().to_owned(),
            given: format!("({}, {})", left.kind(), right.kind()),
        }),
    }
}

fn ints<'a>(operator: Operator, a: i64, b: i64) -> Evaluated<'a> {
    let result = match operator {
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        Operator::Divide | Operator::Remainder if b == 0 => return Err(EvalError::DivisionByZero),
        Operator::Divide => a.checked_div(b),
        _ => a.checked_rem(b),
    };
    result.map(Value::Int).ok_or(EvalError::Overflow("integer"))
}

fn uints<'a>(operator: Operator, a: u64, b: u64) -> Evaluated<'a> {
    let result = match operator {
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        Operator::Divide | Operator::Remainder if b == 0 => return Err(EvalError::DivisionByZero),
        Operator::Divide => a.checked_div(b),
        _ => a.checked_rem(b),
    };
    result.map(Value::Uint).ok_or(EvalError::Overflow("unsigned integer"))
}

/// `+` of texts, bytes and lists.
fn join<'a>(left: Value<'a>, right: Value<'a>, budget: &mut Budget) -> Evaluated<'a> {
    match (left, right) {
        (Value::Text(a), Value::Text(b)) => {
            budget.spend_text(a.len() + b.len())?;
            Value::built(format!("{a}{b}"), budget)
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            budget.spend(a.len() + b.len())?;
            Ok(Value::Bytes(a.iter().chain(b.iter()).copied().collect::<Arc<[u8]>>()))
        }
        (Value::List(a), Value::List(b)) => {
            budget.spend(a.len() + b.len())?;
            Value::list(a.iter().chain(b.iter()).cloned().collect(), budget)
        }
        (left, right) => Err(no_overload("+", &[left, right])),
    }
}
