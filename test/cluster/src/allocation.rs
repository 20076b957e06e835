//! An allocation written by hand, in the form in which a controller writes it.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::cluster::{DRIVER, NODE};

/// What goes into `status.allocation` and `status.reservedFor` of a claim. Devices are of this
/// driver, in the pool of a node, [`NODE`] unless said otherwise.
#[derive(Clone, Debug, Default)]
pub struct Allocation {
    node: Option<String>,
    results: Vec<Value>,
    config: Vec<Value>,
    reserved_for: Vec<Value>,
}

impl Allocation {
    /// An allocation of devices of another node than [`NODE`].
    #[must_use]
    pub fn on(node: &str) -> Allocation {
        Allocation { node: Some(node.to_owned()), ..Allocation::default() }
    }

    /// Grants a device to a request; several to one request come in this order.
    #[must_use]
    pub fn grant(self, request: &str, device: &str) -> Allocation {
        let pool = self.node();
        let granted = json!({"request": request, "driver": DRIVER, "pool": pool, "device": device});
        self.result(granted)
    }

    /// Adds a result as it stands, for what [`Allocation::grant`] does not say.
    #[must_use]
    pub fn result(mut self, result: Value) -> Allocation {
        self.results.push(result);
        self
    }

    /// Adds the parameters of an opaque configuration of this driver, from the class or, with
    /// `requests`, from the claim.
    #[must_use]
    pub fn config(mut self, source: &str, requests: &[&str], parameters: Value) -> Allocation {
        self.config.push(json!({
            "source": source,
            "requests": requests,
            "opaque": {"driver": DRIVER, "parameters": parameters},
        }));
        self
    }

    /// Reserves the claim for a pod that exists. Without it kube-scheduler does so.
    #[must_use]
    pub fn reserved_for(mut self, pod: &Pod) -> Allocation {
        let (name, uid) = (&pod.metadata.name, &pod.metadata.uid);
        self.reserved_for.push(json!({"resource": "pods", "name": name, "uid": uid}));
        self
    }

    fn node(&self) -> &str {
        self.node.as_deref().unwrap_or(NODE)
    }

    /// The `status` of the claim. The node selector has the one form that lets a node's plugin
    /// write to the claim; without the time stamp, kube-scheduler would set it later and be
    /// refused.
    pub(crate) fn status(&self, time: &str) -> Value {
        let only_there = json!({"key": "metadata.name", "operator": "In", "values": [self.node()]});
        json!({
            "allocation": {
                "allocationTimestamp": time,
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only_there]}]},
                "devices": {"results": self.results, "config": self.config},
            },
            "reservedFor": self.reserved_for,
        })
    }
}
