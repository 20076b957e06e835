//! Selectors against the answers of the upstream allocator: every case in `test/cases` that is about
//! CEL, with its devices and the devices that upstream chose, or the device it failed on.
#![allow(clippy::disallowed_methods, reason = "the cases are files")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;

use lanemate_driver::attribute::{AttributeValue, Attributes, Capacities, QualifiedName};
use lanemate_driver::selector::{CompileError, EvalError, Selector, Subject};
use serde_json::Value;

/// Where we differ on purpose.
const DIFFERENT: [(&str, &str); 1] = [(
    "cel-cost",
    "the cost is bounded when the expression is compiled, so that it fails for all devices alike",
)];

/// Beginnings of the names of cases about selectors; the others are about the search.
const ABOUT_SELECTORS: [&str; 8] = [
    "cel-",
    "missing-",
    "compile-error",
    "not-bool",
    "bool-attribute",
    "selectors-",
    "first-cel-",
    "class-guards-",
];

#[derive(Debug)]
struct Device {
    node: String,
    /// `driver/pool/name`.
    id: String,
    driver: String,
    attributes: Attributes,
    capacity: Capacities,
    shareable: bool,
}

#[derive(Debug, PartialEq)]
enum Answer {
    Devices(Vec<String>),
    CompileError,
    EvalError(String),
    None,
}

#[test]
fn selectors_answer_as_upstream_does() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for name in case_names() {
        let case = read(&format!("{name}.json"));
        let expected = expected(&read(&format!("{name}.expected.json")));
        let answer = answer(&case);
        let different = DIFFERENT.iter().any(|(known, _)| *known == name);
        if (answer == expected) == different {
            wrong.push(format!("{name}: {answer:?}, upstream {expected:?}"));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 60, "{count} cases");
}

#[test]
fn an_expensive_selector_is_refused_when_compiled() {
    let case = read("cel-cost.json");
    assert_eq!(answer(&case), Answer::CompileError);
}

fn cases() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../test/cases")
}

fn case_names() -> Vec<String> {
    let files = fs::read_dir(cases()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names
        .filter_map(|name| name.strip_suffix(".json").map(str::to_owned))
        .filter(|name| !name.ends_with(".expected"))
        .filter(|name| ABOUT_SELECTORS.iter().any(|start| name.starts_with(start)))
        .collect();
    names.sort();
    names
}

fn read(name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(cases().join(name)).unwrap()).unwrap()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn items(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn expected(expected: &Value) -> Answer {
    let Some(error) = expected["error"].as_str() else {
        let results = items(&expected["results"][0]);
        return match results.is_empty() {
            true => Answer::None,
            false => Answer::Devices(results.iter().map(device_id).collect()),
        };
    };
    if error.contains("CEL compile error") {
        return Answer::CompileError;
    }
    let device = error.split(" on device ").nth(1).and_then(|rest| rest.split(':').next());
    Answer::EvalError(device.unwrap_or(error).to_owned())
}

fn device_id(result: &Value) -> String {
    ["driver", "pool", "device"].map(|part| text(&result[part])).join("/")
}

/// What the selectors of the only request (or of its first alternative) say: the first device of each
/// node in order, until one fits.
fn answer(case: &Value) -> Answer {
    let request = &case["claims"][0]["spec"]["devices"]["requests"][0];
    let request = request.get("exactly").unwrap_or(&request["firstAvailable"][0]);
    let wanted = request["count"].as_u64().unwrap_or(1) as usize;
    let classes = items(&case["classes"]);
    let class =
        classes.iter().find(|class| class["metadata"]["name"] == request["deviceClassName"]);
    let class = class.map(|class| items(&class["spec"]["selectors"])).unwrap_or_default();
    let texts = class.into_iter().chain(items(&request["selectors"]));
    let selectors: Result<Vec<Selector>, CompileError> =
        texts.map(|selector| Selector::compile(&text(&selector["cel"]["expression"]))).collect();
    let Ok(selectors) = selectors else { return Answer::CompileError };
    let mut answer = Answer::None;
    for node in nodes(case) {
        match on_node(&selectors, &devices(case, &node), wanted) {
            Answer::None => {}
            // An error on a later node hides the fit on an earlier one.
            error @ Answer::EvalError(_) => return error,
            fit => {
                if answer == Answer::None {
                    answer = fit;
                }
            }
        }
    }
    answer
}

fn nodes(case: &Value) -> Vec<String> {
    match case["node"].as_str() {
        Some(node) => vec![node.to_owned()],
        None => items(&case["nodes"]).iter().map(text).collect(),
    }
}

fn on_node(selectors: &[Selector], devices: &[Device], wanted: usize) -> Answer {
    let mut chosen = Vec::new();
    for device in devices {
        match all_match(selectors, device) {
            Ok(true) => chosen.push(device.id.clone()),
            Ok(false) => {}
            Err(_) => return Answer::EvalError(device.id.clone()),
        }
        if chosen.len() == wanted {
            return Answer::Devices(chosen);
        }
    }
    Answer::None
}

fn all_match(selectors: &[Selector], device: &Device) -> Result<bool, EvalError> {
    let subject = Subject {
        driver: &device.driver,
        attributes: &device.attributes,
        capacity: &device.capacity,
        allow_multiple_allocations: device.shareable,
    };
    for selector in selectors {
        if !selector.matches(&subject)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Devices of a node that are not in use, in the order of slices and lists.
fn devices(case: &Value, node: &str) -> Vec<Device> {
    let claims = items(&case["allocated"]);
    let used: Vec<String> = claims
        .iter()
        .flat_map(|claim| items(&claim["status"]["allocation"]["devices"]["results"]))
        .map(|result| device_id(&result))
        .collect();
    let mut devices = Vec::new();
    for slice in items(&case["slices"]) {
        let spec = &slice["spec"];
        for device in items(&spec["devices"]) {
            devices.push(read_device(spec, &device));
        }
    }
    devices.retain(|device| device.node == node && !used.contains(&device.id));
    devices
}

fn read_device(spec: &Value, device: &Value) -> Device {
    let driver = text(&spec["driver"]);
    let entries = |field: &str| {
        let map = device[field].as_object().cloned().unwrap_or_default();
        map.into_iter().map(|(name, value)| (QualifiedName::parse(&name, &driver), value))
    };
    Device {
        node: text(&spec["nodeName"]),
        id: format!("{driver}/{}/{}", text(&spec["pool"]["name"]), text(&device["name"])),
        attributes: entries("attributes").map(|(name, value)| (name, attribute(&value))).collect(),
        capacity: entries("capacity")
            .map(|(name, value)| (name, text(&value["value"]).parse().unwrap()))
            .collect(),
        shareable: device["allowMultipleAllocations"].as_bool().unwrap_or_default(),
        driver,
    }
}

fn attribute(value: &Value) -> AttributeValue {
    let (kind, value) = value.as_object().unwrap().iter().next().unwrap();
    let texts = || items(value).iter().map(text).collect();
    match kind.as_str() {
        "string" => AttributeValue::String(text(value)),
        "int" => AttributeValue::Int(value.as_i64().unwrap()),
        "bool" => AttributeValue::Bool(value.as_bool().unwrap()),
        "version" => AttributeValue::Version(text(value)),
        "strings" => AttributeValue::Strings(texts()),
        "versions" => AttributeValue::Versions(texts()),
        "ints" => AttributeValue::Ints(items(value).iter().map(|v| v.as_i64().unwrap()).collect()),
        "bools" => {
            AttributeValue::Bools(items(value).iter().map(|v| v.as_bool().unwrap()).collect())
        }
        other => panic!("unknown kind of attribute {other}"),
    }
}
