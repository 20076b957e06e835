//! Macros: loops over lists and maps, `has`, `cel.bind`, and the optional ones.

use super::super::error::Problem;
use super::super::node::{Loop, LoopKind, Node};
use super::super::syntax::{Expr, Kind};
use super::super::types::Type;
use super::{Checker, Typed, Variable};

impl Checker<'_> {
    /// A call that is a macro, if it is one.
    pub(super) fn expand(
        &mut self,
        expr: &Expr,
        target: Option<&Expr>,
        name: &str,
        args: &[Expr],
    ) -> Result<Option<Typed>, Problem> {
        let Some(target) = target else {
            return match (name, args) {
                ("has", [argument]) => self.has(expr, argument).map(Some),
                _ => Ok(None),
            };
        };
        match (name, args) {
            ("bind", [variable, value, body]) if self.is_global(target, "cel") => {
                self.bind(variable, value, body).map(Some)
            }
            ("optMap", [variable, body]) => {
                self.optional_map(expr, target, variable, body, false).map(Some)
            }
            ("optFlatMap", [variable, body]) => {
                self.optional_map(expr, target, variable, body, true).map(Some)
            }
            ("orValue" | "or", [other]) => self.or(expr, target, other, name).map(Some),
            (name, args) => match looped(name, args) {
                Some(plan) => self.each(expr, target, plan).map(Some),
                None => Ok(None),
            },
        }
    }

    /// Whether an expression is a name that no variable hides.
    pub(super) fn is_global(&self, expr: &Expr, wanted: &str) -> bool {
        matches!(&expr.kind, Kind::Name(name, false) if name == wanted)
    }

    fn variable(&self, expr: &Expr) -> Result<String, Problem> {
        match &expr.kind {
            Kind::Name(name, false) => Ok(name.clone()),
            // No name can refer to it.
            Kind::Name(name, true) => Ok(format!(".{name}")),
            _ => Err(self.mistyped(expr, "the variable of a macro must be a simple name")),
        }
    }

    /// Upstream cannot run a variable that is known to stand for a type.
    pub(super) fn no_type(&self, expr: &Expr, value: &Typed) -> Result<(), Problem> {
        match value.ty {
            Type::Kind(_) => Err(self.mistyped(expr, "a variable may not stand for a type")),
            _ => Ok(()),
        }
    }

    /// Checks a body in which some names stand for values that exist at run time.
    fn within(
        &mut self,
        variables: Vec<(String, Type, u64)>,
        body: impl FnOnce(&mut Self) -> Result<Typed, Problem>,
    ) -> Result<Typed, Problem> {
        let (outer, slots) = (self.scope.len(), self.slots);
        for (name, ty, elements) in variables {
            let value = Typed { node: Node::Local(self.slots), ty, elements };
            self.scope.push(Variable { name, value });
            self.slots += 1;
        }
        let result = body(self);
        self.scope.truncate(outer);
        self.slots = slots;
        result
    }

    fn bind(&mut self, variable: &Expr, value: &Expr, body: &Expr) -> Result<Typed, Problem> {
        let name = self.variable(variable)?;
        let value = self.check(value)?;
        self.no_type(variable, &value)?;
        // A part of the device is the same wherever it is read: the name stands for it, and what
        // follows becomes one step with it.
        if matches!(value.node, Node::Device | Node::Table(_) | Node::Domain(..)) {
            self.scope.push(Variable { name, value });
            let result = self.check(body);
            self.scope.pop();
            return result;
        }
        let variables = vec![(name, value.ty, value.elements)];
        let body = self.within(variables, |checker| checker.check(body))?;
        let node = Node::Bind(Box::new([value.node, body.node]));
        Ok(Typed { node, ..body })
    }

    fn optional_map(
        &mut self,
        expr: &Expr,
        target: &Expr,
        variable: &Expr,
        body: &Expr,
        flat: bool,
    ) -> Result<Typed, Problem> {
        let name = self.variable(variable)?;
        let optional = self.check(target)?;
        let inner = match optional.ty {
            Type::Free => Type::Free,
            ty => self.inner_type(target, ty)?,
        };
        let variables = vec![(name, inner, super::ASSUMED_ELEMENTS)];
        let body = self.within(variables, |checker| checker.check(body))?;
        let ty = match body.ty {
            ty @ Type::Optional(_) if flat => ty,
            ty if flat && ty.is_dyn() => ty,
            ty if flat => {
                return Err(self.arguments(expr, "optFlatMap", &[&ty], "a body that is optional"));
            }
            ty => Type::optional(ty),
        };
        let optional = Box::new(optional.node);
        Ok(Typed::new(Node::OptionalMap { optional, body: Box::new(body.node), flat }, ty))
    }

    /// `optional.orValue(value)` and `optional.or(optional)`.
    fn or(
        &mut self,
        expr: &Expr,
        target: &Expr,
        other: &Expr,
        function: &str,
    ) -> Result<Typed, Problem> {
        let optional = self.check(target)?;
        let other = self.check(other)?;
        let inner = match &optional.ty {
            Type::Optional(inner) => (**inner).clone(),
            ty if ty.is_dyn() => Type::Dyn,
            ty => {
                let known = "an optional before it, as in a.?b.orValue(c)";
                return Err(self.arguments(expr, function, &[ty], known));
            }
        };
        let keeps = function == "or";
        let wanted = match (keeps, optional.ty.is_dyn()) {
            // Nothing is known of the optional: the other value decides.
            (false, true) => Type::Free,
            (true, true) => Type::optional(Type::Free),
            (false, false) => inner,
            (true, false) => Type::optional(inner),
        };
        let Some(ty) = wanted.join(&other.ty) else {
            let known = format!("a value of type {wanted}");
            return Err(self.arguments(expr, function, &[&other.ty], known));
        };
        let parts = Box::new([optional.node, other.node]);
        let node = if keeps { Node::OrElse(parts) } else { Node::OrValue(parts) };
        Ok(Typed::new(node, ty))
    }

    fn each(&mut self, expr: &Expr, target: &Expr, plan: Plan<'_>) -> Result<Typed, Problem> {
        let range = self.check(target)?;
        let variables = self.loop_variables(target, &range, &plan)?;
        let turns = self.turns;
        self.turns = turns.saturating_mul(range.elements.max(1));
        self.most_turns = self.most_turns.max(self.turns);
        let mut filter = None;
        let body = self.within(variables, |checker| {
            if let Some(part) = plan.filter {
                filter = Some(checker.truth(part)?.node);
            }
            match plan.kind {
                LoopKind::All | LoopKind::Exists | LoopKind::ExistsOne | LoopKind::Filter => {
                    checker.truth(plan.body)
                }
                _ => checker.check(plan.body),
            }
        })?;
        self.turns = turns;
        let ty = self.loop_type(expr, &plan, &range.ty, &body.ty)?;
        let node = Node::Loop(Box::new(Loop {
            kind: plan.kind,
            range: range.node,
            two_variables: plan.variables.len() == 2,
            filter,
            body: body.node,
        }));
        Ok(Typed { node, ty, elements: range.elements })
    }

    fn truth(&mut self, expr: &Expr) -> Result<Typed, Problem> {
        let typed = self.check(expr)?;
        if typed.ty.agrees(&Type::Bool) {
            return Ok(typed);
        }
        Err(self.mistyped(expr, format!("this must be bool, not {}", typed.ty)))
    }

    fn loop_variables(
        &self,
        target: &Expr,
        range: &Typed,
        plan: &Plan<'_>,
    ) -> Result<Vec<(String, Type, u64)>, Problem> {
        let (first, second) = match &range.ty {
            Type::List(element) => (Type::Int, (**element).clone()),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            ty if ty.is_dyn() => (Type::Dyn, Type::Dyn),
            ty => {
                let message = format!("a macro runs over a list or map, not {ty}");
                return Err(self.mistyped(target, message));
            }
        };
        let is_list = matches!(range.ty, Type::List(_));
        let names = plan.variables.iter().map(|variable| self.variable(variable));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        let types = match names.as_slice() {
            [_] if is_list => vec![second],
            [_] => vec![first],
            [one, other] if one == other => {
                return Err(self.mistyped(target, "the two variables must have different names"));
            }
            _ => vec![first, second],
        };
        let variables = names.into_iter().zip(types);
        Ok(variables.map(|(name, ty)| (name, ty, super::ASSUMED_ELEMENTS)).collect())
    }

    fn loop_type(
        &self,
        expr: &Expr,
        plan: &Plan<'_>,
        range: &Type,
        body: &Type,
    ) -> Result<Type, Problem> {
        let item = match range {
            Type::List(element) => (**element).clone(),
            Type::Map(key, _) => (**key).clone(),
            _ => Type::Dyn,
        };
        Ok(match plan.kind {
            LoopKind::All | LoopKind::Exists | LoopKind::ExistsOne => Type::Bool,
            LoopKind::List => Type::list(body.clone()),
            LoopKind::Filter => Type::list(item),
            LoopKind::Sort => {
                let fits = !matches!(range, Type::Map(..)) && body.agrees(&Type::Ordered);
                if !fits {
                    let known = "a list, and keys that have an order";
                    return Err(self.arguments(expr, "sortBy", &[range, body], known));
                }
                match (range, item) {
                    (Type::Dyn, _) => Type::Dyn,
                    (_, Type::Free) => Type::list(Type::Int),
                    (_, item) => Type::list(item),
                }
            }
            LoopKind::Map => match range {
                Type::List(_) => Type::map(Type::Int, body.clone()),
                Type::Map(key, _) => Type::map((**key).clone(), body.clone()),
                _ => Type::map(Type::Dyn, body.clone()),
            },
            LoopKind::Entries => match body {
                Type::Map(..) => body.clone(),
                ty if ty.is_dyn() => Type::map(Type::Dyn, Type::Dyn),
                ty => {
                    let known = "a body that is a map";
                    return Err(self.arguments(expr, "transformMapEntry", &[ty], known));
                }
            },
        })
    }
}

/// A loop as written.
struct Plan<'e> {
    kind: LoopKind,
    variables: &'e [Expr],
    filter: Option<&'e Expr>,
    body: &'e Expr,
}

/// What a call loops over, if it is a macro of that name with that many arguments.
fn looped<'e>(name: &str, args: &'e [Expr]) -> Option<Plan<'e>> {
    let (kind, variables) = match (name, args.len()) {
        ("all", count @ 2..=3) => (LoopKind::All, count - 1),
        ("exists", count @ 2..=3) => (LoopKind::Exists, count - 1),
        ("exists_one", count @ 2..=3) => (LoopKind::ExistsOne, count - 1),
        ("existsOne", 3) => (LoopKind::ExistsOne, 2),
        ("map", 2..=3) => (LoopKind::List, 1),
        ("filter", 2) => (LoopKind::Filter, 1),
        ("sortBy", 2) => (LoopKind::Sort, 1),
        ("transformList", 3..=4) => (LoopKind::List, 2),
        ("transformMap", 3..=4) => (LoopKind::Map, 2),
        ("transformMapEntry", 3..=4) => (LoopKind::Entries, 2),
        _ => return None,
    };
    let (variables, rest) = args.split_at_checked(variables)?;
    match rest {
        [body] => Some(Plan { kind, variables, filter: None, body }),
        [filter, body] => Some(Plan { kind, variables, filter: Some(filter), body }),
        _ => None,
    }
}

/// Whether a name is a macro, to tell a wrong number of arguments from an unknown function.
pub(super) fn usage(name: &str) -> Option<&'static str> {
    Some(match name {
        "has" => "has(a.b)",
        "bind" => "cel.bind(name, value, body)",
        "all" | "exists" | "exists_one" | "existsOne" => {
            "(x, condition) or (key, value, condition)"
        }
        "map" => "(x, value) or (x, condition, value)",
        "filter" | "sortBy" => "(x, value)",
        "transformList" | "transformMap" | "transformMapEntry" => {
            "(key, value, body) or (key, value, condition, body)"
        }
        "optMap" | "optFlatMap" => "(x, value)",
        "or" | "orValue" => "(value)",
        _ => return None,
    })
}
