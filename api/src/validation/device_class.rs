//! The limits of DeviceClasses, as the API server checks them, and configuration for this driver,
//! which it does not.

use k8s_openapi::api::resource::v1::DeviceClass;

use super::{Findings, ValidationError};

/// All that is wrong with a DeviceClass, in the order of its fields. What CEL expressions mean is
/// not checked.
pub fn validate_device_class(class: &DeviceClass) -> Result<(), Vec<ValidationError>> {
    let mut findings = Findings::default();
    findings.subdomain("metadata.name", class.metadata.name.as_deref().unwrap_or_default());
    if let Some(spec) = &class.spec {
        findings.selectors("spec.selectors", spec.selectors.as_deref().unwrap_or_default());
        findings.class_configs("spec.config", spec.config.as_deref().unwrap_or_default());
    }
    findings.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(spec: Value, expect: &[&str]) {
        let class = json!({"metadata": {"name": "gpu.example.com"}, "spec": spec});
        let result = validate_device_class(&serde_json::from_value(class).unwrap());
        let errors = result.err().unwrap_or_default();
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expect, "{spec}");
    }

    fn config(parameters: Value) -> Value {
        json!({"config": [{"opaque": {"driver": "lanemate.dev", "parameters": parameters}}]})
    }

    #[test]
    fn a_class_keeps_to_the_limits_and_has_an_environment_at_most() {
        let selector = json!({"cel": {"expression": "true"}});
        check(json!({}), &[]);
        check(json!({"selectors": vec![selector.clone(); 32]}), &[]);
        check(
            json!({"selectors": vec![selector; 33]}),
            &["spec.selectors: expected at most 32 entries, found 33"],
        );
        check(
            json!({"selectors": [{}]}),
            &["spec.selectors[0].cel.expression: required: a CEL expression"],
        );
        check(json!({"config": [{"opaque": {"driver": "a.dev", "parameters": {"x": 1}}}]}), &[]);
        let kind = |kind: &str| json!({"apiVersion": "lanemate.dev/v1alpha1", "kind": kind});
        check(config(kind("Environment")), &[]);
        check(
            config(kind("AllocatedUnits")),
            &["spec.config[0].opaque.parameters: AllocatedUnits: missing field `units`"],
        );
        let mut typo = kind("Environment");
        typo["ncl"] = json!(true);
        check(
            config(typo),
            &["spec.config[0].opaque.parameters: Environment: ncl: unknown field `ncl`, expected \
               one of `nccl`, `ucx`, `cudaDeviceOrder`, `topologyFile`, `gdrcopy`, `umad`"],
        );
    }
}
