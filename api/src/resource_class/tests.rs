//! Reading, validation and the published schema of ResourceClass.

use std::path::Path;

use super::*;

const PAIR: &str = r#"
apiVersion: lanemate.dev/v1alpha1
kind: ResourceClass
metadata: {name: gpu-rdma-pair}
spec:
  members:
    - {name: gpu, deviceClassName: gpu.lanemate.dev, count: 1}
    - name: nic
      deviceClassName: nic.lanemate.dev
      selectors:
        - cel: {expression: 'device.attributes["lanemate.dev"].?linkLayer.orValue("") == "InfiniBand"'}
  locality:
    within: {required: PXB, preferred: PIX}
    across: {preferred: NODE}
  config:
    - opaque:
        driver: lanemate.dev
        parameters: {apiVersion: lanemate.dev/v1alpha1, kind: Environment, nccl: true}
"#;

fn pair() -> ResourceClass {
    serde_saphyr::from_str(PAIR).unwrap()
}

/// Changes the pair and expects exactly these errors.
fn check_invalid(change: impl Fn(&mut ResourceClass), expect: &[&str]) {
    let mut class = pair();
    change(&mut class);
    let found: Vec<String> =
        class.validate().unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(found, expect);
}

fn selector(expression: &str) -> DeviceSelector {
    let expression = expression.to_owned();
    DeviceSelector { cel: Some(k8s_openapi::api::resource::v1::CELDeviceSelector { expression }) }
}

#[test]
fn the_class_of_the_user_guide_is_valid_and_gets_its_defaults() {
    let class = pair();
    assert_eq!(class.validate(), Ok(()));
    assert_eq!(class.spec.members[1].count, 1);
    assert_eq!(class.spec.locality.across.required, crate::PathClass::Sys);
}

#[test]
fn a_class_with_members_alone_gets_the_default_locality() {
    let text = "{apiVersion: lanemate.dev/v1alpha1, kind: ResourceClass, metadata: {name: gpus}, \
                spec: {members: [{name: gpu, deviceClassName: gpu.lanemate.dev}]}}";
    let class: ResourceClass = serde_saphyr::from_str(text).unwrap();
    assert_eq!(class.spec.locality, Locality::default());
    assert_eq!(class.validate(), Ok(()));
}

#[test]
fn unknown_fields_are_refused() {
    for (from, to) in [
        ("count: 1", "number: 1"),
        ("members:", "devices:"),
        ("preferred: PIX", "preferred: PIXX"),
        ("preferred: PIX", "prefers: PIX"),
        ("across:", "between:"),
    ] {
        let text = PAIR.replacen(from, to, 1);
        assert_ne!(text, PAIR);
        assert!(serde_saphyr::from_str::<ResourceClass>(&text).is_err(), "{to}");
    }
}

#[test]
fn errors_name_the_member_and_its_field() {
    let label = "a DNS label (a-z, 0-9 and inner -, at most 63)";
    check_invalid(
        |class| class.spec.members.clear(),
        &["spec.members: expected at least one member, found none"],
    );
    check_invalid(
        |class| class.spec.members[0].name = "GPU".to_owned(),
        &[&format!("spec.members[0].name: expected {label}, found \"GPU\"")],
    );
    check_invalid(
        |class| class.spec.members[1].name = "gpu".to_owned(),
        &["spec.members[1].name: duplicate \"gpu\""],
    );
    check_invalid(
        |class| class.spec.members[1].count = 0,
        &["spec.members[1].count: expected at least 1, found 0"],
    );
    check_invalid(
        |class| class.spec.members[1].count = 32,
        &["spec.members: expected at most 32 devices in one unit, found 33"],
    );
    check_invalid(
        |class| class.spec.members[0].device_class_name = "gpu-rdma-pair".to_owned(),
        &["spec.members[0].deviceClassName: expected a DeviceClass, found the class itself"],
    );
    check_invalid(
        |class| class.spec.members[0].device_class_name = String::new(),
        &["spec.members[0].deviceClassName: required: a DNS subdomain (a-z, 0-9, inner - and .)"],
    );
    check_invalid(
        |class| class.metadata.name = None,
        &["metadata.name: required: a DNS subdomain (a-z, 0-9, inner - and .)"],
    );
}

#[test]
fn selectors_keep_to_the_limits_of_the_api() {
    let longest = "x".repeat(MAX_EXPRESSION_BYTES);
    let mut class = pair();
    class.spec.members[0].selectors = vec![selector(&longest); MAX_SELECTORS];
    assert_eq!(class.validate(), Ok(()));
    check_invalid(
        |class| class.spec.members[0].selectors = vec![selector("true"); 33],
        &["spec.members[0].selectors: expected at most 32 entries, found 33"],
    );
    check_invalid(
        |class| {
            class.spec.members[1].selectors =
                vec![DeviceSelector { cel: None }, selector(""), selector(&format!("{longest}x"))];
        },
        &[
            "spec.members[1].selectors[0].cel.expression: required: a CEL expression",
            "spec.members[1].selectors[1].cel.expression: required: a CEL expression",
            "spec.members[1].selectors[2].cel.expression: expected at most 10240 bytes, found 10241",
        ],
    );
}

#[test]
fn wishes_are_not_farther_than_what_is_required() {
    check_invalid(
        |class| {
            class.spec.locality.within.preferred = Some(crate::PathClass::Node);
            class.spec.locality.across.required = crate::PathClass::Phb;
        },
        &[
            "spec.locality.within.preferred: expected PXB (what is required) or nearer, found NODE",
            "spec.locality.across.preferred: expected PHB (what is required) or nearer, found NODE",
        ],
    );
}

#[test]
fn configuration_for_this_driver_is_an_environment() {
    let set = |class: &mut ResourceClass, driver: &str, parameters: Value| {
        let opaque = class.spec.config[0].opaque.as_mut().unwrap();
        opaque.driver = driver.to_owned();
        opaque.parameters.0 = parameters;
    };
    let mut class = pair();
    set(&mut class, "gpu.example.com", json!({ "anything": [1, 2] }));
    assert_eq!(class.validate(), Ok(()));
    let placement = json!({
        "apiVersion": "lanemate.dev/v1alpha1", "kind": "Placement", "unit": [{ "request": "gpu" }],
    });
    check_invalid(
        |class| set(class, "lanemate.dev", placement.clone()),
        &["spec.config[0].opaque.parameters: expected kind Environment, found Placement"],
    );
    check_invalid(
        |class| set(class, "lanemate.dev", json!({ "kind": "Environment" })),
        &["spec.config[0].opaque.parameters: apiVersion: is missing: expected \
           lanemate.dev/v1alpha1"],
    );
    check_invalid(
        |class| class.spec.config[0].opaque = None,
        &["spec.config[0].opaque: required: a driver and its parameters"],
    );
    check_invalid(
        |class| class.spec.config = vec![class.spec.config[0].clone(); 33],
        &["spec.config: expected at most 32 entries, found 33"],
    );
}

/// Compares with a file below the repository's root; `UPDATE_GOLDEN=1` writes it.
fn check_golden(path: &str, found: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, found).unwrap();
    }
    let expect = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(expect == found, "{path} is out of date: run the tests with UPDATE_GOLDEN=1");
}

#[test]
fn the_published_definition_is_the_golden_file() {
    let text = serde_saphyr::to_string(&crd()).unwrap();
    check_golden("deploy/crds/resourceclasses.lanemate.dev.yaml", &text);
    let again: CustomResourceDefinition = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(again, crd());
}

#[test]
fn the_shipped_device_classes_are_the_golden_file() {
    let classes = crate::builtin_device_classes();
    let text = serde_saphyr::to_string_multiple(&classes).unwrap();
    check_golden("deploy/deviceclasses.yaml", &text);
    let again: Vec<k8s_openapi::api::resource::v1::DeviceClass> =
        serde_saphyr::from_multiple(&text).unwrap();
    assert_eq!(again, classes);
}

/// The rules that the API server calls structural: every node has a type, references and
/// combinations are absent, lists bound their length and texts theirs.
fn check_structural(path: &str, schema: &Value) {
    let Value::Object(node) = schema else { panic!("{path}: not an object: {schema}") };
    for banned in ["$ref", "anyOf", "oneOf", "allOf", "not", "nullable", "additionalProperties"] {
        // The derive marks the status so: nobody has written one yet.
        let is_status = (path, banned) == (".status", "nullable");
        assert!(is_status || !node.contains_key(banned), "{path}: {banned}");
    }
    match node.get("type").and_then(Value::as_str) {
        Some("object") => {
            let preserved = node.contains_key("x-kubernetes-preserve-unknown-fields");
            let properties = node.get("properties").and_then(Value::as_object);
            assert!(preserved || properties.is_some() || path.is_empty(), "{path}: open object");
            for (name, property) in properties.into_iter().flatten() {
                check_structural(&format!("{path}.{name}"), property);
            }
        }
        Some("array") => {
            assert!(node.contains_key("maxItems"), "{path}: unbounded list");
            check_structural(&format!("{path}[]"), &node["items"]);
        }
        Some("string") => {
            let bounded = node.contains_key("enum") || node.contains_key("maxLength");
            assert!(bounded, "{path}: unbounded text");
        }
        Some("integer") => {
            // A generation is counted by the API server.
            let is_generation = path.ends_with(".observedGeneration");
            assert!(node.contains_key("minimum"), "{path}");
            assert!(node.contains_key("maximum") != is_generation, "{path}");
            assert_eq!(node["format"], if is_generation { "int64" } else { "int32" }, "{path}");
        }
        other => panic!("{path}: type {other:?}"),
    }
}

#[test]
fn the_schema_is_structural_and_bounds_every_list_and_text() {
    let definition = serde_json::to_value(crd()).unwrap();
    let versions = definition["spec"]["versions"].as_array().unwrap();
    assert_eq!(versions.len(), 1);
    check_structural("", &versions[0]["schema"]["openAPIV3Schema"]);
}

#[test]
fn the_schema_and_the_types_have_the_same_defaults() {
    let definition = serde_json::to_value(crd()).unwrap();
    let spec =
        &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let locality = &spec["properties"]["locality"];
    assert_eq!(locality["default"], serde_json::to_value(Locality::default()).unwrap());
    assert_eq!(locality["properties"]["within"]["properties"]["required"]["default"], "PXB");
    assert_eq!(locality["properties"]["across"]["properties"]["required"]["default"], "SYS");
    assert_eq!(spec["properties"]["members"]["items"]["properties"]["count"]["default"], 1);
}

#[test]
fn the_definition_has_a_status_of_its_own_and_shows_whether_the_class_is_ready() {
    let definition = serde_json::to_value(crd()).unwrap();
    let version = &definition["spec"]["versions"][0];
    assert_eq!(version["subresources"], json!({ "status": {} }));
    let columns = version["additionalPrinterColumns"].as_array().unwrap();
    let path = |name: &str| {
        columns.iter().find(|column| column["name"] == name).map(|column| &column["jsonPath"])
    };
    let ready = json!(".status.conditions[?(@.type==\"Ready\")].status");
    assert_eq!(path("Ready"), Some(&ready));
    let rules = &version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"];
    let rule = "self.spec.members.all(member, member.deviceClassName != self.metadata.name)";
    assert_eq!(rules[0]["rule"], rule);
}

#[test]
fn a_class_tells_its_condition_and_a_new_one_has_none() {
    let mut class = pair();
    assert_eq!(class.ready(), None);
    let status = json!({ "observedGeneration": 2, "conditions": [
        { "type": "Other", "status": "True", "reason": "A", "message": "",
          "lastTransitionTime": "2026-01-01T00:00:00Z" },
        { "type": "Ready", "status": "False", "reason": "NestedClass", "message": "m",
          "observedGeneration": 2, "lastTransitionTime": "2026-01-01T00:00:00Z" },
    ]});
    class.status = Some(serde_json::from_value(status.clone()).unwrap());
    let ready = class.ready().unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "NestedClass"));
    assert_eq!(
        serde_json::to_value(class.status.unwrap()).unwrap()["conditions"][1]["message"],
        "m"
    );
}
