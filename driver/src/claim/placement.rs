//! `Placement` configurations: units formed from plain requests.

use k8s_openapi::api::resource::v1 as resource;
use lanemate_api::{Across, OpaqueConfig, Within, names};

use super::{ClaimError, Request, Wants};

/// Units of plain requests.
#[derive(Clone, Debug)]
pub struct PlacementUse {
    /// Index of each request, and the devices that one unit takes from it.
    pub unit: Vec<(usize, u32)>,
    /// Number of units.
    pub count: u32,
    /// Between the devices of one unit.
    pub within: Within,
    /// Between the units.
    pub across: Across,
}

/// Why a `Placement` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlacementError {
    /// It does not parse, or another configuration of ours does not.
    #[error("{0}")]
    Config(lanemate_api::ConfigError),
    /// It names a request that does not exist.
    #[error("unit[{index}].request: no request is named {name:?}")]
    UnknownRequest {
        /// Part of the unit.
        index: usize,
        /// As written.
        name: String,
    },
    /// A request is in two placements.
    #[error("unit[{index}].request: {name:?} is in another Placement already")]
    Twice {
        /// Part of the unit.
        index: usize,
        /// The request.
        name: String,
    },
    /// A request for a ResourceClass.
    #[error("unit[{index}].request: {name:?} asks for a ResourceClass, which forms its own units")]
    ResourceClass {
        /// Part of the unit.
        index: usize,
        /// The request.
        name: String,
    },
    /// The counts are not one multiple of the unit.
    #[error(
        "unit[{index}].count: request {name:?} asks for {requested}, one unit takes {per_unit}: \
         expected the same number of whole units for every request of the Placement"
    )]
    NotAMultiple {
        /// Part of the unit.
        index: usize,
        /// The request.
        name: String,
        /// Its count.
        requested: u32,
        /// The unit's.
        per_unit: u32,
    },
    /// The entry is for other requests than the unit's.
    #[error("requests: expected none, or exactly the requests of the unit")]
    OtherRequests,
    /// A kind that users do not write.
    #[error("kind: {0} is written by the controller, not by users")]
    NotForUsers(&'static str),
}

/// The placements of a claim; other kinds of ours are checked, other drivers' entries are left alone.
pub(super) fn parse(
    config: &[resource::DeviceClaimConfiguration],
    requests: &[Request],
) -> Result<Vec<PlacementUse>, ClaimError> {
    let mut placements: Vec<PlacementUse> = Vec::new();
    for (index, entry) in config.iter().enumerate() {
        let Some(opaque) = entry.opaque.as_ref().filter(|o| o.driver == names::DRIVER) else {
            continue;
        };
        let field = format!("spec.devices.config[{index}]");
        let parameters = format!("{field}.opaque.parameters");
        let at = |field, source| ClaimError::Placement { field, source };
        match OpaqueConfig::parse(&opaque.parameters.0) {
            Err(error) => return Err(at(parameters, PlacementError::Config(error))),
            Ok(OpaqueConfig::Environment(_)) => {}
            Ok(OpaqueConfig::AllocatedUnits(_)) => {
                return Err(at(parameters, PlacementError::NotForUsers("AllocatedUnits")));
            }
            Ok(OpaqueConfig::Placement(placement)) => {
                let placement = resolve(&placement, requests, &placements)
                    .map_err(|source| at(parameters, source))?;
                check_scope(entry, &placement, requests).map_err(|source| at(field, source))?;
                placements.push(placement);
            }
        }
    }
    Ok(placements)
}

fn resolve(
    placement: &lanemate_api::Placement,
    requests: &[Request],
    earlier: &[PlacementUse],
) -> Result<PlacementUse, PlacementError> {
    let mut unit: Vec<(usize, u32)> = Vec::new();
    let mut count = None;
    for (index, part) in placement.unit.iter().enumerate() {
        let name = || part.request.clone();
        let Some(request) = requests.iter().position(|request| request.name == part.request) else {
            return Err(PlacementError::UnknownRequest { index, name: name() });
        };
        let taken = earlier.iter().flat_map(|other| &other.unit).chain(&unit);
        if taken.into_iter().any(|(other, _)| *other == request) {
            return Err(PlacementError::Twice { index, name: name() });
        }
        if matches!(requests[request].wants, Wants::Unit(_)) {
            return Err(PlacementError::ResourceClass { index, name: name() });
        }
        let requested = requests[request].count;
        let units = requested.checked_div(part.count).unwrap_or(0);
        let whole = units.checked_mul(part.count) == Some(requested) && units > 0;
        if !whole || count.is_some_and(|count| count != units) {
            let per_unit = part.count;
            return Err(PlacementError::NotAMultiple { index, name: name(), requested, per_unit });
        }
        count = Some(units);
        unit.push((request, part.count));
    }
    let count = count.unwrap_or(0);
    Ok(PlacementUse { unit, count, within: placement.within, across: placement.across })
}

fn check_scope(
    entry: &resource::DeviceClaimConfiguration,
    placement: &PlacementUse,
    requests: &[Request],
) -> Result<(), PlacementError> {
    let mut scope: Vec<&str> = entry.requests.iter().flatten().map(String::as_str).collect();
    let mut named: Vec<&str> =
        placement.unit.iter().map(|(index, _)| requests[*index].name.as_str()).collect();
    scope.sort_unstable();
    named.sort_unstable();
    if scope.is_empty() || scope == named { Ok(()) } else { Err(PlacementError::OtherRequests) }
}
