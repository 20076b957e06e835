//! Pods: their order, their claims together, where they may run.

use crate::scene::{Scene, allocated, claim, devices, list, text};

fn pod(name: &str, more: &str, claims: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n\
         spec: {{{more} containers: [], resourceClaims: [{claims}]}}\n"
    )
}

const TEMPLATE: &str = "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\n\
    metadata: {name: pair}\nspec: {spec: {devices: {requests: [{name: r, exactly: \
    {deviceClassName: gpu-rdma-pair}}]}}}\n";

fn node(name: &str, more: &str) -> String {
    format!("---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}{more}}}\n")
}

#[test]
fn a_claim_from_a_template_is_decided_with_its_pod() {
    let pods = pod("p", "", "{name: c, resourceClaimTemplateName: pair}");
    let answer = Scene::of("dgx-h100", &[TEMPLATE.to_owned(), pods]).json(0);
    let [allocation] = list(&answer, "/allocations") else { panic!("{answer}") };
    assert_eq!(text(allocation, "/claim"), "default/p-c");
    assert_eq!(text(allocation, "/pod"), "default/p");
}

#[test]
fn pods_of_higher_priority_come_first() {
    let one = "{name: c, resourceClaimTemplateName: pair}";
    let many: String = (0..9).map(|i| pod(&format!("low-{i}"), "priority: 1,", one)).collect();
    let claims = [TEMPLATE.to_owned(), many, pod("high", "priority: 2,", one)];
    let answer = Scene::of("dgx-h100", &claims).json(3);
    assert_eq!(text(&answer, "/allocations/0/pod"), "default/high");
    let refused: Vec<&str> = list(&answer, "/refused").iter().map(|r| text(r, "/pod")).collect();
    assert_eq!(refused, ["default/low-7", "default/low-8"]);
}

#[test]
fn the_claims_of_a_pod_stand_or_fall_together() {
    let both = "{name: a, resourceClaimName: a}, {name: b, resourceClaimName: b}";
    let claims = [
        claim("a", "gpu-rdma-pair", 5),
        claim("b", "gpu-rdma-pair", 4),
        pod("p", "", both),
        claim("c", "gpu-rdma-pair", 8),
    ];
    let answer = Scene::of("dgx-h100", &claims).json(3);
    let refused: Vec<&str> = list(&answer, "/refused").iter().map(|r| text(r, "/claim")).collect();
    assert_eq!(refused, ["default/a", "default/b"]);
    assert_eq!(text(&answer, "/allocations/0/claim"), "default/c");
}

#[test]
fn a_pod_runs_only_where_node_and_settled_claims_allow() {
    let settled = allocated("settled", &[]).replace(
        "allocation: {",
        "allocation: {nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, \
         operator: In, values: [n2]}]}]}, ",
    );
    let bound = "{name: s, resourceClaimName: settled}, {name: c, resourceClaimTemplateName: pair}";
    let free = "{name: c, resourceClaimTemplateName: pair}";
    let claims = [
        TEMPLATE.to_owned(),
        settled,
        node("n1", ", labels: {zone: z1}"),
        node("n2", ", labels: {zone: z2}"),
        node("n3", "") + "spec: {unschedulable: true}\n",
        pod("beside", "", bound),
        pod("zoned", "nodeSelector: {zone: z1},", free),
        pod("nowhere", "nodeSelector: {zone: z9},", free),
    ];
    let scene = Scene::new().host_as("n1", "dgx-h100").host_as("n2", "dgx-h100");
    let scene = scene.host_as("n3", "dgx-h100").file("class.yaml", &crate::scene::pair_class());
    let answer = scene.file("objects.yaml", &claims.concat()).json(3);
    let placed: Vec<(&str, &str)> = list(&answer, "/allocations")
        .iter()
        .map(|allocation| (text(allocation, "/pod"), text(allocation, "/node")))
        .collect();
    assert_eq!(placed, [("default/beside", "n2"), ("default/zoned", "n1")]);
    let reasons = list(&answer, "/refused/0/nodes");
    assert!(text(&reasons[0], "/reason").contains("node selector zone=z9 not met (zone=z1)"));
    assert_eq!(reasons.len(), 3);
}

#[test]
fn a_shared_claim_is_decided_once() {
    let shared = "{name: c, resourceClaimName: shared}";
    let claims = [claim("shared", "gpu-rdma-pair", 8), pod("p", "", shared), pod("q", "", shared)];
    let answer = Scene::of("dgx-h100", &claims).json(0);
    let [allocation] = list(&answer, "/allocations") else { panic!("{answer}") };
    assert_eq!((text(allocation, "/pod"), devices(allocation).len()), ("default/p", 16));
}

#[test]
fn a_pod_whose_shared_claim_was_refused_gets_nothing() {
    let shared = "{name: c, resourceClaimName: shared}";
    let more = format!("{shared}, {{name: d, resourceClaimTemplateName: pair}}");
    let claims = [
        TEMPLATE.to_owned(),
        claim("shared", "gpu-rdma-pair", 9),
        pod("p", "", shared),
        pod("q", "", &more),
    ];
    let answer = Scene::of("dgx-h100", &claims).json(3);
    assert_eq!(text(&answer, "/refused/1/claim"), "default/q-d");
    assert!(text(&answer, "/refused/1/reason").contains("claim default/shared"));
    assert!(list(&answer, "/allocations").is_empty());
}
