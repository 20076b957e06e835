//! CEL selectors, compiled once and evaluated often.
//!
//! `syntax` reads the text, `check` turns it into a checked [`node::Node`], `eval` runs that, and
//! `functions` holds the libraries. All of it is ours, for three reasons: Kubernetes refuses what does
//! not type-check, has functions of its own and treats unknown domains as empty maps; hostile
//! expressions must be bounded in stack and time; and a selector runs for every distinct device, where
//! a checked tree over borrowed values needs a fraction of a microsecond. Tests compare the
//! results with those of Kubernetes and of the `cel` crate.

mod access;
mod check;
mod error;
mod eval;
mod functions;
mod node;
mod pattern;
mod syntax;
mod text;
mod types;
mod value;

use crate::attribute::{Attributes, Capacities};

pub use error::{CompileError, EvalError, Problem};

/// A compiled CEL expression over one device.
#[derive(Clone, Debug)]
pub struct Selector {
    expression: String,
    root: node::Node,
}

/// The device that a selector looks at.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// `device.driver`.
    pub driver: &'a str,
    /// `device.attributes`, by domain and id.
    pub attributes: &'a Attributes,
    /// `device.capacity`, by domain and id.
    pub capacity: &'a Capacities,
    /// `device.allowMultipleAllocations`.
    pub allow_multiple_allocations: bool,
}

impl Selector {
    /// Parses and checks an expression (`selectors[].cel.expression`).
    ///
    /// # Errors
    ///
    /// The text is over 10 KiB or too deeply nested, does not parse, names what does not exist, does
    /// not type-check, does not give a bool, or could need more than 1,000,000 steps.
    pub fn compile(expression: &str) -> Result<Self, CompileError> {
        let root = check::compile(expression)
            .map_err(|problem| CompileError { expression: expression.to_owned(), problem })?;
        Ok(Self { expression: expression.to_owned(), root })
    }

    /// Whether the expression is true for a device.
    ///
    /// # Errors
    ///
    /// Any CEL error that no `&&` or `||` absorbed, and a result that is not a bool. A missing
    /// attribute or capacity is named by [`EvalError::missing`].
    pub fn matches(&self, subject: &Subject<'_>) -> Result<bool, EvalError> {
        eval::matches(&self.root, *subject)
    }

    /// Whether the answer may depend on an attribute with one of these ids, in whatever domain. True
    /// where only a run could tell.
    pub fn may_read(&self, ids: &[&str]) -> bool {
        self.root.may_read(ids)
    }

    /// The text as written.
    pub fn expression(&self) -> &str {
        &self.expression
    }
}
