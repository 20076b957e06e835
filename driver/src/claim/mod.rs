//! Claims and classes, parsed at the door: what a claim asks for, with its selectors compiled.
//!
//! Whatever the allocation core does not implement is refused here by name; nothing is ignored.

pub mod allocated;
pub mod classes;
pub mod filter;
pub mod placement;

use std::sync::Arc;

use k8s_openapi::api::resource::v1 as resource;
use lanemate_api::{Across, Within, names};

pub use classes::{Class, ClassError, Classes};
pub use filter::{Filter, Step, Toleration};
pub use placement::{PlacementError, PlacementUse};

use crate::attribute::QualifiedName;

/// Results that one claim may have (`AllocationResultsMaxSize`).
pub const MAX_RESULTS: u64 = 32;

/// A claim that waits for devices.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// What it asks for, in its own order.
    pub requests: Vec<Request>,
    /// Units formed from plain requests.
    pub placements: Vec<PlacementUse>,
    /// `matchAttribute` constraints.
    pub constraints: Vec<MatchAttribute>,
    /// `spec.devices.config` as written.
    pub config: Vec<resource::DeviceClaimConfiguration>,
}

/// One request of a claim.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its name.
    pub name: String,
    /// Units of a ResourceClass, or devices.
    pub count: u32,
    /// What one of them is.
    pub wants: Wants,
    /// Tolerations as written, copied to every result.
    pub tolerations: Vec<resource::DeviceToleration>,
    /// The class, for its configuration.
    pub class: Arc<Class>,
}

/// What one count of a request is.
#[derive(Clone, Debug)]
pub enum Wants {
    /// A device.
    Device(Filter),
    /// A unit of a ResourceClass.
    Unit(UnitOf),
}

/// A unit of a ResourceClass: as the class defines it, or as a request asks for it with filters of its own.
#[derive(Clone, Debug)]
pub struct UnitOf {
    /// Members in the class's order.
    pub members: Vec<UnitMember>,
    /// Between the devices of the unit.
    pub within: Within,
    /// Between the units of the request.
    pub across: Across,
}

/// One member of a unit.
#[derive(Clone, Debug)]
pub struct UnitMember {
    /// Name within the class.
    pub name: String,
    /// Devices per unit.
    pub count: u32,
    /// What such a device passes.
    pub filter: Filter,
}

/// All devices of some requests have one value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchAttribute {
    /// Indices of the requests.
    pub requests: Vec<usize>,
    /// The attribute.
    pub attribute: QualifiedName,
}

/// Why a claim cannot be decided.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// A class is missing or broken.
    #[error("{field}: {source}")]
    Class {
        /// Path of the field.
        field: String,
        /// What is wrong.
        source: ClassError,
    },
    /// A selector does not compile.
    #[error("{field}: {source}")]
    Selector {
        /// Path of the field.
        field: String,
        /// What is wrong.
        source: Box<crate::selector::CompileError>,
    },
    /// A feature that is not implemented, or not allowed here.
    #[error("{field}: {feature}")]
    Unsupported {
        /// Path of the field.
        field: String,
        /// What, and why not.
        feature: String,
    },
    /// A count is not positive.
    #[error("{field}: {count}: expected a count of at least 1")]
    Count {
        /// Path of the field.
        field: String,
        /// As written.
        count: i64,
    },
    /// Too many devices.
    #[error("spec.devices.requests: {0} devices asked for: at most {MAX_RESULTS} per claim")]
    TooMany(u64),
    /// A constraint names a request that does not exist.
    #[error("{field}: no request is named {name:?}")]
    UnknownRequest {
        /// Path of the field.
        field: String,
        /// As written.
        name: String,
    },
    /// A `Placement` is wrong.
    #[error("{field}: {source}")]
    Placement {
        /// Path of the field.
        field: String,
        /// What is wrong.
        source: PlacementError,
    },
}

impl Claim {
    /// Reads a claim against the classes it names.
    pub fn parse(
        claim: &resource::ResourceClaim,
        classes: &mut Classes,
    ) -> Result<Self, ClaimError> {
        let devices = claim.spec.as_ref().and_then(|spec| spec.devices.clone()).unwrap_or_default();
        let requests = devices.requests.unwrap_or_default();
        let requests: Vec<_> = requests
            .iter()
            .enumerate()
            .map(|(index, request)| parse_request(index, request, classes))
            .collect::<Result<_, _>>()?;
        let results = requests.iter().map(Request::results).sum();
        if results > MAX_RESULTS {
            return Err(ClaimError::TooMany(results));
        }
        let config = devices.config.unwrap_or_default();
        Ok(Self {
            namespace: claim.metadata.namespace.clone().unwrap_or_default(),
            name: claim.metadata.name.clone().unwrap_or_default(),
            constraints: parse_constraints(devices.constraints.as_deref(), &requests)?,
            placements: placement::parse(&config, &requests)?,
            config,
            requests,
        })
    }

    /// `namespace/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl Request {
    /// Results that it yields.
    pub fn results(&self) -> u64 {
        let per_count = match &self.wants {
            Wants::Device(_) => 1,
            Wants::Unit(unit) => unit.members.iter().map(|member| u64::from(member.count)).sum(),
        };
        u64::from(self.count).saturating_mul(per_count)
    }
}

fn parse_request(
    index: usize,
    request: &resource::DeviceRequest,
    classes: &mut Classes,
) -> Result<Request, ClaimError> {
    let field = format!("spec.devices.requests[{index}]");
    if request.first_available.as_ref().is_some_and(|list| !list.is_empty()) {
        return unsupported(format!("{field}.firstAvailable"), NOT_YET);
    }
    let field = format!("{field}.exactly");
    let Some(exactly) = &request.exactly else {
        return unsupported(field, "expected a request");
    };
    let class = classes.get(&exactly.device_class_name).map_err(|source| ClaimError::Class {
        field: format!("{field}.deviceClassName"),
        source,
    })?;
    refuse_unsupported(&field, exactly, class.unit.is_some())?;
    let count = match exactly.count.unwrap_or(1) {
        count @ ..1 => return Err(ClaimError::Count { field: format!("{field}.count"), count }),
        count => u32::try_from(count).unwrap_or(u32::MAX),
    };
    let tolerations = exactly.tolerations.clone().unwrap_or_default();
    let own = filter::steps(&format!("{field}.selectors"), exactly.selectors.as_deref(), classes)?;
    let own = Filter::new(own, &tolerations);
    let wants = match &class.unit {
        None => Wants::Device(class.filter.clone().then(own)),
        Some(unit) => Wants::Unit(unit_of(unit, &own)),
    };
    Ok(Request { name: request.name.clone(), count, wants, tolerations, class })
}

const NOT_YET: &str = "not supported yet";

fn unsupported<T>(field: String, feature: impl Into<String>) -> Result<T, ClaimError> {
    Err(ClaimError::Unsupported { field, feature: feature.into() })
}

/// Features that are not implemented, and those that have no meaning on a ResourceClass.
fn refuse_unsupported(
    field: &str,
    exactly: &resource::ExactDeviceRequest,
    is_unit: bool,
) -> Result<(), ClaimError> {
    let why = if is_unit { "not allowed on a request for a ResourceClass" } else { NOT_YET };
    match exactly.allocation_mode.as_deref() {
        None | Some("" | "ExactCount") => {}
        Some("All") => {
            return unsupported(format!("{field}.allocationMode"), format!("All: {why}"));
        }
        Some(other) => {
            let text = format!("{other:?}: expected ExactCount or All");
            return unsupported(format!("{field}.allocationMode"), text);
        }
    }
    if exactly.admin_access == Some(true) {
        return unsupported(format!("{field}.adminAccess"), why);
    }
    let capacity = exactly.capacity.as_ref().and_then(|capacity| capacity.requests.as_ref());
    if capacity.is_some_and(|requests| !requests.is_empty()) {
        return unsupported(format!("{field}.capacity"), why);
    }
    if exactly.derived_attributes.as_ref().is_some_and(|list| !list.is_empty()) {
        return unsupported(format!("{field}.derivedAttributes"), NOT_YET);
    }
    Ok(())
}

fn unit_of(unit: &UnitOf, own: &Filter) -> UnitOf {
    let members = unit.members.iter().map(|member| UnitMember {
        name: member.name.clone(),
        count: member.count,
        filter: member.filter.clone().then(own.clone()),
    });
    UnitOf { members: members.collect(), within: unit.within, across: unit.across }
}

fn parse_constraints(
    constraints: Option<&[resource::DeviceConstraint]>,
    requests: &[Request],
) -> Result<Vec<MatchAttribute>, ClaimError> {
    let numbered = constraints.unwrap_or_default().iter().enumerate();
    let parsed = numbered.map(|(index, constraint)| {
        let field = format!("spec.devices.constraints[{index}]");
        if constraint.distinct_attribute.is_some() {
            return unsupported(format!("{field}.distinctAttribute"), NOT_YET);
        }
        let Some(attribute) = &constraint.match_attribute else {
            return unsupported(field, "expected matchAttribute");
        };
        let names = constraint.requests.as_deref().unwrap_or_default();
        let requests = named_requests(&format!("{field}.requests"), names, requests)?;
        let attribute = QualifiedName::parse(attribute, names::DRIVER);
        Ok(MatchAttribute { requests, attribute })
    });
    parsed.collect()
}

/// Indices of the requests that a list names; an empty list names all.
fn named_requests(
    field: &str,
    names: &[String],
    requests: &[Request],
) -> Result<Vec<usize>, ClaimError> {
    if names.is_empty() {
        return Ok((0..requests.len()).collect());
    }
    let found = names.iter().enumerate().map(|(index, name)| {
        requests.iter().position(|request| request.name == *name).ok_or_else(|| {
            ClaimError::UnknownRequest { field: format!("{field}[{index}]"), name: name.clone() }
        })
    });
    found.collect()
}

#[cfg(test)]
mod tests;
