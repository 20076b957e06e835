//! What the plugin has on the node and in the cluster.

use std::fs;

use k8s_openapi::api::resource::v1::{Device, ResourceSlice};
use kube::api::ListParams;
use kube::{Api, Client};
use lanemate_api::node_state::NodeState;

use crate::cluster::{CDI_DIR, Cluster, NODE};
use crate::wait::until;

/// The plugin's own directory.
pub const PLUGIN_DIR: &str = "/var/lib/kubelet/plugins/lanemate.dev";

/// The GPUs of a captured DGX H100, each with the NIC under its switch.
pub const PAIRS: [(&str, &str); 8] = [
    ("gpu-0000-1b-00-0", "nic-0000-18-00-0"),
    ("gpu-0000-43-00-0", "nic-0000-40-00-0"),
    ("gpu-0000-52-00-0", "nic-0000-4f-00-0"),
    ("gpu-0000-61-00-0", "nic-0000-5e-00-0"),
    ("gpu-0000-9d-00-0", "nic-0000-9a-00-0"),
    ("gpu-0000-c3-00-0", "nic-0000-c0-00-0"),
    ("gpu-0000-d1-00-0", "nic-0000-ce-00-0"),
    ("gpu-0000-df-00-0", "nic-0000-dc-00-0"),
];

/// UIDs of the claims that have a CDI file on the node.
pub fn in_cdi() -> Vec<String> {
    let entries = fs::read_dir(CDI_DIR).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let uid = |name: String| {
        let uid = name.strip_prefix("lanemate.dev-claim_")?.strip_suffix(".json")?;
        Some(uid.to_owned())
    };
    names.filter_map(uid).collect()
}

/// UIDs of the claims that have a record on the node.
pub fn recorded() -> Vec<String> {
    let entries =
        fs::read_dir(format!("{PLUGIN_DIR}/state/claims")).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| Some(name.strip_suffix(".json")?.to_owned())).collect()
}

/// Chooses the slices of the node among all.
pub fn of_node() -> String {
    format!("spec.driver=lanemate.dev,spec.nodeName={NODE}")
}

/// The slices of the node.
pub async fn slices(client: Client) -> anyhow::Result<Vec<ResourceSlice>> {
    let api: Api<ResourceSlice> = Api::all(client);
    Ok(api.list(&ListParams::default().fields(&of_node())).await?.items)
}

/// The devices of a slice, without the times at which the API server saw their taints.
pub fn devices_of(slice: &ResourceSlice) -> Vec<Device> {
    let mut devices = slice.spec.devices.clone().unwrap_or_default();
    for taint in devices.iter_mut().flat_map(|device| device.taints.iter_mut().flatten()) {
        taint.time_added = None;
    }
    devices
}

/// Waits until the node has no record and no file of a claim.
pub async fn until_no_files() -> anyhow::Result<()> {
    until("no files of claims", async || {
        let left = format!("recorded {:?}, in CDI {:?}", recorded(), in_cdi());
        let nothing = recorded().is_empty() && in_cdi().is_empty();
        Ok(if nothing { Ok(()) } else { Err(left) })
    })
    .await
}

/// Waits until the node holds nothing, and says so in the cluster.
pub async fn until_none_is_held(cluster: &Cluster) -> anyhow::Result<()> {
    until_no_files().await?;
    let states: Api<NodeState> = Api::all(cluster.client());
    until("nothing to be held", async || {
        let held = states.get(NODE).await?.status.held;
        Ok(if held.is_empty() { Ok(()) } else { Err(format!("{held:?}")) })
    })
    .await
}
