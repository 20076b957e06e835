//! Rows of pods, nodes and the reason why the one may not run on the other.

use serde_json::{Value, json};

use super::*;

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A node `n1` in zone `z1` with 8 GPUs, and the given parts of its spec.
fn node(spec: Value) -> NodeView {
    NodeView::of(&typed(json!({
        "metadata": {"name": "n1", "labels": {
            "kubernetes.io/hostname": "n1", "zone": "z1", "gpus": "8", "empty": ""}},
        "spec": spec,
    })))
}

fn reason(pod_spec: Value, node: &NodeView) -> String {
    match fits(&typed(json!({"spec": pod_spec})), node) {
        Ok(()) => "fits".to_owned(),
        Err(unfit) => unfit.to_string(),
    }
}

fn affinity(terms: Value) -> Value {
    json!({"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

#[test]
fn a_pod_goes_where_it_is_bound_and_where_its_node_selector_is_met() {
    let rows = [
        (json!({}), "fits"),
        (json!({"nodeName": ""}), "fits"),
        (json!({"nodeName": "n1"}), "fits"),
        (json!({"nodeName": "n2"}), "the pod is bound to node n2"),
        (json!({"nodeSelector": {"zone": "z1"}}), "fits"),
        (json!({"nodeSelector": {"empty": ""}}), "fits"),
        (json!({"nodeSelector": {"zone": "z2"}}), "node selector zone=z2 not met (zone=z1)"),
        (json!({"nodeSelector": {"rack": ""}}), "node selector rack= not met (rack is not set)"),
        (
            json!({"nodeSelector": {"gpus": "8", "zone": "z2"}}),
            "node selector zone=z2 not met (zone=z1)",
        ),
    ];
    for (spec, expect) in rows {
        assert_eq!(reason(spec.clone(), &node(json!({}))), expect, "{spec}");
    }
    assert_eq!(fits(&Pod::default(), &node(json!({}))), Ok(()));
}

#[test]
fn each_operator_of_a_label_requirement_means_what_the_scheduler_means() {
    let rows = [
        ("zone", "In", json!(["z0", "z1"]), true),
        ("zone", "In", json!(["z2"]), false),
        ("zone", "In", json!([]), false),
        ("zone", "In", json!(null), false),
        ("rack", "In", json!(["r"]), false),
        ("zone", "NotIn", json!(["z2"]), true),
        ("zone", "NotIn", json!(["z1"]), false),
        ("zone", "NotIn", json!([]), false),
        ("rack", "NotIn", json!(["r"]), true),
        ("zone", "Exists", json!(null), true),
        ("zone", "Exists", json!(["z1"]), false),
        ("empty", "Exists", json!([]), true),
        ("rack", "Exists", json!(null), false),
        ("rack", "DoesNotExist", json!(null), true),
        ("zone", "DoesNotExist", json!(null), false),
        ("rack", "DoesNotExist", json!(["r"]), false),
        ("gpus", "Gt", json!(["7"]), true),
        ("gpus", "Gt", json!(["8"]), false),
        ("gpus", "Gt", json!(["-9"]), true),
        ("gpus", "Gt", json!(["7.5"]), false),
        ("gpus", "Gt", json!(["1", "2"]), false),
        ("gpus", "Gt", json!([]), false),
        ("zone", "Gt", json!(["0"]), false),
        ("rack", "Gt", json!(["0"]), false),
        ("gpus", "Lt", json!(["9"]), true),
        ("gpus", "Lt", json!(["8"]), false),
        ("gpus", "Lt", json!(["99999999999999999999"]), false),
        ("zone", "Like", json!(["z1"]), false),
        ("zone", "in", json!(["z1"]), false),
        ("zone", "", json!(["z1"]), false),
    ];
    for (key, operator, values, expect) in rows {
        let terms = json!([{"matchExpressions": [
            {"key": key, "operator": operator, "values": values}]}]);
        let fits = reason(affinity(terms), &node(json!({}))) == "fits";
        assert_eq!(fits, expect, "{key} {operator} {values}");
    }
}

#[test]
fn fields_of_a_node_are_its_name_alone() {
    let rows = [
        ("metadata.name", "In", json!(["n1"]), true),
        ("metadata.name", "In", json!(["n2"]), false),
        ("metadata.name", "In", json!(["n1", "n2"]), false),
        ("metadata.name", "In", json!([]), false),
        ("metadata.name", "NotIn", json!(["n2"]), true),
        ("metadata.name", "NotIn", json!(["n1"]), false),
        ("metadata.name", "Exists", json!([]), false),
        ("metadata.uid", "In", json!(["n1"]), false),
        ("metadata.uid", "NotIn", json!(["n2"]), false),
    ];
    for (key, operator, values, expect) in rows {
        let selector = typed(json!({"nodeSelectorTerms": [{"matchFields": [
            {"key": key, "operator": operator, "values": values}]}]}));
        let matches = node_selector_matches(&selector, &node(json!({})));
        assert_eq!(matches, expect, "{key} {operator} {values}");
    }
}

#[test]
fn terms_are_alternatives_and_requirements_of_a_term_hold_together() {
    let z = |zone: &str| json!({"key": "zone", "operator": "In", "values": [zone]});
    let name = |name: &str| json!({"key": "metadata.name", "operator": "In", "values": [name]});
    let rows = [
        (json!([{"matchExpressions": [z("z2")]}, {"matchExpressions": [z("z1")]}]), "fits"),
        (json!([{}, {"matchExpressions": [z("z1")]}]), "fits"),
        (json!([{"matchExpressions": [z("z1")], "matchFields": [name("n1")]}]), "fits"),
        (
            json!([{"matchExpressions": [z("z1")], "matchFields": [name("n2")]}]),
            "required node affinity not met: metadata.name In [n2] (node n1)",
        ),
        (
            json!([{"matchExpressions": [z("z1"), z("z2")]}]),
            "required node affinity not met: zone In [z2] (zone=z1)",
        ),
        (
            json!([{"matchExpressions": [{"key": "rack", "operator": "Exists"}]}, {}]),
            "required node affinity not met: rack Exists (rack is not set), \
             nor is its other term met",
        ),
        (
            json!([{"matchExpressions": [z("z3")]}, {}, {}]),
            "required node affinity not met: zone In [z3] (zone=z1), \
             nor is any of its 2 other terms met",
        ),
        (json!([{}]), "required node affinity not met: an empty term selects nothing"),
        (
            json!([{"matchExpressions": []}]),
            "required node affinity not met: an empty term selects nothing",
        ),
        (json!([]), "required node affinity not met: it has no terms"),
        (json!(null), "required node affinity not met: it has no terms"),
    ];
    for (terms, expect) in rows {
        assert_eq!(reason(affinity(terms.clone()), &node(json!({}))), expect, "{terms}");
    }
}

#[test]
fn node_selector_and_affinity_must_both_hold() {
    let mut spec = affinity(json!([{"matchExpressions": [
        {"key": "zone", "operator": "In", "values": ["z1"]}]}]));
    assert_eq!(reason(spec.clone(), &node(json!({}))), "fits");
    spec["nodeSelector"] = json!({"zone": "z2"});
    assert_eq!(reason(spec, &node(json!({}))), "node selector zone=z2 not met (zone=z1)");
}

#[test]
fn a_toleration_tolerates_the_taints_it_names() {
    let taint = json!({"key": "k", "value": "v", "effect": "NoSchedule"});
    let rows = [
        (json!(null), false),
        (json!([]), false),
        (json!([{"key": "k", "operator": "Exists"}]), true),
        (json!([{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]), true),
        (json!([{"key": "k", "operator": "Exists", "effect": ""}]), true),
        (json!([{"key": "k", "operator": "Exists", "effect": "NoExecute"}]), false),
        (json!([{"key": "other", "operator": "Exists"}]), false),
        (json!([{"operator": "Exists"}]), true),
        (json!([{"key": "", "operator": "Exists"}]), true),
        (json!([{"operator": "Exists", "effect": "NoExecute"}]), false),
        (json!([{"key": "k", "value": "v"}]), true),
        (json!([{"key": "k", "operator": "", "value": "v"}]), true),
        (json!([{"key": "k", "operator": "Equal", "value": "v"}]), true),
        (json!([{"key": "k", "operator": "Equal", "value": "w"}]), false),
        (json!([{"key": "k"}]), false),
        (json!([{"key": "k", "operator": "Like", "value": "v"}]), false),
        (json!([{"key": "a", "value": "v"}, {"key": "k", "value": "v"}]), true),
    ];
    for (tolerations, expect) in rows {
        let got = reason(json!({"tolerations": tolerations}), &node(json!({"taints": [taint]})));
        let expect = if expect { "fits" } else { "taint k=v:NoSchedule is not tolerated" };
        assert_eq!(got, expect, "{tolerations}");
    }
}

#[test]
fn numeric_tolerations_compare_the_value_of_the_taint_with_their_own() {
    for (taint, operator, value, expect) in [
        ("950", "Gt", "900", true),
        ("950", "Gt", "950", false),
        ("850", "Lt", "900", true),
        ("950", "Lt", "900", false),
        ("gold", "Gt", "1", false),
        ("950", "Gt", "gold", false),
    ] {
        let node = node(json!({"taints": [{"key": "sla", "value": taint, "effect": "NoExecute"}]}));
        let tolerations = json!([{"key": "sla", "operator": operator, "value": value}]);
        let fits = reason(json!({"tolerations": tolerations}), &node) == "fits";
        assert_eq!(fits, expect, "{taint} {operator} {value}");
    }
}

#[test]
fn only_hard_taints_repel_and_every_one_must_be_tolerated() {
    let rows = [
        (json!([{"key": "a", "effect": "PreferNoSchedule"}]), json!([]), "fits"),
        (
            json!([{"key": "a", "effect": "NoExecute"}]),
            json!([]),
            "taint a:NoExecute is not tolerated",
        ),
        (
            json!([{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}]),
            json!([{"key": "a", "operator": "Exists"}]),
            "taint b:NoSchedule is not tolerated",
        ),
        (
            json!([{"key": "a", "effect": "NoSchedule"}]),
            json!([{"key": "a", "operator": "Equal"}]),
            "fits",
        ),
    ];
    for (taints, tolerations, expect) in rows {
        let got = reason(json!({"tolerations": tolerations}), &node(json!({"taints": taints})));
        assert_eq!(got, expect, "{taints} {tolerations}");
    }
}

#[test]
fn a_cordoned_node_takes_only_pods_that_tolerate_the_cordon() {
    let cordoned = node(json!({"unschedulable": true}));
    let key = "node.kubernetes.io/unschedulable";
    let rows = [
        (json!([]), "the node is cordoned (spec.unschedulable)"),
        (json!([{"operator": "Exists"}]), "fits"),
        (json!([{"key": key, "operator": "Exists", "effect": "NoSchedule"}]), "fits"),
        (
            json!([{"key": key, "operator": "Exists", "effect": "NoExecute"}]),
            "the node is cordoned (spec.unschedulable)",
        ),
    ];
    for (tolerations, expect) in rows {
        let got = reason(json!({"tolerations": tolerations}), &cordoned);
        assert_eq!(got, expect, "{tolerations}");
    }
    assert_eq!(reason(json!({}), &node(json!({"unschedulable": false}))), "fits");
}

#[test]
fn a_bound_pod_minds_only_taints_that_evict() {
    let bound = json!({"nodeName": "n1"});
    let taint = |effect: &str| json!({"taints": [{"key": "a", "effect": effect}]});
    assert_eq!(reason(bound.clone(), &node(json!({"unschedulable": true}))), "fits");
    assert_eq!(reason(bound.clone(), &node(taint("NoSchedule"))), "fits");
    assert_eq!(reason(bound, &node(taint("NoExecute"))), "taint a:NoExecute is not tolerated");
}

#[test]
fn a_node_without_an_object_has_its_hostname_label_alone() {
    let node = NodeView::named("n7");
    assert_eq!(node.name, "n7");
    assert_eq!(reason(json!({"nodeSelector": {"kubernetes.io/hostname": "n7"}}), &node), "fits");
    assert_eq!(
        reason(json!({"nodeSelector": {"zone": "z1"}}), &node),
        "node selector zone=z1 not met (zone is not set)"
    );
}

#[test]
fn a_node_object_without_a_hostname_label_gets_none() {
    let node = NodeView::of(&typed(json!({"metadata": {"name": "n1"}})));
    assert_eq!(node, NodeView { name: "n1".to_owned(), ..NodeView::default() });
}
