//! Pods and claims in the fewest words that tests need.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use serde_json::json;

/// A pod of one container, `main`, that runs a shell script in the busybox image. `claims` are
/// names of ResourceClaims in the pod's namespace; the container gets them all.
pub fn pod(name: &str, script: &str, claims: &[&str]) -> anyhow::Result<Pod> {
    let of_pod: Vec<_> =
        claims.iter().map(|name| json!({"name": name, "resourceClaimName": name})).collect();
    let of_container: Vec<_> = claims.iter().map(|name| json!({"name": name})).collect();
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            // There is no DNS server in the cluster.
            "dnsPolicy": "Default",
            "resourceClaims": of_pod,
            "containers": [{
                "name": "main",
                "image": "localhost/busybox:1",
                "command": ["sh", "-c", script],
                "resources": {"claims": of_container},
            }],
        },
    }))?)
}

/// A claim with one request of one device per pair of request name and DeviceClass.
pub fn claim(name: &str, requests: &[(&str, &str)]) -> anyhow::Result<ResourceClaim> {
    let requests: Vec<_> = requests
        .iter()
        .map(|(name, class)| json!({"name": name, "exactly": {"deviceClassName": class}}))
        .collect();
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"devices": {"requests": requests}},
    }))?)
}
