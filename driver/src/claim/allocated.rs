//! An allocated claim, as the node reads it: the results of our driver and the configuration in
//! effect for them. Names that become part of file names and CDI ids are checked here, once.

use std::fmt;
use std::str::FromStr;

use k8s_openapi::api::resource::v1::{
    DeviceAllocationConfiguration, DeviceAllocationResult, DeviceRequestAllocationResult,
    ResourceClaim,
};
use lanemate_api::names::POD_CLAIM_NAME_ANNOTATION;
use lanemate_api::validation::format::{
    is_dns_label, is_dns_subdomain, is_hyphenated, is_pool_name,
};
use lanemate_api::{AllocatedUnit, Environment, OpaqueConfig, names};

use super::MAX_RESULTS;

/// An allocated claim.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocatedClaim {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: ClaimUid,
    /// For a claim made from a template: the name in `pod.spec.resourceClaims`.
    pub pod_claim_name: Option<String>,
    /// Results of our driver, in the order of the allocation; those of other drivers are dropped.
    pub results: Vec<AllocatedResult>,
    /// What the configurations in effect ask for.
    pub environment: Vec<EnvironmentFor>,
    /// Units of the grant, those of all `AllocatedUnits` entries in one list.
    pub units: Vec<AllocatedUnit>,
}

/// One granted device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatedResult {
    /// The request that it answers.
    pub request: RequestName,
    /// Pool, which is the node.
    pub pool: String,
    /// Device within the pool.
    pub device: String,
    /// Granted beside whoever else holds it.
    pub admin_access: bool,
}

/// An `Environment` entry and the requests that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentFor {
    /// `request` or `request/subrequest`; empty means all.
    pub requests: Vec<String>,
    /// What is asked for.
    pub environment: Environment,
}

/// UID of a claim: at most 64 letters, digits and dashes, a letter or digit at both ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimUid(String);

/// Name of a request, and of the alternative that was taken where it had several. DNS labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestName {
    request: String,
    subrequest: Option<String>,
}

/// A claim that the node cannot read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AllocatedClaimError {
    /// Nothing is allocated.
    #[error("claim {0} is not allocated: status.allocation is missing")]
    NotAllocated(String),
    /// A field that must be set is not.
    #[error("claim {claim}: {field} is missing: expected what the API server gives")]
    Missing {
        /// `namespace/name`, as far as known.
        claim: String,
        /// Path of the field.
        field: &'static str,
    },
    /// A name that would not be safe in a file name or CDI id.
    #[error("claim {claim}: {field}: {value:?} is not {expected}")]
    BadName {
        /// `namespace/name`.
        claim: String,
        /// Path of the field.
        field: String,
        /// As found.
        value: String,
        /// The form expected.
        expected: &'static str,
    },
    /// More results than the API admits, which bounds all that follows.
    #[error(
        "claim {claim}: status.allocation.devices.results: {count} entries, at most {MAX_RESULTS} are allowed"
    )]
    TooManyResults {
        /// `namespace/name`.
        claim: String,
        /// Entries found.
        count: usize,
    },
    /// A configuration of ours that cannot be read.
    #[error("claim {claim}: status.allocation.devices.config[{index}]: {reason}")]
    BadConfig {
        /// `namespace/name`.
        claim: String,
        /// Position in the list.
        index: usize,
        /// What is wrong.
        reason: String,
    },
}

impl AllocatedClaim {
    /// Reads the allocation of a `resource.k8s.io/v1` claim.
    ///
    /// # Errors
    /// A claim that is not allocated, a name that is not what Kubernetes admits, or a
    /// configuration for our driver of an unknown kind, version or field.
    pub fn parse(claim: &ResourceClaim) -> Result<Self, AllocatedClaimError> {
        let metadata = &claim.metadata;
        let shown = shown_name(claim);
        let missing = |field| AllocatedClaimError::Missing { claim: shown.clone(), field };
        let allocation = claim.status.as_ref().and_then(|status| status.allocation.as_ref());
        let devices = allocation
            .ok_or_else(|| AllocatedClaimError::NotAllocated(shown.clone()))?
            .devices
            .clone()
            .unwrap_or_default();
        let named = |field: &str, value: &str| subdomain(&shown, field, value);
        let uid = metadata.uid.as_deref().ok_or_else(|| missing("metadata.uid"))?;
        let name = metadata.name.as_deref().ok_or_else(|| missing("metadata.name"))?;
        let pod_claim_name =
            metadata.annotations.as_ref().and_then(|all| all.get(POD_CLAIM_NAME_ANNOTATION));
        let (environment, units) = configs(&shown, &devices)?;
        Ok(Self {
            namespace: named(
                "metadata.namespace",
                metadata.namespace.as_deref().unwrap_or("default"),
            )?,
            name: named("metadata.name", name)?,
            uid: uid.parse().map_err(|()| bad_uid(&shown, uid))?,
            pod_claim_name: pod_claim_name.map(|name| label(&shown, name)).transpose()?,
            results: results(&shown, &devices)?,
            environment,
            units,
        })
    }

    /// What is asked for on behalf of a request. An entry applies when it names the request, its
    /// alternative, or nothing; each field is on when any entry that applies turns it on, because
    /// a class that needs a thing must not lose it to a claim that does not mention it.
    pub fn environment_of(&self, request: &RequestName) -> Environment {
        let mut all = Environment::default();
        for entry in self.environment.iter().filter(|entry| applies(&entry.requests, request)) {
            let Environment { nccl, ucx, cuda_device_order, topology_file, gdrcopy, umad } =
                entry.environment;
            all.nccl |= nccl;
            all.ucx |= ucx;
            all.cuda_device_order |= cuda_device_order;
            all.topology_file |= topology_file;
            all.gdrcopy |= gdrcopy;
            all.umad |= umad;
        }
        all
    }
}

impl ClaimUid {
    /// As written by the API server.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClaimUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ClaimUid {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        // A UID is 36 bytes; 64 leave room for other makers and stay far below a file name's 255.
        let fits = text.len() <= 64 && is_hyphenated(text, |byte| byte.is_ascii_alphanumeric());
        fits.then(|| Self(text.to_owned())).ok_or(())
    }
}

impl RequestName {
    /// Name of the request in `spec.devices.requests`.
    pub fn request(&self) -> &str {
        &self.request
    }

    /// Name of the alternative, where the request has several.
    pub fn subrequest(&self) -> Option<&str> {
        self.subrequest.as_deref()
    }
}

impl fmt::Display for RequestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subrequest {
            Some(subrequest) => write!(f, "{}/{subrequest}", self.request),
            None => f.write_str(&self.request),
        }
    }
}

impl FromStr for RequestName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (request, subrequest) = match text.split_once('/') {
            Some((request, subrequest)) => (request, Some(subrequest)),
            None => (text, None),
        };
        let fit = is_dns_label(request) && subrequest.is_none_or(is_dns_label);
        let subrequest = subrequest.map(str::to_owned);
        fit.then(|| Self { request: request.to_owned(), subrequest }).ok_or(())
    }
}

/// `namespace/name` for messages, whatever of it is known.
fn shown_name(claim: &ResourceClaim) -> String {
    let part = |text: &Option<String>, absent: &str| text.as_deref().unwrap_or(absent).to_owned();
    let metadata = &claim.metadata;
    format!("{}/{}", part(&metadata.namespace, "default"), part(&metadata.name, "(no name)"))
}

fn results(
    claim: &str,
    devices: &DeviceAllocationResult,
) -> Result<Vec<AllocatedResult>, AllocatedClaimError> {
    let all = devices.results.as_deref().unwrap_or_default();
    if all.len() as u64 > MAX_RESULTS {
        return Err(AllocatedClaimError::TooManyResults {
            claim: claim.to_owned(),
            count: all.len(),
        });
    }
    all.iter()
        .enumerate()
        .filter(|(_, result)| result.driver == names::DRIVER)
        .map(|(index, result)| one_result(claim, index, result))
        .collect()
}

fn one_result(
    claim: &str,
    index: usize,
    result: &DeviceRequestAllocationResult,
) -> Result<AllocatedResult, AllocatedClaimError> {
    let bad = |field: &str, value: &str, expected| AllocatedClaimError::BadName {
        claim: claim.to_owned(),
        field: format!("status.allocation.devices.results[{index}].{field}"),
        value: value.to_owned(),
        expected,
    };
    let request = result.request.parse().map_err(|()| {
        bad("request", &result.request, "a DNS label, or two with a slash between them")
    })?;
    if !is_dns_label(&result.device) {
        return Err(bad("device", &result.device, "a DNS label"));
    }
    if !is_pool_name(&result.pool) {
        return Err(bad(
            "pool",
            &result.pool,
            "one or more DNS subdomains with slashes between them",
        ));
    }
    Ok(AllocatedResult {
        request,
        pool: result.pool.clone(),
        device: result.device.clone(),
        admin_access: result.admin_access == Some(true),
    })
}

type Configs = (Vec<EnvironmentFor>, Vec<AllocatedUnit>);

fn configs(claim: &str, devices: &DeviceAllocationResult) -> Result<Configs, AllocatedClaimError> {
    let mut environment = Vec::new();
    let mut units = Vec::new();
    for (index, entry) in devices.config.iter().flatten().enumerate() {
        let config = our_config(entry).map_err(|reason| AllocatedClaimError::BadConfig {
            claim: claim.to_owned(),
            index,
            reason,
        })?;
        match config {
            Some(OpaqueConfig::Environment(asked)) => environment.push(EnvironmentFor {
                requests: entry.requests.clone().unwrap_or_default(),
                environment: asked,
            }),
            Some(OpaqueConfig::AllocatedUnits(granted)) => units.extend(granted.units),
            // The allocation has answered a Placement.
            Some(OpaqueConfig::Placement(_)) | None => {}
        }
    }
    Ok((environment, units))
}

/// `None` for another driver's configuration.
fn our_config(entry: &DeviceAllocationConfiguration) -> Result<Option<OpaqueConfig>, String> {
    let Some(opaque) = entry.opaque.as_ref().filter(|opaque| opaque.driver == names::DRIVER) else {
        return Ok(None);
    };
    let config = OpaqueConfig::parse(&opaque.parameters.0)
        .map_err(|error| format!("opaque.parameters: {error}"))?;
    // The allocator's word stands beside what classes bring; a user's own would be hearsay.
    let is_units = matches!(config, OpaqueConfig::AllocatedUnits(_));
    if is_units && entry.source != "FromClass" {
        return Err("AllocatedUnits is written by the allocator, not by a claim".to_owned());
    }
    Ok(Some(config))
}

fn applies(requests: &[String], request: &RequestName) -> bool {
    let full = request.to_string();
    requests.is_empty() || requests.iter().any(|name| *name == full || name == request.request())
}

fn subdomain(claim: &str, field: &str, value: &str) -> Result<String, AllocatedClaimError> {
    if is_dns_subdomain(value) {
        return Ok(value.to_owned());
    }
    Err(AllocatedClaimError::BadName {
        claim: claim.to_owned(),
        field: field.to_owned(),
        value: value.to_owned(),
        expected: "a DNS subdomain",
    })
}

/// The name that a pod has for a claim.
fn label(claim: &str, value: &str) -> Result<String, AllocatedClaimError> {
    if is_dns_label(value) {
        return Ok(value.to_owned());
    }
    Err(AllocatedClaimError::BadName {
        claim: claim.to_owned(),
        field: format!("metadata.annotations[{POD_CLAIM_NAME_ANNOTATION}]"),
        value: value.to_owned(),
        expected: "a DNS label",
    })
}

fn bad_uid(claim: &str, value: &str) -> AllocatedClaimError {
    AllocatedClaimError::BadName {
        claim: claim.to_owned(),
        field: "metadata.uid".to_owned(),
        value: value.to_owned(),
        expected: "at most 64 letters, digits and dashes",
    }
}

#[cfg(test)]
mod tests;
