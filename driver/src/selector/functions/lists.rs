//! Functions on lists: Kubernetes' own and the lists extension.

use std::cmp::Ordering;

use super::super::error::EvalError;
use super::super::eval::no_overload;
use super::super::value::{Budget, Evaluated, Value};
use super::standard::int;
use super::{Declaration, global, member};

pub(super) const FUNCTIONS: &[Declaration] = &[
    member("isSorted", "list(O) -> bool", is_sorted),
    member("sum", "list(int) -> int", |args, budget| sum(args, Value::Int(0), budget)),
    member("sum", "list(uint) -> uint", |args, budget| sum(args, Value::Uint(0), budget)),
    member("sum", "list(double) -> double", |args, budget| sum(args, Value::Double(0.0), budget)),
    member("min", "list(O) -> O", |args, budget| extreme(args, "min", Ordering::Less, budget)),
    member("max", "list(O) -> O", |args, budget| extreme(args, "max", Ordering::Greater, budget)),
    member("indexOf", "list(A), A -> int", |args, budget| {
        index(args, "indexOf", |hits| hits.next(), budget)
    }),
    member("lastIndexOf", "list(A), A -> int", |args, budget| {
        index(args, "lastIndexOf", |hits| hits.last(), budget)
    }),
    member("slice", "list(A), int, int -> list(A)", slice),
    member("flatten", "list(list(A)) -> list(A)", flatten),
    member("flatten", "list(dyn), int -> list(dyn)", flatten),
    member("sort", "list(O) -> list(O)", sort),
    member("distinct", "list(A) -> list(A)", distinct),
    member("reverse", "list(A) -> list(A)", reverse),
    member("first", "list(A) -> optional(A)", |args, _| end(args, "first", <[_]>::first)),
    global("lists.range", "int -> list(int)", range),
    member("last", "list(A) -> optional(A)", |args, _| end(args, "last", <[_]>::last)),
];

fn elements<'v, 'a>(
    args: &'v [Value<'a>],
    function: &str,
    budget: &mut Budget,
) -> Result<&'v [Value<'a>], EvalError> {
    match args {
        [Value::List(elements), ..] => {
            budget.spend(elements.len())?;
            Ok(elements)
        }
        _ => Err(no_overload(function, args)),
    }
}

/// The same, where every element is of a type that has an order.
fn ordered<'v, 'a>(
    args: &'v [Value<'a>],
    function: &str,
    budget: &mut Budget,
) -> Result<&'v [Value<'a>], EvalError> {
    let elements = elements(args, function, budget)?;
    budget.spend(elements.iter().map(Value::weight).sum())?;
    match elements.iter().find(|element| !has_order(element)) {
        None => Ok(elements),
        Some(other) => Err(EvalError::NoOverload {
            function: function.to_owned(),
            given: format!("list of {}", other.kind()),
        }),
    }
}

fn has_order(value: &Value<'_>) -> bool {
    use Value::{Bool, Bytes, Double, Int, Text, Uint};
    matches!(value, Int(_) | Uint(_) | Double(_) | Bool(_) | Text(_) | Bytes(_))
}

fn is_sorted<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let elements = ordered(args, "isSorted", budget)?;
    // Neighbours that cannot be compared are in order, as upstream has it.
    let sorted = |(a, b): (&Value<'_>, &Value<'_>)| a.order(b) != Some(Ordering::Greater);
    Ok(Value::Bool(elements.iter().zip(elements.iter().skip(1)).all(sorted)))
}

fn sum<'a>(args: &[Value<'a>], zero: Value<'a>, budget: &mut Budget) -> Evaluated<'a> {
    let elements = elements(args, "sum", budget)?;
    let Some((first, rest)) = elements.split_first() else { return Ok(zero) };
    let mut total = first.clone();
    if !matches!(total, Value::Int(_) | Value::Uint(_) | Value::Double(_)) {
        return Err(no_overload("sum", elements.get(..1).unwrap_or_default()));
    }
    for element in rest {
        total = match (&total, element) {
            (Value::Int(a), Value::Int(b)) => {
                a.checked_add(*b).map(Value::Int).ok_or(EvalError::Overflow("integer"))?
            }
            (Value::Uint(a), Value::Uint(b)) => {
                a.checked_add(*b).map(Value::Uint).ok_or(EvalError::Overflow("unsigned integer"))?
            }
            (Value::Double(a), Value::Double(b)) => Value::Double(a + b),
            _ => return Err(no_overload("sum", &[total, element.clone()])),
        };
    }
    Ok(total)
}

fn extreme<'a>(
    args: &[Value<'a>],
    function: &'static str,
    wanted: Ordering,
    budget: &mut Budget,
) -> Evaluated<'a> {
    let elements = ordered(args, function, budget)?;
    let Some((first, rest)) = elements.split_first() else {
        return Err(EvalError::Refused { function, problem: "the list is empty".to_owned() });
    };
    let mut best = first;
    for element in rest {
        // What cannot be compared with the best so far is passed over, as upstream has it.
        if element.order(best) == Some(wanted) {
            best = element;
        }
    }
    Ok(best.clone())
}

fn index<'a>(
    args: &[Value<'a>],
    function: &str,
    choose: fn(&mut dyn Iterator<Item = usize>) -> Option<usize>,
    budget: &mut Budget,
) -> Evaluated<'a> {
    let [Value::List(elements), wanted] = args else { return Err(no_overload(function, args)) };
    let mut hits = Vec::new();
    for (index, element) in elements.iter().enumerate() {
        if wanted.equals(element, budget)? {
            hits.push(index);
        }
    }
    Ok(choose(&mut hits.into_iter()).map_or(Value::Int(-1), int))
}

fn slice<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let [Value::List(elements), Value::Int(start), Value::Int(end)] = args else {
        return Err(no_overload("slice", args));
    };
    let range = usize::try_from(*start).ok().zip(usize::try_from(*end).ok());
    match range.and_then(|(start, end)| elements.get(start..end)) {
        Some(part) => Value::list(part.to_vec(), budget),
        None => Err(EvalError::Refused {
            function: "slice",
            problem: format!("[{start}, {end}) is no range in a list of {}", elements.len()),
        }),
    }
}

fn flatten<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let (elements, depth) = match args {
        [Value::List(elements)] => (elements, 1),
        [Value::List(elements), Value::Int(depth)] if *depth >= 0 => (elements, *depth),
        _ => {
            return Err(EvalError::Refused {
                function: "flatten",
                problem: "the depth is negative".to_owned(),
            });
        }
    };
    let mut flat = Vec::new();
    flatten_into(&mut flat, elements, depth, budget)?;
    Value::list(flat, budget)
}

/// Recurses as deep as lists nest, which is at most as deep as the expression.
fn flatten_into<'a>(
    flat: &mut Vec<Value<'a>>,
    elements: &[Value<'a>],
    depth: i64,
    budget: &mut Budget,
) -> Result<(), EvalError> {
    for element in elements {
        budget.spend(1)?;
        match element {
            Value::List(inner) if depth > 0 => flatten_into(flat, inner, depth - 1, budget)?,
            other => flat.push(other.clone()),
        }
    }
    Ok(())
}

fn sort<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let elements = elements(args, "sort", budget)?;
    let keyed = elements.iter().map(|element| (element.clone(), element.clone())).collect();
    sort_by_key(keyed, "sort", budget)
}

/// The second parts, in the order of the first. All keys must be of one type.
pub(in super::super) fn sort_by_key<'a>(
    mut keyed: Vec<(Value<'a>, Value<'a>)>,
    function: &str,
    budget: &mut Budget,
) -> Evaluated<'a> {
    let kind = keyed.first().map_or("", |(key, _)| key.kind());
    if let Some((key, _)) = keyed.iter().find(|(key, _)| !has_order(key) || key.kind() != kind) {
        return Err(EvalError::NoOverload {
            function: function.to_owned(),
            given: format!("keys of {kind} and {}", key.kind()),
        });
    }
    // A list of 64 Ki elements needs 16 comparisons for each.
    budget.spend(keyed.iter().map(|(key, _)| 1 + key.weight()).sum::<usize>() * 16)?;
    // All keys are of one type. NaN has no order; it goes last, so that the order is a total one.
    let nan = |key: &Value<'_>| matches!(key, Value::Double(value) if value.is_nan());
    keyed.sort_by(|(a, _), (b, _)| a.order(b).unwrap_or_else(|| nan(a).cmp(&nan(b))));
    Value::list(keyed.into_iter().map(|(_, value)| value).collect(), budget)
}

fn distinct<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let mut kept: Vec<Value<'a>> = Vec::new();
    for element in elements(args, "distinct", budget)? {
        let mut known = false;
        for earlier in &kept {
            known = known || element.equals(earlier, budget)?;
        }
        if !known {
            kept.push(element.clone());
        }
    }
    Value::list(kept, budget)
}

fn reverse<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let elements = elements(args, "reverse", budget)?;
    Value::list(elements.iter().rev().cloned().collect(), budget)
}

fn range<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let [Value::Int(length)] = args else { return Err(no_overload("lists.range", args)) };
    let Ok(count) = usize::try_from(*length) else {
        let problem = format!("{length} is no length");
        return Err(EvalError::Refused { function: "lists.range", problem });
    };
    budget.spend(count)?;
    Value::list((0..*length).map(Value::Int).collect(), budget)
}

fn end<'a>(
    args: &[Value<'a>],
    function: &str,
    choose: for<'v> fn(&'v [Value<'a>]) -> Option<&'v Value<'a>>,
) -> Evaluated<'a> {
    match args {
        [Value::List(elements)] => Ok(choose(elements).cloned().map_or(Value::NONE, Value::some)),
        _ => Err(no_overload(function, args)),
    }
}
