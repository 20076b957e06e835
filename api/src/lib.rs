//! Names and shapes that users and other programs rely on: the driver's name, attribute names, the
//! `ResourceClass` resource, and the opaque configuration kinds, with their defaults and validation.

#![warn(missing_docs)]

pub mod attribute;
pub mod config;
pub mod device_class;
pub mod locality;
pub mod names;
pub mod node_state;
pub mod path_class;
pub mod quantity;
pub mod resource_class;
pub mod validation;

pub use config::{
    AllocatedUnit, AllocatedUnits, ConfigError, DeviceRef, Environment, OpaqueConfig, Placement,
    UnitPart,
};
pub use device_class::builtin_device_classes;
pub use locality::{Across, Locality, Within};
pub use node_state::{NodeState, NodeStateStatus};
pub use path_class::PathClass;
pub use quantity::Quantity;
pub use resource_class::{
    Member, ReadyReason, ResourceClass, ResourceClassSpec, ResourceClassStatus, crd,
};
pub use validation::ValidationError;
