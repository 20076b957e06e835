//! The DeviceClasses that ship with the driver.

use k8s_openapi::api::resource::v1::{
    CELDeviceSelector, DeviceClass, DeviceClassSpec, DeviceSelector,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::names::{DRIVER, GPU_CLASS, NIC_CLASS};

/// `gpu.lanemate.dev` and `nic.lanemate.dev`, in this order.
pub fn builtin_device_classes() -> Vec<DeviceClass> {
    [(GPU_CLASS, "gpu"), (NIC_CLASS, "nic")]
        .map(|(name, kind)| DeviceClass {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            spec: Some(DeviceClassSpec {
                selectors: Some(vec![DeviceSelector {
                    cel: Some(CELDeviceSelector { expression: type_selector(kind) }),
                }]),
                ..DeviceClassSpec::default()
            }),
        })
        .into()
}

/// A device without the attribute is not selected; it does not make the expression fail, which
/// would stop the whole allocation.
fn type_selector(kind: &str) -> String {
    format!(
        r#"device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].?type.orValue("") == "{kind}""#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_selects_one_type_of_our_driver() {
        let classes = builtin_device_classes();
        let found: Vec<_> = classes
            .iter()
            .map(|class| {
                let selectors = class.spec.as_ref().unwrap().selectors.as_ref().unwrap();
                let [selector] = selectors.as_slice() else { panic!("{selectors:?}") };
                let expression = selector.cel.as_ref().unwrap().expression.as_str();
                (class.metadata.name.as_deref().unwrap(), expression)
            })
            .collect();
        let gpu = r#"device.driver == "lanemate.dev" && device.attributes["lanemate.dev"].?type.orValue("") == "gpu""#;
        let nic = gpu.replace("\"gpu\"", "\"nic\"");
        assert_eq!(found, [("gpu.lanemate.dev", gpu), ("nic.lanemate.dev", nic.as_str())]);
    }
}
