//! Values at run time: borrowed from the device and the expression wherever possible.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use super::Subject;
use super::access;
use super::error::EvalError;
use super::functions::amount::Amount;
use super::functions::format::Format;
use super::functions::network::{Cidr, Url};
use super::text::Text;
use crate::attribute::{AttributeValue, Attributes, Capacities};

/// A value during an evaluation.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Text<'a>),
    Bytes(Arc<[u8]>),
    Quantity(Amount<'a>),
    Version(semver::Version),
    Ip(IpAddr),
    Cidr(Cidr),
    Url(Arc<Url>),
    Format(Format),
    /// A type, by name.
    Kind(&'static str),
    List(Arc<[Value<'a>]>),
    /// Keys are unique.
    Map(Arc<[(Value<'a>, Value<'a>)]>),
    Optional(Option<Arc<Value<'a>>>),
    Device(Subject<'a>),
    /// `device.attributes` or `device.capacity`.
    Table(Table<'a>),
    /// One domain of a table; one that does not exist is empty.
    Domain(Table<'a>, Text<'a>),
}

/// What the device maps domains to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Table<'a> {
    Attributes(&'a Attributes),
    Capacity(&'a Capacities),
}

pub(super) type Evaluated<'a> = Result<Value<'a>, EvalError>;

/// Work that one evaluation may still do, in steps of about 0.1 us. A bound at run time on top of the
/// one at compile time: what the ranges and texts really are is known only here.
#[derive(Debug)]
pub(super) struct Budget(u32);

impl Budget {
    /// Upstream's limit: about a tenth of a second.
    pub const STEPS: u32 = 1_000_000;

    pub fn new() -> Self {
        Self(Self::STEPS)
    }

    pub fn spend(&mut self, steps: usize) -> Result<(), EvalError> {
        let left = u32::try_from(steps).ok().and_then(|steps| self.0.checked_sub(steps));
        self.0 = left.ok_or(EvalError::TooExpensive)?;
        Ok(())
    }

    /// Pays for a text: copying 16 bytes is a step.
    pub fn spend_text(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.spend(bytes / 16 + 1)
    }
}

/// Bytes of the longest text that an evaluation may build: each doubling of a text needs a step only.
const MAX_TEXT: usize = 64 * 1024;

/// Bytes that are compared in a step.
const COMPARED: usize = 256;

/// Elements of the longest list that an evaluation may build.
const MAX_ELEMENTS: usize = 64 * 1024;

impl<'a> Value<'a> {
    pub fn text(text: impl Into<Text<'a>>) -> Self {
        Self::Text(text.into())
    }

    /// A text that was built; too long a one is an error.
    pub fn built(text: String, budget: &mut Budget) -> Evaluated<'a> {
        budget.spend_text(text.len())?;
        if text.len() > MAX_TEXT { Err(EvalError::TooExpensive) } else { Ok(Self::text(text)) }
    }

    /// A list that was built; too long a one is an error.
    pub fn list(elements: Vec<Value<'a>>, budget: &mut Budget) -> Evaluated<'a> {
        budget.spend(elements.len())?;
        if elements.len() > MAX_ELEMENTS {
            return Err(EvalError::TooExpensive);
        }
        Ok(Self::List(elements.into()))
    }

    pub fn some(value: Value<'a>) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    pub const NONE: Self = Self::Optional(None);

    /// The same value, with its text borrowed.
    pub fn lent(&'a self) -> Value<'a> {
        match self {
            Self::Text(text) => Self::text(&**text),
            Self::Quantity(amount) => Self::Quantity(amount.lent()),
            other => other.clone(),
        }
    }

    /// The type, as CEL names it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Quantity(_) => "quantity",
            Self::Version(_) => "semver",
            Self::Ip(_) => "ip",
            Self::Cidr(_) => "cidr",
            Self::Url(_) => "url",
            Self::Format(_) => "format",
            Self::Kind(_) => "type",
            Self::List(_) => "list",
            Self::Map(_) | Self::Table(_) | Self::Domain(..) | Self::Device(_) => "map",
            Self::Optional(_) => "optional_type",
        }
    }

    pub fn is_number(&self) -> bool {
        matches!(self, Self::Int(_) | Self::Uint(_) | Self::Double(_))
    }

    /// Whether it has neither elements nor fields.
    pub fn is_single(&self) -> bool {
        !matches!(
            self,
            Self::List(_)
                | Self::Map(_)
                | Self::Optional(_)
                | Self::Device(_)
                | Self::Table(_)
                | Self::Domain(..)
        )
    }

    /// Reads an attribute.
    pub fn of_attribute(value: &'a AttributeValue) -> Evaluated<'a> {
        let list = |elements: Vec<Value<'a>>| Self::List(elements.into());
        Ok(match value {
            AttributeValue::Bool(value) => Self::Bool(*value),
            AttributeValue::Int(value) => Self::Int(*value),
            AttributeValue::String(text) => Self::text(text.as_str()),
            AttributeValue::Version(text) => read_version(text)?,
            AttributeValue::Bools(values) => {
                list(values.iter().map(|value| Self::Bool(*value)).collect())
            }
            AttributeValue::Ints(values) => {
                list(values.iter().map(|value| Self::Int(*value)).collect())
            }
            AttributeValue::Strings(texts) => {
                list(texts.iter().map(|text| Self::text(text.as_str())).collect())
            }
            AttributeValue::Versions(texts) => {
                list(texts.iter().map(|text| read_version(text)).collect::<Result<_, _>>()?)
            }
        })
    }

    /// Whether `==` holds. Between types it is false, except for numbers of equal value.
    pub fn equals(&self, other: &Value<'_>, budget: &mut Budget) -> Result<bool, EvalError> {
        Ok(self.compared(other, budget)? == Some(true))
    }

    /// `==`, which does not exist between a quantity, version, address or URL and a value of another
    /// type on its right.
    pub fn compared(
        &self,
        other: &Value<'_>,
        budget: &mut Budget,
    ) -> Result<Option<bool>, EvalError> {
        budget.spend(1)?;
        Ok(Some(match (self, other) {
            (Self::Text(a), Value::Text(b)) => {
                budget.spend(a.len() / COMPARED)?;
                **a == **b
            }
            (Self::Null, Value::Null) => true,
            (Self::Null, _) | (_, Value::Null) => false,
            (Self::Bool(a), Value::Bool(b)) => a == b,
            (Self::Bytes(a), Value::Bytes(b)) => a == b,
            (Self::Quantity(a), Value::Quantity(b)) if !b.is_sum() => a.quantity() == b.quantity(),
            // Build metadata takes no part, unlike in matchAttribute.
            (Self::Version(a), Value::Version(b)) => a.cmp_precedence(b) == Ordering::Equal,
            (Self::Ip(a), Value::Ip(b)) => a == b,
            (Self::Cidr(a), Value::Cidr(b)) => a == b,
            (Self::Url(a), Value::Url(b)) => a == b,
            (Self::Format(a), Value::Format(b)) => a == b,
            (Self::Kind(a), Value::Kind(b)) => a == b,
            (Self::Optional(None), Value::Optional(None)) => true,
            (Self::Optional(Some(a)), Value::Optional(Some(b))) => return a.compared(b, budget),
            (
                Self::Quantity(_)
                | Self::Version(_)
                | Self::Ip(_)
                | Self::Cidr(_)
                | Self::Url(_)
                | Self::Format(_),
                _,
            ) => return Ok(None),
            (Self::List(a), Value::List(b)) => {
                a.len() == b.len() && all_equal(a.iter().zip(b.iter()), budget)?
            }
            _ => match (access::entries(self)?, access::entries(other)?) {
                (Some(a), Some(b)) => a.len() == b.len() && same_entries(&a, other, budget)?,
                _ => numeric_order(self, other) == Some(Ordering::Equal),
            },
        }))
    }

    /// Steps of comparing the value beyond the first one.
    pub fn weight(&self) -> usize {
        match self {
            Self::Text(text) => text.len() / COMPARED,
            Self::Bytes(bytes) => bytes.len() / COMPARED,
            _ => 0,
        }
    }

    /// Order of two values; none between types that have no order, and with NaN.
    pub fn order(&self, other: &Value<'_>) -> Option<Ordering> {
        match (self, other) {
            (Self::Text(a), Value::Text(b)) => Some((**a).cmp(b)),
            (Self::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            (Self::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
            _ => numeric_order(self, other),
        }
    }
}

fn read_version<'a>(text: &str) -> Evaluated<'a> {
    let version = semver::Version::parse(text).map_err(|error| EvalError::Refused {
        function: "version attribute",
        problem: format!("{text:?}: {error}"),
    })?;
    Ok(Value::Version(version))
}

/// A pair that cannot be compared counts as equal, as upstream does.
fn all_equal<'v, 'a: 'v>(
    pairs: impl Iterator<Item = (&'v Value<'a>, &'v Value<'a>)>,
    budget: &mut Budget,
) -> Result<bool, EvalError> {
    for (a, b) in pairs {
        if a.compared(b, budget)? == Some(false) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn same_entries(
    entries: &[(Value<'_>, Value<'_>)],
    other: &Value<'_>,
    budget: &mut Budget,
) -> Result<bool, EvalError> {
    for (key, value) in entries {
        match access::find(other, key, budget)? {
            Some(found) if value.compared(&found, budget)? != Some(false) => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Order of two numbers by value, whatever their types; none with NaN.
fn numeric_order(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    match (a, b) {
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Double(a), b) => a.partial_cmp(&rounded(b)?),
        (a, Value::Double(b)) => rounded(a)?.partial_cmp(b),
        (a, b) => Some(integer(a)?.cmp(&integer(b)?)),
    }
}

fn integer(value: &Value<'_>) -> Option<i128> {
    match value {
        Value::Int(value) => Some(i128::from(*value)),
        Value::Uint(value) => Some(i128::from(*value)),
        _ => None,
    }
}

/// An integer beside a double counts as the nearest double.
fn rounded(value: &Value<'_>) -> Option<f64> {
    integer(value).map(|value| value as f64)
}
