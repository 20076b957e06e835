//! CEL as a tree. The parser is ours: the one of the `cel` crate needs about 200 KiB of stack for a
//! pair of brackets in an unoptimised build and overflows at a depth that it accepts itself.

mod lexer;
mod parser;

use super::error::Problem;
use super::node::Operator;
use super::value::Value;

/// Upstream's limit for `selectors[].cel.expression`.
const MAX_BYTES: usize = 10 * 1024;

/// Most levels of brackets; upstream's own examples have a dozen at most. One needs about 20 KiB of
/// stack in an unoptimised build.
const MAX_BRACKETS: usize = 32;

/// Most levels of a tree: brackets, and chains such as `a.b.c` or `a + b + c`. Checking and
/// running recurse once per level and need about 10 KiB of stack for it in an unoptimised build. A
/// chain of `&&` or of `||` is one level.
const MAX_HEIGHT: u16 = 100;

/// An expression as written.
#[derive(Debug)]
pub(super) struct Expr {
    /// Byte of the source where a message should point.
    pub at: usize,
    pub kind: Kind,
    height: u16,
}

/// The forms of expressions.
#[derive(Debug)]
pub(super) enum Kind {
    Literal(Value<'static>),
    /// A name, and whether a dot before it keeps variables away.
    Name(String, bool),
    /// `operand.field`, or `operand.?field`.
    Select {
        operand: Box<Expr>,
        field: String,
        optional: bool,
    },
    /// `operand[key]`, or `operand[?key]`.
    Index {
        operand: Box<Expr>,
        key: Box<Expr>,
        optional: bool,
    },
    /// `name(args)`, or `target.name(args)`.
    Call {
        target: Option<Box<Expr>>,
        name: String,
        args: Vec<Expr>,
    },
    /// Elements, each with whether it is optional.
    List(Vec<(Expr, bool)>),
    /// Keys, values, and whether the entry is optional.
    Map(Vec<(Expr, Expr, bool)>),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    Binary(Operator, Box<[Expr; 2]>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Conditional(Box<[Expr; 3]>),
}

impl Kind {
    fn children(&self) -> Vec<&Expr> {
        match self {
            Self::Literal(_) | Self::Name(..) => Vec::new(),
            Self::Select { operand, .. } | Self::Not(operand) | Self::Negate(operand) => {
                vec![operand]
            }
            Self::Index { operand, key, .. } => vec![operand, key],
            Self::Call { target, args, .. } => target.as_deref().into_iter().chain(args).collect(),
            Self::List(elements) => elements.iter().map(|(element, _)| element).collect(),
            Self::Map(entries) => entries.iter().flat_map(|(key, value, _)| [key, value]).collect(),
            Self::Binary(_, operands) => operands.iter().collect(),
            Self::And(operands) | Self::Or(operands) => operands.iter().collect(),
            Self::Conditional(parts) => parts.iter().collect(),
        }
    }
}

/// Reads an expression.
pub(super) fn parse(source: &str) -> Result<Expr, Problem> {
    if source.len() > MAX_BYTES {
        return Err(Problem::TooLong { length: source.len(), limit: MAX_BYTES });
    }
    parser::parse(source, &lexer::tokens(source)?)
}
