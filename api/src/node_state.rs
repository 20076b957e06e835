//! `NodeState`: what one node holds, published for whoever allocates. A device that its node holds
//! is busy, whatever the claims say.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, CustomResourceValidation, JSON,
    JSONSchemaProps, JSONSchemaPropsOrArray,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ClusterResourceScope, Resource, TypeMeta};
use serde::{Deserialize, Serialize};

use crate::names;

/// What one node holds. Cluster-scoped, named after the Node and owned by it. The plugin of that
/// node writes it as a whole, so it has no status subresource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeState {
    /// `apiVersion` and `kind`.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// Metadata; the name is the Node's.
    pub metadata: ObjectMeta,
    /// What is held.
    #[serde(default)]
    pub status: NodeStateStatus,
}

/// What a node holds. Empty: the plugin runs there and nothing is held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStateStatus {
    /// Claims that hold devices on this node, in the order of their UIDs.
    #[serde(default)]
    pub held: Vec<HeldClaim>,
}

/// A claim that holds devices on its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldClaim {
    /// The claim, which may be gone from the API server.
    pub claim: ClaimRef,
    /// Names of its devices in the node's pool, sorted. Empty: the node cannot tell.
    #[serde(default)]
    pub devices: Vec<String>,
    /// How far it is.
    pub state: HeldState,
}

/// A claim by UID, and by name where the node knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimRef {
    /// Namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// UID.
    pub uid: String,
}

/// How far a claim is on its way through its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum HeldState {
    /// The devices are the claim's own, their preparation is not complete.
    Reserved,
    /// Containers may use the devices.
    Prepared,
    /// What was prepared is being undone.
    Releasing,
    /// The node's record of the claim cannot be read.
    Quarantined,
    /// A word of a later version: held, and more is not known. Never written.
    #[serde(other)]
    Unknown,
}

const KIND: &str = "NodeState";
const PLURAL: &str = "nodestates";
const VERSION: &str = "v1alpha1";
/// Claims on one node: each of 256 devices is held once, and claims with admin access come beside.
pub const MAX_HELD: usize = 1024;
/// Devices of one claim, as many as it has results.
const MAX_DEVICES: usize = 32;
/// Characters of a namespace, and of the name of a device.
const MAX_LABEL: usize = 63;
/// Characters of a claim's name.
const MAX_NAME: usize = 253;
/// Characters of a claim's UID.
const MAX_UID: usize = 64;

impl NodeState {
    /// What a node holds; without an owner.
    pub fn new(node: &str, status: NodeStateStatus) -> Self {
        let metadata = ObjectMeta { name: Some(node.to_owned()), ..ObjectMeta::default() };
        Self { types: TypeMeta::resource::<Self>(), metadata, status }
    }
}

impl HeldClaim {
    /// The claim without what the definition refuses, so that one of which a damaged record tells
    /// nonsense does not keep the others from being published. Of devices it is all or none.
    pub fn within_bounds(mut self) -> Self {
        let fits = |text: &str, most: usize| (1..=most).contains(&text.chars().count());
        self.claim.namespace.take_if(|namespace| !fits(namespace, MAX_LABEL));
        self.claim.name.take_if(|name| !fits(name, MAX_NAME));
        let are_known = self.devices.len() <= MAX_DEVICES
            && self.devices.iter().all(|device| fits(device, MAX_LABEL));
        if !are_known {
            self.devices.clear();
        }
        self
    }
}

impl HeldState {
    /// Those that are written.
    pub const ALL: [Self; 4] = [Self::Reserved, Self::Prepared, Self::Releasing, Self::Quarantined];

    /// The word in the object, and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "Reserved",
            Self::Prepared => "Prepared",
            Self::Releasing => "Releasing",
            Self::Quarantined => "Quarantined",
            Self::Unknown => "Unknown",
        }
    }
}

// By hand: the derive of kube adds a status subresource to whatever has a status.
impl Resource for NodeState {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        names::DRIVER.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The CustomResourceDefinition of [`NodeState`].
pub fn crd() -> CustomResourceDefinition {
    let age = CustomResourceColumnDefinition {
        json_path: ".metadata.creationTimestamp".to_owned(),
        name: "Age".to_owned(),
        type_: "date".to_owned(),
        ..CustomResourceColumnDefinition::default()
    };
    let version = CustomResourceDefinitionVersion {
        name: VERSION.to_owned(),
        served: true,
        storage: true,
        additional_printer_columns: Some(vec![age]),
        schema: Some(CustomResourceValidation { open_api_v3_schema: Some(schema()) }),
        ..CustomResourceDefinitionVersion::default()
    };
    let names = CustomResourceDefinitionNames {
        kind: KIND.to_owned(),
        plural: PLURAL.to_owned(),
        singular: Some(KIND.to_lowercase()),
        ..CustomResourceDefinitionNames::default()
    };
    CustomResourceDefinition {
        metadata: ObjectMeta {
            name: Some(format!("{PLURAL}.{}", names::DRIVER)),
            ..ObjectMeta::default()
        },
        spec: CustomResourceDefinitionSpec {
            group: names::DRIVER.to_owned(),
            names,
            scope: "Cluster".to_owned(),
            versions: vec![version],
            ..CustomResourceDefinitionSpec::default()
        },
        status: None,
    }
}

fn schema() -> JSONSchemaProps {
    let claim = object(
        "The claim, which may be gone from the API server.",
        [
            ("namespace", text("Namespace, where the node knows it.", MAX_LABEL)),
            ("name", text("Name, where the node knows it.", MAX_NAME)),
            ("uid", text("UID.", MAX_UID)),
        ],
        &["uid"],
    );
    let device = text("Name of a device in the node's pool.", MAX_LABEL);
    let devices = list(
        "Names of its devices in the node's pool, sorted. Empty: the node cannot tell.",
        device,
        MAX_DEVICES,
    );
    let words = HeldState::ALL.map(|state| JSON(state.as_str().into()));
    let state = JSONSchemaProps {
        description: Some("How far the claim is on its way through the node.".to_owned()),
        type_: Some("string".to_owned()),
        enum_: Some(words.to_vec()),
        ..JSONSchemaProps::default()
    };
    let held = object(
        "A claim that holds devices on the node.",
        [("claim", claim), ("devices", devices), ("state", state)],
        &["claim", "state"],
    );
    let held = list(
        "Claims that hold devices on the node. Empty: the plugin runs there and nothing is held.",
        held,
        MAX_HELD,
    );
    let status = object("What the node holds.", [("held", held)], &[]);
    object(
        "What one node holds: a device that its node holds is busy, whatever the claims say. \
         Named after the Node, and written by the plugin there.",
        [("status", status)],
        &[],
    )
}

fn object<const COUNT: usize>(
    description: &str,
    properties: [(&str, JSONSchemaProps); COUNT],
    required: &[&str],
) -> JSONSchemaProps {
    let properties = properties.map(|(name, property)| (name.to_owned(), property));
    let required: Vec<String> = required.iter().map(|&name| name.to_owned()).collect();
    JSONSchemaProps {
        description: Some(description.to_owned()),
        type_: Some("object".to_owned()),
        properties: Some(BTreeMap::from(properties)),
        required: (!required.is_empty()).then_some(required),
        ..JSONSchemaProps::default()
    }
}

fn list(description: &str, items: JSONSchemaProps, max_items: usize) -> JSONSchemaProps {
    JSONSchemaProps {
        description: Some(description.to_owned()),
        type_: Some("array".to_owned()),
        items: Some(JSONSchemaPropsOrArray::Schema(Box::new(items))),
        max_items: i64::try_from(max_items).ok(),
        x_kubernetes_list_type: Some("atomic".to_owned()),
        ..JSONSchemaProps::default()
    }
}

fn text(description: &str, max_length: usize) -> JSONSchemaProps {
    JSONSchemaProps {
        description: Some(description.to_owned()),
        type_: Some("string".to_owned()),
        min_length: Some(1),
        max_length: i64::try_from(max_length).ok(),
        ..JSONSchemaProps::default()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;

    fn state() -> Value {
        json!({
            "apiVersion": "lanemate.dev/v1alpha1", "kind": "NodeState", "metadata": { "name": "n1" },
            "status": { "held": [{
                "claim": { "namespace": "ns", "name": "c", "uid": "u" },
                "devices": ["gpu-0000-17-00-0"], "state": "Prepared",
            }] },
        })
    }

    #[test]
    fn a_state_is_read_and_written_as_published() {
        let read: NodeState = serde_json::from_value(state()).unwrap();
        assert_eq!(read.status.held[0].state, HeldState::Prepared);
        assert_eq!(NodeState::new("n1", read.status.clone()), read);
        assert_eq!(serde_json::to_value(&read).unwrap(), state());
    }

    #[test]
    fn what_the_definition_refuses_of_a_claim_is_left_out() {
        let held = |namespace: &str, name: &str, devices: &[String]| HeldClaim {
            claim: ClaimRef {
                namespace: Some(namespace.to_owned()),
                name: Some(name.to_owned()),
                uid: "u".to_owned(),
            },
            devices: devices.to_vec(),
            state: HeldState::Quarantined,
        };
        let devices = |count: usize, length: usize| vec!["d".repeat(length); count];
        let good = held(&"n".repeat(63), &"ü".repeat(253), &devices(32, 63));
        assert_eq!(good.clone().within_bounds(), good);
        for (long, longer) in [(devices(33, 1), devices(1, 64)), (devices(1, 0), vec![])] {
            for devices in [long, longer] {
                let bounded = held("", &"x".repeat(254), &devices).within_bounds();
                let claim = ClaimRef { namespace: None, name: None, uid: "u".to_owned() };
                assert_eq!((bounded.claim, bounded.devices.len()), (claim, 0));
            }
        }
    }

    #[test]
    fn a_claim_may_lack_its_name_and_fields_of_later_versions_are_passed_over() {
        let mut later = state();
        later["status"]["later"] = json!(1);
        later["status"]["held"][0]["claim"] = json!({ "uid": "u" });
        later["status"]["held"][0]["state"] = json!("Resting");
        let read: NodeState = serde_json::from_value(later).unwrap();
        assert_eq!(read.status.held[0].claim.name, None);
        assert_eq!(read.status.held[0].state, HeldState::Unknown);
    }

    /// Every field of a value stands in the schema.
    fn check_covered(path: &str, schema: &JSONSchemaProps, value: &Value) {
        match value {
            Value::Object(fields) => {
                let properties = schema.properties.as_ref().unwrap();
                let count = properties.len();
                assert_eq!(count, fields.len(), "{path}: the schema has other fields");
                for (name, value) in fields {
                    check_covered(&format!("{path}.{name}"), &properties[name], value);
                }
            }
            Value::Array(entries) => {
                let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items else {
                    panic!("{path}: the schema has no list");
                };
                assert!(schema.max_items.is_some(), "{path}: unbounded list");
                entries.iter().for_each(|entry| check_covered(path, items, entry));
            }
            _ => {
                assert_eq!(schema.type_.as_deref(), Some("string"), "{path}");
                assert!(schema.max_length.is_some() || schema.enum_.is_some(), "{path}: unbounded");
            }
        }
    }

    #[test]
    fn the_schema_has_the_fields_of_the_type_and_bounds_them() {
        let status = schema().properties.unwrap().remove("status").unwrap();
        check_covered("status", &status, &state()["status"]);
        for state in HeldState::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
    }

    #[test]
    fn the_published_definition_is_the_golden_file_and_has_no_status_subresource() {
        assert_eq!(crd().spec.versions[0].subresources, None);
        let found = serde_saphyr::to_string(&crd()).unwrap();
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../deploy/crds/nodestates.lanemate.dev.yaml");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&file, &found).unwrap();
        }
        let expect = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(expect == found, "out of date: run the tests with UPDATE_GOLDEN=1");
        assert_eq!(serde_saphyr::from_str::<CustomResourceDefinition>(&found).unwrap(), crd());
    }
}
