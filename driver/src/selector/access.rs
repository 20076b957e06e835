//! Maps and lists: looking up, counting and walking, over the device's tables without copies.

use std::borrow::Cow;
use std::ops::Bound;

use super::Subject;
use super::error::EvalError;
use super::functions::amount::Amount;
use super::value::{Budget, Evaluated, Table, Value};
use crate::attribute::QualifiedName;

/// Keys and values of a map.
pub(super) type Entries<'v, 'a> = Cow<'v, [(Value<'a>, Value<'a>)]>;

impl<'a> Table<'a> {
    /// The attribute or capacity, if the device has it.
    pub fn entry(self, name: &QualifiedName) -> Result<Option<Value<'a>>, EvalError> {
        match self {
            Self::Attributes(map) => map.get(name).map(Value::of_attribute).transpose(),
            Self::Capacity(map) => {
                Ok(map.get(name).map(|quantity| Value::Quantity(Amount::Capacity(quantity))))
            }
        }
    }

    /// The error that says so.
    pub fn missing(self, name: QualifiedName) -> EvalError {
        match self {
            Self::Attributes(_) => EvalError::MissingAttribute(name),
            Self::Capacity(_) => EvalError::MissingCapacity(name),
        }
    }

    pub fn holds(self, name: &QualifiedName) -> bool {
        match self {
            Self::Attributes(map) => map.contains_key(name),
            Self::Capacity(map) => map.contains_key(name),
        }
    }

    fn names(self) -> Box<dyn Iterator<Item = &'a QualifiedName> + 'a> {
        match self {
            Self::Attributes(map) => Box::new(map.keys()),
            Self::Capacity(map) => Box::new(map.keys()),
        }
    }

    /// Names of one domain, in order.
    pub fn names_in(self, domain: &str) -> Box<dyn Iterator<Item = &'a QualifiedName> + 'a> {
        let first = QualifiedName { domain: domain.to_owned(), id: String::new() };
        let range = (Bound::Included(first), Bound::Unbounded);
        let domain = domain.to_owned();
        match self {
            Self::Attributes(map) => Box::new(
                map.range(range).map(|(name, _)| name).take_while(move |n| n.domain == domain),
            ),
            Self::Capacity(map) => Box::new(
                map.range(range).map(|(name, _)| name).take_while(move |n| n.domain == domain),
            ),
        }
    }

    /// The domains that exist, in order.
    pub fn domains(self) -> Vec<&'a str> {
        let mut domains: Vec<&str> = self.names().map(|name| name.domain.as_str()).collect();
        domains.dedup();
        domains
    }

    fn domain_entries(self, domain: &str) -> Result<Vec<(Value<'a>, Value<'a>)>, EvalError> {
        let names = self.names_in(domain);
        names
            .filter_map(|name| {
                let value = self.entry(name).transpose()?;
                Some(value.map(|value| (Value::text(name.id.as_str()), value)))
            })
            .collect()
    }
}

/// Keys and values, if the value is a map.
pub(super) fn entries<'v, 'a: 'v>(
    value: &'v Value<'a>,
) -> Result<Option<Entries<'v, 'a>>, EvalError> {
    Ok(match value {
        Value::Map(entries) => Some(Cow::Borrowed(entries.as_ref())),
        Value::Domain(table, domain) => Some(Cow::Owned(table.domain_entries(domain)?)),
        Value::Table(table) => {
            let domains = table.domains().into_iter();
            let entry =
                |domain: &'a str| (Value::text(domain), Value::Domain(*table, domain.into()));
            Some(Cow::Owned(domains.map(entry).collect()))
        }
        Value::Device(subject) => {
            let field = |name: &&'static str| {
                field_of(subject, name).map(|value| (Value::text(*name), value))
            };
            Some(Cow::Owned(FIELDS.iter().filter_map(field).collect()))
        }
        _ => None,
    })
}

/// Elements of a list, keys of a map, or bytes and characters.
pub(super) fn size(value: &Value<'_>) -> Option<usize> {
    match value {
        Value::List(elements) => Some(elements.len()),
        Value::Map(entries) => Some(entries.len()),
        Value::Table(table) => Some(table.domains().len()),
        Value::Domain(table, domain) => Some(table.names_in(domain).count()),
        Value::Device(_) => Some(FIELDS.len()),
        Value::Text(text) => Some(text.chars().count()),
        Value::Bytes(bytes) => Some(bytes.len()),
        _ => None,
    }
}

/// What an index or field leads to, or none where the map lacks the key.
pub(super) fn find<'a>(
    operand: &Value<'a>,
    key: &Value<'a>,
    budget: &mut Budget,
) -> Result<Option<Value<'a>>, EvalError> {
    match (operand, key) {
        (Value::Device(subject), Value::Text(field)) => Ok(field_of(subject, field)),
        // Every domain may be indexed, with whatever; one that does not exist is empty.
        (Value::Table(table), Value::Text(domain)) => {
            Ok(Some(Value::Domain(*table, domain.clone())))
        }
        (Value::Table(table), _) => Ok(Some(Value::Domain(*table, "".into()))),
        (Value::Domain(table, domain), Value::Text(id)) => {
            budget.spend_text(domain.len() + id.len())?;
            table.entry(&QualifiedName { domain: domain.to_string(), id: id.to_string() })
        }
        (Value::Domain(..) | Value::Device(_), _) => Ok(None),
        (Value::Map(entries), key) => find_entry(entries, key, budget),
        (Value::List(elements), key) => {
            let index = position(key).ok_or_else(|| no_index(operand, key))?;
            Ok(usize::try_from(index).ok().and_then(|index| elements.get(index)).cloned())
        }
        (Value::Optional(inner), key) => match inner {
            Some(inner) if inner.is_single() => Ok(Some(Value::NONE)),
            Some(inner) => Ok(Some(match find(inner, key, budget)? {
                Some(value) => Value::some(value),
                None => Value::NONE,
            })),
            None => Ok(Some(Value::NONE)),
        },
        _ => Err(no_index(operand, key)),
    }
}

/// The value of a key, or of the whole number of the other kind that is equal to it.
fn find_entry<'a>(
    entries: &[(Value<'a>, Value<'a>)],
    key: &Value<'a>,
    budget: &mut Budget,
) -> Result<Option<Value<'a>>, EvalError> {
    if !entries.is_empty() && !is_hashed(key) {
        return Err(EvalError::NoKey(key.kind()));
    }
    budget.spend(entries.len())?;
    budget.spend(key.weight() * entries.len())?;
    let named = |key: &Value<'_>| entries.iter().find(|(known, _)| same_key(known, key));
    let whole = || match key {
        Value::Int(number) => Some(i128::from(*number)),
        Value::Uint(number) => Some(i128::from(*number)),
        // The cast saturates far beyond every key.
        Value::Double(number) if number.fract() == 0.0 => Some(*number as i128),
        _ => None,
    };
    let found = named(key).or_else(|| {
        let whole = whole()?;
        let int = i64::try_from(whole).ok().and_then(|number| named(&Value::Int(number)));
        int.or_else(|| named(&Value::Uint(u64::try_from(whole).ok()?)))
    });
    Ok(found.map(|(_, value)| value.clone()))
}

/// Whether upstream can look a value up in a set or map: Go cannot hash the others.
pub(super) fn is_hashed(value: &Value<'_>) -> bool {
    !matches!(value, Value::Bytes(_) | Value::Version(_) | Value::Format(_))
}

/// Whether two values are the same key of a map: of one type, and equal. Lists and maps are no key of
/// anything.
pub(super) fn same_key(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (a, b) {
        (Value::Text(a), Value::Text(b)) => **a == **b,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Uint(a), Value::Uint(b)) => a == b,
        (Value::Double(a), Value::Double(b)) => a == b,
        (Value::Kind(a), Value::Kind(b)) => a == b,
        (Value::Null, Value::Null) | (Value::Optional(None), Value::Optional(None)) => true,
        (Value::Ip(a), Value::Ip(b)) => a == b,
        (Value::Cidr(a), Value::Cidr(b)) => a == b,
        _ => false,
    }
}

/// The same, but an absent key is an error that names it.
pub(super) fn get<'a>(operand: &Value<'a>, key: &Value<'a>, budget: &mut Budget) -> Evaluated<'a> {
    if let Some(value) = find(operand, key, budget)? {
        return Ok(value);
    }
    Err(match (operand, key) {
        (Value::Domain(table, domain), Value::Text(id)) => {
            table.missing(QualifiedName { domain: domain.to_string(), id: id.to_string() })
        }
        (Value::List(elements), key) => EvalError::OutOfRange {
            index: position(key).unwrap_or_default(),
            length: elements.len(),
        },
        (_, key) => EvalError::MissingKey(super::functions::convert::shown(key)),
    })
}

/// Plain membership: a domain must exist to be in a table.
pub(super) fn contains<'a>(
    container: &Value<'a>,
    key: &Value<'a>,
    budget: &mut Budget,
) -> Result<bool, EvalError> {
    match container {
        Value::List(elements) => {
            for element in elements.iter() {
                if key.equals(element, budget)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Table(table) => match key {
            Value::Text(domain) => Ok(table.names_in(domain).next().is_some()),
            _ => Ok(false),
        },
        Value::Map(_) | Value::Domain(..) | Value::Device(_) => {
            Ok(find(container, key, budget)?.is_some())
        }
        _ => Err(EvalError::NoOverload {
            function: "in".to_owned(),
            given: format!("({}, {})", key.kind(), container.kind()),
        }),
    }
}

const FIELDS: [&str; 4] = ["driver", "attributes", "capacity", "allowMultipleAllocations"];

fn field_of<'a>(subject: &Subject<'a>, field: &str) -> Option<Value<'a>> {
    Some(match field {
        "driver" => Value::text(subject.driver),
        "attributes" => Value::Table(Table::Attributes(subject.attributes)),
        "capacity" => Value::Table(Table::Capacity(subject.capacity)),
        "allowMultipleAllocations" => Value::Bool(subject.allow_multiple_allocations),
        _ => return None,
    })
}

/// A whole number of any type as the index of a list.
fn position(key: &Value<'_>) -> Option<i64> {
    match key {
        Value::Int(index) => Some(*index),
        Value::Uint(index) => Some(i64::try_from(*index).unwrap_or(i64::MAX)),
        // Casts saturate, and no list is that long.
        Value::Double(index) if index.fract() == 0.0 => Some(*index as i64),
        _ => None,
    }
}

fn no_index(operand: &Value<'_>, key: &Value<'_>) -> EvalError {
    EvalError::NoOverload {
        function: "[]".to_owned(),
        given: format!("({}, {})", operand.kind(), key.kind()),
    }
}
