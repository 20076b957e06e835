//! Static types, and the signatures of functions in which they are written down.

use std::fmt;

use super::value::Value;

/// Type of an expression before it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// Known only at run time: attributes.
    Dyn,
    /// Undecided: the element of an empty list. Goes with every type.
    Free,
    /// The type parameter of a signature.
    Param,
    /// The same, where the type must have an order of its own.
    Ordered,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Quantity,
    Version,
    Ip,
    Cidr,
    Url,
    Format,
    /// What `type(...)` gives for a value of a type.
    Kind(Box<Type>),
    Device,
    List(Box<Type>),
    Map(Box<Type>, Box<Type>),
    Optional(Box<Type>),
}

const NAMES: [(&str, Type); 18] = [
    ("dyn", Type::Dyn),
    ("_", Type::Free),
    ("A", Type::Param),
    ("O", Type::Ordered),
    ("null_type", Type::Null),
    ("bool", Type::Bool),
    ("int", Type::Int),
    ("uint", Type::Uint),
    ("double", Type::Double),
    ("string", Type::Text),
    ("bytes", Type::Bytes),
    ("quantity", Type::Quantity),
    ("semver", Type::Version),
    ("ip", Type::Ip),
    ("cidr", Type::Cidr),
    ("url", Type::Url),
    ("format", Type::Format),
    ("device", Type::Device),
];

impl Type {
    pub fn list(of: Type) -> Self {
        Self::List(Box::new(of))
    }

    pub fn map(key: Type, value: Type) -> Self {
        Self::Map(Box::new(key), Box::new(value))
    }

    pub fn optional(of: Type) -> Self {
        Self::Optional(Box::new(of))
    }

    pub fn kind(of: Type) -> Self {
        Self::Kind(Box::new(of))
    }

    /// The type that an expression names.
    pub fn named(name: &str) -> Self {
        match name {
            "list" => Self::list(Self::Dyn),
            "map" => Self::map(Self::Dyn, Self::Dyn),
            "type" => Self::kind(Self::Dyn),
            "optional_type" => Self::optional(Self::Dyn),
            name => Self::parse(name).unwrap_or(Self::Dyn),
        }
    }

    /// Reads a type as signatures and messages write it.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let Some((outer, rest)) = text.split_once('(') else {
            return NAMES.iter().find(|(name, _)| *name == text).map(|(_, ty)| ty.clone());
        };
        let inner = rest.strip_suffix(')')?;
        match outer {
            "list" => Some(Self::list(Self::parse(inner)?)),
            "type" => Some(Self::kind(Self::parse(inner)?)),
            "optional" => Some(Self::optional(Self::parse(inner)?)),
            "map" => {
                let (key, value) = inner.split_once(',')?;
                Some(Self::map(Self::parse(key)?, Self::parse(value)?))
            }
            _ => None,
        }
    }

    pub fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn | Self::Free)
    }

    /// Whether an expression of this type may stand where `wanted` is written. The first type that
    /// meets the parameter binds it.
    pub fn fits(&self, wanted: &Type, bound: &mut Option<Type>) -> bool {
        match (self, wanted) {
            (_, Self::Ordered) if !self.is_ordered() => false,
            (_, Self::Param | Self::Ordered) => {
                // Of all the types with an order, an undecided one counts as the first.
                let free = *self == Self::Free && *wanted == Self::Ordered;
                let own = if free { Self::Int } else { self.clone() };
                let joined = match &bound {
                    None => Some(own),
                    Some(first) => first.join(&own),
                };
                let fits = joined.is_some();
                *bound = joined.or_else(|| bound.take());
                fits
            }
            (Self::Dyn | Self::Free, _) | (_, Self::Dyn | Self::Free) => true,
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => {
                a.fits(b, bound)
            }
            (Self::Map(k, v), Self::Map(l, w)) => k.fits(l, bound) && v.fits(w, bound),
            (Self::Kind(_), Self::Kind(_)) => true,
            (Self::Null, other) | (other, Self::Null) => other.has_null(),
            _ => self == wanted,
        }
    }

    /// Whether `sort` and the like take it. Null stands for the time types, which have an order but are
    /// not supported.
    fn is_ordered(&self) -> bool {
        let known =
            [Self::Int, Self::Uint, Self::Double, Self::Bool, Self::Text, Self::Bytes, Self::Null];
        self.is_dyn() || known.contains(self)
    }

    /// Whether null may stand for a value of the type.
    fn has_null(&self) -> bool {
        matches!(
            self,
            Self::Null
                | Self::Quantity
                | Self::Version
                | Self::Ip
                | Self::Cidr
                | Self::Url
                | Self::Format
                | Self::Device
                | Self::Optional(_)
        )
    }

    /// Whether values of both types may be compared.
    pub fn agrees(&self, other: &Type) -> bool {
        self.fits(other, &mut None)
    }

    /// The type of a value that is of either type, if they agree: the more general one.
    pub fn join(&self, other: &Type) -> Option<Type> {
        Some(match (self, other) {
            (Self::Free, ty) | (ty, Self::Free) => ty.clone(),
            (Self::Dyn, _) | (_, Self::Dyn) => Self::Dyn,
            (Self::List(a), Self::List(b)) => Self::list(a.join(b)?),
            (Self::Optional(a), Self::Optional(b)) => Self::optional(a.join(b)?),
            (Self::Map(k, v), Self::Map(l, w)) => Self::map(k.join(l)?, v.join(w)?),
            _ if self.agrees(other) => self.clone(),
            _ => return None,
        })
    }

    /// Whether something in it is undecided.
    pub fn is_open(&self) -> bool {
        match self {
            Self::Free => true,
            Self::List(of) | Self::Optional(of) | Self::Kind(of) => of.is_open(),
            Self::Map(key, value) => key.is_open() || value.is_open(),
            _ => false,
        }
    }

    /// Whether both may stand in one list literal: upstream lets nothing mix, not even dyn.
    pub fn same(&self, other: &Type) -> bool {
        match (self, other) {
            (Self::Free, _) | (_, Self::Free) => true,
            (Self::List(a), Self::List(b))
            | (Self::Optional(a), Self::Optional(b))
            | (Self::Kind(a), Self::Kind(b)) => a.same(b),
            (Self::Map(k, v), Self::Map(l, w)) => k.same(l) && v.same(w),
            _ => self == other,
        }
    }

    /// The type with its parameter replaced.
    pub fn bind(&self, bound: &Option<Type>) -> Type {
        match self {
            Self::Param => bound.clone().unwrap_or(Self::Free),
            Self::Ordered => bound.clone().unwrap_or(Self::Dyn),
            Self::List(of) => Self::list(of.bind(bound)),
            Self::Optional(of) => Self::optional(of.bind(bound)),
            Self::Kind(of) => Self::kind(of.bind(bound)),
            Self::Map(key, value) => Self::map(key.bind(bound), value.bind(bound)),
            _ => self.clone(),
        }
    }

    /// Whether a value is of this type; elements are the function's business.
    pub fn accepts(&self, value: &Value<'_>) -> bool {
        matches!(
            (self, value),
            (Self::Dyn | Self::Free | Self::Param | Self::Ordered, _)
                | (Self::Null, Value::Null)
                | (Self::Bool, Value::Bool(_))
                | (Self::Int, Value::Int(_))
                | (Self::Uint, Value::Uint(_))
                | (Self::Double, Value::Double(_))
                | (Self::Text, Value::Text(_))
                | (Self::Bytes, Value::Bytes(_))
                | (Self::Quantity, Value::Quantity(_))
                | (Self::Version, Value::Version(_))
                | (Self::Ip, Value::Ip(_))
                | (Self::Cidr, Value::Cidr(_))
                | (Self::Url, Value::Url(_))
                | (Self::Format, Value::Format(_))
                | (Self::Kind(_), Value::Kind(_))
                | (Self::Device, Value::Device(_))
                | (Self::List(_), Value::List(_))
                | (Self::Optional(_), Value::Optional(_))
                | (Self::Map(..), Value::Map(_) | Value::Table(_) | Value::Domain(..))
        )
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(of) => write!(f, "list({of})"),
            Self::Optional(of) => write!(f, "optional({of})"),
            Self::Kind(of) => write!(f, "type({of})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            simple => {
                let name = NAMES.iter().find(|(_, ty)| ty == simple);
                f.write_str(name.map_or("?", |(name, _)| name))
            }
        }
    }
}

/// Types in the order of arguments, as messages show them: `(string, int)`.
pub(super) fn listed<'t>(types: impl IntoIterator<Item = &'t Type>) -> String {
    let names: Vec<String> = types.into_iter().map(Type::to_string).collect();
    format!("({})", names.join(", "))
}

/// Parameters and result of a function, written `string, int -> string`.
#[derive(Clone, Debug)]
pub(super) struct Signature {
    pub params: Vec<Type>,
    pub result: Type,
}

impl Signature {
    pub fn parse(text: &str) -> Option<Self> {
        let (params, result) = text.split_once("->")?;
        let params = split_outside_brackets(params);
        let params = params.iter().map(|param| Type::parse(param)).collect::<Option<Vec<_>>>()?;
        Some(Self { params, result: Type::parse(result)? })
    }
}

fn split_outside_brackets(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    text.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .filter(|part| !part.trim().is_empty())
    .collect()
}
