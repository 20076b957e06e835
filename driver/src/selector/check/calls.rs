//! Calls of functions.

use std::sync::Arc;

use super::super::error::Problem;
use super::super::eval::no_overload;
use super::super::functions::regexes::COMPILE_STEPS;
use super::super::functions::{self, Overload};
use super::super::node::{Node, Search};
use super::super::pattern;
use super::super::syntax::{Expr, Kind};
use super::super::types::{Type, listed};
use super::super::value::{Budget, Evaluated, Value};
use super::{ASSUMED_ELEMENTS, Checker, Typed, macros};

impl Checker<'_> {
    pub(super) fn call(
        &mut self,
        expr: &Expr,
        target: Option<&Expr>,
        name: &str,
        args: &[Expr],
    ) -> Result<Typed, Problem> {
        if let Some(typed) = self.expand(expr, target, name, args)? {
            return Ok(typed);
        }
        match target.map(|target| (target, self.namespace(target, name))) {
            None => self.function(expr, name, None, args),
            Some((_, Some(space))) => self.function(expr, &format!("{space}.{name}"), None, args),
            Some((target, None)) => self.function(expr, name, Some(target), args),
        }
    }

    /// The name before a dot, where it is no value: of a library we have, or of one we lack.
    fn namespace<'e>(&self, target: &'e Expr, function: &str) -> Option<&'e str> {
        let Kind::Name(space, _) = &target.kind else { return None };
        let full = format!("{space}.{function}");
        let known = !functions::named(&full, false).is_empty() || !self.is_declared(space);
        known.then_some(space)
    }

    fn function(
        &mut self,
        expr: &Expr,
        name: &str,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> Result<Typed, Problem> {
        let overloads = functions::named(name, target.is_some());
        if overloads.is_empty() {
            return Err(self.unknown(expr, name, target.is_some()));
        }
        let mixed = self.mixed;
        self.mixed = mixed || name == "format";
        let parts = target.into_iter().chain(args);
        let parts = parts.map(|part| self.check(part)).collect::<Result<Vec<_>, _>>();
        self.mixed = mixed;
        let parts = parts?;
        let mut fitting: Vec<(&'static Overload, Type)> = Vec::new();
        for overload in overloads {
            if let Some(result) = result_for(overload, &parts) {
                fitting.push((overload, result));
            }
        }
        let Some((_, result)) = fitting.first() else {
            let given: Vec<&Type> = parts.iter().map(|part| &part.ty).collect();
            let params = overloads.iter().map(|overload| listed(&overload.signature.params));
            let known = params.collect::<Vec<_>>().join(" or ");
            return Err(self.arguments(expr, name, &given, known));
        };
        let unanimous = fitting.iter().all(|(_, other)| other == result);
        // An undecided argument takes the type of the first overload.
        let open = parts.iter().any(|part| part.ty.is_open());
        let ty = if unanimous || open { result.clone() } else { Type::Dyn };
        let elements = parts.iter().map(|part| part.elements).max().unwrap_or_default();
        let overloads = fitting.into_iter().map(|(overload, _)| overload).collect();
        let args_nodes: Vec<Node> = parts.into_iter().map(|part| part.node).collect();
        if let ("format", Some(pattern), [list]) = (name, target, args) {
            self.check_format(expr, pattern, list)?;
        }
        let node = self.call_node(expr, name, overloads, args_nodes)?;
        let elements = match (name, args) {
            ("lists.range", [Expr { kind: Kind::Literal(Value::Int(length)), .. }]) => {
                u64::try_from(*length).unwrap_or_default()
            }
            _ => elements.max(ASSUMED_ELEMENTS),
        };
        Ok(Typed { node, ty, elements })
    }

    fn unknown(&self, expr: &Expr, name: &str, member: bool) -> Problem {
        let plain = name.rsplit('.').next().unwrap_or(name);
        let hint = if !functions::named(name, !member).is_empty() && member {
            format!(" as a method; write {name}(...)")
        } else if !functions::named(name, !member).is_empty() {
            format!(" as a function; write value.{name}(...)")
        } else {
            macros::usage(plain).map(|usage| format!("; write {plain}{usage}")).unwrap_or_default()
        };
        Problem::UnknownFunction { at: self.at(expr), name: name.to_owned(), hint }
    }

    /// The step for a call: its result if nothing of it depends on the device, and a compiled pattern
    /// where the pattern is constant.
    fn call_node(
        &mut self,
        expr: &Expr,
        name: &str,
        overloads: Vec<&'static Overload>,
        mut args: Vec<Node>,
    ) -> Result<Node, Problem> {
        let search = match (name, args.len()) {
            ("matches", 2) => Some(Search::Matches),
            ("find", 2) => Some(Search::Find),
            ("findAll", 2) => Some(Search::FindAll),
            _ => None,
        };
        if let (Some(search), Some(Node::Const(Value::Text(source)))) = (search, args.get(1)) {
            if self.ahead.spend(COMPILE_STEPS).is_err() {
                let message = "too many patterns for one expression";
                return Err(self.mistyped(expr, message));
            }
            let compiled =
                pattern::compile(source).map_err(|message| self.mistyped(expr, message))?;
            let text = Box::new(args.swap_remove(0));
            return Ok(Node::Search { text, pattern: Arc::new(compiled), search });
        }
        Ok(match evaluated(&overloads, &args, &mut self.ahead) {
            Some(Ok(value)) if is_small(&value) => Node::Const(value),
            // Upstream converts what is spelled out when it compiles.
            Some(Err(error)) if is_spelled_out(expr) => {
                return Err(self.mistyped(expr, error.to_string()));
            }
            _ => Node::Call { overloads: overloads.into(), args: args.into() },
        })
    }
}

/// Whether a value may be kept for all runs: compiled selectors stay for long.
fn is_small(value: &Value<'_>) -> bool {
    const MOST_BYTES: usize = 1024;
    const MOST_ELEMENTS: usize = 64;
    match value {
        Value::Text(text) => text.len() <= MOST_BYTES,
        Value::Bytes(bytes) => bytes.len() <= MOST_BYTES,
        Value::List(elements) => elements.len() <= MOST_ELEMENTS,
        Value::Map(entries) => entries.len() <= MOST_ELEMENTS,
        _ => true,
    }
}

/// Whether an expression is a literal, or made of literals by conversions such as `int("1")`.
fn is_spelled_out(expr: &Expr) -> bool {
    const CONVERSIONS: [&str; 8] =
        ["bool", "bytes", "double", "dyn", "int", "string", "type", "uint"];
    match &expr.kind {
        Kind::Literal(_) => true,
        Kind::List(elements) => {
            elements.iter().all(|(element, optional)| !optional && is_spelled_out(element))
        }
        Kind::Map(entries) => entries.iter().all(|(key, value, optional)| {
            !optional && is_spelled_out(key) && is_spelled_out(value)
        }),
        Kind::Call { target: None, name, args } => {
            CONVERSIONS.contains(&name.as_str()) && args.iter().all(is_spelled_out)
        }
        _ => false,
    }
}

/// The result type of an overload on arguments, if it takes them.
fn result_for(overload: &Overload, parts: &[Typed]) -> Option<Type> {
    let params = &overload.signature.params;
    let mut bound = None;
    let fits = params.len() == parts.len()
        && parts.iter().zip(params).all(|(part, param)| part.ty.fits(param, &mut bound));
    // An undecided list has elements of the first type with an order.
    let undecided = parts
        .iter()
        .zip(params)
        .any(|(part, param)| part.ty == Type::Free && *param == Type::list(Type::Ordered));
    if bound.is_none() && undecided {
        bound = Some(Type::Int);
    }
    // There is one overload for each type with an order: where that is open, so is the result.
    let ordered = params.contains(&Type::list(Type::Ordered));
    if fits
        && ordered
        && matches!(bound, None | Some(Type::Dyn | Type::Null))
        && overload.signature.result != Type::Bool
    {
        return Some(Type::Dyn);
    }
    fits.then(|| overload.signature.result.bind(&bound))
}

/// The result of a call on constants. Most errors stay for the run: `||` may absorb them.
fn evaluated(
    overloads: &[&'static Overload],
    args: &[Node],
    budget: &mut Budget,
) -> Option<Evaluated<'static>> {
    let constant = |arg: &Node| match arg {
        Node::Const(value) => Some(value.clone()),
        _ => None,
    };
    let values = args.iter().map(constant).collect::<Option<Vec<_>>>()?;
    match overloads.iter().find(|overload| overload.accepts(&values)) {
        Some(overload) => Some((overload.run)(&values, budget)),
        None => Some(Err(no_overload(overloads.first()?.name, &values))),
    }
}
