//! Texts that are cheap to copy: lent by the device or the expression, or shared.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A text. A copy never copies its characters, so that lists of a long text stay small.
#[derive(Clone, Debug)]
pub(super) enum Text<'a> {
    Lent(&'a str),
    Shared(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Lent(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self::Lent(text)
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Self::Shared(text.into())
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}
