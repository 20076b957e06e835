//! What a device has to pass: selectors in order, then taints against tolerations.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::resource::v1 as resource;

use super::{ClaimError, Classes};
use crate::attribute::Attributes;
use crate::inventory::Taint;
use crate::pool::device::{Device, is_allocator_taint};
use crate::pool::layout::IDENTITY_ATTRIBUTES;
use crate::selector::{CompileError, EvalError, Selector, Subject};

/// Selectors in the order in which they are evaluated, and tolerations.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Class, then member, then request.
    pub steps: Vec<Arc<Step>>,
    /// Of the request.
    pub tolerations: Vec<Toleration>,
}

/// One compiled selector.
#[derive(Debug)]
pub struct Step {
    /// Unique among the selectors of one [`Compiled`].
    pub id: usize,
    /// The selector.
    pub selector: Selector,
    /// Its result may depend on what is unique to a node.
    pub reads_identity: bool,
}

/// A selector failed on a device.
#[derive(Clone, Debug, thiserror::Error)]
#[error("selector `{expression}` fails on device {device}: {source}")]
pub struct FilterError {
    /// The device.
    pub device: String,
    /// The selector.
    pub expression: String,
    /// What is wrong.
    pub source: EvalError,
}

impl Filter {
    /// A filter of one level.
    pub fn new(steps: Vec<Arc<Step>>, tolerations: &[resource::DeviceToleration]) -> Self {
        Self { steps, tolerations: tolerations.iter().map(Toleration::from).collect() }
    }

    /// This filter, and then another.
    #[must_use]
    pub fn then(mut self, other: Self) -> Self {
        self.steps.extend(other.steps);
        self.tolerations.extend(other.tolerations);
        self
    }

    /// Whether every taint is tolerated. The allocator's own always is.
    pub fn tolerates(&self, device: &Device) -> bool {
        let tolerated = |taint: &Taint| {
            is_allocator_taint(taint) || self.tolerations.iter().any(|t| t.tolerates(taint))
        };
        device.taints.iter().all(tolerated)
    }

    /// Whether the result may depend on what is unique to a node.
    pub fn reads_identity(&self) -> bool {
        self.steps.iter().any(|step| step.reads_identity)
    }

    /// What makes two filters the same.
    pub fn key(&self) -> (Vec<usize>, Vec<Toleration>) {
        let mut tolerations = self.tolerations.clone();
        tolerations.sort();
        tolerations.dedup();
        (self.steps.iter().map(|step| step.id).collect(), tolerations)
    }
}

/// Whether a selector matches a device with some attributes.
pub fn matches(step: &Step, device: &Device, attributes: &Attributes) -> Result<bool, FilterError> {
    let subject = Subject {
        driver: &device.driver,
        attributes,
        capacity: &device.capacity,
        allow_multiple_allocations: false,
    };
    step.selector.matches(&subject).map_err(|source| FilterError {
        device: device.name.clone(),
        expression: step.selector.expression().to_owned(),
        source,
    })
}

/// A toleration of device taints.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Toleration {
    key: Option<String>,
    /// Absent with the operator `Exists`.
    value: Option<String>,
    effect: Option<String>,
}

impl From<&resource::DeviceToleration> for Toleration {
    fn from(toleration: &resource::DeviceToleration) -> Self {
        let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let exists = toleration.operator.as_deref() == Some("Exists");
        Self {
            key: filled(&toleration.key),
            value: (!exists).then(|| toleration.value.clone().unwrap_or_default()),
            effect: filled(&toleration.effect),
        }
    }
}

impl Toleration {
    fn tolerates(&self, taint: &Taint) -> bool {
        let key = self.key.as_ref().is_none_or(|key| *key == taint.key);
        let effect = self.effect.as_ref().is_none_or(|effect| *effect == taint.effect);
        // An empty key tolerates everything with `Exists` and nothing with `Equal`.
        let value = match &self.value {
            None => true,
            Some(value) => self.key.is_some() && *value == taint.value.clone().unwrap_or_default(),
        };
        key && effect && value
    }
}

/// Selectors compiled so far: one expression is compiled once.
#[derive(Debug, Default)]
pub struct Compiled {
    by_expression: BTreeMap<String, Arc<Step>>,
    next: usize,
}

/// Selectors that [`Compiled`] keeps; beyond them it starts anew. A cluster with more different expressions pays for
/// compiling them again, and memory stays bounded.
const MAX_COMPILED: usize = 4096;

impl Compiled {
    /// The compiled selector of an expression.
    pub fn step(&mut self, expression: &str) -> Result<Arc<Step>, CompileError> {
        if let Some(step) = self.by_expression.get(expression) {
            return Ok(Arc::clone(step));
        }
        let selector = Selector::compile(expression)?;
        let reads_identity = selector.may_read(&IDENTITY_ATTRIBUTES);
        let step = Arc::new(Step { id: self.next, selector, reads_identity });
        self.next += 1;
        if self.by_expression.len() >= MAX_COMPILED {
            self.by_expression.clear();
        }
        self.by_expression.insert(expression.to_owned(), Arc::clone(&step));
        Ok(step)
    }
}

/// Compiles the selectors of a list.
pub(super) fn steps(
    field: &str,
    selectors: Option<&[resource::DeviceSelector]>,
    classes: &mut Classes,
) -> Result<Vec<Arc<Step>>, ClaimError> {
    let numbered = selectors.unwrap_or_default().iter().enumerate();
    let compiled = numbered.map(|(index, selector)| {
        let field = format!("{field}[{index}].cel.expression");
        let Some(cel) = &selector.cel else {
            return Err(ClaimError::Unsupported { field, feature: "expected a value".to_owned() });
        };
        let step = classes.step(&cel.expression);
        step.map_err(|source| ClaimError::Selector { field, source: Box::new(source) })
    });
    compiled.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_accesses_to_common_attributes_are_known_to_read_no_identity() {
        for (expression, expect) in [
            (r#"device.driver == "x""#, false),
            (r#"device.attributes["lanemate.dev"].type == "gpu""#, false),
            (r#"device.attributes["lanemate.dev"].?linkLayer.orValue("") == "Ethernet""#, false),
            (r#"device.attributes["lanemate.dev"]["type"] == "gpu""#, false),
            (r#"cel.bind(a, device.attributes["lanemate.dev"], a.type == "x")"#, false),
            (r#"device.capacity["lanemate.dev"].exists(k, k == "uuid")"#, false),
            (r#"device.allowMultipleAllocations || "attributes" == device.driver"#, false),
            (r#"device.attributes["lanemate.dev"].uuid == "GPU-1""#, true),
            (r#"device.attributes["lanemate.dev"]["\u0075uid"] == "GPU-1""#, true),
            (r#"device.attributes["lanemate.dev"]["uu" + "id"] == "GPU-1""#, true),
            (r#"device.attributes["lanemate.dev"].exists(k, v, v == "x")"#, true),
            (r#"cel.bind(a, device.attributes["lanemate.dev"], a.uuid == "x")"#, true),
            (r#"cel.bind(a, device.attributes, a["lanemate.dev"].uuid == "x")"#, true),
            (r#"dyn(device)["attri" + "butes"]["lanemate.dev"]["uuid"] == "x""#, true),
            (r#"[1].all(x, false || has(device.attributes["lanemate.dev"].uuid))"#, true),
            (r#""lanemate.dev" in device.attributes"#, true),
        ] {
            let step = Compiled::default().step(expression).unwrap();
            assert_eq!(step.reads_identity, expect, "{expression}");
        }
    }

    #[test]
    fn tolerations_match_as_upstream() {
        let taint = |key: &str, value: &str| Taint {
            key: key.to_owned(),
            value: Some(value.to_owned()),
            effect: "NoSchedule".to_owned(),
        };
        let toleration = |key: &str, operator: &str, value: &str, effect: &str| {
            let text = |t: &str| (!t.is_empty()).then(|| t.to_owned());
            Toleration::from(&resource::DeviceToleration {
                key: text(key),
                operator: text(operator),
                value: text(value),
                effect: text(effect),
                toleration_seconds: None,
            })
        };
        for (key, operator, value, effect, expect) in [
            ("k", "Exists", "", "", true),
            ("", "Exists", "", "", true),
            ("", "Exists", "", "NoExecute", false),
            ("k", "", "v", "", true),
            ("k", "Equal", "w", "", false),
            ("", "Equal", "v", "", false),
            ("j", "Exists", "", "", false),
        ] {
            let tolerates = toleration(key, operator, value, effect).tolerates(&taint("k", "v"));
            assert_eq!(tolerates, expect, "{key} {operator} {value} {effect}");
        }
    }
}
