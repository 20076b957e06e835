//! Answers: lists, selectors, and errors as `Status` objects.

use serde_json::{Value, json};

use crate::resource::Resource;
use crate::store::Refusal;

/// A field selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    fields: Vec<(String, String)>,
}

impl Selector {
    /// Reads `field=value,field==value`; fields that the API server does not select by are refused.
    pub(crate) fn parse(resource: &Resource, text: &str) -> Result<Self, Refusal> {
        let mut fields = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (field, value) = part.split_once('=').unwrap_or((part, ""));
            let is_known = matches!(
                (resource.kind, field),
                ("ResourceSlice", "spec.driver" | "spec.nodeName" | "spec.pool.name")
            );
            if !is_known {
                let message = format!("field label not supported: {field}");
                return Err(Refusal::new(400, "BadRequest", message));
            }
            fields.push((field.replace('.', "/"), value.trim_start_matches('=').to_owned()));
        }
        Ok(Self { fields })
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        let found = |field: &String| object.pointer(&format!("/{field}")).and_then(Value::as_str);
        self.fields.iter().all(|(field, value)| found(field).unwrap_or_default() == value)
    }

    /// An object as it was asked for: whole, or its metadata alone.
    pub(crate) fn shape(&self, object: &Value, is_metadata_only: bool) -> Value {
        if !is_metadata_only {
            return object.clone();
        }
        json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": object["metadata"],
        })
    }
}

/// A list.
pub(crate) fn list(
    resource: &Resource,
    version: u64,
    items: Vec<Value>,
    is_metadata_only: bool,
) -> Value {
    let (api_version, kind) = if is_metadata_only {
        ("meta.k8s.io/v1", "PartialObjectMetadataList".to_owned())
    } else {
        (resource.api_version, format!("{}List", resource.kind))
    };
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": { "resourceVersion": version.to_string() },
        "items": items,
    })
}

/// An error.
pub(crate) fn status(refusal: &Refusal) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "code": refusal.code, "reason": refusal.reason, "message": refusal.message,
    })
}
