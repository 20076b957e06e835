//! What a ResourceClass compiles to, or why it cannot be, and whose the DeviceClass of its name is.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{
    CELDeviceSelector, DeviceClass, DeviceClassSpec, DeviceSelector,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use lanemate_api::validation::device_class::validate_device_class;
use lanemate_api::{ReadyReason, ResourceClass, names};
use lanemate_driver::claim::{ClassError, Classes};

/// A device passes no such selector, so that kube-scheduler never allocates by the class: neither for a claim nor for the
/// extended resource that every DeviceClass is.
const NEVER: &str = "false";
const KIND: &str = "ResourceClass";

/// Why a class cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// For programs.
    pub reason: ReadyReason,
    /// For people.
    pub message: String,
}

/// Whose the DeviceClass of the name is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Standing<'a> {
    /// There is none.
    Absent,
    /// It belongs to this ResourceClass.
    Ours(&'a DeviceClass),
    /// It belongs to an earlier ResourceClass of that name: the garbage collection takes it.
    Earlier,
    /// Somebody else made it.
    Foreign,
}

impl<'a> Standing<'a> {
    /// Whose the DeviceClass is, seen from a class of the same name.
    pub fn of(class: &ResourceClass, held: Option<&'a DeviceClass>) -> Self {
        let Some(held) = held else { return Self::Absent };
        let owners = held.metadata.owner_references.iter().flatten();
        let mut classes = owners.filter(|owner| {
            let group = owner.api_version.split_once('/').map(|(group, _)| group);
            group == Some(names::DRIVER)
                && owner.kind == KIND
                && Some(&owner.name) == class.metadata.name.as_ref()
                && owner.controller == Some(true)
        });
        // An object has one controller at most.
        match classes.next() {
            Some(owner) if Some(&owner.uid) == class.metadata.uid.as_ref() => Self::Ours(held),
            Some(_) => Self::Earlier,
            None => Self::Foreign,
        }
    }

    /// Why the class cannot have its name.
    pub fn conflict(self, name: &str) -> Option<Broken> {
        let message = match self {
            Self::Absent | Self::Ours(_) => return None,
            Self::Earlier => format!(
                "DeviceClass {name} belongs to an earlier ResourceClass of that name: it goes by garbage collection, and \
                 is made anew then"
            ),
            Self::Foreign => format!(
                "DeviceClass {name} does not belong to this ResourceClass and is left as it is: rename one of them, or \
                 delete the DeviceClass"
            ),
        };
        Some(Broken { reason: ReadyReason::NameConflict, message })
    }
}

/// The specification of the DeviceClass of a class: what no device passes, and the configuration of the members' classes,
/// then that of the class.
pub fn compile(class: &ResourceClass, classes: &mut Classes) -> Result<DeviceClassSpec, Broken> {
    let name = class.metadata.name.as_deref().unwrap_or_default();
    let compiled = classes.get(name).map_err(|error| broken(&error))?;
    let never = DeviceSelector { cel: Some(CELDeviceSelector { expression: NEVER.to_owned() }) };
    let config = compiled.config.clone();
    let spec = DeviceClassSpec {
        selectors: Some(vec![never]),
        config: (!config.is_empty()).then_some(config),
        ..DeviceClassSpec::default()
    };
    let device_class = wanted(class, &spec, None);
    validate_device_class(&device_class).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let message = format!("with the configuration of its members: {}", errors.join("; "));
        Broken { reason: ReadyReason::InvalidSpec, message }
    })?;
    Ok(spec)
}

fn broken(error: &ClassError) -> Broken {
    Broken { reason: reason(error), message: error.to_string() }
}

fn reason(error: &ClassError) -> ReadyReason {
    match error {
        ClassError::Missing(_) => ReadyReason::UnknownMember,
        ClassError::NameTaken(_) => ReadyReason::NameConflict,
        ClassError::Selector { .. } => ReadyReason::InvalidSelector,
        ClassError::Invalid { .. } => ReadyReason::InvalidSpec,
        ClassError::Nested { .. } => ReadyReason::NestedClass,
        ClassError::Member { source, .. } => reason(source),
    }
}

/// The DeviceClass as it ought to be. What others have written into the metadata of the one that is there stays.
pub fn wanted(
    class: &ResourceClass,
    spec: &DeviceClassSpec,
    held: Option<&DeviceClass>,
) -> DeviceClass {
    let mut metadata = held.map_or_else(
        || ObjectMeta { name: class.metadata.name.clone(), ..ObjectMeta::default() },
        |held| held.metadata.clone(),
    );
    let labels = metadata.labels.get_or_insert_with(BTreeMap::new);
    labels.insert(names::MANAGED_BY_LABEL.to_owned(), names::MANAGED_BY.to_owned());
    let owners = metadata.owner_references.get_or_insert_with(Vec::new);
    if !owners.iter().any(|owner| Some(&owner.uid) == class.metadata.uid.as_ref()) {
        owners.push(owner(class));
    }
    DeviceClass { metadata, spec: Some(spec.clone()) }
}

fn owner(class: &ResourceClass) -> OwnerReference {
    OwnerReference {
        api_version: names::API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        name: class.metadata.name.clone().unwrap_or_default(),
        uid: class.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

/// True where a DeviceClass says something else than it ought to. Absent and empty lists say the same.
pub fn differs(held: &DeviceClass, wanted: &DeviceClass) -> bool {
    let plain = |class: &DeviceClass| {
        let mut spec = class.spec.clone().unwrap_or_default();
        spec.selectors.take_if(|list| list.is_empty());
        spec.config.take_if(|list| list.is_empty());
        spec
    };
    plain(held) != plain(wanted) || held.metadata != wanted.metadata
}
