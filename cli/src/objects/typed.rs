//! Reads typed objects out of value trees and says where: the path of every field that the type
//! does not know, and of the first value that does not fit.
//!
//! Unknown fields are seen while reading, not by comparing with the object written again: the types
//! hand them to `deserialize_ignored_any`, and writing would normalise quantities and times.

use std::cell::RefCell;
use std::fmt;

use serde::de::value::{BorrowedStrDeserializer, StringDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Value;

/// A typed object, and the paths of what its type does not know.
pub struct Typed<T> {
    pub object: T,
    pub unknown: Vec<String>,
}

/// The first value that does not fit its type.
#[derive(Debug, PartialEq, Eq)]
pub struct TypeError {
    /// Such as `spec.devices[0].name`; empty for the object itself.
    pub path: String,
    /// What was found and what was expected, or `unknown field`.
    pub message: String,
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

/// Reads an object. `apiVersion` and `kind` at the top are known to every type.
pub fn read<T: DeserializeOwned>(value: &Value) -> Result<Typed<T>, TypeError> {
    let unknown = RefCell::new(Vec::new());
    let at = At { value, path: Path::Root, unknown: &unknown };
    let object = T::deserialize(at).map_err(|error| TypeError {
        path: error.path.unwrap_or_default(),
        message: error.message,
    })?;
    let mut unknown = unknown.into_inner();
    unknown.retain(|path| path != "apiVersion" && path != "kind");
    Ok(Typed { object, unknown })
}

/// A value and the way to it.
struct At<'de, 'p> {
    value: &'de Value,
    path: Path<'p>,
    unknown: &'p RefCell<Vec<String>>,
}

/// The way to a value, each step on the stack of the one who took it.
#[derive(Clone, Copy)]
enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
            // Names with dots or slashes, such as labels, would read as several fields.
            Self::Field(parent, name) if name.contains(['.', '/', ' ']) => {
                write!(f, "{parent}[{name:?}]")
            }
            Self::Field(Path::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
        }
    }
}

/// An error on its way up; the innermost value that sees it adds its path.
#[derive(Debug)]
struct ReadError {
    path: Option<String>,
    message: String,
}

impl ReadError {
    fn at(mut self, path: &Path<'_>) -> Self {
        self.path.get_or_insert_with(|| path.to_string());
        self
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ReadError {}

impl serde::de::Error for ReadError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { path: None, message: message.to_string() }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = in_words(expected.to_string());
        // `name: n` and `zone: 1` are no texts to YAML.
        let to_quote = matches!(found, Unexpected::Bool(_) | Unexpected::Unsigned(_));
        let hint = if expected == "a string" && to_quote { ": put it in quotes" } else { "" };
        let found = in_words(found.to_string());
        Self::custom(format_args!("expected {expected}, found {found}{hint}"))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = match expected.to_string().as_str() {
            "u32" => format!("a whole number from 0 to {}", u32::MAX),
            "i32" => format!("a whole number from {} to {}", i32::MIN, i32::MAX),
            "i64" => format!("a whole number from {} to {}", i64::MIN, i64::MAX),
            other => other.to_owned(),
        };
        Self::custom(format_args!("expected {expected}, found {found}"))
    }

    fn unknown_field(_: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(format_args!("unknown field, expected one of {}", expected.join(", ")))
    }

    fn unknown_variant(found: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(format_args!("expected one of {}, found {found:?}", expected.join(", ")))
    }
}

/// Puts the words of YAML for those of Rust.
fn in_words(text: String) -> String {
    let words = match text.as_str() {
        "i32" | "i64" | "u32" | "u64" => "a whole number",
        "a sequence" | "sequence" => "a list",
        "a map" | "map" => "an object",
        "unit value" => "null",
        _ => return text,
    };
    words.to_owned()
}

impl<'de> Deserializer<'de> for At<'de, '_> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let Self { value, path, unknown } = self;
        match value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(bool) => visitor.visit_bool(*bool),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(number), _, _) => visitor.visit_u64(number),
                (None, Some(number), _) => visitor.visit_i64(number),
                (None, None, Some(number)) => visitor.visit_f64(number),
                (None, None, None) => visitor.visit_string(number.to_string()),
            },
            Value::Array(items) => visitor.visit_seq(Items { items, next: 0, path, unknown }),
            Value::Object(fields) => {
                visitor.visit_map(Fields { fields: fields.iter(), current: None, path, unknown })
            }
        }
        .map_err(|error| error.at(&path))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let path = self.path;
        match self.value {
            // `memory: 80` is a quantity to the API server too.
            Value::Number(number) if name == "Quantity" => {
                visitor.visit_newtype_struct(StringDeserializer::new(number.to_string()))
            }
            _ => visitor.visit_newtype_struct(self),
        }
        .map_err(|error: ReadError| error.at(&path))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self.value {
            Value::String(word) => visitor.visit_enum(word.as_str().into_deserializer()),
            other => Err(serde::de::Error::custom(format_args!("expected a word, found {other}"))),
        }
        .map_err(|error: ReadError| error.at(&self.path))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.unknown.borrow_mut().push(self.path.to_string());
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier
    }
}

/// The items of an array.
struct Items<'de, 'p> {
    items: &'de [Value],
    next: usize,
    path: Path<'p>,
    unknown: &'p RefCell<Vec<String>>,
}

impl<'de> SeqAccess<'de> for Items<'de, '_> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ReadError> {
        let Some(value) = self.items.get(self.next) else { return Ok(None) };
        let path = Path::Item(&self.path, self.next);
        let item = seed.deserialize(At { value, path, unknown: self.unknown })?;
        self.next += 1;
        Ok(Some(item))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len() - self.next)
    }
}

/// The fields of an object.
struct Fields<'de, 'p> {
    fields: serde_json::map::Iter<'de>,
    current: Option<(&'de String, &'de Value)>,
    path: Path<'p>,
    unknown: &'p RefCell<Vec<String>>,
}

impl<'de> MapAccess<'de> for Fields<'de, '_> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ReadError> {
        self.current = self.fields.next();
        let Some((name, _)) = self.current else { return Ok(None) };
        seed.deserialize(BorrowedStrDeserializer::new(name))
            .map(Some)
            .map_err(|error: ReadError| error.at(&Path::Field(&self.path, name)))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, ReadError> {
        let Some((name, value)) = self.current.take() else {
            return Err(serde::de::Error::custom("a value was asked for before its name"));
        };
        let path = Path::Field(&self.path, name);
        seed.deserialize(At { value, path, unknown: self.unknown }).map_err(|error| error.at(&path))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.fields.len())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceSlice};
    use lanemate_api::ResourceClass;
    use serde_json::json;

    use super::*;

    fn told<T: DeserializeOwned>(value: &Value) -> Vec<String> {
        match read::<T>(value) {
            Ok(typed) => typed.unknown,
            Err(TypeError { path, message }) => vec![format!("{path}: {message}")],
        }
    }

    fn claim(exactly: Value) -> Value {
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": "c"},
            "spec": {"devices": {"requests": [{"name": "r"}, {"name": "r", "exactly": exactly}]}}})
    }

    #[test]
    fn unknown_fields_are_named_by_their_path() {
        let rows = [
            (json!({"deviceClassName": "a", "count": 2, "selectors": null, "tolerations": []}), ""),
            (json!({"cout": 2}), "spec.devices.requests[1].exactly.cout"),
            (json!({"cout": null}), "spec.devices.requests[1].exactly.cout"),
            (
                json!({"selectors": [{"cel": {"expresion": "true"}}]}),
                "spec.devices.requests[1].exactly.selectors[0].cel.expresion",
            ),
            (json!({"a.b/c": {"d": 1}}), "spec.devices.requests[1].exactly[\"a.b/c\"]"),
        ];
        for (exactly, expect) in rows {
            let unknown = told::<ResourceClaim>(&claim(exactly)).join(" ");
            assert_eq!(unknown, expect);
        }
        assert_eq!(
            told::<ResourceClaim>(&json!({"specs": {}, "kind": "ResourceClaim"})),
            ["specs"]
        );
        assert_eq!(
            told::<ResourceClaim>(&json!({"metadata": {"lables": {}, "managedFields": [
                {"manager": "m", "fieldsV1": {"f:spec": {}}}], "creationTimestamp": null}})),
            ["metadata.lables"]
        );
    }

    #[test]
    fn values_of_the_wrong_type_are_named_by_their_path() {
        for (exactly, expect) in [
            (json!({"count": "two"}), ".count: expected a whole number, found string \"two\""),
            (json!({"count": 1.5}), ".count: expected a whole number, found floating point `1.5`"),
            (json!({"selectors": {}}), ".selectors: expected a list, found an object"),
            (json!([]), ": expected ExactDeviceRequest, found a list"),
            (
                json!({"adminAccess": "yes"}),
                ".adminAccess: expected a boolean, found string \"yes\"",
            ),
        ] {
            let expect = format!("spec.devices.requests[1].exactly{expect}");
            assert_eq!(told::<ResourceClaim>(&claim(exactly)), [expect]);
        }
        assert_eq!(
            told::<ResourceClaim>(&json!({"kind": "Pod"})),
            [": expected ResourceClaim, found string \"Pod\""]
        );
        let labels = told::<Pod>(&json!({"metadata": {"labels": {"a.b/c": 1}}}));
        assert_eq!(
            labels,
            ["metadata.labels[\"a.b/c\"]: expected a string, found integer `1`: put it in quotes"]
        );
        let time = told::<Pod>(&json!({"metadata": {"creationTimestamp": "yesterday"}}));
        assert!(time[0].starts_with("metadata.creationTimestamp: "), "{time:?}");
    }

    #[test]
    fn a_quantity_may_be_a_number() {
        let slice = json!({"spec": {"driver": "d", "pool": {}, "devices": [{"name": "a",
            "capacity": {"memory": {"value": 80}, "cores": {"value": "5m"}}}]}});
        let typed: Typed<ResourceSlice> = read(&slice).unwrap();
        let device = typed.object.spec.devices.unwrap().remove(0);
        let capacity = device.capacity.unwrap();
        assert_eq!(capacity["memory"].value.0, "80");
        assert_eq!(capacity["cores"].value.0, "5m");
        assert_eq!(typed.unknown, [""; 0]);
    }

    #[test]
    fn opaque_parameters_have_no_unknown_fields() {
        let claim = json!({"spec": {"devices": {"config": [{"opaque": {"driver": "d",
            "parameters": {"kind": "K", "any": {"thing": [1, -2, 2.5, null, true]}}}}]}}});
        let typed: Typed<ResourceClaim> = read(&claim).unwrap();
        assert_eq!(typed.unknown, [""; 0]);
        assert_eq!(serde_json::to_value(typed.object).unwrap()["spec"], claim["spec"]);
    }

    #[test]
    fn classes_that_refuse_unknown_fields_are_read_the_same_way() {
        let class = |spec: Value| {
            told::<ResourceClass>(&json!({"apiVersion": "lanemate.dev/v1alpha1",
                "kind": "ResourceClass", "metadata": {"name": "pair"}, "spec": spec}))
        };
        let member = json!({"name": "gpu", "deviceClassName": "gpu.lanemate.dev"});
        assert_eq!(class(json!({"members": [member]})), [""; 0]);
        assert_eq!(
            class(json!({"members": [{"name": "gpu", "cout": 1}]})),
            ["spec.members[0].cout: unknown field, expected one of \
              name, deviceClassName, count, selectors"]
        );
        assert_eq!(
            class(json!({"members": [member], "locality": {"within": {"required": "NEAR"}}})),
            ["spec.locality.within.required: \
              expected one of PIX, PXB, PHB, NODE, SYS, found \"NEAR\""]
        );
        assert_eq!(class(json!({})), ["spec: missing field `members`"]);
    }
}
