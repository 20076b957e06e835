//! Values at run time: borrowed from the device and the expression wherever possible.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use lanemate_api::Quantity;

use super::Subject;
use super::access;
use super::error::EvalError;
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
    Quantity(Quantity),
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
            Self::Map(_) | Self::Table(_) | Self::Domain(..) => "map",
            Self::Optional(_) => "optional",
            Self::Device(_) => "device",
        }
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

    /// `==`, which is false between types, except for numbers of equal value.
    pub fn equals(&self, other: &Value<'_>, budget: &mut Budget) -> Result<bool, EvalError> {
        budget.spend(1)?;
        Ok(match (self, other) {
            (Self::Text(a), Value::Text(b)) => {
                budget.spend(a.len() / COMPARED)?;
                **a == **b
            }
            (Self::Null, Value::Null) => true,
            (Self::Bool(a), Value::Bool(b)) => a == b,
            (Self::Bytes(a), Value::Bytes(b)) => a == b,
            (Self::Quantity(a), Value::Quantity(b)) => a == b,
            // Build metadata takes no part, unlike in matchAttribute.
            (Self::Version(a), Value::Version(b)) => a.cmp_precedence(b) == Ordering::Equal,
            (Self::Ip(a), Value::Ip(b)) => a == b,
            (Self::Cidr(a), Value::Cidr(b)) => a == b,
            (Self::Url(a), Value::Url(b)) => a == b,
            (Self::Format(a), Value::Format(b)) => a == b,
            (Self::Kind(a), Value::Kind(b)) => a == b,
            (Self::Device(_), Value::Device(_)) => true,
            (Self::Optional(None), Value::Optional(None)) => true,
            (Self::Optional(Some(a)), Value::Optional(Some(b))) => a.equals(b, budget)?,
            (Self::List(a), Value::List(b)) => {
                a.len() == b.len() && all_equal(a.iter().zip(b.iter()), budget)?
            }
            _ => match (access::entries(self)?, access::entries(other)?) {
                (Some(a), Some(b)) => a.len() == b.len() && same_entries(&a, other, budget)?,
                _ => numeric_order(self, other) == Some(Ordering::Equal),
            },
        })
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

fn all_equal<'v, 'a: 'v>(
    pairs: impl Iterator<Item = (&'v Value<'a>, &'v Value<'a>)>,
    budget: &mut Budget,
) -> Result<bool, EvalError> {
    for (a, b) in pairs {
        if !a.equals(b, budget)? {
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
            Some(found) if value.equals(&found, budget)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Order of two numbers by value, whatever their types.
fn numeric_order(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    match (a, b) {
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Double(a), b) => integer(b).and_then(|b| double_order(*a, b)),
        (a, Value::Double(b)) => {
            integer(a).and_then(|a| double_order(*b, a)).map(Ordering::reverse)
        }
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

/// Exact: an integer over 2^53 has no double of its own.
fn double_order(double: f64, integer: i128) -> Option<Ordering> {
    const BEYOND: f64 = 1e30;
    if double.is_nan() {
        return None;
    }
    // The cast is exact below the bound, which every i64 and u64 respects.
    let whole = double.clamp(-BEYOND, BEYOND).trunc() as i128;
    Some(whole.cmp(&integer).then(double.fract().partial_cmp(&0.0)?))
}
