//! DeviceClasses and ResourceClasses by name, compiled when first asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::resource::v1 as resource;
use lanemate_api::validation::device_class::validate_device_class;
use lanemate_api::{Member, ResourceClass, ValidationError};

use super::filter::{Compiled, Filter, Step};
use super::{UnitMember, UnitOf};
use crate::selector::CompileError;

/// All classes of a cluster.
#[derive(Debug, Default)]
pub struct Classes {
    devices: BTreeMap<String, resource::DeviceClass>,
    resources: BTreeMap<String, ResourceClass>,
    ready: BTreeMap<String, Arc<Class>>,
    compiled: Compiled,
}

/// A class, ready for use.
#[derive(Clone, Debug, Default)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// What a device of a DeviceClass passes; empty for a ResourceClass.
    pub filter: Filter,
    /// The unit of a ResourceClass.
    pub unit: Option<UnitOf>,
    /// Configuration for drivers; that of the members' classes first.
    pub config: Vec<resource::DeviceClassConfiguration>,
}

/// Why a class cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClassError {
    /// No class has the name.
    #[error("class {0:?} does not exist: expected the name of a DeviceClass or a ResourceClass")]
    Missing(String),
    /// A DeviceClass of another owner has the name of a ResourceClass.
    #[error(
        "name taken: DeviceClass {0:?} does not belong to the ResourceClass of that name; \
         rename one of them"
    )]
    NameTaken(String),
    /// A selector of the class does not compile.
    #[error("class {class:?}: {field}: {source}")]
    Selector {
        /// The class.
        class: String,
        /// Path of the field in the class.
        field: String,
        /// What is wrong.
        source: Box<CompileError>,
    },
    /// The specification of the class is invalid.
    #[error("class {class:?}: {message}")]
    Invalid {
        /// The class.
        class: String,
        /// The field and what is wrong with it.
        message: String,
    },
    /// A member's class is missing or broken.
    #[error("ResourceClass {class:?}: {field}: {source}")]
    Member {
        /// The class.
        class: String,
        /// Path of the field in the class.
        field: String,
        /// What is wrong.
        source: Box<ClassError>,
    },
    /// A member names a ResourceClass.
    #[error(
        "ResourceClass {class:?}: {field}: {name:?} is a ResourceClass: expected a DeviceClass"
    )]
    Nested {
        /// The class.
        class: String,
        /// Path of the field in the class.
        field: String,
        /// The member's class.
        name: String,
    },
}

impl Classes {
    /// Adds or replaces a DeviceClass.
    pub fn apply_device_class(&mut self, class: resource::DeviceClass) {
        self.ready.clear();
        self.devices.insert(class.metadata.name.clone().unwrap_or_default(), class);
    }

    /// Adds or replaces a ResourceClass.
    pub fn apply_resource_class(&mut self, class: ResourceClass) {
        self.ready.clear();
        self.resources.insert(class.metadata.name.clone().unwrap_or_default(), class);
    }

    /// Removes a DeviceClass.
    pub fn remove_device_class(&mut self, name: &str) {
        self.ready.clear();
        self.devices.remove(name);
    }

    /// Removes a ResourceClass.
    pub fn remove_resource_class(&mut self, name: &str) {
        self.ready.clear();
        self.resources.remove(name);
    }

    /// The class of a name.
    pub fn get(&mut self, name: &str) -> Result<Arc<Class>, ClassError> {
        if let Some(class) = self.ready.get(name) {
            return Ok(Arc::clone(class));
        }
        let class = match self.resources.get(name).cloned() {
            Some(class) => self.resource_class(name, &class)?,
            None => self.device_class(name)?,
        };
        let class = Arc::new(class);
        self.ready.insert(name.to_owned(), Arc::clone(&class));
        Ok(class)
    }

    /// The compiled selector of an expression.
    pub fn step(&mut self, expression: &str) -> Result<Arc<Step>, CompileError> {
        self.compiled.step(expression)
    }

    fn device_class(&mut self, name: &str) -> Result<Class, ClassError> {
        let class = self.devices.get(name).ok_or_else(|| ClassError::Missing(name.to_owned()))?;
        validate_device_class(class).map_err(|errors| invalid(name, &errors))?;
        let spec = class.spec.clone().unwrap_or_default();
        let selectors = spec.selectors.unwrap_or_default();
        let steps = self.class_steps(name, "spec.selectors", &selectors)?;
        Ok(Class {
            name: name.to_owned(),
            filter: Filter::new(steps, &[]),
            unit: None,
            config: spec.config.unwrap_or_default(),
        })
    }

    fn resource_class(&mut self, name: &str, class: &ResourceClass) -> Result<Class, ClassError> {
        if self.devices.get(name).is_some_and(|device_class| !is_compiled_from(device_class, name))
        {
            return Err(ClassError::NameTaken(name.to_owned()));
        }
        class.validate().map_err(|errors| invalid(name, &errors))?;
        let mut config = Vec::new();
        let mut members = Vec::new();
        for (index, member) in class.spec.members.iter().enumerate() {
            let (member, of_member) = self.member(name, index, member)?;
            for entry in of_member {
                if !config.contains(&entry) {
                    config.push(entry);
                }
            }
            members.push(member);
        }
        config.extend(class.spec.config.iter().cloned());
        let locality = &class.spec.locality;
        let unit = UnitOf { members, within: locality.within, across: locality.across };
        Ok(Class { name: name.to_owned(), filter: Filter::default(), unit: Some(unit), config })
    }

    fn member(
        &mut self,
        class: &str,
        index: usize,
        member: &Member,
    ) -> Result<(UnitMember, Vec<resource::DeviceClassConfiguration>), ClassError> {
        let field = format!("spec.members[{index}].deviceClassName");
        let device_class = &member.device_class_name;
        if self.resources.contains_key(device_class) {
            let (class, name) = (class.to_owned(), device_class.to_owned());
            return Err(ClassError::Nested { class, field, name });
        }
        let of_class = self.get(device_class).map_err(|source| ClassError::Member {
            class: class.to_owned(),
            field,
            source: Box::new(source),
        })?;
        let selectors = format!("spec.members[{index}].selectors");
        let steps = self.class_steps(class, &selectors, &member.selectors)?;
        let filter = UnitMember {
            name: member.name.clone(),
            count: member.count,
            filter: of_class.filter.clone().then(Filter::new(steps, &[])),
        };
        Ok((filter, of_class.config.clone()))
    }

    fn class_steps(
        &mut self,
        class: &str,
        field: &str,
        selectors: &[resource::DeviceSelector],
    ) -> Result<Vec<Arc<Step>>, ClassError> {
        let numbered = selectors.iter().enumerate();
        let compiled = numbered.filter_map(|(index, selector)| {
            let expression = &selector.cel.as_ref()?.expression;
            Some(self.compiled.step(expression).map_err(|source| ClassError::Selector {
                class: class.to_owned(),
                field: format!("{field}[{index}].cel.expression"),
                source: Box::new(source),
            }))
        });
        compiled.collect()
    }
}

fn invalid(class: &str, errors: &[ValidationError]) -> ClassError {
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    ClassError::Invalid { class: class.to_owned(), message: errors.join("; ") }
}

/// The controller compiles each ResourceClass to a DeviceClass of the same name that it owns.
fn is_compiled_from(class: &resource::DeviceClass, name: &str) -> bool {
    let owners = class.metadata.owner_references.iter().flatten();
    let mut ours = owners.filter(|owner| owner.kind == "ResourceClass" && owner.name == name);
    ours.next().is_some()
}
