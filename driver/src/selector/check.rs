//! Turns a parsed expression into a checked one: names, functions and types are resolved once, what
//! is constant is evaluated once, and the worst case is bounded.

mod calls;
mod formats;
mod macros;
mod operators;
mod select;

use super::error::{Position, Problem};
use super::node::{Element, Entry, Node, Which};
use super::syntax::{self, Expr, Kind};
use super::types::{Type, listed};
use super::value::{Budget, Value};

/// Bound on ranges times nodes, as upstream's cost limit.
const MAX_STEPS: u64 = 1_000_000;

/// Elements that a range is taken to have where the expression does not tell; the longest list
/// attribute has 48, and a device has at most 32 attributes and capacities.
const ASSUMED_ELEMENTS: u64 = 64;

/// Parses and checks a selector.
pub(super) fn compile(expression: &str) -> Result<Node, Problem> {
    let tree = syntax::parse(expression)?;
    let mut checker = Checker {
        source: expression,
        scope: Vec::new(),
        slots: 0,
        nodes: 0,
        turns: 1,
        most_turns: 1,
        mixed: false,
        last_list: Vec::new(),
        ahead: Budget::new(),
    };
    let root = checker.check(&tree)?;
    if !root.ty.agrees(&Type::Bool) {
        let message = format!("the expression gives {}, a selector must give bool", root.ty);
        return Err(checker.mistyped(&tree, message));
    }
    let steps = checker.most_turns.saturating_mul(checker.nodes);
    if steps > MAX_STEPS {
        return Err(Problem::TooExpensive { steps, limit: MAX_STEPS });
    }
    Ok(root.node)
}

/// A checked part of the expression.
#[derive(Clone)]
struct Typed {
    node: Node,
    ty: Type,
    /// Elements that it has at most, should it be a range.
    elements: u64,
}

impl Typed {
    fn new(node: Node, ty: Type) -> Self {
        Self { node, ty, elements: ASSUMED_ELEMENTS }
    }
}

/// A name of the expression's own.
struct Variable {
    name: String,
    value: Typed,
}

struct Checker<'s> {
    source: &'s str,
    scope: Vec<Variable>,
    /// Variables that exist at run time; others stand for a part of the device.
    slots: usize,
    /// Nodes of the tree so far.
    nodes: u64,
    /// How often the present node runs at most, and the most of all nodes.
    turns: u64,
    most_turns: u64,
    /// Whether list and map literals may mix types: in the arguments of `format`.
    mixed: bool,
    /// Types in the list literal that was checked last.
    last_list: Vec<Type>,
    /// Work that may be done ahead of the runs.
    ahead: Budget,
}

impl Checker<'_> {
    fn at(&self, expr: &Expr) -> Position {
        Position::of(self.source, expr.at)
    }

    fn mistyped(&self, expr: &Expr, message: impl Into<String>) -> Problem {
        Problem::Mistyped { at: self.at(expr), message: message.into() }
    }

    fn check(&mut self, expr: &Expr) -> Result<Typed, Problem> {
        self.nodes += 1;
        match &expr.kind {
            Kind::Literal(value) => {
                let ty = Type::parse(value.kind()).unwrap_or(Type::Dyn);
                Ok(Typed::new(Node::Const(value.clone()), ty))
            }
            Kind::Name(name, global) => self.name(expr, name, *global),
            Kind::Select { operand, field, optional } => {
                self.select(expr, operand, field, *optional)
            }
            Kind::Index { operand, key, optional } => self.index(expr, operand, key, *optional),
            Kind::Call { target, name, args } => self.call(expr, target.as_deref(), name, args),
            Kind::List(elements) => self.list(elements),
            Kind::Map(entries) => self.map(entries),
            Kind::Not(operand) => self.not(expr, operand),
            Kind::Negate(operand) => self.negate(expr, operand),
            Kind::Binary(operator, operands) => self.binary(expr, *operator, operands),
            Kind::And(operands) => {
                Ok(Typed::new(Node::And(self.truths(operands, "&&")?), Type::Bool))
            }
            Kind::Or(operands) => {
                Ok(Typed::new(Node::Or(self.truths(operands, "||")?), Type::Bool))
            }
            Kind::Conditional(parts) => self.conditional(expr, parts),
        }
    }

    /// A variable, `device`, or the name of a type.
    fn name(&self, expr: &Expr, name: &str, global: bool) -> Result<Typed, Problem> {
        if !global && let Some(variable) = self.scope.iter().rev().find(|known| known.name == name)
        {
            self.no_type(expr, &variable.value)?;
            return Ok(variable.value.clone());
        }
        match name {
            "device" => Ok(Typed::new(Node::Device, Type::Device)),
            "google" | "kubernetes" => {
                Err(self.mistyped(expr, format!("the types of {name} are not supported")))
            }
            name => match TYPE_NAMES.into_iter().find(|known| *known == name) {
                Some(name) => {
                    let ty = Type::kind(Type::named(name));
                    Ok(Typed::new(Node::Const(Value::Kind(name)), ty))
                }
                None => Err(Problem::Undeclared {
                    at: self.at(expr),
                    name: name.to_owned(),
                    known: self.known_names(),
                }),
            },
        }
    }

    fn known_names(&self) -> String {
        let mut names = vec!["device"];
        names.extend(self.scope.iter().map(|variable| variable.name.as_str()));
        names.join(", ")
    }

    /// Whether a name means something by itself.
    fn is_declared(&self, name: &str) -> bool {
        name == "device"
            || TYPE_NAMES.contains(&name)
            || self.scope.iter().any(|variable| variable.name == name)
    }

    fn list(&mut self, list: &[(Expr, bool)]) -> Result<Typed, Problem> {
        let mut elements = Vec::with_capacity(list.len());
        let mut types = Vec::with_capacity(list.len());
        let mut ty = Type::Free;
        for (element, optional) in list {
            let Typed { node: value, ty: own, .. } = self.check(element)?;
            let own = if *optional { self.inner_type(element, own)? } else { own };
            types.push(own.clone());
            ty = self.mix(element, "list", ty, own)?;
            elements.push(Element { value, optional: *optional });
        }
        self.last_list = types;
        let count = elements.len();
        let node = match constants(&elements) {
            Some(values) => Node::Const(Value::List(values.into())),
            None => Node::List(elements.into()),
        };
        let elements = u64::try_from(count).unwrap_or(u64::MAX);
        Ok(Typed { node, ty: Type::list(ty), elements })
    }

    fn map(&mut self, map: &[(Expr, Expr, bool)]) -> Result<Typed, Problem> {
        let mut entries = Vec::with_capacity(map.len());
        let (mut key_type, mut value_type) = (Type::Free, Type::Free);
        for (key_expr, value_expr, optional) in map {
            let Typed { node: key, ty: own_key, .. } = self.check(key_expr)?;
            let Typed { node: value, ty: own, .. } = self.check(value_expr)?;
            let own = if *optional { self.inner_type(value_expr, own)? } else { own };
            key_type = self.mix(key_expr, "map", key_type, own_key)?;
            value_type = self.mix(value_expr, "map", value_type, own)?;
            entries.push(Entry { key, value, optional: *optional });
        }
        let elements = u64::try_from(entries.len()).unwrap_or(u64::MAX);
        let ty = Type::map(key_type, value_type);
        Ok(Typed { node: Node::Map(entries.into()), ty, elements })
    }

    /// The type of the elements so far with one more.
    fn mix(&self, expr: &Expr, literal: &str, ty: Type, own: Type) -> Result<Type, Problem> {
        match ty {
            ty if ty.same(&own) => Ok(ty.join(&own).unwrap_or(ty)),
            _ if self.mixed => Ok(Type::Dyn),
            ty => Err(self.mistyped(
                expr,
                format!(
                    "a {literal} may not mix {ty} and {own}; \
                     attributes are dyn: compare them one by one, or convert as in string(x)"
                ),
            )),
        }
    }

    fn inner_type(&self, expr: &Expr, ty: Type) -> Result<Type, Problem> {
        match ty {
            Type::Optional(inner) => Ok(*inner),
            Type::Dyn => Ok(Type::Dyn),
            ty => Err(self.mistyped(expr, format!("after ? an optional is needed, not {ty}"))),
        }
    }

    fn arguments(
        &self,
        expr: &Expr,
        function: &str,
        given: &[&Type],
        known: impl Into<String>,
    ) -> Problem {
        Problem::Arguments {
            at: self.at(expr),
            function: function.to_owned(),
            given: listed(given.iter().copied()),
            known: known.into(),
        }
    }
}

/// Names of types, for `type(x) == string`.
const TYPE_NAMES: [&str; 11] = [
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "list",
    "map",
    "null_type",
    "type",
    "optional_type",
];

/// The values of a list literal that needs no device.
fn constants(elements: &[Element]) -> Option<Vec<Value<'static>>> {
    let value = |element: &Element| match &element.value {
        Node::Const(value) if !element.optional => Some(value.clone()),
        _ => None,
    };
    elements.iter().map(value).collect()
}

impl Which {
    /// The type of `device.attributes` or `device.capacity`.
    fn ty(self) -> Type {
        let value = match self {
            Self::Attributes => Type::Dyn,
            Self::Capacity => Type::Quantity,
        };
        Type::map(Type::Text, Type::map(Type::Text, value))
    }
}
