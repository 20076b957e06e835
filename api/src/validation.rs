//! What objects may say: names, counts, lists and localities, and the error that names the field
//! that says something else.

pub mod claim;
pub mod device_class;
pub mod format;
pub mod slice;

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::api::resource::v1::{
    DeviceClassConfiguration, DeviceSelector, OpaqueDeviceConfiguration,
};

use self::format::{is_dns_label, is_dns_subdomain, is_driver_name};
use crate::names::DRIVER;
use crate::{Across, OpaqueConfig, PathClass, Within};

/// Most devices that the units of one claim may take together: the API takes no more results.
pub const MAX_DEVICES: u32 = 32;
/// Selectors of a request, a DeviceClass or a member of a ResourceClass.
pub const MAX_SELECTORS: usize = 32;
/// Bytes of a CEL expression.
pub const MAX_EXPRESSION_BYTES: usize = 10 * 1024;
/// Configurations of a claim or a class.
pub const MAX_CONFIGS: usize = 32;
/// Bytes of opaque parameters, as compact JSON.
pub const MAX_PARAMETERS_BYTES: usize = 10 * 1024;

/// A field that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationError {
    /// Path of the field, such as `spec.members[0].name`; empty for the object itself.
    pub field: String,
    /// What was expected, and what was found.
    pub problem: String,
}

impl std::error::Error for ValidationError {}

impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => f.write_str(&self.problem),
            field => write!(f, "{field}: {}", self.problem),
        }
    }
}

/// Collects errors in the order in which the fields stand.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<ValidationError>);

impl Findings {
    pub(crate) fn add(&mut self, field: impl Into<String>, problem: impl Into<String>) {
        self.0.push(ValidationError { field: field.into(), problem: problem.into() });
    }

    pub(crate) fn finish(self) -> Result<(), Vec<ValidationError>> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }

    /// A text that is there and has the form that is expected.
    pub(crate) fn text(
        &mut self,
        field: impl Into<String>,
        text: &str,
        is: fn(&str) -> bool,
        expected: &str,
    ) {
        if text.is_empty() {
            self.add(field, format!("required: {expected}"));
        } else if !is(text) {
            self.add(field, format!("expected {expected}, found {text:?}"));
        }
    }

    pub(crate) fn label(&mut self, field: impl Into<String>, name: &str) {
        self.text(field, name, is_dns_label, "a DNS label (a-z, 0-9 and inner -, at most 63)");
    }

    pub(crate) fn subdomain(&mut self, field: impl Into<String>, name: &str) {
        self.text(field, name, is_dns_subdomain, "a DNS subdomain (a-z, 0-9, inner - and .)");
    }

    /// A list that is not too long; hands out the part to look at.
    pub(crate) fn limited<'a, T>(&mut self, field: &str, list: &'a [T], max: usize) -> &'a [T] {
        self.at_most(field, list.len(), max);
        list.get(..max).unwrap_or(list)
    }

    pub(crate) fn at_most(&mut self, field: &str, found: usize, max: usize) {
        if found > max {
            self.add(field, format!("expected at most {max} entries, found {found}"));
        }
    }

    /// Names of list items that must differ; those that are missing are another matter.
    pub(crate) fn unique<'a>(
        &mut self,
        list: &str,
        part: &str,
        names: impl Iterator<Item = &'a str>,
    ) {
        let mut seen = BTreeSet::new();
        for (index, name) in names.enumerate() {
            if !name.is_empty() && !seen.insert(name) {
                self.add(format!("{list}[{index}].{part}"), format!("duplicate {name:?}"));
            }
        }
    }

    /// Counts of list items, of at least 1, that together stay within [`MAX_DEVICES`].
    pub(crate) fn counts(&mut self, list: &str, counts: impl Iterator<Item = u32>) {
        let mut sum: u64 = 0;
        for (index, count) in counts.enumerate() {
            sum += u64::from(count);
            if count == 0 {
                self.add(format!("{list}[{index}].count"), "expected at least 1, found 0");
            }
        }
        if sum > u64::from(MAX_DEVICES) {
            let problem =
                format!("expected at most {MAX_DEVICES} devices in one unit, found {sum}");
            self.add(list, problem);
        }
    }

    pub(crate) fn locality(&mut self, prefix: &str, within: Within, across: Across) {
        self.wish(&format!("{prefix}within.preferred"), within.required, within.preferred);
        self.wish(&format!("{prefix}across.preferred"), across.required, across.preferred);
    }

    fn wish(&mut self, field: &str, required: PathClass, preferred: Option<PathClass>) {
        if let Some(wish) = preferred.filter(|wish| *wish > required) {
            self.add(
                field,
                format!("expected {required} (what is required) or nearer, found {wish}"),
            );
        }
    }

    pub(crate) fn selectors(&mut self, list: &str, selectors: &[DeviceSelector]) {
        for (index, selector) in self.limited(list, selectors, MAX_SELECTORS).iter().enumerate() {
            let expression = selector.cel.as_ref().map_or("", |cel| cel.expression.as_str());
            let field = format!("{list}[{index}].cel.expression");
            let found = expression.len();
            if expression.is_empty() {
                self.add(field, "required: a CEL expression");
            } else if found > MAX_EXPRESSION_BYTES {
                let problem =
                    format!("expected at most {MAX_EXPRESSION_BYTES} bytes, found {found}");
                self.add(field, problem);
            }
        }
    }

    pub(crate) fn opaque(&mut self, field: &str, opaque: Option<&OpaqueDeviceConfiguration>) {
        let Some(opaque) = opaque else {
            return self.add(field, "required: a driver and its parameters");
        };
        self.text(format!("{field}.driver"), &opaque.driver, is_driver_name, "a DRA driver name");
        let field = format!("{field}.parameters");
        let parameters = &opaque.parameters.0;
        let found = parameters.to_string().len();
        if !parameters.is_object() {
            self.add(field, "expected an object");
        } else if found > MAX_PARAMETERS_BYTES {
            let problem = format!("expected at most {MAX_PARAMETERS_BYTES} bytes, found {found}");
            self.add(field, problem);
        }
    }

    /// Configuration of a class. Parameters for other drivers are theirs to judge.
    pub(crate) fn class_configs(&mut self, list: &str, configs: &[DeviceClassConfiguration]) {
        for (index, config) in self.limited(list, configs, MAX_CONFIGS).iter().enumerate() {
            let field = format!("{list}[{index}].opaque");
            self.opaque(&field, config.opaque.as_ref());
            let Some(opaque) = config.opaque.as_ref().filter(|opaque| opaque.driver == DRIVER)
            else {
                continue;
            };
            let field = format!("{field}.parameters");
            match OpaqueConfig::parse(&opaque.parameters.0) {
                Ok(OpaqueConfig::Environment(_)) => {}
                Ok(other) => {
                    self.add(field, format!("expected kind Environment, found {}", other.kind()));
                }
                Err(error) => self.add(field, error.to_string()),
            }
        }
    }
}

/// The path of an entry of a map. Names with dots or slashes would read as several fields.
pub fn entry(map: &str, name: &str) -> String {
    match name.contains(['.', '/', ' ']) {
        true => format!("{map}[{name:?}]"),
        false => format!("{map}.{name}"),
    }
}
