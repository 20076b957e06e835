//! The programs that were installed: the plugin on its nodes, and the controller.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};

use super::found::{CONTROLLER, Found, PLUGIN, node_of};
use super::{Check, listed, named};
use crate::args::Mode;
use crate::words::{counted, cut};

/// Characters of a message that are told of one pod.
const MESSAGE: usize = 160;

/// The plugin runs wherever its DaemonSet wants it.
pub fn plugin(found: &Found) -> Check {
    let system = &found.system;
    let absent = format!("no DaemonSet {PLUGIN} in namespace {system}");
    let Some(set) = &found.plugin else {
        return match found.seen.objects.slices.is_empty() {
            true => Check::failed(
                "Plugin",
                absent,
                "install the kubelet plugin; if it is in another namespace, name it with --system-namespace",
            ),
            false => Check::note(
                "Plugin",
                format!("{absent}, but there are slices: it was started in another way"),
                "if it was installed in another namespace, name that with --system-namespace",
            ),
        };
    };
    let status = set.status.clone().unwrap_or_default();
    let (desired, ready) = (status.desired_number_scheduled, status.number_ready);
    if desired == 0 {
        let todo = format!(
            "kubectl -n {system} get daemonset {PLUGIN} -o yaml: its nodeSelector and affinity match no node"
        );
        return Check::failed("Plugin", "its DaemonSet wants it on no node", todo);
    }
    let pods = found.plugin_pods();
    let why = |pod: &&Pod| {
        let node = node_of(pod).unwrap_or("no node");
        not_ready(pod).map(|reason| format!("{node}: {reason}"))
    };
    let broken: Vec<String> = pods.iter().filter_map(why).collect();
    let first = pods.iter().find(|pod| not_ready(pod).is_some());
    let first = first.and_then(|pod| pod.metadata.name.as_deref());
    let words = format!("ready on {ready} of {}", counted_i32(desired));
    if ready >= desired {
        return Check::ok("Plugin", words);
    }
    let words =
        if broken.is_empty() { words } else { format!("{words}; {}", listed(&broken, "; ")) };
    let todo = match first {
        Some(pod) => format!("kubectl -n {system} describe pod {pod}, and its log"),
        None => format!("kubectl -n {system} describe daemonset {PLUGIN}: it makes no pod there"),
    };
    Check::failed("Plugin", words, todo)
}

fn counted_i32(count: i32) -> String {
    counted(usize::try_from(count).unwrap_or_default(), "node")
}

/// In mode controller one is at work; in mode scheduler none has to be.
pub fn controller(found: &Found, mode: Mode) -> Check {
    let leader = &found.leader;
    if mode == Mode::Scheduler {
        return match leader.is_fresh {
            false => Check::ok("Controller", "mode scheduler: none is needed"),
            true => Check::note(
                "Controller",
                format!("{}, but in mode scheduler none is needed", leader.words()),
                "stop it, or start the kubelet plugin with --mode controller everywhere",
            ),
        };
    }
    if leader.is_fresh {
        return Check::ok("Controller", leader.words());
    }
    let broken: Vec<String> = found.controller_pods().into_iter().filter_map(not_ready).collect();
    let system = &found.system;
    let (words, todo) = match &found.controller {
        None => (
            format!("{}; no Deployment {CONTROLLER} in namespace {system}", leader.words()),
            "install the controller; if it is in another namespace, name it with --system-namespace".to_owned(),
        ),
        Some(_) if broken.is_empty() => {
            (leader.words(), format!("kubectl -n {system} logs deployment/{CONTROLLER}"))
        }
        Some(_) => (
            format!("{}; its pod: {}", leader.words(), named(&broken)),
            format!("kubectl -n {system} logs deployment/{CONTROLLER}, or describe the pod"),
        ),
    };
    Check::failed("Controller", words, todo)
}

/// Why a pod is not ready; none for one that is.
fn not_ready(pod: &Pod) -> Option<String> {
    let status = pod.status.clone().unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let condition = |kind: &str| conditions.iter().find(|condition| condition.type_ == kind);
    if condition("Ready").is_some_and(|ready| ready.status == "True") {
        return None;
    }
    let init = status.init_container_statuses.unwrap_or_default();
    let containers = status.container_statuses.unwrap_or_default();
    if let Some(reason) = init.iter().chain(&containers).find_map(of_container) {
        return Some(reason);
    }
    if let Some(unscheduled) = condition("PodScheduled").filter(|told| told.status == "False") {
        let message = unscheduled.message.clone().unwrap_or_default();
        return Some(format!("not scheduled: {}", cut(&message, MESSAGE)));
    }
    Some(match (status.reason, status.phase) {
        (Some(reason), _) => reason,
        (None, Some(phase)) if phase == "Running" => "its readiness probe fails".to_owned(),
        (None, phase) => phase.unwrap_or_else(|| "no status yet".to_owned()),
    })
}

/// What a container waits for, with its last words; none for one that runs or has done its work.
fn of_container(container: &ContainerStatus) -> Option<String> {
    let state = container.state.clone().unwrap_or_default();
    let last = container.last_state.as_ref();
    let last_words = [Some(&state), last].into_iter().flatten().find_map(last_words);
    let reason = match &state {
        ContainerState { waiting: Some(waiting), .. } => {
            waiting.reason.clone().unwrap_or_else(|| "waiting".to_owned())
        }
        ContainerState { terminated: Some(ended), .. } if ended.exit_code != 0 => {
            ended.reason.clone().unwrap_or_else(|| "ended".to_owned())
        }
        _ => return None,
    };
    let message = state.waiting.and_then(|waiting| waiting.message);
    match last_words.or(message) {
        Some(words) => Some(format!("{reason}: {}", cut(&words, MESSAGE))),
        None => Some(reason),
    }
}

/// The last line of a termination message, or the exit code.
fn last_words(state: &ContainerState) -> Option<String> {
    let ended = state.terminated.as_ref()?;
    let message = ended.message.as_deref().unwrap_or_default();
    let last = message.lines().rev().find(|line| !line.trim().is_empty());
    Some(
        last.map_or_else(
            || format!("exit code {}", ended.exit_code),
            |line| line.trim().to_owned(),
        ),
    )
}
