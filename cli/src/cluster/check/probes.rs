//! What is asked of the API server itself: its version, what it serves, and what it keeps of what is written.

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::resource::v1::{
    Device, DeviceTaint, ResourcePool, ResourceSlice, ResourceSliceSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use lanemate_api::names;
use lanemate_runtime::call::{CallError, call};

use super::Check;
use super::rights::{Right, is_forbidden, may, unasked};
use super::versions::{self, Version};
use crate::args::Mode;

/// The version of the API server, and how it calls it.
pub async fn version(client: &Client) -> anyhow::Result<(Option<Version>, String)> {
    let info = call(|| "get the version".to_owned(), client.apiserver_version()).await?;
    Ok((versions::parse(&info.major, &info.minor), info.git_version))
}

/// Dynamic resource allocation is served in its stable version.
pub async fn api(client: &Client) -> anyhow::Result<Check> {
    let group = "resource.k8s.io/v1";
    let listed = client.list_api_group_resources(group);
    match call(|| format!("list what {group} has"), listed).await {
        Ok(_) => Ok(Check::ok("API", format!("{group} is served"))),
        Err(error) if error.is_not_found() => {
            let todo = "take resource.k8s.io/v1=false out of --runtime-config of the API server";
            Ok(Check::failed("API", format!("{group} is not served"), todo))
        }
        Err(error) => Err(error.into()),
    }
}

/// Our kinds are served, the class with its status; classes are the controller's.
pub async fn definitions(client: &Client, mode: Mode) -> anyhow::Result<Check> {
    let listed = client.list_api_group_resources(names::API_VERSION);
    let found = match call(|| format!("list what {} has", names::API_VERSION), listed).await {
        Ok(list) => list.resources.into_iter().map(|resource| resource.name).collect(),
        Err(error) if error.is_not_found() => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    Ok(definitions_check(&found, mode))
}

pub(super) fn definitions_check(found: &[String], mode: Mode) -> Check {
    let (wanted, words) = match mode {
        Mode::Controller => (
            &["resourceclasses", "resourceclasses/status", "nodestates"][..],
            "resourceclasses and nodestates are served",
        ),
        Mode::Scheduler => (&["nodestates"][..], "nodestates are served"),
    };
    let is_missing = |name: &&&str| !found.iter().any(|found| found == **name);
    let missing: Vec<&str> = wanted.iter().filter(is_missing).copied().collect();
    if missing.is_empty() {
        return Check::ok("Definitions", words);
    }
    let found = format!("not served: {}", missing.join(", "));
    Check::failed("Definitions", found, "kubectl apply -f deploy/crds/")
}

/// A slice with the allocator's taint comes back as it was sent.
pub async fn taints(client: &Client) -> anyhow::Result<Check> {
    let slices = Api::<ResourceSlice>::all(client.clone());
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let sent = tainted_slice();
    let deed = || "try to create a slice with a tainted device (dry run)".to_owned();
    match call(deed, slices.create(&params, &sent)).await {
        Ok(kept) => Ok(taints_check(&sent, &kept)),
        Err(CallError::Refused { message, .. }) => Ok(Check::failed(
            "Taints",
            format!("a slice with a taint is refused: {message}"),
            "turn the feature gate DRADeviceTaints on",
        )),
        Err(error) => Err(error.into()),
    }
}

fn tainted_slice() -> ResourceSlice {
    let taint = DeviceTaint {
        key: names::ALLOCATOR_TAINT_KEY.to_owned(),
        value: Some(names::ALLOCATOR_TAINT_VALUE.to_owned()),
        effect: "NoSchedule".to_owned(),
        ..DeviceTaint::default()
    };
    let name = "lanemate-check".to_owned();
    let device =
        Device { name: "probe".to_owned(), taints: Some(vec![taint]), ..Device::default() };
    ResourceSlice {
        metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
        spec: ResourceSliceSpec {
            driver: names::DRIVER.to_owned(),
            pool: ResourcePool { name: name.clone(), generation: 1, resource_slice_count: 1 },
            node_name: Some(name),
            devices: Some(vec![device]),
            ..ResourceSliceSpec::default()
        },
    }
}

pub(super) fn taints_check(sent: &ResourceSlice, kept: &ResourceSlice) -> Check {
    let of = |slice: &ResourceSlice| {
        let devices = slice.spec.devices.iter().flatten();
        let taints = devices.flat_map(|device| device.taints.iter().flatten());
        taints.map(|taint| (taint.key.clone(), taint.effect.clone())).collect::<Vec<_>>()
    };
    if of(sent) == of(kept) {
        return Check::ok("Taints", "device taints are kept");
    }
    Check::failed(
        "Taints",
        "device taints are dropped without a word: kube-scheduler would allocate our devices",
        "turn the feature gate DRADeviceTaints on",
    )
}

/// The controller manager frees claims under one of the two names that the fence lets through.
pub async fn releases(client: &Client) -> anyhow::Result<Check> {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "kube-system");
    let name = "resource-claim-controller";
    let deed = || format!("get service account kube-system/{name}");
    let has_account = call(deed, accounts.get_opt(name)).await?.is_some();
    let right = Right {
        namespace: None,
        group: "resource.k8s.io".to_owned(),
        resource: "resourceclaims/status".to_owned(),
        verb: "update".to_owned(),
    };
    let of_account = format!("system:serviceaccount:kube-system:{name}");
    let shown = format!("the service account kube-system/{name}");
    let groups = super::rights::groups("kube-system");
    let account = match may(client, &of_account, &groups, &right).await {
        Err(error) if is_forbidden(&error) => return Ok(unasked("Releases")),
        allowed => has_account && allowed?,
    };
    let whole = "system:kube-controller-manager";
    let authenticated = ["system:authenticated".to_owned()];
    let manager = may(client, whole, &authenticated, &right).await?;
    Ok(releases_check(account.then_some(shown.as_str()), manager.then_some(whole)))
}

pub(super) fn releases_check(account: Option<&str>, manager: Option<&str>) -> Check {
    match account.or(manager) {
        Some(user) => Check::ok("Releases", format!("{user} frees claims; the fence lets it")),
        None => Check::failed(
            "Releases",
            "neither system:serviceaccount:kube-system:resource-claim-controller nor \
             system:kube-controller-manager may free claims",
            "find the user of kube-controller-manager (its log, or the audit log), and add it to isReleaser in \
             deploy/admission/fence.yaml: else no device is ever freed",
        ),
    }
}
