//! Kubernetes quantities, exact: a signed number of nano-units.

use std::fmt;
use std::str::FromStr;

/// An exact quantity. Comparison is by value; `Display` writes the canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// Which family of suffixes the canonical form uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Format {
    DecimalSi,
}

/// A text that is no quantity.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a quantity: {0:?}: expected a number with an optional suffix such as Gi, M or m")]
pub struct ParseQuantityError(pub String);

impl Quantity {
    /// A whole number of units.
    pub fn from_units(units: i64) -> Self {
        Self { nanos: i128::from(units) * 1_000_000_000, format: Format::DecimalSi }
    }

    /// Value in nano-units.
    pub fn nanos(self) -> i128 {
        self.nanos
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.nanos / 1_000_000_000)
    }
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<i64>().map(Self::from_units).map_err(|_| ParseQuantityError(text.to_owned()))
    }
}
