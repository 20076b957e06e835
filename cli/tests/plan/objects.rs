//! Objects: what is held already, other drivers, slices from files, and their order.

use crate::program::{capture, printed};
use crate::scene::{Scene, allocated, claim, devices, list, pair_class, text};

#[test]
fn a_claim_that_is_allocated_keeps_its_devices_and_is_left_as_it_is() {
    let held = allocated("held", &[("lanemate.dev", "dgx-h100", "gpu-0000-1b-00-0")]);
    let answer = Scene::of("dgx-h100", &[held, claim("new", "gpu-rdma-pair", 7)]).json(0);
    let [allocation] = list(&answer, "/allocations") else { panic!("{answer}") };
    assert_eq!(text(allocation, "/claim"), "default/new");
    assert!(!devices(allocation).contains(&"gpu-0000-1b-00-0"));
    assert!(!devices(allocation).contains(&"nic-0000-18-00-0"));
}

#[test]
fn results_of_other_drivers_and_of_administrators_hold_nothing_of_ours() {
    let admin = allocated("admin", &[("lanemate.dev", "dgx-h100", "gpu-0000-1b-00-0")]);
    let admin = admin.replace("request: r, ", "request: r, adminAccess: true, ");
    let other = allocated("other", &[("other.dev", "dgx-h100", "gpu-0000-43-00-0")]);
    let claims = [admin, other, claim("new", "gpu-rdma-pair", 8)];
    let answer = Scene::of("dgx-h100", &claims).json(0);
    assert_eq!(devices(&list(&answer, "/allocations")[0]).len(), 16);
}

#[test]
fn a_device_with_two_holders_is_a_warning_that_names_both() {
    let device = [("lanemate.dev", "dgx-h100", "gpu-0000-1b-00-0")];
    let claims = [allocated("b", &device), allocated("a", &device)];
    let answer = Scene::of("dgx-h100", &claims).run();
    assert_eq!(
        answer.stderr,
        "warning: device lanemate.dev/dgx-h100/gpu-0000-1b-00-0 is allocated to default/a and to \
         default/b\n"
    );
    assert_eq!((answer.status, answer.stdout.as_str()), (0, "No claim is pending.\n"));
}

#[test]
fn slices_from_a_file_serve_as_those_of_the_machine() {
    let slices = printed(&["slices", "--host", &capture("dgx-h100")]);
    let claims = claim("c", "gpu-rdma-pair", 4);
    let scene = Scene::new().file("slices.yaml", &slices).file("class.yaml", &pair_class());
    let from_file = scene.file("claims.yaml", &claims).json(0);
    assert_eq!(from_file, Scene::of("dgx-h100", &[claims]).json(0));
}

#[test]
fn the_order_of_objects_does_not_matter() {
    let slices = printed(&["slices", "--host", &capture("dgx-h100")]);
    let mut documents = vec![
        format!("---\n{slices}"),
        format!("---\n{}", pair_class()),
        claim("c", "gpu-rdma-pair", 2),
        claim("a", "gpu-rdma-pair", 3),
        claim("b", "gpu-rdma-pair", 4),
        claim("d", "gpu.lanemate.dev", 1),
        claim("e", "nowhere", 1),
        allocated("held", &[("lanemate.dev", "dgx-h100", "gpu-0000-c3-00-0")]),
    ];
    let plan = |documents: &[String], form: &str| {
        let scene = Scene::new().host_as("other", "dgx-a100").file("o.yaml", &documents.concat());
        let scene = scene.args(&["-o", form, "--now", "2026-01-02T03:04:05Z", "--explain"]);
        let answer = scene.run();
        // The document number is all that an error tells of the order.
        let lines = answer.stdout + &answer.stderr;
        lines.lines().filter(|line| !line.contains("document ")).collect::<Vec<_>>().join("\n")
    };
    for form in ["json", "yaml", "table"] {
        let first = plan(&documents, form);
        for turn in 1..documents.len() {
            documents.rotate_left(1);
            if turn % 2 == 0 {
                documents.swap(0, turn);
            }
            assert_eq!(plan(&documents, form), first, "{form}, turn {turn}");
        }
    }
}

const OTHER_SLICE: &str = "---\napiVersion: resource.k8s.io/v1\nkind: ResourceSlice\n\
    metadata: {name: other}\nspec: {driver: other.dev, nodeName: n1, \
    pool: {name: n1, generation: 1, resourceSliceCount: 1}, devices: [{name: d0}, {name: d1}]}\n";
const OTHER_CLASS: &str = "---\napiVersion: resource.k8s.io/v1\nkind: DeviceClass\n\
    metadata: {name: other.dev}\n\
    spec: {selectors: [{cel: {expression: 'device.driver == \"other.dev\"'}}]}\n";

#[test]
fn devices_of_other_drivers_take_part_only_when_asked_for() {
    let objects = [OTHER_SLICE, OTHER_CLASS, &claim("c", "other.dev", 2)].concat();
    let ours = Scene::new().file("o.yaml", &objects).json(3);
    assert!(
        text(&ours, "/refused/0/reason").ends_with("other.dev take part only with --any-driver")
    );
    let all = Scene::new().file("o.yaml", &objects).args(&["--any-driver"]).json(0);
    assert_eq!(text(&all, "/allocations/0/results/0/driver"), "other.dev");
    assert_eq!(all.pointer("/allocations/0/units"), None);
}

#[test]
fn kube_scheduler_cannot_satisfy_a_resource_class() {
    let claims = [claim("unit", "gpu-rdma-pair", 1), claim("gpu", "gpu.lanemate.dev", 1)];
    let answer = Scene::of("dgx-h100", &claims).args(&["--mode", "scheduler"]).json(3);
    assert_eq!(text(&answer, "/allocations/0/claim"), "default/gpu");
    assert_eq!(text(&answer, "/refused/0/kind"), "noFit");
    assert!(text(&answer, "/refused/0/reason").starts_with("mode scheduler: "));
}

#[test]
fn built_in_classes_give_way_to_those_in_files() {
    let class = OTHER_CLASS.replace("name: other.dev", "name: gpu.lanemate.dev");
    let scene = Scene::of("dgx-h100", &[claim("c", "gpu.lanemate.dev", 1)]);
    let answer = scene.file("o.yaml", &[class, OTHER_SLICE.to_owned()].concat()).json(3);
    assert_eq!(list(&answer, "/allocations").len(), 0);
}

#[test]
fn a_namespace_is_given_to_objects_that_name_none() {
    let other = claim("d", "gpu-rdma-pair", 1).replace("{name: d}", "{name: d, namespace: own}");
    let claims = [claim("c", "gpu-rdma-pair", 1), other];
    let answer = Scene::of("dgx-h100", &claims).args(&["-n", "ml"]).json(0);
    let names: Vec<&str> =
        list(&answer, "/allocations").iter().map(|a| text(a, "/claim")).collect();
    assert_eq!(names, ["ml/c", "own/d"]);
}
