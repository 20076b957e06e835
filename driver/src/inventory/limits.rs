//! The API's limits on one device: a value that breaks one is dropped, so that the slice is not lost.

use lanemate_api::validation::format::{is_attribute_name, is_semantic_version};
use lanemate_api::validation::slice::{self, MAX_VALUES};

use super::OfferedDevice;
use crate::attribute::AttributeValue;

/// Bytes of a string or version.
pub const MAX_STRING: usize = slice::MAX_TEXT_BYTES;
/// Taints of one device, less the allocator's own.
pub const MAX_TAINTS: usize = slice::MAX_TAINTS - 1;

/// Drops what the API server would refuse, and says what it was.
pub fn enforce(device: &mut OfferedDevice) -> Vec<String> {
    let mut dropped = Vec::new();
    device.attributes.retain(|name, value| {
        let wrong = name_error(name).or_else(|| value_error(value));
        dropped.extend(wrong.iter().map(|error| format!("attribute {name}: {error}: left out")));
        wrong.is_none()
    });
    device.capacity.retain(|name, value| {
        let negative = (value.nanos() < 0).then(|| "expected no negative quantity".to_owned());
        let wrong = name_error(name).or(negative);
        dropped.extend(wrong.iter().map(|error| format!("capacity {name}: {error}: left out")));
        wrong.is_none()
    });
    while device.attributes.len() + device.capacity.len() > MAX_VALUES {
        // The last by name: any choice will do, as long as it is always the same.
        let Some((name, _)) = device.attributes.pop_last() else { break };
        dropped.push(format!(
            "attribute {name}: expected at most {MAX_VALUES} attributes and capacities: left out"
        ));
    }
    for taint in device.taints.drain(MAX_TAINTS.min(device.taints.len())..) {
        dropped.push(format!("taint {}: expected at most {MAX_TAINTS}: left out", taint.key));
    }
    dropped
}

/// What is wrong with the name of an attribute or capacity.
fn name_error(name: &str) -> Option<String> {
    let expected = "expected a C identifier of at most 32 bytes, with at most a domain before it";
    (!is_attribute_name(name)).then(|| expected.to_owned())
}

fn value_error(value: &AttributeValue) -> Option<String> {
    let long = |text: &String| text.len() > MAX_STRING || text.chars().any(char::is_control);
    let not_a_version = |text: &String| long(text) || !is_semantic_version(text);
    let (wrong, what) = match value {
        AttributeValue::String(text) => (long(text), "text"),
        AttributeValue::Strings(texts) => (texts.iter().any(long), "text"),
        AttributeValue::Version(text) => (not_a_version(text), "semantic version"),
        AttributeValue::Versions(texts) => (texts.iter().any(not_a_version), "semantic version"),
        AttributeValue::Bool(_)
        | AttributeValue::Int(_)
        | AttributeValue::Bools(_)
        | AttributeValue::Ints(_) => (false, "value"),
    };
    wrong
        .then(|| format!("expected a {what} of at most {MAX_STRING} bytes, found {}", shown(value)))
}

/// A value for a message: texts quoted and cut, since a file may hold a lot of nonsense.
fn shown(value: &AttributeValue) -> String {
    let quoted = |text: &String| {
        let start = cut(text);
        format!("{start:?}{}", if start.len() < text.len() { "…" } else { "" })
    };
    match value {
        AttributeValue::String(text) | AttributeValue::Version(text) => quoted(text),
        AttributeValue::Strings(texts) | AttributeValue::Versions(texts) => {
            texts.iter().map(quoted).collect::<Vec<_>>().join(", ")
        }
        other => format!("{other:?}"),
    }
}

/// The longest beginning of at most 64 bytes that ends at a character.
pub fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_STRING)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use lanemate_api::Quantity;

    use super::*;
    use crate::ids::Kind;
    use crate::inventory::Taint;

    fn device() -> OfferedDevice {
        OfferedDevice {
            name: "gpu-0000-1b-00-0".to_owned(),
            address: "0000:1b:00.0".parse().unwrap(),
            kind: Kind::Gpu,
            attributes: BTreeMap::new(),
            capacity: BTreeMap::new(),
            taints: Vec::new(),
        }
    }

    #[test]
    fn values_that_the_api_refuses_are_dropped_alone() {
        let mut device = device();
        let text = |text: &str| AttributeValue::String(text.to_owned());
        let version = |text: &str| AttributeValue::Version(text.to_owned());
        for (name, value) in [
            ("good", text(&"x".repeat(64))),
            ("long", text(&"x".repeat(65))),
            ("control", text("a\nb")),
            ("zeros", version("580.82.07")),
            ("version", version("580.82.7")),
            ("no-identifier", AttributeValue::Bool(true)),
            ("Upper.dev/x", AttributeValue::Bool(true)),
            ("other.dev/x", AttributeValue::Bool(true)),
            (&"x".repeat(33), AttributeValue::Bool(true)),
        ] {
            device.attributes.insert(name.to_owned(), value);
        }
        device.capacity.insert("memory".to_owned(), Quantity::from_units(-1));
        let dropped = enforce(&mut device);
        let kept: Vec<&str> = device.attributes.keys().map(String::as_str).collect();
        assert_eq!(kept, ["good", "other.dev/x", "version"]);
        assert!(device.capacity.is_empty());
        assert_eq!(dropped.len(), 7, "{dropped:?}");
        let long = format!(
            "attribute long: expected a text of at most 64 bytes, found \"{}\"…: left out",
            "x".repeat(64)
        );
        assert!(dropped.contains(&long), "{dropped:?}");
    }

    #[test]
    fn too_many_values_and_taints_are_cut() {
        let mut device = device();
        for number in 0..40 {
            device.attributes.insert(format!("a{number:02}"), AttributeValue::Int(number));
            let taint = Taint { key: format!("t{number}"), value: None, effect: String::new() };
            device.taints.push(taint);
        }
        device.capacity.insert("memory".to_owned(), Quantity::from_units(1));
        assert_eq!(enforce(&mut device).len(), 9 + 25);
        assert_eq!((device.attributes.len(), device.taints.len()), (31, 15));
        assert!(device.attributes.contains_key("a30"));
    }

    #[test]
    fn texts_are_cut_at_a_character() {
        let text = format!("{}ö", "x".repeat(63));
        assert_eq!(cut(&text), "x".repeat(63));
        assert_eq!(cut("NVIDIA H100"), "NVIDIA H100");
    }
}
