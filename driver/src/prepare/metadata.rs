//! Device metadata for programs in the container (KEP-5304): which devices it has, with their
//! published attributes, and which of them belong together.
//!
//! One file per request, mounted read-only at the standard path: a stream of equal documents, newest
//! version first, of which a reader takes the first that it understands. The units are an annotation,
//! since the schema has no place for them; the attribute `unit` of a device is an index into that list.

use std::collections::BTreeMap;

use lanemate_api::{AllocatedUnit, PathClass, attribute, names};
use serde::Serialize;
use serde_json::{Value, json};

use crate::attribute::AttributeValue;
use crate::claim::allocated::AllocatedClaim;

use super::cdi::{ContainerEdits, Mount};
use super::grant::Grant;
use super::{Base, PlannedFile, PlannedPath, PrepareOptions};

/// Newest first. 1.37 reads the first, 1.36 the second.
const VERSIONS: [&str; 2] =
    ["metadata.resource.k8s.io/v1beta1", "metadata.resource.k8s.io/v1alpha1"];
const IN_CONTAINER: &str = "/var/run/kubernetes.io/dra-device-attributes";
const UNITS_ANNOTATION: &str = "lanemate.dev/units";
/// The schema admits no more attributes than this.
const MAX_ATTRIBUTES: usize = 32;

/// `DeviceMetadata` in both versions.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeviceMetadata<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: ObjectMeta<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod_claim_name: Option<&'a str>,
    requests: [Request<'a>; 1],
}

#[derive(Serialize)]
struct ObjectMeta<'a> {
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
    /// The content depends on claim and machine only, so the first is the only one.
    generation: u32,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'static str, String>,
}

#[derive(Serialize)]
struct Request<'a> {
    /// With the alternative, unlike the path.
    name: String,
    devices: Vec<Device<'a>>,
}

#[derive(Serialize)]
struct Device<'a> {
    driver: &'static str,
    pool: &'a str,
    name: &'a str,
    attributes: BTreeMap<String, Value>,
}

/// One entry of the annotation.
#[derive(Serialize)]
struct Unit<'a> {
    unit: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<PathClass>,
    #[serde(skip_serializing_if = "Option::is_none")]
    via: Option<&'a str>,
    devices: Vec<Member<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Member<'a> {
    request: String,
    device: &'a str,
    r#type: &'static str,
    #[serde(rename = "pciBusID")]
    pci_bus_id: String,
}

/// The mount of the file of a device's request.
pub(super) fn edits(
    claim: &AllocatedClaim,
    grant: &Grant<'_>,
    options: &PrepareOptions,
) -> ContainerEdits {
    let host = format!("{}/{}", options.metadata_dir, path(claim, grant.request.request()));
    ContainerEdits {
        mounts: vec![Mount::read_only(host, container_path(claim, grant.request.request()))],
        ..ContainerEdits::default()
    }
}

/// One file per request, in the order of the grant.
pub(super) fn files(claim: &AllocatedClaim, grants: &[Grant<'_>]) -> Vec<PlannedFile> {
    let mut files: Vec<PlannedFile> = Vec::new();
    for grant in grants {
        let path = path(claim, grant.request.request());
        if files.iter().all(|file| file.path.path != path) {
            let path = PlannedPath { base: Base::Metadata, path };
            files.push(PlannedFile { path, mode: 0o644, bytes: documents(claim, grants, grant) });
        }
    }
    files
}

/// Not `.json`: the directory may lie below the CDI root, some readers of which descend and would take
/// it for a CDI spec.
fn path(claim: &AllocatedClaim, request: &str) -> String {
    format!("{}/{request}.metadata", claim.uid)
}

/// A claim made from a template has a name that no program can know beforehand, so its files stand
/// under the name by which the pod knows it.
fn container_path(claim: &AllocatedClaim, request: &str) -> String {
    let (folder, name) = match &claim.pod_claim_name {
        Some(name) => ("resourceclaimtemplates", name),
        None => ("resourceclaims", &claim.name),
    };
    format!("{IN_CONTAINER}/{folder}/{name}/{request}/{}-metadata.json", names::DRIVER)
}

fn documents(claim: &AllocatedClaim, grants: &[Grant<'_>], first: &Grant<'_>) -> Vec<u8> {
    let mut text = String::new();
    for version in VERSIONS {
        let document = document(claim, grants, first, version);
        // Strings, numbers, lists and maps with text keys: there is nothing that could fail.
        text.push_str(&serde_json::to_string_pretty(&document).unwrap_or_default());
        text.push('\n');
    }
    text.into_bytes()
}

fn document<'a>(
    claim: &'a AllocatedClaim,
    grants: &'a [Grant<'_>],
    first: &Grant<'_>,
    api_version: &'static str,
) -> DeviceMetadata<'a> {
    let request = first.request.request();
    let of_request: Vec<&Grant<'_>> =
        grants.iter().filter(|grant| grant.request.request() == request).collect();
    let units = units(claim, grants, &of_request);
    let annotations = serde_json::to_string(&units)
        .ok()
        .filter(|_| !units.is_empty())
        .map(|text| (UNITS_ANNOTATION, text));
    DeviceMetadata {
        kind: "DeviceMetadata",
        api_version,
        metadata: ObjectMeta {
            name: &claim.name,
            namespace: &claim.namespace,
            uid: claim.uid.as_str(),
            generation: 1,
            annotations: annotations.into_iter().collect(),
        },
        pod_claim_name: claim.pod_claim_name.as_deref(),
        requests: [Request {
            name: first.request.to_string(),
            devices: of_request.into_iter().map(device).collect(),
        }],
    }
}

fn device<'a>(grant: &'a Grant<'_>) -> Device<'a> {
    let mut attributes: BTreeMap<String, Value> = BTreeMap::from([
        (attribute::TYPE.to_owned(), json!({"string": grant.kind.as_str()})),
        (attribute::PCI_BUS_ID.to_owned(), json!({"string": grant.address.to_string()})),
    ]);
    if let Some(unit) = grant.unit {
        attributes.insert("unit".to_owned(), json!({ "int": unit }));
    }
    for (name, value) in grant.attributes.into_iter().flatten() {
        if attributes.len() < MAX_ATTRIBUTES || attributes.contains_key(name) {
            attributes.insert(name.clone(), attribute_value(value));
        }
    }
    Device { driver: names::DRIVER, pool: grant.pool, name: grant.device, attributes }
}

/// As a ResourceSlice writes it.
fn attribute_value(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::Bool(value) => json!({ "bool": value }),
        AttributeValue::Int(value) => json!({ "int": value }),
        AttributeValue::String(value) => json!({ "string": value }),
        AttributeValue::Version(value) => json!({ "version": value }),
        AttributeValue::Bools(values) => json!({ "bools": values }),
        AttributeValue::Ints(values) => json!({ "ints": values }),
        AttributeValue::Strings(values) => json!({ "strings": values }),
        AttributeValue::Versions(values) => json!({ "versions": values }),
    }
}

/// The units that have a device of the request, each with all its devices on this node: the mate of
/// a device may belong to another request.
fn units<'a>(
    claim: &'a AllocatedClaim,
    grants: &'a [Grant<'_>],
    of_request: &[&Grant<'_>],
) -> Vec<Unit<'a>> {
    let wanted = |index: usize| of_request.iter().any(|grant| grant.unit == Some(index));
    let units = claim.units.iter().enumerate().filter(|(index, _)| wanted(*index));
    units.map(|(index, unit)| one_unit(index, unit, grants)).collect()
}

fn one_unit<'a>(index: usize, unit: &'a AllocatedUnit, grants: &'a [Grant<'_>]) -> Unit<'a> {
    let members = grants.iter().filter(|grant| grant.unit == Some(index));
    Unit {
        unit: index,
        class: unit.class,
        via: unit.via.as_deref(),
        devices: members
            .map(|grant| Member {
                request: grant.request.to_string(),
                device: grant.device,
                r#type: grant.kind.as_str(),
                pci_bus_id: grant.address.to_string(),
            })
            .collect(),
    }
}
