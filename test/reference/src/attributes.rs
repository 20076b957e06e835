//! The page of attributes and capacities: names from the code, types from the slices of captured machines.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::constants::Constant;
use crate::markdown::{code, page, table};
use crate::{constants, repository};

const NAMES: &str = "api/src/attribute.rs";
/// Compared with the code by the tests of the driver.
const SLICES: &str = "test/hosts/slices";
const DOMAIN: &str = "lanemate.dev/";

/// How an attribute is published.
#[derive(Debug, Default)]
struct Use {
    types: BTreeSet<String>,
    kinds: BTreeSet<String>,
    example: String,
}

/// The page.
///
/// # Errors
/// When a file cannot be read, or a name is published that the code does not list.
pub fn render() -> Result<String, String> {
    let names = constants::of(&repository::read(NAMES)?);
    let uses = uses()?;
    for name in uses.keys() {
        if !names.iter().any(|constant| constant.value == *name) {
            return Err(format!("{name} is published, and not in {NAMES}"));
        }
    }
    let rows: Vec<Vec<String>> = names.iter().map(|name| row(name, &uses)).collect();
    Ok(page(
        "Attributes and capacities",
        "What a device says of itself in its ResourceSlice. Names without a domain are in \
         `lanemate.dev`. What is unknown is absent. Meaning and use: \
         [topology](../topology.md#attributes). Type, kind and example are of the captured machines; \
         they are empty where none of them has the attribute.",
        &table(&["name", "of", "type", "example", "meaning"], &rows),
    ))
}

fn row(name: &Constant, uses: &BTreeMap<String, Use>) -> Vec<String> {
    let none = Use::default();
    let used = uses.get(&name.value).unwrap_or(&none);
    let list = |words: &BTreeSet<String>| words.iter().cloned().collect::<Vec<_>>().join(", ");
    vec![
        code(&name.value),
        list(&used.kinds),
        list(&used.types),
        code(&used.example),
        name.meaning.clone(),
    ]
}

/// The first example of each name, in the order of files and devices.
fn uses() -> Result<BTreeMap<String, Use>, String> {
    let mut uses: BTreeMap<String, Use> = BTreeMap::new();
    for file in repository::files(SLICES, ".yaml")? {
        for slice in repository::yaml(&file)? {
            for device in slice["spec"]["devices"].as_array().into_iter().flatten() {
                add(device, &mut uses);
            }
        }
    }
    Ok(uses)
}

fn add(device: &Value, uses: &mut BTreeMap<String, Use>) {
    let kind = match device["name"].as_str().unwrap_or_default().split('-').next() {
        Some("gpu") => "GPU",
        _ => "NIC",
    };
    let attributes = device["attributes"].as_object().into_iter().flatten();
    let attributes = attributes.filter_map(|(name, value)| {
        let (kind, value) = value.as_object()?.iter().next()?;
        Some((name, kind.clone(), value))
    });
    let capacities = device["capacity"].as_object().into_iter().flatten();
    let capacities = capacities.map(|(name, value)| (name, "capacity".to_owned(), &value["value"]));
    for (name, of_type, value) in attributes.chain(capacities) {
        let name = name.strip_prefix(DOMAIN).unwrap_or(name);
        let used = uses.entry(name.to_owned()).or_default();
        if used.example.is_empty() {
            used.example = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        }
        used.types.insert(of_type);
        used.kinds.insert(kind.to_owned());
    }
}
