//! Rows of pods and clusters for every rule, with the reason that a person reads.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{BoundVolume, Surroundings};
use super::*;

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn needs(labels: Value, spec: Value) -> PodNeeds {
    let meta = json!({"namespace": "ns", "name": "p", "labels": labels});
    PodNeeds::of(&typed::<Pod>(json!({"metadata": meta, "spec": spec})))
}

fn node_of(name: &str, labels: Value, allocatable: Value) -> NodeView {
    NodeView::of(&typed(json!({
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": allocatable},
    })))
}

fn node(allocatable: Value) -> NodeView {
    node_of("n1", json!({"kubernetes.io/hostname": "n1"}), allocatable)
}

fn judged(pod: &PodNeeds, node: &NodeView, load: &NodeLoad) -> String {
    told(fits_fully(pod, node, load, &Around::default(), &Volumes::default()))
}

fn told(result: Result<(), Unfit>) -> String {
    result.map_or_else(|unfit| unfit.reason, |()| "fits".to_owned())
}

fn container(requests: Value) -> Value {
    json!({"name": "c", "resources": {"requests": requests}})
}

#[test]
fn a_pod_needs_what_its_containers_ask_for_at_the_worst_moment() {
    let init = |cpu: &str, always: bool| {
        let mut init = container(json!({"cpu": cpu}));
        if always {
            init["restartPolicy"] = json!("Always");
        }
        init
    };
    let two = json!([container(json!({"cpu": "1"})), container(json!({"cpu": "500m"}))]);
    let rows = [
        (json!({"containers": two}), "1500m"),
        (json!({"containers": two, "overhead": {"cpu": "100m"}}), "1600m"),
        (json!({"containers": two, "initContainers": [init("2", false)]}), "2"),
        (json!({"containers": two, "initContainers": [init("1", false)]}), "1500m"),
        (json!({"containers": two, "initContainers": [init("1", true)]}), "2500m"),
        // A sidecar that starts before an init container runs beside it; one that starts later does not.
        (json!({"containers": two, "initContainers": [init("1", true), init("3", false)]}), "4"),
        (json!({"containers": two, "initContainers": [init("3", false), init("1", true)]}), "3"),
        (
            json!({"containers": two, "initContainers": [init("3", false)], "overhead": {"cpu": "1"}}),
            "4",
        ),
        (json!({"containers": two, "resources": {"requests": {"cpu": "4"}}}), "4"),
        (json!({"containers": two, "resources": {"requests": {"memory": "1Gi"}}}), "1500m"),
        (
            json!({"containers": two, "resources": {"requests": {"cpu": "1"}}, "overhead": {"cpu": "1"}}),
            "2",
        ),
        (json!({"containers": [container(json!({"cpu": "1500u"}))]}), "2m"),
    ];
    for (spec, expect) in rows {
        let needs = needs(json!({}), spec.clone());
        assert_eq!(
            needs.requests.get("cpu").map(ToString::to_string),
            Some(expect.to_owned()),
            "{spec}"
        );
    }
}

#[test]
fn a_running_pod_that_is_resized_needs_room_for_either_size() {
    let of = |reason: &str, allocated: &str| {
        let pod: Pod = typed(json!({
            "metadata": {"namespace": "ns", "name": "p"},
            "spec": {"containers": [container(json!({"cpu": "4"}))]},
            "status": {
                "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
                "containerStatuses": [{
                    "name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                    "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": allocated},
                }],
            },
        }));
        PodNeeds::of(&pod).requests.get("cpu").map(ToString::to_string)
    };
    assert_eq!(of("Deferred", "2").as_deref(), Some("4"));
    assert_eq!(of("Deferred", "6").as_deref(), Some("6"));
    assert_eq!(of("Infeasible", "2").as_deref(), Some("2"));
}

#[test]
fn resources_and_pods_are_counted() {
    let asking = |requests: Value| needs(json!({}), json!({"containers": [container(requests)]}));
    let allocatable = json!({"pods": "3", "cpu": "8", "memory": "16Gi", "hugepages-2Mi": "4Mi",
        "ephemeral-storage": "10G", "x.dev/y": "2"});
    let rows = [
        (json!({}), "fits"),
        (json!({"cpu": "2"}), "fits"),
        (json!({"cpu": "2001m"}), "needs 2001m cpu; 2 of 8 are left"),
        (json!({"memory": "4Gi"}), "fits"),
        (json!({"memory": "5Gi"}), "needs 5Gi memory; 4Gi of 16Gi are left"),
        (json!({"ephemeral-storage": "11G"}), "needs 11G ephemeral-storage; 10G of 10G are left"),
        (json!({"hugepages-2Mi": "6Mi"}), "needs 6Mi hugepages-2Mi; 4Mi of 4Mi are left"),
        (json!({"hugepages-1Gi": "1Gi"}), "needs 1Gi hugepages-1Gi; 0 of 0 are left"),
        (json!({"x.dev/y": "1"}), "fits"),
        (json!({"x.dev/y": "2"}), "needs 2 x.dev/y; 1 of 2 are left"),
        (json!({"x.dev/z": "1"}), "needs 1 x.dev/z; 0 of 0 are left"),
        (json!({"x.dev/z": "0"}), "fits"),
        // kube-scheduler does not compare resources of such names.
        (json!({"storage": "1Ti"}), "fits"),
    ];
    let mut load = NodeLoad::default();
    load.add(&asking(json!({"cpu": "6", "memory": "12Gi", "x.dev/y": "1"})));
    for (requests, expect) in rows {
        let pod = asking(requests.clone());
        assert_eq!(judged(&pod, &node(allocatable.clone()), &load), expect, "{requests}");
    }
    load.add(&asking(json!({})));
    load.add(&asking(json!({"cpu": "6"})));
    let none = asking(json!({}));
    let full = "no room for a pod: 3 of 3 run here";
    assert_eq!(judged(&none, &node(allocatable.clone()), &load), full);
    load.remove(&none);
    let over = "needs 1m cpu; 0 of 8 are left";
    assert_eq!(judged(&asking(json!({"cpu": "1m"})), &node(allocatable), &load), over);
    let bound = json!({"nodeName": "n1", "containers": [container(json!({"cpu": "99"}))]});
    assert_eq!(judged(&needs(json!({}), bound), &node(json!({})), &load), "fits", "it is there");
    assert_eq!(
        judged(&none, &node(json!({})), &NodeLoad::default()),
        "no room for a pod: 0 of 0 run here"
    );
    assert_eq!(judged(&asking(json!({"cpu": "99"})), &NodeView::named("n1"), &load), "fits");
}

#[test]
fn a_host_port_is_given_once_per_protocol_and_address() {
    let holding =
        |ports: Value| needs(json!({}), json!({"containers": [{"name": "c", "ports": ports}]}));
    let port = |port: i32, protocol: &str, ip: &str| json!([{"containerPort": 1, "hostPort": port, "protocol": protocol, "hostIP": ip}]);
    let rows = [
        (port(80, "TCP", ""), port(80, "TCP", ""), "host port 80/TCP is in use"),
        (port(80, "TCP", ""), port(80, "", "0.0.0.0"), "host port 80/TCP is in use"),
        (port(80, "TCP", ""), port(81, "TCP", ""), "fits"),
        (port(80, "TCP", ""), port(80, "UDP", ""), "fits"),
        (port(80, "TCP", "10.0.0.1"), port(80, "TCP", "10.0.0.2"), "fits"),
        (port(80, "TCP", "10.0.0.1"), port(80, "TCP", ""), "host port 80/TCP is in use"),
        (port(80, "TCP", ""), port(80, "TCP", "10.0.0.1"), "host port 10.0.0.1:80/TCP is in use"),
        (json!([{"containerPort": 80}]), port(80, "TCP", ""), "fits"),
        (port(0, "TCP", ""), port(0, "TCP", ""), "fits"),
    ];
    for (held, wanted, expect) in rows {
        let mut load = NodeLoad::default();
        load.add(&holding(held.clone()));
        let told = judged(&holding(wanted.clone()), &NodeView::named("n1"), &load);
        assert_eq!(told, expect, "{held} {wanted}");
    }
    let sidecar = json!({"name": "s", "restartPolicy": "Always", "ports": port(9, "TCP", "")});
    let init = json!({"name": "i", "ports": port(8, "TCP", "")});
    let pod = needs(json!({}), json!({"containers": [], "initContainers": [init, sidecar]}));
    assert_eq!(pod.ports.iter().map(ToString::to_string).collect::<Vec<_>>(), ["9/TCP"]);
}

#[test]
fn a_node_that_is_not_ready_or_not_wanted_is_refused() {
    let view = |condition: Value| {
        NodeView::of(&typed(json!({
            "metadata": {"name": "n1"}, "status": {"conditions": condition},
        })))
    };
    let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
    let pod = needs(json!({}), json!({"containers": []}));
    let load = NodeLoad::default();
    assert_eq!(judged(&pod, &view(ready("True")), &load), "fits");
    assert_eq!(judged(&pod, &view(json!([])), &load), "fits");
    for status in ["False", "Unknown"] {
        assert_eq!(judged(&pod, &view(ready(status)), &load), "the node is not ready");
        let bound = needs(json!({}), json!({"containers": [], "nodeName": "n1"}));
        assert_eq!(judged(&bound, &view(ready(status)), &load), "fits");
    }
    let mut cordoned = view(ready("True"));
    cordoned.unschedulable = true;
    assert_eq!(judged(&pod, &cordoned, &load), "the node is cordoned (spec.unschedulable)");
    let picky = needs(json!({}), json!({"containers": [], "nodeSelector": {"zone": "z"}}));
    let expect = "node selector zone=z not met (zone is not set)";
    assert_eq!(judged(&picky, &view(ready("True")), &load), expect);
}

/// Nodes a1 and a2 in zone a, b1 in zone b, c in none; and pods `namespace/app` on them.
fn around(pods: &[(&str, &str, &str, Value)]) -> (Surroundings, Vec<Arc<NodeView>>) {
    let mut surroundings = Surroundings::default();
    let nodes: Vec<_> = [("a1", "a"), ("a2", "a"), ("b1", "b"), ("c", "")]
        .iter()
        .map(|(name, zone)| {
            let mut labels = json!({"kubernetes.io/hostname": name});
            if !zone.is_empty() {
                labels["zone"] = json!(zone);
            }
            Arc::new(node_of(name, labels, json!({"pods": "9"})))
        })
        .collect();
    for node in &nodes {
        surroundings.apply_node(Arc::clone(node));
    }
    let labels = |team: &str| [("team".to_owned(), team.to_owned())].into();
    surroundings.apply_namespace("ns", labels("x"));
    surroundings.apply_namespace("other", labels("y"));
    for (index, (namespace, app, node, spec)) in pods.iter().enumerate() {
        let mut pod = needs(json!({"app": app}), spec.clone());
        (*namespace).clone_into(&mut pod.namespace);
        surroundings.apply_pod(((*namespace).to_owned(), format!("p{index}")), node, &pod);
    }
    (surroundings, nodes)
}

/// The nodes on which a pod is allowed.
fn allowed(pods: &[(&str, &str, &str, Value)], spec: &Value) -> String {
    let (surroundings, nodes) = around(pods);
    let pod = needs(json!({"app": "web"}), spec.clone());
    let around = surroundings.around(&pod);
    let load = NodeLoad::default();
    let fitting = nodes
        .iter()
        .filter(|node| fits_fully(&pod, node, &load, &around, &Volumes::default()).is_ok());
    fitting.map(|node| node.name.as_str()).collect::<Vec<_>>().join(" ")
}

fn rule(kind: &str, term: Value) -> Value {
    json!({"containers": [], "affinity": {kind: {
        "requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

fn term(app: &str, key: &str) -> Value {
    json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key})
}

#[test]
fn required_affinity_between_pods_is_judged_by_domain() {
    let plain = json!({"containers": []});
    let db = [("ns", "db", "a1", plain.clone())];
    let foreign = [("other", "db", "a1", plain.clone())];
    let (near, far) = ("podAffinity", "podAntiAffinity");
    let with = |mut term: Value, key: &str, value: Value| {
        term[key] = value;
        term
    };
    let team = |team: &str| json!({"matchLabels": {"team": team}});
    let rows = [
        (&db[..], rule(near, term("db", "zone")), "a1 a2"),
        (&db, rule(near, term("db", "kubernetes.io/hostname")), "a1"),
        (&db, rule(near, term("cache", "zone")), ""),
        (&db, rule(far, term("db", "zone")), "b1 c"),
        (&db, rule(far, term("db", "kubernetes.io/hostname")), "a2 b1 c"),
        (&db, rule(far, term("db", "rack")), "a1 a2 b1 c"),
        // The first of its kind may start anywhere that has the key.
        (&db, rule(near, term("web", "zone")), "a1 a2 b1"),
        (&foreign, rule(near, term("db", "zone")), ""),
        (&foreign, rule(near, with(term("db", "zone"), "namespaces", json!(["other"]))), "a1 a2"),
        (&foreign, rule(far, with(term("db", "zone"), "namespaceSelector", json!({}))), "b1 c"),
        (&foreign, rule(far, with(term("db", "zone"), "namespaceSelector", team("y"))), "b1 c"),
        (
            &foreign,
            rule(far, with(term("db", "zone"), "namespaceSelector", team("x"))),
            "a1 a2 b1 c",
        ),
        // A term without a selector selects no pod.
        (&db, rule(far, json!({"topologyKey": "zone"})), "a1 a2 b1 c"),
        (&db, rule(far, json!({"topologyKey": "zone", "labelSelector": {}})), "b1 c"),
    ];
    for (pods, spec, expect) in rows {
        assert_eq!(allowed(pods, &spec), expect, "{spec}");
    }
    // Both terms have to be matched by one pod.
    let mut both = rule(near, term("db", "zone"));
    let tier = json!({"labelSelector": {"matchLabels": {"tier": "1"}}, "topologyKey": "zone"});
    both["affinity"][near]["requiredDuringSchedulingIgnoredDuringExecution"]
        .as_array_mut()
        .unwrap()
        .push(tier);
    assert_eq!(allowed(&db, &both), "");
}

#[test]
fn required_anti_affinity_of_running_pods_counts_against_new_ones() {
    let plain = json!({"containers": []});
    for (against, expect) in [
        (term("web", "zone"), "b1 c"),
        (term("web", "kubernetes.io/hostname"), "a2 b1 c"),
        (term("db", "zone"), "a1 a2 b1 c"),
    ] {
        let pods = [("ns", "db", "a1", rule("podAntiAffinity", against.clone()))];
        assert_eq!(allowed(&pods, &plain), expect, "{against}");
        let (mut surroundings, _) = around(&pods);
        surroundings.remove_pod(&("ns".to_owned(), "p0".to_owned()));
        let pod = needs(json!({"app": "web"}), plain.clone());
        assert_eq!(surroundings.around(&pod), Around::default(), "a pod gone repels nobody");
    }
    let elsewhere = [("other", "db", "a1", rule("podAntiAffinity", term("web", "zone")))];
    assert_eq!(allowed(&elsewhere, &plain), "b1 c", "its own namespace was read as ns");
}

#[test]
fn spreading_keeps_the_skew() {
    let plain = || json!({"containers": []});
    let web = |node: &'static str| ("ns", "web", node, plain());
    let spread = |more: Value| {
        let mut rule = json!({"maxSkew": 1, "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}});
        for (key, value) in more.as_object().unwrap() {
            rule[key] = value.clone();
        }
        json!({"containers": [], "topologySpreadConstraints": [rule]})
    };
    let select_a = |mut spec: Value| {
        spec["nodeSelector"] = json!({"zone": "a"});
        spec
    };
    let rows = [
        (vec![], spread(json!({})), "a1 a2 b1"),
        (vec![web("a1")], spread(json!({})), "b1"),
        (vec![web("a1"), web("a2")], spread(json!({"maxSkew": 3})), "a1 a2 b1"),
        (vec![web("a1"), web("a2")], spread(json!({"maxSkew": 2})), "b1"),
        (vec![web("a1"), web("b1")], spread(json!({})), "a1 a2 b1"),
        (vec![web("a1")], spread(json!({"whenUnsatisfiable": "ScheduleAnyway"})), "a1 a2 b1 c"),
        (vec![("other", "web", "a1", plain())], spread(json!({})), "a1 a2 b1"),
        (vec![("ns", "db", "a1", plain())], spread(json!({})), "a1 a2 b1"),
        // With fewer domains than asked for the least count is 0.
        (vec![web("a1"), web("b1")], spread(json!({"minDomains": 3})), ""),
        (vec![web("a1"), web("b1")], spread(json!({"minDomains": 2})), "a1 a2 b1"),
        // Zone b is not eligible for a pod that selects zone a, unless the policy says so.
        (vec![web("a1")], select_a(spread(json!({}))), "a1 a2"),
        (vec![web("a1")], select_a(spread(json!({"nodeAffinityPolicy": "Ignore"}))), ""),
        (vec![web("a1")], spread(json!({"labelSelector": {}})), "a1 a2 b1"),
        (vec![web("a1")], spread(json!({"labelSelector": null})), "a1 a2 b1"),
        (vec![web("a1")], spread(json!({"matchLabelKeys": ["app", "absent"]})), "b1"),
        (vec![web("a1")], spread(json!({"topologyKey": "kubernetes.io/hostname"})), "a2 b1 c"),
    ];
    for (pods, spec, expect) in rows {
        assert_eq!(allowed(&pods, &spec), expect, "{pods:?} {spec}");
    }
}

#[test]
fn spreading_honours_taints_when_told_to_and_ignores_pods_that_end() {
    let rule = |policy: &str| {
        json!({"containers": [], "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": policy,
            "labelSelector": {"matchLabels": {"app": "web"}}}]})
    };
    let web = ("ns", "web", "a1", json!({"containers": []}));
    let (mut surroundings, nodes) = around(std::slice::from_ref(&web));
    let mut tainted = (*nodes[2]).clone();
    tainted.taints.push(typed(json!({"key": "k", "effect": "NoSchedule"})));
    surroundings.apply_node(Arc::new(tainted));
    let judge = |surroundings: &Surroundings, policy: &str| {
        let pod = needs(json!({"app": "web"}), rule(policy));
        let around = surroundings.around(&pod);
        told(fits_fully(&pod, &nodes[0], &NodeLoad::default(), &around, &Volumes::default()))
    };
    let unmet = "topology spread not met: 1 such pods run in zone=a, 0 where there are fewest, and \
                 maxSkew is 1";
    assert_eq!(judge(&surroundings, "Ignore"), unmet);
    assert_eq!(judge(&surroundings, "Honor"), "fits", "zone b does not count");
    let mut ending = needs(json!({"app": "web"}), json!({"containers": []}));
    ending.terminating = true;
    surroundings.apply_pod(("ns".to_owned(), "p0".to_owned()), "a1", &ending);
    assert_eq!(judge(&surroundings, "Ignore"), "fits");
}

#[test]
fn a_bound_volume_keeps_the_pod_where_it_can_be_reached() {
    let zone = "topology.kubernetes.io/zone";
    let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "zone", "operator": "In", "values": ["b"]}]}]}});
    let rows = [
        (json!({}), json!({}), "fits"),
        (
            json!({}),
            json!({"nodeAffinity": affinity}),
            "volume of data cannot be reached: zone In [b] (zone=a)",
        ),
        (json!({zone: "a"}), json!({}), "fits"),
        (json!({zone: "b__a"}), json!({}), "fits"),
        (
            json!({zone: "b__c"}),
            json!({}),
            "volume of data is in topology.kubernetes.io/zone=b or c (topology.kubernetes.io/zone=a)",
        ),
        (json!({"failure-domain.beta.kubernetes.io/zone": "a"}), json!({}), "fits"),
        (
            json!({"topology.kubernetes.io/region": "r"}),
            json!({}),
            "volume of data is in topology.kubernetes.io/region=r (topology.kubernetes.io/region is not set)",
        ),
    ];
    let node = node_of("n1", json!({"zone": "a", zone: "a"}), json!({"pods": "1"}));
    let claim = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    let pod = needs(json!({}), json!({"containers": [], "volumes": claim}));
    let judge = |node: &NodeView, volumes: &Volumes| {
        told(fits_fully(&pod, node, &NodeLoad::default(), &Around::default(), volumes))
    };
    for (labels, spec, expect) in rows {
        let volume = typed(json!({"metadata": {"name": "pv", "labels": labels}, "spec": spec}));
        let mut volumes = Volumes::default();
        volumes.bind("ns", "data", BoundVolume::of(&volume));
        assert_eq!(judge(&node, &volumes), expect, "{labels} {spec}");
        assert_eq!(pod.unmodelled(&volumes), None);
        volumes.unbind("ns", "data");
        assert_eq!(judge(&node, &volumes), "fits");
        let unbound = "PersistentVolumeClaim data is not bound to a volume";
        assert_eq!(pod.unmodelled(&volumes).as_deref(), Some(unbound));
    }
    let mut volumes = Volumes::default();
    let volume = typed(json!({"metadata": {"labels": {zone: "b"}}}));
    volumes.bind("ns", "data", BoundVolume::of(&volume));
    let nowhere = node_of("n1", json!({}), json!({"pods": "1"}));
    assert_eq!(judge(&nowhere, &volumes), "fits", "a node without a place");
}

#[test]
fn what_is_not_modelled_is_named() {
    let volume = |volume: Value| {
        let mut named = volume;
        named["name"] = json!("v");
        json!({"containers": [], "volumes": [named]})
    };
    let rows = [
        (json!({"containers": []}), None),
        (volume(json!({"emptyDir": {}})), None),
        (volume(json!({"ephemeral": {}})), Some("volume v is made with the pod")),
        (
            volume(json!({"rbd": {"image": "i", "monitors": []}})),
            Some("volume v is a disk that pods cannot share"),
        ),
        (
            volume(json!({"persistentVolumeClaim": {"claimName": "once"}})),
            Some("the volume of PersistentVolumeClaim once is ReadWriteOncePod"),
        ),
        (json!({"containers": [], "schedulerName": "default-scheduler"}), None),
        (json!({"containers": [], "schedulerName": "own"}), Some("the pod is scheduled by own")),
        (
            json!({"containers": [], "schedulingGroup": {"podGroupName": "g"}}),
            Some("the pod is scheduled with a group"),
        ),
    ];
    let mut volumes = Volumes::default();
    let once = typed(json!({"spec": {"accessModes": ["ReadWriteOncePod"]}}));
    volumes.bind("ns", "once", BoundVolume::of(&once));
    for (spec, expect) in rows {
        let pod = needs(json!({}), spec.clone());
        assert_eq!(pod.unmodelled(&volumes).as_deref(), expect, "{spec}");
    }
}

fn any_needs() -> impl Strategy<Value = PodNeeds> {
    let names = ["cpu", "memory", "x.dev/y"];
    let suffixes = ["", "m", "Ki", "Ei", "u"];
    let amount = (0..names.len(), 0_u64..2000, 0..suffixes.len());
    let port = (1..4_i32, any::<bool>());
    (prop::collection::vec(amount, 0..4), prop::collection::vec(port, 0..3)).prop_map(
        move |(amounts, ports)| {
            let containers: Vec<Value> = amounts
                .iter()
                .map(|(name, number, suffix)| {
                    container(json!({names[*name]: format!("{number}{}", suffixes[*suffix])}))
                })
                .collect();
            let ports: Vec<Value> = ports
                .iter()
                .map(|(port, tcp)| {
                    let protocol = if *tcp { "TCP" } else { "UDP" };
                    json!({"containerPort": 1, "hostPort": port, "protocol": protocol})
                })
                .collect();
            let mut all = containers;
            all.push(json!({"name": "p", "ports": ports}));
            needs(json!({}), json!({"containers": all}))
        },
    )
}

proptest! {
    #[test]
    fn removing_a_pod_undoes_adding_it_in_whatever_order(
        pods in prop::collection::vec(any_needs(), 1..8),
        order in any::<prop::sample::Index>(),
    ) {
        let first = order.index(pods.len());
        let mut expect = NodeLoad::default();
        pods.iter().enumerate().filter(|(index, _)| *index != first).for_each(|(_, pod)| expect.add(pod));
        let mut load = NodeLoad::default();
        pods.iter().for_each(|pod| load.add(pod));
        load.remove(&pods[first]);
        prop_assert_eq!(&load, &expect);
        for (_, pod) in pods.iter().enumerate().filter(|(index, _)| *index != first) {
            load.remove(pod);
        }
        prop_assert_eq!(load, NodeLoad::default());
    }
}
