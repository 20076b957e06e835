//! Reads a cluster: whole kinds, page by page, into plain lists.

use std::fmt::Debug;
use std::path::PathBuf;

use anyhow::{Context, bail};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::resource::v1::{
    DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice,
};
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use lanemate_api::{NodeState, ResourceClass, names};
use lanemate_runtime::call::{CallError, call};
use lanemate_runtime::client::connect;
use serde::de::DeserializeOwned;

use super::args::ClusterArgs;
use crate::objects::{OBJECTS_MAX, Objects};

/// Objects of one answer: about a megabyte of pods.
const PAGE: u32 = 500;
/// Name of the controller's Lease.
const LEASE: &str = "lanemate-controller";
/// Events of one claim or pod that are read: the API server keeps them for an hour.
const EVENTS: u32 = 50;

/// What a cluster says.
#[derive(Debug, Default)]
pub struct Seen {
    /// What decisions are about.
    pub objects: Objects,
    /// What nodes hold; absent where the kind is not served.
    pub node_states: Option<Vec<NodeState>>,
    /// The controller's lease.
    pub lease: Option<Lease>,
}

/// A client as the arguments say.
pub async fn client(args: &ClusterArgs) -> anyhow::Result<Client> {
    let kubeconfig = args.kubeconfig.clone().or_else(default_kubeconfig);
    Ok(connect(kubeconfig.as_deref()).await?.client)
}

/// As `kubectl` finds it; of several files the first, which is where `kubectl` writes.
fn default_kubeconfig() -> Option<PathBuf> {
    let named = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let first = std::env::split_paths(&named).find(|path| !path.as_os_str().is_empty());
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".kube/config"));
    first.or_else(|| home().filter(|path| path.exists()))
}

/// Everything that decisions and nodes are about.
pub async fn seen(client: &Client, system: &str) -> anyhow::Result<Seen> {
    let slices = format!("spec.driver={}", names::DRIVER);
    let objects = Objects {
        slices: list(&Api::<ResourceSlice>::all(client.clone()), "ResourceSlices", &slices).await?,
        claims: list(&Api::<ResourceClaim>::all(client.clone()), "ResourceClaims", "").await?,
        templates: list(&Api::<ResourceClaimTemplate>::all(client.clone()), "templates", "")
            .await?,
        device_classes: list(&Api::<DeviceClass>::all(client.clone()), "DeviceClasses", "").await?,
        resource_classes: list_if_served(&Api::<ResourceClass>::all(client.clone()))
            .await?
            .unwrap_or_default(),
        nodes: list(&Api::<Node>::all(client.clone()), "Nodes", "").await?,
        pods: list(&Api::<Pod>::all(client.clone()), "Pods", "").await?,
        ..Objects::default()
    };
    let node_states = list_if_served(&Api::<NodeState>::all(client.clone())).await?;
    Ok(Seen { objects, node_states, lease: lease(client, system).await? })
}

/// The controller's Lease.
pub async fn lease(client: &Client, system: &str) -> anyhow::Result<Option<Lease>> {
    let leases = Api::<Lease>::namespaced(client.clone(), system);
    let deed = || format!("get lease {system}/{LEASE}");
    Ok(call(deed, leases.get_opt(LEASE)).await?)
}

/// Events about one object, the oldest first.
pub async fn events(client: &Client, namespace: &str, uid: &str) -> anyhow::Result<Vec<Event>> {
    let api = Api::<Event>::namespaced(client.clone(), namespace);
    let of_it = ListParams::default().fields(&format!("regarding.uid={uid}")).limit(EVENTS);
    let mut events = call(|| format!("list events of {uid}"), api.list(&of_it)).await?.items;
    events.sort_by_key(super::age::last);
    Ok(events)
}

/// All objects of a kind. A list that others' writes have made too old in between is read anew once.
pub async fn list<K>(api: &Api<K>, what: &str, fields: &str) -> anyhow::Result<Vec<K>>
where
    K: Clone + DeserializeOwned + Debug,
{
    match pages(api, what, fields).await {
        Err(error) if is_too_old(&error) => pages(api, what, fields).await,
        done => done,
    }
}

fn is_too_old(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(CallError::Busy { message, .. }) if message.starts_with("410"))
}

async fn pages<K>(api: &Api<K>, what: &str, fields: &str) -> anyhow::Result<Vec<K>>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut all = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    if !fields.is_empty() {
        params = params.fields(fields);
    }
    loop {
        let page = call(|| format!("list {what}"), api.list(&params)).await?;
        all.extend(page.items);
        if all.len() > OBJECTS_MAX {
            bail!("list {what}: more than {OBJECTS_MAX}: expected fewer in one cluster");
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}

/// All objects of a kind of ours; none where its definition is not there.
async fn list_if_served<K>(api: &Api<K>) -> anyhow::Result<Option<Vec<K>>>
where
    K: Clone + DeserializeOwned + Debug + Resource<DynamicType = ()>,
{
    let what = K::plural(&());
    match list(api, &what, "").await {
        Ok(all) => Ok(Some(all)),
        Err(error) if error.downcast_ref().is_some_and(CallError::is_not_found) => Ok(None),
        Err(error) => Err(error).context("read the cluster"),
    }
}
