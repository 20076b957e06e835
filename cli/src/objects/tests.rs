//! Files, and the objects, warnings and errors they yield.

use super::*;

/// Writes the texts to files `a.yaml`, `b.yaml`, … and loads them; errors name files without
/// their folder.
fn load(texts: &[&str]) -> Result<Objects, String> {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<PathBuf> = ["a.yaml", "b.yaml", "c.yaml"]
        .iter()
        .zip(texts)
        .map(|(name, text)| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        })
        .collect();
    let shorten = |text: String| text.replace(&format!("{}/", folder.path().display()), "");
    let mut objects = Objects::load(&files, "default").map_err(|e| shorten(e.to_string()))?;
    objects.warnings = objects.warnings.into_iter().map(shorten).collect();
    Ok(objects)
}

fn check_error(texts: &[&str], expect: &str) {
    assert_eq!(load(texts).map(|_| ()), Err(expect.to_owned()), "{texts:?}");
}

/// The broken claims and templates of a file, without their places.
fn broken(text: &str) -> Vec<String> {
    let objects = load(&[text]).unwrap();
    let told = objects.broken_claims.iter().map(ToString::to_string);
    told.map(|line| line.split_once(" (line 1): ").unwrap().1.to_owned()).collect()
}

const CLAIM: &str = "
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu.lanemate.dev}}]}}
";

const SLICE: &str = "
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s1}
spec:
  driver: lanemate.dev
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0000-1b-00-0
    attributes: {type: {string: gpu}}
    capacity: {memory: {value: 80Gi}}
";

#[test]
fn every_kind_is_read() {
    let objects = load(&[&format!(
        "{CLAIM}---{SLICE}---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: t, namespace: ns}}
spec:
  metadata: {{labels: {{team: a}}}}
  spec: {{devices: {{requests: [{{name: r, exactly: {{deviceClassName: gpu.lanemate.dev}}}}]}}}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: gpu.lanemate.dev}}
spec: {{selectors: [{{cel: {{expression: 'device.driver == \"lanemate.dev\"'}}}}]}}
---
apiVersion: lanemate.dev/v1alpha1
kind: ResourceClass
metadata: {{name: pair}}
spec: {{members: [{{name: gpu, deviceClassName: gpu.lanemate.dev}}]}}
---
apiVersion: v1
kind: Node
metadata: {{name: n1}}
status: {{capacity: {{cpu: 8}}, newThing: 1}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {{name: high}}
value: 7
---
apiVersion: v1
kind: Pod
metadata: {{name: p}}
spec: {{containers: [{{name: c, resources: {{limits: {{cpu: 0.5}}}}}}], newThing: 1}}
"
    )])
    .unwrap();
    let counts = [
        objects.claims.len(),
        objects.slices.len(),
        objects.templates.len(),
        objects.device_classes.len(),
        objects.resource_classes.len(),
        objects.nodes.len(),
        objects.priority_classes.len(),
        objects.pods.len(),
    ];
    assert_eq!(counts, [1; 8]);
    assert!(objects.broken_claims.is_empty(), "{:?}", objects.broken_claims);
    assert!(objects.warnings.is_empty());
    assert_eq!(objects.claims[0].metadata.namespace.as_deref(), Some("default"));
    assert_eq!(objects.pods[0].metadata.namespace.as_deref(), Some("default"));
    assert_eq!(objects.templates[0].metadata.namespace.as_deref(), Some("ns"));
    assert_eq!(objects.nodes[0].metadata.namespace, None);
}

#[test]
fn lists_give_their_items() {
    let claim = |name: &str| {
        format!(
            r#"{{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                "metadata": {{"name": "{name}"}}, "spec": {{}}}}"#
        )
    };
    let names = |text: &str| {
        let objects = load(&[text]).unwrap();
        objects.claims.iter().map(|c| c.metadata.name.clone().unwrap()).collect::<Vec<_>>()
    };
    let (a, b) = (claim("a"), claim("b"));
    assert_eq!(
        names(&format!(r#"{{"apiVersion": "v1", "kind": "List", "items": [{b}, {a}, null]}}"#)),
        ["a", "b"]
    );
    assert_eq!(
        names(
            "
apiVersion: resource.k8s.io/v1
kind: ResourceClaimList
metadata: {resourceVersion: '7'}
items:
- {metadata: {name: b}, spec: {}}
- {metadata: {name: a}, spec: {}}
"
        ),
        ["a", "b"]
    );
    let nested = |depth: usize| {
        let (open, close) = (r#"{"apiVersion": "v1", "kind": "List", "items": ["#, "]}");
        open.repeat(depth) + &a + &close.repeat(depth)
    };
    assert_eq!(names(&nested(2)), ["a"]);
    check_error(
        &[&nested(3)],
        "a.yaml: document 1, items[0].items[0]: more than 2 Lists in one another",
    );
    check_error(
        &["{apiVersion: v1, kind: List}"],
        "a.yaml: document 1 (line 1): items: expected a list of objects",
    );
    check_error(
        &["{apiVersion: v1, kind: List, items: [{}, 7]}"],
        "a.yaml: document 1 (line 1), items[0]: apiVersion: expected a string that names it",
    );
}

#[test]
fn the_namespace_given_is_for_objects_that_name_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.yaml");
    let named = CLAIM.replace("{name: c}", "{name: c, namespace: other}");
    std::fs::write(&file, format!("{CLAIM}---{named}---{SLICE}")).unwrap();
    let objects = Objects::load(&[file], "team").unwrap();
    let names: Vec<_> = objects.claims.iter().map(|c| c.metadata.namespace.clone()).collect();
    assert_eq!(names, [Some("other".to_owned()), Some("team".to_owned())]);
    assert_eq!(objects.slices[0].metadata.namespace, None);
}

#[test]
fn the_order_of_files_and_objects_does_not_matter() {
    let b = CLAIM.replace("name: c", "name: b");
    let one = load(&[CLAIM, &b, SLICE]).unwrap();
    let other = load(&[SLICE, &format!("{b}---{CLAIM}")]).unwrap();
    assert_eq!(one.claims, other.claims);
    assert_eq!(one.slices, other.slices);
}

#[test]
fn documents_that_are_no_objects_are_errors() {
    for (text, expect) in [
        ("- a\n", "a.yaml: document 1 (line 1): expected an object with apiVersion and kind"),
        ("text\n", "a.yaml: document 1 (line 1): expected an object with apiVersion and kind"),
        ("a: 1\n", "a.yaml: document 1 (line 1): apiVersion: expected a string that names it"),
        (
            "\n---\napiVersion: v1\nkind: 7\n",
            "a.yaml: document 1 (line 2): kind: expected a string that names it",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {generateName: p-}\n",
            "a.yaml: document 1 (line 1): Pod: metadata.name: expected a name",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: 7}\n",
            "a.yaml: document 1 (line 1): Pod: metadata.name: expected a name, found 7",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: \"a\\e[31m\"}\n",
            "a.yaml: document 1 (line 1): Pod: metadata.name: expected a name, \
             found \"a\\u001b[31m\"",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: b.c}\n",
            "a.yaml: document 1 (line 1): Pod: metadata.namespace: expected a name, found \"b.c\"",
        ),
    ] {
        check_error(&[text], expect);
    }
    let error = load(&["a: [1,\n"]).unwrap_err();
    assert!(error.starts_with("a.yaml: line 1 \"a: [1,\": "), "{error}");
    let cut = &SLICE[..SLICE.len() - 20];
    let error = load(&[cut]).unwrap_err();
    assert!(error.starts_with("a.yaml: line 12"), "{error}");
}

#[test]
fn other_versions_of_the_kinds_that_are_read_are_errors() {
    check_error(
        &[&format!("{CLAIM}---{}", CLAIM.replace("/v1", "/v1beta1"))],
        "a.yaml: document 2 (line 6): \
         ResourceClaim resource.k8s.io/v1beta1: only resource.k8s.io/v1 is read",
    );
    check_error(
        &["{apiVersion: resource.k8s.io/v1beta2, kind: ResourceSliceList, items: [{}]}"],
        "a.yaml: document 1 (line 1), items[0]: \
         ResourceSlice resource.k8s.io/v1beta2: only resource.k8s.io/v1 is read",
    );
}

#[test]
fn kinds_that_would_change_the_answer_are_errors() {
    check_error(
        &["{apiVersion: resource.k8s.io/v1, kind: DeviceTaintRule, metadata: {name: r}}"],
        "a.yaml: document 1 (line 1): DeviceTaintRule resource.k8s.io/v1: \
         it would change the answer and is not supported yet",
    );
    check_error(
        &["{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: g}}"],
        "a.yaml: document 1 (line 1): PodGroup scheduling.k8s.io/v1beta1: \
         it would change the answer and is not supported yet",
    );
}

#[test]
fn unknown_kinds_are_warned_of_once_a_file() {
    let deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}\n---\n";
    let objects = load(&[
        &deployment.repeat(3),
        deployment,
        "apiVersion: lanemate.dev/capture-v1\nkind: HostCapture\n---
{apiVersion: resource.k8s.io/v1alpha3, kind: ResourcePoolStatusRequest}\n---
{apiVersion: example.com/v1, kind: ThingList}",
    ])
    .unwrap();
    assert_eq!(
        objects.warnings,
        [
            "a.yaml: Deployment (apps/v1) is not read: 3 objects",
            "b.yaml: Deployment (apps/v1) is not read",
            "c.yaml: HostCapture (lanemate.dev/capture-v1) is not read; \
             give captured machines with --host",
            "c.yaml: ThingList (example.com/v1) is not read",
        ]
    );
}

#[test]
fn objects_that_are_there_twice_are_errors() {
    check_error(
        &[CLAIM, SLICE, &format!("---\n---{CLAIM}")],
        "ResourceClaim default/c is there twice: a.yaml: document 1 (line 1), \
         and c.yaml: document 1 (line 2)",
    );
    check_error(
        &[&format!("{SLICE}---{SLICE}")],
        "ResourceSlice s1 is there twice: a.yaml: document 1 (line 1), \
         and a.yaml: document 2 (line 13)",
    );
    let elsewhere = CLAIM.replace("{name: c}", "{name: c, namespace: ns}");
    assert_eq!(load(&[CLAIM, &elsewhere]).unwrap().claims.len(), 2);
}

#[test]
fn unknown_fields_and_types_in_slices_and_classes_are_errors() {
    for (text, expect) in [
        (
            SLICE.replace("nodeName", "nodename"),
            "a.yaml: document 1 (line 1): ResourceSlice s1: spec.nodename: unknown field",
        ),
        (
            SLICE.replace("value: 80Gi", "valu: 80Gi"),
            "a.yaml: document 1 (line 1): ResourceSlice s1: \
             spec.devices[0].capacity.memory.valu: unknown field",
        ),
        (
            SLICE.replace("generation: 1", "generation: one"),
            "a.yaml: document 1 (line 1): ResourceSlice s1: \
             spec.pool.generation: expected a whole number, found string \"one\"",
        ),
        (
            "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: d}, \
             spec: {selector: []}}"
                .to_owned(),
            "a.yaml: document 1 (line 1): DeviceClass d: spec.selector: unknown field",
        ),
        (
            "{apiVersion: lanemate.dev/v1alpha1, kind: ResourceClass, metadata: {name: d}, \
             spec: {members: [], localty: {}}}"
                .to_owned(),
            "a.yaml: document 1 (line 1): ResourceClass d: \
             spec.localty: unknown field, expected one of members, locality, config",
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns}, \
             spec: {priority: high}}"
                .to_owned(),
            "a.yaml: document 1 (line 1): Pod ns/p: \
             spec.priority: expected a whole number, found string \"high\"",
        ),
    ] {
        check_error(&[&text], expect);
    }
}

#[test]
fn slices_that_the_api_would_refuse_are_errors() {
    for (from, to, expect) in [
        (
            "name: gpu-0000-1b-00-0",
            "taints: []",
            "spec.devices[0].name: required: a DNS label (a-z, 0-9 and inner -, at most 63)",
        ),
        (
            "nodeName: n1",
            "",
            "spec: expected exactly one of nodeName, nodeSelector, allNodes and \
             perDeviceNodeSelection, found 0",
        ),
        ("driver: lanemate.dev", "", "spec.driver: required: a DRA driver name"),
    ] {
        let text = SLICE.replace(from, to);
        assert_ne!(text, SLICE, "{from}");
        let expect = format!("a.yaml: document 1 (line 1): ResourceSlice s1: {expect}");
        check_error(&[&text], &expect);
    }
}

#[test]
fn claims_and_templates_that_are_wrong_are_set_aside() {
    let claim = |from: &str, to: &str| CLAIM.replace(from, to);
    let request = "ResourceClaim default/c: spec.devices.requests[0].exactly";
    for (text, expect) in [
        (claim("deviceClassName: g", "cout: 2, deviceClassName: g"), ".cout: unknown field"),
        (
            claim("deviceClassName: g", "count: 0, deviceClassName: g"),
            ".count: expected at least 1, found 0",
        ),
        (
            claim("deviceClassName: g", "count: two, deviceClassName: g"),
            ".count: expected a whole number, found string \"two\"",
        ),
        (
            claim("deviceClassName", "className"),
            ".className: unknown field; spec.devices.requests[0].exactly.deviceClassName: \
             required: the name of a DeviceClass or ResourceClass",
        ),
    ] {
        assert_eq!(broken(&text), [format!("{request}{expect}")]);
        let other = claim("name: c", "name: d");
        assert_eq!(load(&[&text, &other]).unwrap().claims.len(), 1);
    }
    let template = "{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, \
                    metadata: {name: t}, spec: {spec: {devices: {requests: [{name: R}]}}, x: 1}}";
    assert_eq!(
        broken(template),
        ["ResourceClaimTemplate default/t: spec.x: unknown field; \
          spec.spec.devices.requests[0].name: \
          expected a DNS label (a-z, 0-9 and inner -, at most 63), found \"R\"; \
          spec.spec.devices.requests[0]: \
          expected one of exactly and firstAvailable, found neither"]
    );
    let many = "a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, ";
    let errors = &load(&[&claim("spec: {", &format!("spec: {{{many}"))]).unwrap();
    let errors = &errors.broken_claims[0].errors;
    assert_eq!(errors[4..], ["spec.e: unknown field", "2 more unknown fields"]);
}

#[test]
fn broken_claims_are_told_to_the_order_of_decisions() {
    let text = CLAIM.replace("deviceClassName", "className");
    let name = ClaimRef { namespace: "default".to_owned(), name: "c".to_owned() };
    let broken = load(&[&text]).unwrap().broken();
    let error = &broken.claims[&name];
    assert!(error.contains(".yaml: document 1 (line 1): spec.devices.requests[0]."), "{error}");
    assert!(broken.templates.is_empty());
}

#[test]
fn an_allocation_is_never_lost() {
    let status = "status: {allocation: {devices: {results: [{request: r, driver: lanemate.dev, \
                  pool: n1, device: gpu-0000-1b-00-0}]}}}\n";
    // Limits of the specification were the API server's business.
    let allocated =
        format!("{}{status}", CLAIM.replace("deviceClassName", "count: 0, deviceClassName"));
    let objects = load(&[&allocated]).unwrap();
    assert_eq!((objects.claims.len(), objects.broken_claims.len()), (1, 0));

    let nameless = format!("{CLAIM}{}", status.replace("pool: n1, ", ""));
    check_error(
        &[&nameless],
        "a.yaml: document 1 (line 1): ResourceClaim default/c: \
         status.allocation.devices.results[0].pool: required: a name",
    );

    let newer = format!("{CLAIM}{}", status.replace("request: r,", "request: r, newThing: 1,"));
    let objects = load(&[&newer]).unwrap();
    let broken = &objects.broken_claims[0];
    assert_eq!(broken.errors, ["status.allocation.devices.results[0].newThing: unknown field"]);
    let status = broken.claim.as_ref().unwrap().status.as_ref().unwrap();
    assert!(status.allocation.is_some());

    let unreadable = format!("{CLAIM}{}", status_with_type_error());
    check_error(
        &[&unreadable],
        "a.yaml: document 1 (line 1): ResourceClaim default/c: \
         status.allocation.devices.results: expected a list, found integer `7`",
    );
}

fn status_with_type_error() -> &'static str {
    "status: {allocation: {devices: {results: 7}}}\n"
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let error = Objects::load(&[PathBuf::from("/nonexistent/x.yaml")], "default").unwrap_err();
    assert_eq!(
        error.to_string(),
        "/nonexistent/x.yaml: cannot be read: No such file or directory (os error 2)"
    );
    let folder = tempfile::tempdir().unwrap();
    let error = Objects::load(&[folder.path().to_owned()], "default").unwrap_err();
    assert!(error.to_string().contains("directory"), "{error}");
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let latin = write("latin.yaml", b"a: \xe9\n");
    let error = Objects::load(std::slice::from_ref(&latin), "default").unwrap_err();
    assert_eq!(error.to_string(), format!("{}: line 1: expected UTF-8 text", latin.display()));
    let large = folder.path().join("large.yaml");
    let file = std::fs::File::create(&large).unwrap();
    file.set_len(FILE_BYTES_MAX + 1).unwrap();
    let error = Objects::load(&[large], "default").unwrap_err();
    assert!(error.to_string().ends_with(": expected at most 256 MiB"), "{error}");
    assert!(Objects::load(&[write("empty.yaml", b"")], "default").unwrap().claims.is_empty());
}

#[test]
fn too_many_objects_are_refused() {
    let items: Vec<String> =
        (0..=OBJECTS_MAX).map(|i| format!(r#"{{"metadata": {{"name": "n{i}"}}}}"#)).collect();
    let items = items.join(",");
    let text = format!(r#"{{"apiVersion": "v1", "kind": "NodeList", "items": [{items}]}}"#);
    check_error(&[&text], "a.yaml: document 1, items[200000]: more than 200000 objects");
}

#[test]
fn json_of_kubectl_is_read_with_its_managed_fields() {
    let text = r#"{"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": [
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {
            "name": "c", "namespace": "ns", "uid": "u", "resourceVersion": "5", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["f"],
            "managedFields": [{"apiVersion": "resource.k8s.io/v1", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {"f:devices": {}}}, "manager": "kubectl",
                "operation": "Update", "time": "2026-01-01T00:00:00Z"}]},
         "spec": {"devices": {"requests": [{"name": "r", "exactly": {
            "allocationMode": "ExactCount", "count": 1, "deviceClassName": "gpu.lanemate.dev"}}]}},
         "status": {}}]}"#;
    let objects = load(&[text]).unwrap();
    assert!(objects.broken_claims.is_empty(), "{:?}", objects.broken_claims);
    assert_eq!(objects.claims.len(), 1);
}
