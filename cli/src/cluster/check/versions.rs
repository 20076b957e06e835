//! Versions: of the API server, of kubelets, and of what we ship against each other.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodTemplateSpec;

use super::found::Found;
use super::{Check, named};
use crate::args::Mode;

/// Major and minor.
pub type Version = (u32, u32);

/// The first version that serves resource.k8s.io/v1.
pub const FIRST: Version = (1, 34);
/// The first version in which device taints and the admission policies of the gate are on by default.
pub const WITH_CONTROLLER: Version = (1, 36);
/// Of this program.
const OWN: &str = env!("CARGO_PKG_VERSION");

/// Parses the two parts that the API server tells.
pub fn parse(major: &str, minor: &str) -> Option<Version> {
    // Some providers write `36+`.
    let number = |text: &str| text.trim_end_matches('+').parse::<u32>().ok();
    Some((number(major)?, number(minor)?))
}

/// Of an API server below the first, or one that tells no number.
pub fn too_old(words: &str) -> Check {
    let (major, minor) = FIRST;
    let todo =
        format!("update the cluster: {major}.{minor} or later is needed, with resource.k8s.io/v1");
    Check::failed("Kubernetes", words, todo)
}

/// Of the API server, for the mode.
pub fn server(version: Version, words: &str, mode: Mode) -> Check {
    let (major, minor) = WITH_CONTROLLER;
    match mode {
        _ if version >= WITH_CONTROLLER => Check::ok("Kubernetes", words),
        Mode::Scheduler => Check::ok(
            "Kubernetes",
            format!("{words}: enough for mode scheduler, not for the controller"),
        ),
        Mode::Controller => Check::failed(
            "Kubernetes",
            words,
            format!(
                "the controller needs {major}.{minor} or later; before it, run the kubelet plugin with --mode scheduler \
                 and no controller"
            ),
        ),
    }
}

/// Of the kubelets that have the plugin; none where no kubelet tells its own.
pub fn kubelets(found: &Found) -> Option<Check> {
    let nodes = found.nodes();
    let mut old = Vec::new();
    let mut told = BTreeMap::<Version, &str>::new();
    for name in found.nodes_with_plugin() {
        let info = nodes.get(name).and_then(|node| node.status.as_ref()?.node_info.as_ref());
        let Some(words) = info.map(|info| info.kubelet_version.as_str()) else { continue };
        let Some(version) = of_words(words) else { continue };
        told.entry(version).or_insert(words);
        if version < FIRST {
            old.push(format!("{name} has {words}"));
        }
    }
    let ((_, oldest), (_, newest)) = (told.first_key_value()?, told.last_key_value()?);
    if old.is_empty() {
        let span =
            if oldest == newest { (*oldest).to_owned() } else { format!("{oldest} to {newest}") };
        return Some(Check::ok("Kubelets", format!("{span} where the plugin is")));
    }
    let (major, minor) = FIRST;
    let todo = format!(
        "update kubelet there to {major}.{minor} or later, or keep the plugin off these nodes"
    );
    Some(Check::failed("Kubelets", format!("too old: {}", named(&old)), todo))
}

/// `v1.37.2-provider.1`.
fn of_words(words: &str) -> Option<Version> {
    let mut parts = words.trim_start_matches('v').split(['.', '-', '+']);
    parse(parts.next()?, parts.next()?)
}

/// Of controller and plugin against each other and this program; none where the objects tell nothing.
pub fn shipped(found: &Found) -> Option<Check> {
    let plugin = found.plugin.as_ref().map(|set| &set.spec.template);
    let controller = found.controller.as_ref().map(|set| &set.spec.template);
    let told = [("kubelet plugin", plugin), ("controller", controller)]
        .into_iter()
        .filter_map(|(name, template)| Some((name, of_image(template?)?)));
    let told: Vec<(&str, &str)> = told.collect();
    if told.is_empty() {
        return None;
    }
    let all = told.iter().copied().chain([("this program", OWN)]);
    let words: Vec<String> = all.map(|(name, version)| format!("{name} {version}")).collect();
    if told.iter().all(|(_, version)| *version == OWN) {
        return Some(Check::ok("Lanemate", format!("{OWN}: {} and this program", joined(&told))));
    }
    let todo = "install controller and kubelet plugin of one release, and check with `lanemate` of the same: each is \
                tested with its own alone";
    Some(Check::note("Lanemate", words.join(", "), todo))
}

fn joined(told: &[(&str, &str)]) -> String {
    told.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// The tag of the image, without a leading `v`; absent for a digest alone.
fn of_image(template: &PodTemplateSpec) -> Option<&str> {
    let image = template.spec.as_ref()?.containers.first()?.image.as_deref()?;
    let (image, _) = image.split_once('@').unwrap_or((image, ""));
    let name = image.rsplit('/').next()?;
    let (_, tag) = name.split_once(':')?;
    Some(tag.strip_prefix('v').unwrap_or(tag))
}
