//! What was installed: in which mode, in which versions, and where it runs.

use super::*;

fn check(change: impl FnOnce(&mut Value), expect: &[&str]) {
    check_after(change, None, expect);
}

/// The words that the plugin is started with.
fn start(value: &mut Value, words: &[&str]) {
    value["plugin"]["spec"]["template"]["spec"]["containers"][0]["args"] = json!(words);
}

/// No device has the controller's taint, no controller is there, and no class of its own.
fn scheduler(value: &mut Value) {
    start(value, &["--mode", "scheduler"]);
    untaint(value, 0..3);
    value["lease"] = Value::Null;
    value["classes"] = json!([]);
}

fn untaint(value: &mut Value, devices: std::ops::Range<usize>) {
    for device in devices {
        value["slices"][0]["spec"]["devices"][device]["taints"] = json!([]);
    }
}

#[test]
fn all_signs_have_to_tell_one_mode() {
    check(scheduler, &[]);
    check_after(scheduler, Some(Mode::Scheduler), &[]);
    check(
        |value| {
            scheduler(value);
            start(value, &["--mode=scheduler"]);
        },
        &[],
    );
    // Filled in when the pod starts.
    check(
        |value| {
            scheduler(value);
            start(value, &["--mode=$(MODE)"]);
        },
        &[],
    );
    check(
        |value| untaint(value, 0..1),
        &[
            "F Mode: signs of both: controller (DaemonSet lanemate-kubelet-plugin, a controller is at work, 2 devices with the \
 controller's taint) and scheduler (without it n1/gpu-0)",
        ],
    );
    check(
        |value| untaint(value, 0..3),
        &[
            "F Mode: signs of both: controller (DaemonSet lanemate-kubelet-plugin, a controller is at work) and scheduler \
 (no device has the controller's taint)",
        ],
    );
    check(
        |value| {
            untaint(value, 0..3);
            value["plugin"] = Value::Null;
        },
        &[
            "F Mode: signs of both: controller (a controller is at work) and scheduler (no device has the controller's \
 taint)",
            "N Plugin: no DaemonSet lanemate-kubelet-plugin in namespace lanemate-system, but there are slices: it was \
 started in another way",
        ],
    );
    check(
        |value| start(value, &["--mode", "scheduler"]),
        &[
            "F Mode: signs of both: controller (a controller is at work, all devices have the controller's taint) and \
 scheduler (DaemonSet lanemate-kubelet-plugin)",
            "N Controller: c-1, lease renewed 5s ago, but in mode scheduler none is needed",
            "N ResourceClasses: 1 that nobody serves: pair",
        ],
    );
    check_after(
        |_| (),
        Some(Mode::Scheduler),
        &[
            "F Mode: signs of both: controller (DaemonSet lanemate-kubelet-plugin, a controller is at work, all devices have \
 the controller's taint) and scheduler (--mode)",
            "N Controller: c-1, lease renewed 5s ago, but in mode scheduler none is needed",
            "N ResourceClasses: 1 that nobody serves: pair",
        ],
    );
}

#[test]
fn where_nothing_tells_the_mode_the_version_does() {
    let mut value = cluster();
    for name in ["slices", "claims", "pods", "foreign"] {
        value[name] = json!([]);
    }
    for name in ["plugin", "lease"] {
        value[name] = Value::Null;
    }
    let found = read(&value);
    for (version, expect) in [((1, 35), Mode::Scheduler), ((1, 36), Mode::Controller)] {
        let (mode, check) = mode::mode(None, &found, version);
        assert_eq!((mode, check.result), (expect, Outcome::Ok));
        assert_eq!(mode::unread(None, version).0, expect);
    }
    assert_eq!(mode::unread(Some(Mode::Scheduler), (1, 37)).0, Mode::Scheduler);
}

#[test]
fn in_mode_scheduler_neither_controller_nor_classes_are_needed() {
    check(
        |value| {
            let classes = value["classes"].clone();
            scheduler(value);
            value["classes"] = classes;
        },
        &["N ResourceClasses: 1 that nobody serves: pair"],
    );
}

#[test]
fn versions_that_do_not_go_together_are_named() {
    check(
        |value| value["nodes"][0]["status"]["nodeInfo"]["kubeletVersion"] = json!("v1.33.9-gke.1"),
        &["F Kubelets: too old: n1 has v1.33.9-gke.1"],
    );
    check(|value| value["nodes"][0]["status"]["nodeInfo"] = Value::Null, &[]);
    let image = |image: &'static str| {
        move |value: &mut Value| {
            value["plugin"]["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        }
    };
    let own = env!("CARGO_PKG_VERSION");
    let words = format!("N Lanemate: kubelet plugin 9.1.0, this program {own}");
    check(image("example.com:5000/lanemate/plugin:v9.1.0"), &[&words]);
    check(image("example.com/plugin:9.1.0@sha256:00"), &[&words]);
    check(image("example.com:5000/plugin"), &[]);
    check(image("example.com/plugin@sha256:00"), &[]);
    let words = format!("N Lanemate: kubelet plugin {own}, controller 9.1.0, this program {own}");
    check(
        |value| {
            value["controller"] = json!({ "spec": { "selector": {}, "template": { "spec": {
                "containers": [{ "name": "c", "image": "example.com/controller:9.1.0" }] } } } });
        },
        &[&words],
    );
}

/// One of two nodes has a plugin that is not ready.
fn broken(status: Value) -> impl FnOnce(&mut Value) {
    move |value| {
        value["plugin"]["status"]["desiredNumberScheduled"] = json!(2);
        let mut pod = pod("DaemonSet", "lanemate-kubelet-plugin", status);
        pod["spec"]["nodeName"] = json!("n2");
        value["pods"].as_array_mut().unwrap().push(pod);
    }
}

#[test]
fn a_plugin_that_is_not_ready_says_why() {
    let container = |state: Value, last: Value| {
        json!({ "phase": "Running", "containerStatuses": [{ "name": "plugin", "image": "", "imageID": "",
            "ready": false, "restartCount": 3, "state": state, "lastState": last }] })
    };
    let ended = json!({ "terminated": { "exitCode": 2, "reason": "Error",
        "message": "starting\nread /sys: not found\n" } });
    let waiting =
        |reason: &str| json!({ "waiting": { "reason": reason, "message": "back-off 5m" } });
    let rows = [
        (
            container(waiting("CrashLoopBackOff"), ended.clone()),
            "CrashLoopBackOff: read /sys: not found",
        ),
        (container(waiting("ImagePullBackOff"), json!({})), "ImagePullBackOff: back-off 5m"),
        (container(ended, json!({})), "Error: read /sys: not found"),
        (
            container(waiting("CrashLoopBackOff"), json!({ "terminated": { "exitCode": 137 } })),
            "CrashLoopBackOff: exit code 137",
        ),
        (container(json!({ "running": {} }), json!({})), "its readiness probe fails"),
        (json!({ "phase": "Pending" }), "Pending"),
        (json!({ "phase": "Failed", "reason": "Evicted" }), "Evicted"),
        (
            json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False",
                "message": "no room" }] }),
            "not scheduled: no room",
        ),
    ];
    for (status, reason) in rows {
        let words = format!("F Plugin: ready on 1 of 2 nodes; n2: {reason}");
        check(broken(status), &[&words]);
    }
}

#[test]
fn a_plugin_that_is_nowhere_is_missed() {
    check(
        |value| value["plugin"] = Value::Null,
        &[
            "N Plugin: no DaemonSet lanemate-kubelet-plugin in namespace lanemate-system, but there are slices: it was \
           started in another way",
        ],
    );
    check(
        |value| {
            value["plugin"] = Value::Null;
            value["slices"] = json!([]);
        },
        &[
            "F Plugin: no DaemonSet lanemate-kubelet-plugin in namespace lanemate-system",
            "F Devices: no slice of lanemate.dev offers any",
        ],
    );
    check(
        |value| value["plugin"]["status"]["desiredNumberScheduled"] = json!(0),
        &["F Plugin: its DaemonSet wants it on no node"],
    );
}

#[test]
fn a_controller_that_does_not_work_says_why() {
    check(
        |value| value["lease"] = Value::Null,
        &[
            "F Controller: none: nobody holds the lease; no Deployment lanemate-controller in namespace \
           lanemate-system",
        ],
    );
    let deployed = |value: &mut Value| {
        value["lease"] = Value::Null;
        value["controller"] = json!({ "spec": { "selector": {}, "template": {} } });
    };
    check(deployed, &["F Controller: none: nobody holds the lease"]);
    check(
        |value| {
            deployed(value);
            let status = json!({ "phase": "Pending" });
            let pod = pod("ReplicaSet", "lanemate-controller-7d9f", status);
            value["pods"].as_array_mut().unwrap().push(pod);
        },
        &["F Controller: none: nobody holds the lease; its pod: Pending"],
    );
}

#[test]
fn a_node_that_looks_like_having_devices_and_offers_none_is_named() {
    let labelled = |name: &str, label: &str| {
        let mut node = node(name);
        node["metadata"]["labels"] = json!({ label: "true" });
        node
    };
    let rows = [
        ("nvidia.com/gpu.present", "label nvidia.com/gpu.present"),
        (
            "feature.node.kubernetes.io/pci-10de.present",
            "label feature.node.kubernetes.io/pci-10de.present, NVIDIA",
        ),
        (
            "feature.node.kubernetes.io/pci-0200_15b3.present",
            "label feature.node.kubernetes.io/pci-0200_15b3.present, NVIDIA networking",
        ),
    ];
    for (label, sign) in rows {
        let add = |value: &mut Value| {
            value["nodes"].as_array_mut().unwrap().push(labelled("n2", label));
        };
        check(add, &[&format!("N Machines: devices, but no plugin, on n2 ({sign})")]);
        let running = |value: &mut Value| {
            add(value);
            broken(ready())(value);
            value["plugin"]["status"]["numberReady"] = json!(2);
        };
        let words = format!("F Machines: the plugin runs, but offers nothing, on n2 ({sign})");
        check(running, &[&words]);
    }
    let other = "feature.node.kubernetes.io/pci-8086.present";
    check(|value| value["nodes"].as_array_mut().unwrap().push(labelled("n2", other)), &[]);
    check(
        |value| {
            let mut node = node("n2");
            node["status"]["allocatable"] = json!({ "nvidia.com/gpu": "8" });
            value["nodes"].as_array_mut().unwrap().push(node);
        },
        &["N Machines: devices, but no plugin, on n2 (allocatable nvidia.com/gpu)"],
    );
}
