//! Why a selector does not compile, or does not decide about a device.

use std::fmt;

use crate::attribute::QualifiedName;

/// An expression that is no selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("compile CEL selector `{}`: {problem}", shortened(.expression))]
pub struct CompileError {
    /// The text as written.
    pub expression: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with an expression, in the words of its author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The source is over the limit.
    #[error("{length} bytes are more than the {limit} that an expression may have")]
    TooLong {
        /// Bytes of the source.
        length: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// Brackets, or chains of operators, go too deep.
    #[error("{at}: nested more than {limit} levels deep")]
    TooDeep {
        /// Where the limit is passed.
        at: Position,
        /// Levels allowed.
        limit: usize,
    },
    /// The worst case takes too long.
    #[error(
        "too expensive: up to {steps} steps are more than the {limit} allowed; iterate over less"
    )]
    TooExpensive {
        /// Product of the nested ranges, times the nodes of the expression.
        steps: u64,
        /// Steps allowed.
        limit: u64,
    },
    /// The text is no CEL.
    #[error("{at}: {message}")]
    Syntax {
        /// Where.
        at: Position,
        /// What the parser says.
        message: String,
    },
    /// A field of `device` that does not exist.
    #[error(
        "{at}: device has no field {field:?}; it has driver, attributes, capacity and allowMultipleAllocations"
    )]
    UnknownField {
        /// Where.
        at: Position,
        /// The field.
        field: String,
    },
    /// A name that is declared nowhere.
    #[error("{at}: {name:?} is not declared; known here: {known}")]
    Undeclared {
        /// Where.
        at: Position,
        /// The name.
        name: String,
        /// The variables in scope.
        known: String,
    },
    /// A function that does not exist here.
    #[error("{at}: function {name:?} is not supported{hint}")]
    UnknownFunction {
        /// Where.
        at: Position,
        /// The function, with its namespace.
        name: String,
        /// The other way to call it, if there is one.
        hint: String,
    },
    /// Arguments that a function or operator does not take.
    #[error("{at}: {function} does not take {given}; it takes {known}")]
    Arguments {
        /// Where.
        at: Position,
        /// The function or operator.
        function: String,
        /// Types of the arguments.
        given: String,
        /// Types that it does take.
        known: String,
    },
    /// Anything else that does not type-check.
    #[error("{at}: {message}")]
    Mistyped {
        /// Where.
        at: Position,
        /// What was expected and found.
        message: String,
    },
}

/// A place in an expression, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Character of the line.
    pub column: usize,
}

impl Position {
    /// The place of a byte offset.
    pub(super) fn of(source: &str, offset: usize) -> Self {
        let before = source.char_indices().take_while(|(at, _)| *at < offset);
        let (line, column) = before.fold((1, 1), |(line, column), (_, c)| match c {
            '\n' => (line + 1, 1),
            _ => (line, column + 1),
        });
        Self { line, column }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Why an expression gives no answer for a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The device lacks the attribute.
    #[error("no such key: {id}: the device has no attribute {0}; write `.?{id}.orValue(...)` or guard with has()", id = .0.id)]
    MissingAttribute(QualifiedName),
    /// The device lacks the capacity.
    #[error("no such key: {id}: the device has no capacity {0}; guard with has()", id = .0.id)]
    MissingCapacity(QualifiedName),
    /// A map of the expression lacks the key.
    #[error("no such key: {0}")]
    MissingKey(String),
    /// Values of types that a function or operator does not take.
    #[error("no such overload: {function} does not take {given}")]
    NoOverload {
        /// The function or operator.
        function: String,
        /// Types of the values.
        given: String,
    },
    /// A function refuses its value.
    #[error("{function}: {problem}")]
    Refused {
        /// The function.
        function: &'static str,
        /// Which value, and why.
        problem: String,
    },
    /// A result leaves the range of its type.
    #[error("{0} overflow")]
    Overflow(&'static str),
    /// A division or remainder by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// A list is shorter.
    #[error("index {index} is out of range of a list of {length}")]
    OutOfRange {
        /// The index asked for.
        index: i64,
        /// Elements of the list.
        length: usize,
    },
    /// `value()` of an empty optional.
    #[error("optional.none() has no value")]
    EmptyOptional,
    /// The result is neither true nor false.
    #[error("the result is of type {0}, not bool")]
    NotBool(&'static str),
    /// A value that upstream cannot look up: neither as a key, nor in a list of literals. Nothing absorbs
    /// the error.
    #[error("a value of type {0} cannot be looked up; compare it with == instead")]
    NoKey(&'static str),
    /// The evaluation needs too many steps, or too large a value.
    #[error("cost limit exceeded")]
    TooExpensive,
}

impl EvalError {
    /// Whether it ends the evaluation, where `||` and `&&` absorb other errors.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::TooExpensive | Self::NoKey(_))
    }

    /// The attribute or capacity whose absence is the error.
    pub fn missing(&self) -> Option<&QualifiedName> {
        match self {
            Self::MissingAttribute(name) | Self::MissingCapacity(name) => Some(name),
            _ => None,
        }
    }
}

/// The first characters of an expression; one may be 10 KiB.
fn shortened(expression: &str) -> String {
    const SHOWN: usize = 200;
    match expression.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", expression.get(..end).unwrap_or_default()),
        None => expression.to_owned(),
    }
}
