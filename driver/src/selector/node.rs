//! A checked expression, ready to run.

use std::sync::Arc;

use super::functions::Overload;
use super::value::Value;
use crate::attribute::QualifiedName;

/// One step of a checked expression.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// A literal, or a call that was evaluated ahead.
    Const(Value<'static>),
    /// A variable of `cel.bind` or of a macro, counted from the outermost.
    Local(usize),
    /// `device`.
    Device,
    /// `device.driver`.
    Driver,
    /// `device.attributes` or `device.capacity`.
    Table(Which),
    /// `device.attributes["domain"]`.
    Domain(Which, String),
    /// `device.attributes["domain"].id`, without a map in between.
    Entry(Which, QualifiedName, How),
    /// `operand.key`, `operand[key]` and their optional forms.
    Access {
        operand: Box<Node>,
        key: Box<Node>,
        how: How,
    },
    Not(Box<Node>),
    Negate(Box<Node>),
    /// Operands of a chain of `&&`: false if any is false, else the first error, else true.
    And(Box<[Node]>),
    /// Operands of a chain of `||`: true if any is true, else the first error, else false.
    Or(Box<[Node]>),
    Conditional(Box<[Node; 3]>),
    Binary(Operator, Box<[Node; 2]>),
    List(Box<[Element]>),
    Map(Box<[Entry]>),
    /// Adds a variable for the body.
    Bind(Box<[Node; 2]>),
    Loop(Box<Loop>),
    /// `optional.optMap(v, body)`, and `optFlatMap` if the body gives an optional.
    OptionalMap {
        optional: Box<Node>,
        body: Box<Node>,
        flat: bool,
    },
    /// `optional.orValue(default)`, without the optional in between.
    OrValue(Box<[Node; 2]>),
    /// `optional.or(optional)`.
    OrElse(Box<[Node; 2]>),
    /// `matches`, `find` or `findAll` with a constant pattern.
    Search {
        text: Box<Node>,
        pattern: Pattern,
        search: Search,
    },
    /// A function; the first overload that takes the values runs.
    Call {
        overloads: Box<[&'static Overload]>,
        args: Box<[Node]>,
    },
}

impl Node {
    /// Whether the value may depend on an attribute of one of these ids.
    pub fn may_read(&self, ids: &[&str]) -> bool {
        match self {
            Self::Entry(Which::Attributes, name, _) => ids.contains(&name.id.as_str()),
            // Which attributes such a map is asked for, is known only at run time.
            Self::Device | Self::Table(Which::Attributes) | Self::Domain(Which::Attributes, _) => {
                true
            }
            Self::Access { operand, key, .. } if matches!(**operand, Self::Device) => {
                match &**key {
                    Self::Const(Value::Text(field)) => &**field == "attributes",
                    _ => true,
                }
            }
            other => other.children().into_iter().any(|child| child.may_read(ids)),
        }
    }

    fn children(&self) -> Vec<&Self> {
        match self {
            Self::Const(_)
            | Self::Local(_)
            | Self::Device
            | Self::Driver
            | Self::Table(_)
            | Self::Domain(..)
            | Self::Entry(..) => Vec::new(),
            Self::Access { operand, key, .. } => vec![operand, key],
            Self::Not(operand) | Self::Negate(operand) => vec![operand],
            Self::And(operands) | Self::Or(operands) => operands.iter().collect(),
            Self::Conditional(parts) => parts.iter().collect(),
            Self::Binary(_, parts)
            | Self::Bind(parts)
            | Self::OrValue(parts)
            | Self::OrElse(parts) => parts.iter().collect(),
            Self::List(elements) => elements.iter().map(|element| &element.value).collect(),
            Self::Map(entries) => {
                entries.iter().flat_map(|entry| [&entry.key, &entry.value]).collect()
            }
            Self::Loop(each) => {
                [&each.range, &each.body].into_iter().chain(each.filter.as_ref()).collect()
            }
            Self::OptionalMap { optional, body, .. } => vec![optional, body],
            Self::Search { text, .. } => vec![text],
            Self::Call { args, .. } => args.iter().collect(),
        }
    }
}

/// A pattern compiled ahead.
pub(super) type Pattern = Arc<regex::Regex>;

/// What to make of the hits of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Search {
    Matches,
    Find,
    FindAll,
}

/// Which map of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Attributes,
    Capacity,
}

/// What to do with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// An absent key is an error.
    Get,
    /// An absent key is `optional.none()`.
    Find,
    /// Whether the key is there.
    Has,
}

/// Operators that look at both operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    /// The same, where the list is one of literals: it has no way to look for some values.
    InConstants,
}

impl Operator {
    /// As it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::In | Self::InConstants => "in",
        }
    }
}

/// An element of a list literal; an optional one may be absent.
#[derive(Clone, Debug)]
pub(super) struct Element {
    pub value: Node,
    pub optional: bool,
}

/// An entry of a map literal; an optional one may be absent.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub key: Node,
    pub value: Node,
    pub optional: bool,
}

/// A macro over a list or map.
#[derive(Clone, Debug)]
pub(super) struct Loop {
    pub kind: LoopKind,
    pub range: Node,
    /// One variable (element, or key of a map) or two (index and element, or key and value).
    pub two_variables: bool,
    /// Items for which it is false are skipped.
    pub filter: Option<Node>,
    pub body: Node,
}

/// What a macro makes of its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopKind {
    All,
    Exists,
    ExistsOne,
    /// `map` and `transformList`: the bodies.
    List,
    /// `filter`: the items.
    Filter,
    /// `transformMap`: the bodies under the old keys.
    Map,
    /// `transformMapEntry`: the entries of the bodies.
    Entries,
    /// `sortBy`: the items in the order of the bodies.
    Sort,
}
