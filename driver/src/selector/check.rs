//! Turns a parsed expression into a checked one: names, functions and types are resolved once, what
//! is constant is evaluated once, and the worst case is bounded.

mod calls;
mod macros;
mod operators;
mod select;

use cel::common::ast::{EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, SourceInfo};

use super::error::{Position, Problem};
use super::node::{Element, Entry, Node, Which};
use super::source;
use super::types::{Type, listed};
use super::value::Value;

/// Bound on ranges times nodes, as upstream's cost limit.
const MAX_STEPS: u64 = 1_000_000;

/// Elements that a range is taken to have where the expression does not tell; the longest list
/// attribute has 48, and a device has at most 32 attributes and capacities.
const ASSUMED_ELEMENTS: u64 = 64;

/// Parses and checks a selector.
pub(super) fn compile(expression: &str) -> Result<Node, Problem> {
    source::bound(expression)?;
    let parser = cel::Env::default().parser();
    let (tree, info) = parser.parse_with_source_info(expression).map_err(|e| syntax(&e))?;
    let mut checker = Checker {
        source: expression,
        info,
        scope: Vec::new(),
        slots: 0,
        nodes: 0,
        turns: 1,
        most_turns: 1,
        mixed: false,
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

/// The first complaint of the parser, without its list of tokens.
fn syntax(errors: &cel::ParseErrors) -> Problem {
    let first = errors.errors.first();
    let (line, column) = first.map_or((1, 1), |error| error.pos);
    let message = first.map_or("no expression", |error| error.msg.as_str());
    let message = message.split(" expecting {").next().unwrap_or(message);
    let at = Position {
        line: usize::try_from(line).unwrap_or(1).max(1),
        column: usize::try_from(column).unwrap_or(1).max(1),
    };
    Problem::Syntax { at, message: message.replace("Syntax error: ", "") }
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
    info: SourceInfo,
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
}

impl Checker<'_> {
    fn at(&self, expr: &IdedExpr) -> Position {
        let start = self.info.offset_for(expr.id).map_or(0, |(start, _)| start);
        Position::of(self.source, usize::try_from(start).unwrap_or_default())
    }

    fn mistyped(&self, expr: &IdedExpr, message: impl Into<String>) -> Problem {
        Problem::Mistyped { at: self.at(expr), message: message.into() }
    }

    fn check(&mut self, expr: &IdedExpr) -> Result<Typed, Problem> {
        self.nodes += 1;
        match &expr.expr {
            Expr::Literal(literal) => Ok(constant(literal)),
            Expr::Ident(name) => self.name(expr, name),
            Expr::Select(select) => self.select(expr, select),
            Expr::Call(call) => self.call(expr, call),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(expr, map),
            Expr::Struct(message) => Err(self.mistyped(
                expr,
                format!("messages such as {}{{}} are not supported", message.type_name),
            )),
            Expr::Comprehension(_) | Expr::Unspecified => {
                Err(self.mistyped(expr, "not an expression"))
            }
        }
    }

    /// A variable, `device`, or the name of a type.
    fn name(&self, expr: &IdedExpr, name: &str) -> Result<Typed, Problem> {
        let global = name.strip_prefix('.');
        if global.is_none()
            && let Some(variable) = self.scope.iter().rev().find(|known| known.name == name)
        {
            return Ok(variable.value.clone());
        }
        match global.unwrap_or(name) {
            "device" => Ok(Typed::new(Node::Device, Type::Device)),
            name => match TYPE_NAMES.into_iter().find(|known| *known == name) {
                Some(name) => Ok(Typed::new(Node::Const(Value::Kind(name)), Type::Kind)),
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

    fn list(&mut self, list: &ListExpr) -> Result<Typed, Problem> {
        let mut elements = Vec::with_capacity(list.elements.len());
        let mut ty = Type::Free;
        for (index, element) in list.elements.iter().enumerate() {
            let optional = list.optional_indices.contains(&index);
            let Typed { node: value, ty: own, .. } = self.check(element)?;
            let own = if optional { self.inner_type(element, own)? } else { own };
            ty = self.mix(element, "list", ty, own)?;
            elements.push(Element { value, optional });
        }
        let count = elements.len();
        let node = match constants(&elements) {
            Some(values) => Node::Const(Value::List(values.into())),
            None => Node::List(elements.into()),
        };
        let mut typed = Typed::new(node, Type::list(ty));
        typed.elements = u64::try_from(count).unwrap_or(u64::MAX);
        Ok(typed)
    }

    fn map(&mut self, expr: &IdedExpr, map: &MapExpr) -> Result<Typed, Problem> {
        let mut entries = Vec::with_capacity(map.entries.len());
        let (mut key_type, mut value_type) = (Type::Free, Type::Free);
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else {
                return Err(self.mistyped(expr, "not an entry of a map"));
            };
            let key = self.check(&entry.key)?;
            let Typed { node: value, ty: own, .. } = self.check(&entry.value)?;
            let own = if entry.optional { self.inner_type(&entry.value, own)? } else { own };
            key_type = self.mix(&entry.key, "map", key_type, key.ty)?;
            value_type = self.mix(&entry.value, "map", value_type, own)?;
            entries.push(Entry { key: key.node, value, optional: entry.optional });
        }
        let count = entries.len();
        let mut typed = Typed::new(Node::Map(entries.into()), Type::map(key_type, value_type));
        typed.elements = u64::try_from(count).unwrap_or(u64::MAX);
        Ok(typed)
    }

    /// The type of the elements so far with one more.
    fn mix(&self, expr: &IdedExpr, literal: &str, ty: Type, own: Type) -> Result<Type, Problem> {
        match ty {
            Type::Free => Ok(own),
            ty if ty.same(&own) => Ok(ty),
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

    fn inner_type(&self, expr: &IdedExpr, ty: Type) -> Result<Type, Problem> {
        match ty {
            Type::Optional(inner) => Ok(*inner),
            ty if ty.is_dyn() => Ok(Type::Dyn),
            ty => Err(self.mistyped(expr, format!("after ? an optional is needed, not {ty}"))),
        }
    }

    fn arguments(
        &self,
        expr: &IdedExpr,
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
const TYPE_NAMES: [&str; 10] =
    ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"];

/// The values of a list literal that needs no device.
fn constants(elements: &[Element]) -> Option<Vec<Value<'static>>> {
    let value = |element: &Element| match &element.value {
        Node::Const(value) if !element.optional => Some(value.clone()),
        _ => None,
    };
    elements.iter().map(value).collect()
}

fn constant(literal: &LiteralValue) -> Typed {
    let (value, ty) = match literal {
        LiteralValue::Boolean(value) => (Value::Bool(*value.inner()), Type::Bool),
        LiteralValue::Bytes(value) => (Value::Bytes(value.inner().into()), Type::Bytes),
        LiteralValue::Double(value) => (Value::Double(*value.inner()), Type::Double),
        LiteralValue::Int(value) => (Value::Int(*value.inner()), Type::Int),
        LiteralValue::Null => (Value::Null, Type::Null),
        LiteralValue::String(value) => (Value::text(value.inner().to_owned()), Type::Text),
        LiteralValue::UInt(value) => (Value::Uint(*value.inner()), Type::Uint),
    };
    Typed::new(Node::Const(value), ty)
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
