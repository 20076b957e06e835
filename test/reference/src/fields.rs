//! The fields of our custom resources, from their definitions in `deploy/crds`.

use serde_json::{Map, Value};

use crate::markdown::{code, page, plain, table};
use crate::repository;

/// Deeper than any schema of ours.
const DEEPEST: usize = 16;

/// The page of a definition.
///
/// # Errors
/// When the file cannot be read or has another form.
pub fn render(path: &str, about: &str) -> Result<String, String> {
    let documents = repository::yaml(path)?;
    let document = documents.first().ok_or_else(|| format!("{path}: no document"))?;
    let spec = &document["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = &spec["versions"][0];
    let kind = text(&spec["names"]["kind"]);
    let schema = &version["schema"]["openAPIV3Schema"];
    let mut rows = Vec::new();
    walk("", schema, &mut rows, 0)?;
    let description = plain(&text(&schema["description"]));
    let place = format!(
        "`{}/{}`, kind `{kind}`, {}-scoped. {description}\n\n{about}",
        text(&spec["group"]),
        text(&version["name"]),
        text(&spec["scope"]).to_lowercase(),
    );
    Ok(page(&kind, &place, &table(&["field", "type", "bounds", "meaning"], &rows)))
}

fn walk(
    path: &str,
    schema: &Value,
    rows: &mut Vec<Vec<String>>,
    depth: usize,
) -> Result<(), String> {
    if depth > DEEPEST {
        return Err(format!("{path}: deeper than {DEEPEST}"));
    }
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (name, field) in properties {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let is_required = required.iter().any(|other| other == name);
        let list = field["type"] == "array";
        let inner = if list { &field["items"] } else { field };
        let path = if list { format!("{path}[]") } else { path };
        rows.push(vec![code(&path), kind(field), bounds(field, is_required), meaning(field)]);
        walk(&path, inner, rows, depth + 1)?;
    }
    Ok(())
}

fn kind(field: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or("any").to_owned();
    match field["type"].as_str() {
        Some("array") => format!("list of {}", word(&field["items"]["type"])),
        _ => word(&field["type"]),
    }
}

/// What the API server checks, the field itself first and then the entries of a list.
fn bounds(field: &Value, is_required: bool) -> String {
    let mut told: Vec<String> = Vec::new();
    if is_required {
        told.push("required".to_owned());
    }
    for schema in [field, &field["items"]] {
        for (key, words) in [
            ("default", "default"),
            ("minimum", "at least"),
            ("maximum", "at most"),
            ("minItems", "entries at least"),
            ("maxItems", "entries at most"),
            ("minLength", "length at least"),
            ("maxLength", "length at most"),
            ("pattern", "matches"),
            ("format", "format"),
        ] {
            if let Some(value) = schema.get(key) {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                // schemars writes bounds of integers as `1.0`.
                let value = value.strip_suffix(".0").unwrap_or(&value);
                told.push(format!("{words} `{value}`"));
            }
        }
        if let Some(values) = schema["enum"].as_array() {
            let words = values.iter().filter_map(Value::as_str).map(code);
            told.push(format!("one of {}", words.collect::<Vec<_>>().join(" ")));
        }
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            told.push(plain(rule["message"].as_str().unwrap_or_default()));
        }
    }
    told.join("; ")
}

fn meaning(field: &Value) -> String {
    let own = field["description"].as_str();
    plain(own.or(field["items"]["description"].as_str()).unwrap_or_default())
}
