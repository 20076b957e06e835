//! The limits of ResourceClaims and ResourceClaimTemplates, as the API server of Kubernetes 1.37
//! checks them (`resource.k8s.io/v1`), so that a file and a cluster refuse the same things.
//!
//! What depends on other objects is not checked here: classes, quotas, the meaning of CEL
//! expressions and of opaque parameters. Two rules are stricter than the API: a `count` of 0 is
//! refused, where the API server would make it 1, and the key of an `Equal` toleration is required.

use std::collections::BTreeSet;

use k8s_openapi::api::resource::v1::{
    CapacityRequirements, DeviceClaimConfiguration, DeviceConstraint, DeviceDerivedAttribute,
    DeviceRequest, DeviceSelector, DeviceToleration, ResourceClaim, ResourceClaimSpec,
    ResourceClaimTemplate,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::format::{
    is_attribute_name, is_dns_subdomain, is_full_attribute_name, is_label_name, is_label_value,
};
use super::{Findings, MAX_CONFIGS, ValidationError, entry};

/// Requests of a claim.
pub const MAX_REQUESTS: usize = 32;
/// Alternatives of a `firstAvailable` request.
pub const MAX_ALTERNATIVES: usize = 8;
/// Tolerations of a request.
pub const MAX_TOLERATIONS: usize = 16;
/// Capacities that a request names.
pub const MAX_CAPACITIES: usize = 32;
/// Constraints of a claim.
pub const MAX_CONSTRAINTS: usize = 32;
/// Requests that one constraint or configuration names.
pub const MAX_REQUEST_REFS: usize = 32;
/// All that is wrong with a claim, in the order of its fields. The status is not looked at.
pub fn validate_claim(claim: &ResourceClaim) -> Result<(), Vec<ValidationError>> {
    let mut findings = Findings::default();
    findings.identity(&claim.metadata);
    if let Some(spec) = &claim.spec {
        findings.spec("spec", spec);
    }
    findings.finish()
}

/// All that is wrong with a claim template, in the order of its fields.
pub fn validate_claim_template(
    template: &ResourceClaimTemplate,
) -> Result<(), Vec<ValidationError>> {
    let mut findings = Findings::default();
    findings.identity(&template.metadata);
    let Some(spec) = &template.spec else { return findings.finish() };
    if let Some(metadata) = &spec.metadata {
        findings.template_metadata("spec.metadata", metadata);
    }
    if let Some(spec) = &spec.spec {
        findings.spec("spec.spec", spec);
    }
    findings.finish()
}

/// The parts that plain requests and alternatives have in common.
struct Wanted<'a> {
    device_class_name: &'a str,
    allocation_mode: Option<&'a str>,
    count: Option<i64>,
    selectors: &'a [DeviceSelector],
    tolerations: &'a [DeviceToleration],
    capacity: Option<&'a CapacityRequirements>,
}

/// Borrows the common parts of an ExactDeviceRequest or a DeviceSubRequest.
macro_rules! wanted {
    ($request:expr) => {
        Wanted {
            device_class_name: &$request.device_class_name,
            allocation_mode: $request.allocation_mode.as_deref(),
            count: $request.count,
            selectors: $request.selectors.as_deref().unwrap_or_default(),
            tolerations: $request.tolerations.as_deref().unwrap_or_default(),
            capacity: $request.capacity.as_ref(),
        }
    };
}

impl Findings {
    fn identity(&mut self, metadata: &ObjectMeta) {
        let name = metadata.name.as_deref().unwrap_or_default();
        self.subdomain("metadata.name".to_owned(), name);
        if let Some(namespace) = &metadata.namespace {
            self.label("metadata.namespace".to_owned(), namespace);
        }
    }

    fn template_metadata(&mut self, path: &str, metadata: &ObjectMeta) {
        let ObjectMeta { labels, annotations, .. } = metadata.clone();
        if *metadata != (ObjectMeta { labels, annotations, ..ObjectMeta::default() }) {
            self.add(path, "expected labels and annotations only");
        }
    }

    fn spec(&mut self, path: &str, spec: &ResourceClaimSpec) {
        let Some(devices) = &spec.devices else { return };
        let requests = devices.requests.as_deref().unwrap_or_default();
        let constraints = devices.constraints.as_deref().unwrap_or_default();
        let configs = devices.config.as_deref().unwrap_or_default();

        let list = format!("{path}.devices.requests");
        let requests = self.limited(&list, requests, MAX_REQUESTS);
        let names = requests.iter().map(|request| request.name.as_str());
        self.unique(&list, "name", names);
        for (index, request) in requests.iter().enumerate() {
            self.request(&format!("{list}[{index}]"), request);
        }
        let known = references(requests);
        let derived = derived_names(requests);
        let list = format!("{path}.devices.constraints");
        for (index, constraint) in
            self.limited(&list, constraints, MAX_CONSTRAINTS).iter().enumerate()
        {
            self.constraint(&format!("{list}[{index}]"), constraint, &known, &derived);
        }
        let list = format!("{path}.devices.config");
        for (index, config) in self.limited(&list, configs, MAX_CONFIGS).iter().enumerate() {
            self.config(&format!("{list}[{index}]"), config, &known);
        }
    }

    fn request(&mut self, path: &str, request: &DeviceRequest) {
        self.label(format!("{path}.name"), &request.name);
        match (&request.exactly, &request.first_available) {
            (Some(exactly), None) => self.wanted(&format!("{path}.exactly"), &wanted!(exactly)),
            // The API server takes an empty list for an absent one.
            (Some(exactly), Some(list)) if list.is_empty() => {
                self.wanted(&format!("{path}.exactly"), &wanted!(exactly));
            }
            (None, Some(list)) if !list.is_empty() => {
                let path = format!("{path}.firstAvailable");
                let list = self.limited(&path, list, MAX_ALTERNATIVES);
                self.unique(&path, "name", list.iter().map(|request| request.name.as_str()));
                for (index, request) in list.iter().enumerate() {
                    let path = format!("{path}[{index}]");
                    self.label(format!("{path}.name"), &request.name);
                    self.wanted(&path, &wanted!(request));
                }
            }
            (Some(_), Some(_)) => {
                self.add(path, "expected one of exactly and firstAvailable, found both");
            }
            (None, _) => {
                self.add(path, "expected one of exactly and firstAvailable, found neither");
            }
        }
    }

    fn wanted(&mut self, path: &str, wanted: &Wanted<'_>) {
        let class = wanted.device_class_name;
        let expected = "the name of a DeviceClass or ResourceClass";
        self.text(format!("{path}.deviceClassName"), class, is_dns_subdomain, expected);
        self.selectors(&format!("{path}.selectors"), wanted.selectors);
        self.amount(path, wanted.allocation_mode.unwrap_or_default(), wanted.count);
        let list = format!("{path}.tolerations");
        for (index, toleration) in
            self.limited(&list, wanted.tolerations, MAX_TOLERATIONS).iter().enumerate()
        {
            self.toleration(&format!("{list}[{index}]"), toleration);
        }
        if let Some(requests) = wanted.capacity.and_then(|capacity| capacity.requests.as_ref()) {
            self.capacities(&format!("{path}.capacity.requests"), requests.keys());
        }
    }

    fn amount(&mut self, path: &str, mode: &str, count: Option<i64>) {
        match (mode, count) {
            ("" | "ExactCount", Some(count)) if count < 1 => {
                self.add(format!("{path}.count"), format!("expected at least 1, found {count}"));
            }
            ("All", Some(count)) if count != 0 => {
                let message = format!("expected no count with allocationMode All, found {count}");
                self.add(format!("{path}.count"), message);
            }
            ("" | "ExactCount" | "All", _) => {}
            (other, _) => {
                let message = format!("expected ExactCount or All, found {other:?}");
                self.add(format!("{path}.allocationMode"), message);
            }
        }
    }

    fn toleration(&mut self, path: &str, toleration: &DeviceToleration) {
        let given = |text: &Option<String>| text.clone().unwrap_or_default();
        let (key, value) = (given(&toleration.key), given(&toleration.value));
        if !key.is_empty() && !is_label_name(&key) {
            let message = format!("expected a label name, found {key:?}");
            self.add(format!("{path}.key"), message);
        }
        match toleration.operator.as_deref().unwrap_or_default() {
            "" | "Equal" => {
                if key.is_empty() {
                    self.add(format!("{path}.key"), "required with operator Equal");
                }
                if !is_label_value(&value) {
                    let message = format!("expected a label value, found {value:?}");
                    self.add(format!("{path}.value"), message);
                }
            }
            "Exists" if value.is_empty() => {}
            "Exists" => {
                let message = format!("expected no value with operator Exists, found {value:?}");
                self.add(format!("{path}.value"), message);
            }
            other => {
                let message = format!("expected Exists or Equal, found {other:?}");
                self.add(format!("{path}.operator"), message);
            }
        }
        let effect = given(&toleration.effect);
        if !matches!(effect.as_str(), "" | "NoSchedule" | "NoExecute") {
            let message = format!("expected NoSchedule or NoExecute, found {effect:?}");
            self.add(format!("{path}.effect"), message);
        }
    }

    fn capacities<'a>(&mut self, path: &str, names: impl ExactSizeIterator<Item = &'a String>) {
        self.at_most(path, names.len(), MAX_CAPACITIES);
        for name in names.take(MAX_CAPACITIES) {
            if !is_attribute_name(name) {
                let message = "expected a name such as memory or example.com/memory";
                self.add(entry(path, name), message);
            }
        }
    }

    fn constraint(
        &mut self,
        path: &str,
        constraint: &DeviceConstraint,
        known: &BTreeSet<String>,
        derived: &BTreeSet<&str>,
    ) {
        self.request_refs(path, constraint.requests.as_deref().unwrap_or_default(), known);
        let attributes = (&constraint.match_attribute, &constraint.distinct_attribute);
        let (field, name) = match attributes {
            (Some(name), None) => ("matchAttribute", name),
            (None, Some(name)) => ("distinctAttribute", name),
            (Some(_), Some(_)) => {
                let message = "expected one of matchAttribute and distinctAttribute, found both";
                return self.add(path, message);
            }
            (None, None) => {
                let message = "expected one of matchAttribute and distinctAttribute, found neither";
                return self.add(path, message);
            }
        };
        if !derived.contains(name.as_str()) {
            let expected = "a full attribute name such as lanemate.dev/pcieSwitch";
            self.text(format!("{path}.{field}"), name, is_full_attribute_name, expected);
        }
    }

    fn config(&mut self, path: &str, config: &DeviceClaimConfiguration, known: &BTreeSet<String>) {
        self.request_refs(path, config.requests.as_deref().unwrap_or_default(), known);
        self.opaque(&format!("{path}.opaque"), config.opaque.as_ref());
    }

    /// Checks the `requests` of a constraint or a configuration; an empty list stands for all.
    fn request_refs(&mut self, path: &str, refs: &[String], known: &BTreeSet<String>) {
        let path = format!("{path}.requests");
        let mut seen = BTreeSet::new();
        for (index, name) in self.limited(&path, refs, MAX_REQUEST_REFS).iter().enumerate() {
            let path = format!("{path}[{index}]");
            if !known.contains(name) {
                self.add(path, format!("expected a request of this claim, found {name:?}"));
            } else if !seen.insert(name) {
                self.add(path, format!("duplicate {name:?}"));
            }
        }
    }
}

/// What constraints and configurations may name: `request`, and `request/alternative`.
fn references(requests: &[DeviceRequest]) -> BTreeSet<String> {
    let alternatives = requests.iter().flat_map(|request| {
        let list = request.first_available.as_deref().unwrap_or_default();
        list.iter().map(|alternative| format!("{}/{}", request.name, alternative.name))
    });
    requests.iter().map(|request| request.name.clone()).chain(alternatives).collect()
}

/// Attributes that requests derive from others; constraints may name them without a domain.
fn derived_names(requests: &[DeviceRequest]) -> BTreeSet<&str> {
    let lists = requests.iter().flat_map(|request| {
        let exactly = request.exactly.iter().map(|exactly| &exactly.derived_attributes);
        let alternatives = request.first_available.iter().flatten();
        exactly.chain(alternatives.map(|alternative| &alternative.derived_attributes))
    });
    lists.flatten().flatten().map(|d: &DeviceDerivedAttribute| d.name.as_str()).collect()
}

#[cfg(test)]
mod tests;
