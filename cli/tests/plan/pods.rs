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
fn a_priority_class_gives_its_priority() {
    let one = "{name: c, resourceClaimTemplateName: pair}";
    let class = "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\n\
                 metadata: {name: high}\nvalue: 1000\n";
    let pods = [
        pod("a", "priority: 5,", one),
        pod("b", "priorityClassName: high,", one),
        pod("c", "priorityClassName: other,", one),
    ];
    let claims = [TEMPLATE.to_owned(), class.to_owned(), pods.concat()];
    let answer = Scene::of("dgx-h100", &claims).args(&["-o", "json"]).run();
    let warning = "warning: pod default/c: spec.priorityClassName: PriorityClass \"other\"";
    assert!(answer.stderr.starts_with(warning), "{}", answer.stderr);
    let placed: serde_json::Value = serde_json::from_str(&answer.stdout).unwrap();
    let placed: Vec<&str> = list(&placed, "/allocations").iter().map(|a| text(a, "/pod")).collect();
    assert_eq!(placed, ["default/b", "default/a", "default/c"]);
}

#[test]
fn a_pod_that_names_what_is_not_there_is_named_with_its_file() {
    let claims = [
        claim("good", "gpu-rdma-pair", 1),
        pod("p", "", "{name: a, resourceClaimName: nope}, {name: b, resourceClaimTemplateName: t}"),
        pod("q", "", "{name: c}"),
    ];
    let answer = Scene::of("dgx-h100", &claims).json(1);
    let reasons: Vec<&str> =
        list(&answer, "/refused").iter().map(|refused| text(refused, "/reason")).collect();
    assert_eq!(
        reasons,
        [
            "claims.yaml: document 2 (line 6): claim default/nope is not among the objects",
            "claims.yaml: document 2 (line 6): claim template default/t is not among the objects",
            "claims.yaml: document 3 (line 11): claim c of pod default/q: expected exactly one of \
             resourceClaimName and resourceClaimTemplateName",
        ]
    );
    assert_eq!(text(&answer, "/allocations/0/claim"), "default/good");
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
