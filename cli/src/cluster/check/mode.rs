//! Which mode the cluster is in: each sign tells one, and all have to tell the same.

use k8s_openapi::api::apps::v1::DaemonSet;

use super::found::{Found, PLUGIN};
use super::versions::{Version, WITH_CONTROLLER};
use super::{Check, named};
use crate::args::Mode;
use crate::words::counted;

/// Something that tells the mode.
struct Sign {
    mode: Mode,
    words: String,
}

/// The mode that the other checks go by, and whether all signs agree with it.
pub fn mode(told: Option<Mode>, found: &Found, version: Version) -> (Mode, Check) {
    let signs = signs(told, found);
    let Some(first) = signs.first() else {
        let mode = by_version(version);
        return (mode, Check::ok("Mode", format!("{}: nothing tells another", name(mode))));
    };
    let mode = first.mode;
    if signs.iter().all(|sign| sign.mode == mode) {
        let words: Vec<&str> = signs.iter().map(|sign| sign.words.as_str()).collect();
        return (mode, Check::ok("Mode", format!("{}: {}", name(mode), words.join(", "))));
    }
    let of = |mode: Mode| {
        let words = signs.iter().filter(|sign| sign.mode == mode).map(|sign| sign.words.as_str());
        format!("{} ({})", name(mode), words.collect::<Vec<_>>().join(", "))
    };
    let words = format!("signs of both: {} and {}", of(Mode::Controller), of(Mode::Scheduler));
    let todo = match mode {
        Mode::Controller => {
            "start the kubelet plugin with --mode controller on every node: what has no taint is given away by \
             kube-scheduler as well"
        }
        Mode::Scheduler => {
            "start the kubelet plugin with --mode scheduler on every node, and stop the controller: nobody gives away \
             what has the taint"
        }
    };
    (mode, Check::failed("Mode", words, todo))
}

/// The mode where the objects cannot be read.
pub fn unread(told: Option<Mode>, version: Version) -> (Mode, Check) {
    let mode = told.unwrap_or_else(|| by_version(version));
    let words = format!("{} is taken, as the objects cannot be read", name(mode));
    (mode, Check::note("Mode", words, "see Objects below"))
}

fn by_version(version: Version) -> Mode {
    if version >= WITH_CONTROLLER { Mode::Controller } else { Mode::Scheduler }
}

/// The strongest first.
fn signs(told: Option<Mode>, found: &Found) -> Vec<Sign> {
    let mut signs = Vec::new();
    let mut sign = |mode: Mode, words: String| signs.push(Sign { mode, words });
    if let Some(mode) = told {
        sign(mode, "--mode".to_owned());
    }
    if let Some(mode) = found.plugin.as_ref().and_then(flag) {
        sign(mode, format!("DaemonSet {PLUGIN}"));
    }
    if found.leader.is_fresh {
        sign(Mode::Controller, "a controller is at work".to_owned());
    }
    let (mut fenced, mut bare) = (0, Vec::new());
    for ((_, pool, device), facts) in found.devices.iter().filter(|(_, f)| f.node.is_some()) {
        match facts.is_fenced {
            true => fenced += 1,
            false => bare.push(format!("{pool}/{device}")),
        }
    }
    match (fenced, bare.len()) {
        (0, 0) => {}
        (_, 0) => sign(Mode::Controller, "all devices have the controller's taint".to_owned()),
        (0, _) => sign(Mode::Scheduler, "no device has the controller's taint".to_owned()),
        (_, _) => {
            sign(
                Mode::Controller,
                format!("{} with the controller's taint", counted(fenced, "device")),
            );
            sign(Mode::Scheduler, format!("without it {}", named(&bare)));
        }
    }
    signs
}

/// What the DaemonSet starts the plugin with; absent where it is filled in later.
fn flag(set: &DaemonSet) -> Option<Mode> {
    let containers = set.spec.template.spec.iter().flat_map(|spec| &spec.containers);
    let words =
        containers.flat_map(|container| container.command.iter().chain(&container.args).flatten());
    let words: Vec<&str> = words.map(String::as_str).collect();
    let separate = words.windows(2).rev().find(|pair| pair[0] == "--mode").map(|pair| pair[1]);
    let joined = words.iter().rev().find_map(|word| word.strip_prefix("--mode="));
    match joined.or(separate) {
        None | Some("controller") => Some(Mode::Controller),
        Some("scheduler") => Some(Mode::Scheduler),
        Some(_) => None,
    }
}

fn name(mode: Mode) -> &'static str {
    match mode {
        Mode::Controller => "controller",
        Mode::Scheduler => "scheduler",
    }
}
