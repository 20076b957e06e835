//! Calls of functions.

use std::sync::Arc;

use super::super::error::Problem;
use super::super::functions::regexes::COMPILE_STEPS;
use super::super::functions::{self, Overload};
use super::super::node::{Node, Search};
use super::super::pattern;
use super::super::syntax::{Expr, Kind};
use super::super::types::{Type, listed};
use super::super::value::{Budget, Value};
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
        match target.map(|target| (target, self.namespace(target))) {
            None => self.function(expr, name, None, args),
            Some((_, Some(space))) => self.function(expr, &format!("{space}.{name}"), None, args),
            Some((target, None)) => self.function(expr, name, Some(target), args),
        }
    }

    /// The name before a dot, where it is no value: of a library we have, or of one we lack.
    fn namespace<'e>(&self, target: &'e Expr) -> Option<&'e str> {
        let Kind::Name(name, _) = &target.kind else { return None };
        let hidden = self.scope.iter().any(|variable| variable.name == *name);
        let known = functions::is_namespace(name) || !self.is_declared(name);
        (known && !hidden).then_some(name)
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
        let ty = if unanimous { result.clone() } else { Type::Dyn };
        let elements = parts.iter().map(|part| part.elements).max().unwrap_or_default();
        let overloads = fitting.into_iter().map(|(overload, _)| overload).collect();
        let args: Vec<Node> = parts.into_iter().map(|part| part.node).collect();
        let node = self.call_node(expr, name, overloads, args)?;
        Ok(Typed { node, ty, elements: elements.max(ASSUMED_ELEMENTS) })
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
            Some(value) => Node::Const(value),
            None => Node::Call { overloads: overloads.into(), args: args.into() },
        })
    }
}

/// The result type of an overload on arguments, if it takes them.
fn result_for(overload: &Overload, parts: &[Typed]) -> Option<Type> {
    let params = &overload.signature.params;
    let mut bound = None;
    let fits = params.len() == parts.len()
        && parts.iter().zip(params).all(|(part, param)| part.ty.fits(param, &mut bound));
    fits.then(|| overload.signature.result.bind(&bound))
}

/// The result of a call on constants. An error stays for the run: `||` may absorb it.
fn evaluated(
    overloads: &[&'static Overload],
    args: &[Node],
    budget: &mut Budget,
) -> Option<Value<'static>> {
    let constant = |arg: &Node| match arg {
        Node::Const(value) => Some(value.clone()),
        _ => None,
    };
    let values = args.iter().map(constant).collect::<Option<Vec<_>>>()?;
    let overload = overloads.iter().find(|overload| overload.accepts(&values))?;
    (overload.run)(&values, budget).ok()
}
