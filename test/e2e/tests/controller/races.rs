//! Interleavings that a proxy between the controller and the API server forces.

use std::time::Duration;

use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimStatus};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use lanemate_driver::resource_slice::Mode;
use lanemate_test_cluster::{Allocation, NodeOptions, TestNamespace, until};
use lanemate_test_proxy::{ApiProxy, Matcher, Rule};
use serde_json::json;

use crate::ground::{allocated, gates};
use crate::scene::{Placed, Scene, allocation, devices_of, gpus, node_of, pairs};
use lanemate_test_cluster::controller::{CONTROLLER, Controller, logged};

/// The writes of the status of a claim.
fn status_of(claim: &str) -> Matcher {
    Matcher::new("PUT", &format!("/resourceclaims/{claim}/status"))
}

/// A scene whose controller reaches the API server through a proxy.
async fn behind_proxy(test: &str, hosts: &[&str]) -> anyhow::Result<(ApiProxy, Scene)> {
    let mut scene = Scene::without_controller(test, hosts, Mode::Controller).await?;
    let access = scene.cluster.access()?;
    let proxy = ApiProxy::start(&access.server, Some(&access.authority)).await?;
    let token = scene.cluster.token(CONTROLLER, None).await?;
    std::fs::write(&scene.start.kubeconfig, proxy.kubeconfig(&token))?;
    scene.start_controller().await?;
    Ok((proxy, scene))
}

/// Ends all connections, and takes new ones a moment later: what runs has to notice first.
async fn cut_once(proxy: &ApiProxy) {
    proxy.cut();
    tokio::time::sleep(Duration::from_millis(300)).await;
    proxy.mend();
}

/// Takes an allocation back, as an administrator.
async fn clear(namespace: &TestNamespace, claim: &str) -> anyhow::Result<()> {
    let claims: kube::Api<ResourceClaim> = namespace.api();
    let mut found = claims.get(claim).await?;
    found.status = Some(ResourceClaimStatus::default());
    claims.replace_status(claim, &PostParams::default(), &found).await?;
    Ok(())
}

/// Interleaving 1.
#[tokio::test]
async fn a_claim_that_somebody_else_allocates_meanwhile_keeps_that_and_its_pod_goes_there() {
    let (proxy, scene) = behind_proxy("both", &["dgx-h100", "dgx-h100"]).await.unwrap();
    let held = proxy.hold(status_of("one"));
    scene.claim("one", gpus(1)).await.unwrap();
    scene.pod("user", &["one"]).await.unwrap();
    held.until_caught(1).await.unwrap();
    // On either node: the controller's choice is not known here.
    let node = scene.nodes[1].name();
    let grant = Allocation::on(node).grant("gpu", "gpu-0000-df-00-0");
    scene.namespace.allocate("one", &grant).await.unwrap();
    held.release();
    let placed = scene.placed("user").await.unwrap();
    assert_eq!(placed.node, node);
    assert_eq!(placed.devices["one"], ["gpu-0000-df-00-0"]);
    // What the controller had in mind is free again.
    for (name, count) in [("rest", 7), ("other", 8)] {
        scene.claim(name, gpus(count)).await.unwrap();
        scene.pod(name, &[name]).await.unwrap();
        scene.placed(name).await.unwrap();
    }
    scene.sound().await.unwrap();
}

/// Interleaving 6.
#[tokio::test]
async fn a_decision_on_slices_that_were_published_anew_is_not_written() {
    let (proxy, mut scene) = behind_proxy("generation", &["dgx-h100"]).await.unwrap();
    // The finalizer comes before the look at the generation.
    let held = proxy.hold(Matcher::new("PUT", "/resourceclaims/one").times(1));
    scene.claim("one", gpus(1)).await.unwrap();
    scene.pod("user", &["one"]).await.unwrap();
    held.until_caught(1).await.unwrap();
    // Without its first four GPUs, of which the controller has chosen one or another.
    let mut slices = scene.nodes[0].publish("dgx-h100", Mode::Controller).await.unwrap();
    let mut left = 0;
    for device in slices.iter_mut().flat_map(|slice| slice.spec.devices.iter_mut()) {
        device.retain(|device| {
            !device.name.starts_with("gpu") || {
                left += 1;
                left > 4
            }
        });
    }
    for slice in &mut slices {
        slice.metadata = Default::default();
        slice.metadata.name = Some(format!("{}-anew", scene.nodes[0].name()));
    }
    scene.nodes[0].publish_slices(slices).await.unwrap();
    // The watch is not held: its event takes some milliseconds.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let written = proxy.count(&status_of("one"));
    assert_eq!(written, 0);
    held.release();
    let placed = scene.placed("user").await.unwrap();
    let offered = ["gpu-0000-9d-00-0", "gpu-0000-c3-00-0", "gpu-0000-d1-00-0", "gpu-0000-df-00-0"];
    assert!(offered.contains(&placed.devices["one"][0].as_str()), "{placed:?}");
    assert_eq!(proxy.count(&status_of("one")), 1, "written once, on the new generation");
}

/// Interleaving 7.
#[tokio::test]
async fn a_claim_whose_pod_is_deleted_before_the_write_is_free_again() {
    let (proxy, scene) = behind_proxy("too-late", &["dgx-h100"]).await.unwrap();
    let held = proxy.hold(status_of("one"));
    scene.claim("one", gpus(8)).await.unwrap();
    scene.pod("user", &["one"]).await.unwrap();
    held.until_caught(1).await.unwrap();
    scene.delete_pod("user").await.unwrap();
    held.release();
    scene.claim("next", gpus(8)).await.unwrap();
    scene.pod("next", &["next"]).await.unwrap();
    scene.placed("next").await.unwrap();
    scene.freed("one").await.unwrap();
    scene.sound().await.unwrap();
}

/// Interleaving 20.
#[tokio::test]
async fn a_claim_whose_pod_is_deleted_before_it_is_let_go_is_free_again() {
    let (proxy, scene) = behind_proxy("not-let-go", &["dgx-h100"]).await.unwrap();
    let held = proxy.hold(Matcher::new("PATCH", "/pods/user"));
    scene.claim("one", gpus(8)).await.unwrap();
    scene.pod("user", &["one"]).await.unwrap();
    held.until_caught(1).await.unwrap();
    assert!(allocated(&scene.claims().get("one").await.unwrap()));
    scene.delete_pod("user").await.unwrap();
    held.release();
    scene.freed("one").await.unwrap();
    scene.pod("next", &["one"]).await.unwrap();
    scene.placed("next").await.unwrap();
}

/// Interleaving 16, between our two writes.
#[tokio::test]
async fn a_pod_whose_gate_goes_before_we_take_it_off_is_bound_to_the_node_of_its_claim() {
    let (proxy, scene) = behind_proxy("gate-went", &["dgx-h100", "dgx-h100"]).await.unwrap();
    let held = proxy.hold(Matcher::new("PATCH", "/pods/user").times(1));
    scene.claim("one", pairs(1)).await.unwrap();
    scene.pod("user", &["one"]).await.unwrap();
    held.until_caught(1).await.unwrap();
    let none = json!({"spec": {"schedulingGates": null}});
    scene.pods().patch("user", &PatchParams::default(), &Patch::Merge(none)).await.unwrap();
    scene.placed("user").await.unwrap();
    held.release();
    scene.sound().await.unwrap();
}

/// Interleaving 10: the watch shows nothing between the two, so that to the controller they are one change.
#[tokio::test]
async fn a_claim_that_is_freed_and_allocated_anew_unseen_holds_what_it_has_now() {
    let (proxy, scene) = behind_proxy("merged", &["dgx-h100"]).await.unwrap();
    let node = scene.nodes[0].name().to_owned();
    let (first, second) = ("gpu-0000-1b-00-0", "gpu-0000-df-00-0");
    scene.claim("moved", gpus(1)).await.unwrap();
    scene.namespace.allocate("moved", &Allocation::on(&node).grant("gpu", first)).await.unwrap();
    scene.claim("seven", gpus(7)).await.unwrap();
    scene.pod("seven", &["seven"]).await.unwrap();
    scene.placed("seven").await.unwrap();
    scene.delete_pod("seven").await.unwrap();
    scene.freed("seven").await.unwrap();
    // The running watch is cut off and cannot go on, and the list that follows comes when both are done.
    let gone = proxy.respond(Matcher::new("WATCH", "/resourceclaims").times(1), 410, None);
    let list = proxy.hold(Matcher::new("GET", "/resourceclaims"));
    let watch = proxy.hold(Matcher::new("WATCH", "/resourceclaims"));
    cut_once(&proxy).await;
    gone.until_caught(1).await.unwrap();
    list.until_caught(1).await.unwrap();
    clear(&scene.namespace, "moved").await.unwrap();
    scene.namespace.allocate("moved", &Allocation::on(&node).grant("gpu", second)).await.unwrap();
    list.release();
    // The watch comes after the list was taken in.
    watch.until_caught(1).await.unwrap();
    watch.release();
    scene.pod("again", &["seven"]).await.unwrap();
    let placed = scene.placed("again").await.unwrap();
    let devices = &placed.devices["seven"];
    assert!(devices.iter().any(|device| device == first), "{devices:?}");
    assert!(!devices.iter().any(|device| device == second), "{devices:?}");
    scene.sound().await.unwrap();
}

/// A leader whose write reaches the API server after another one leads (interleaving 9): the same device is then in two
/// claims. The new leader ends that before two pods use it.
#[tokio::test]
async fn a_write_that_comes_after_the_lease_is_repaired() {
    let mut scene =
        Scene::without_controller("late", &["dgx-h100"], Mode::Controller).await.unwrap();
    scene.start.lease_seconds = 2;
    let direct = scene.start.clone();
    let access = scene.cluster.access().unwrap();
    let proxy = ApiProxy::start(&access.server, Some(&access.authority)).await.unwrap();
    let token = scene.cluster.token(CONTROLLER, None).await.unwrap();
    let mut through = direct.clone();
    through.kubeconfig = direct.kubeconfig.with_extension("proxy");
    std::fs::write(&through.kubeconfig, proxy.kubeconfig(&token)).unwrap();
    let mut first = Controller::spawn(&scene.cluster, "late-first", &through).unwrap();
    first.until_working(0).await.unwrap();
    let held = proxy.hold(status_of("late"));
    scene.claim("late", gpus(8)).await.unwrap();
    scene.pod("a", &["late"]).await.unwrap();
    held.until_caught(1).await.unwrap();
    first.kill();
    // Another pod comes first with the next leader, and gets the devices.
    scene.claim("early", gpus(8)).await.unwrap();
    let urgent = json!({
        "schedulingGates": [{"name": crate::scene::GATE}], "priorityClassName": "system-node-critical",
    });
    scene.pod_with("b", &["early"], urgent).await.unwrap();
    let since = logged(&scene.cluster, "late-second");
    let mut second = Controller::spawn(&scene.cluster, "late-second", &direct).unwrap();
    second.until_working(since).await.unwrap();
    let placed = scene.placed("b").await.unwrap();
    held.release();
    scene.told("late", "is allocated to this claim and to").await.unwrap();
    scene.until_sound().await.unwrap();
    assert_eq!(scene.placed("b").await.unwrap(), placed);
    assert!(!gates(&scene.pods().get("a").await.unwrap()).is_empty(), "it was not let go");
    scene.delete_pod("b").await.unwrap();
    assert_eq!(scene.placed("a").await.unwrap().devices["late"].len(), 8);
    scene.sound().await.unwrap();
}

/// Interleaving 23.
#[tokio::test]
async fn what_a_crash_leaves_between_the_two_claims_of_a_pod_is_completed() {
    let (held, mut scene, _proxy) = crashed_between("crash").await.unwrap();
    drop(held);
    scene.start_controller().await.unwrap();
    let placed = scene.placed("user").await.unwrap();
    assert_eq!(placed.devices.len(), 2);
    scene.sound().await.unwrap();
}

/// The same where the rest does not fit beside what was written.
#[tokio::test]
async fn what_a_crash_leaves_is_taken_back_where_the_rest_does_not_fit_beside_it() {
    let (held, mut scene, _proxy) = crashed_between("crash-moved").await.unwrap();
    let claims = [scene.claims().get("a").await.unwrap(), scene.claims().get("b").await.unwrap()];
    let written = claims.iter().find_map(allocation).unwrap();
    let node = node_of(written).unwrap().clone();
    let taken = devices_of(written);
    // All that is left of that node goes to somebody else, by hand.
    let all = [
        "gpu-0000-1b-00-0",
        "gpu-0000-43-00-0",
        "gpu-0000-52-00-0",
        "gpu-0000-61-00-0",
        "gpu-0000-9d-00-0",
        "gpu-0000-c3-00-0",
        "gpu-0000-d1-00-0",
        "gpu-0000-df-00-0",
    ];
    let left = all.iter().filter(|device| !taken.iter().any(|taken| taken == *device));
    scene.claim("hand", gpus(4)).await.unwrap();
    let grant = left.fold(Allocation::on(&node), |grant, device| grant.grant("gpu", device));
    scene.namespace.allocate("hand", &grant).await.unwrap();
    scene.add_node("dgx-h100", Mode::Controller, &NodeOptions::default()).await.unwrap();
    // The write of the dead controller is lost with its connection, or comes and is taken back with the rest.
    drop(held);
    scene.start_controller().await.unwrap();
    let placed = scene.placed("user").await.unwrap();
    assert_ne!(placed.node, node);
    scene.until_sound().await.unwrap();
}

/// A controller that is killed with one claim of a pod written, and the write of the other held.
async fn crashed_between(test: &str) -> anyhow::Result<(Rule, Scene, ApiProxy)> {
    let (proxy, mut scene) = behind_proxy(test, &["dgx-h100"]).await?;
    let held = proxy.cut_before(status_of("b"));
    scene.claim("a", gpus(4)).await?;
    scene.claim("b", gpus(4)).await?;
    scene.pod("user", &["a", "b"]).await?;
    held.until_caught(1).await?;
    scene.kill_controller();
    let written = scene.claims().get("a").await?;
    anyhow::ensure!(allocated(&written), "the first claim is written first");
    anyhow::ensure!(!allocated(&scene.claims().get("b").await?), "the second is not");
    let access = scene.cluster.access()?;
    let token = scene.cluster.token(CONTROLLER, None).await?;
    std::fs::write(&scene.start.kubeconfig, access.kubeconfig(&token))?;
    Ok((held, scene, proxy))
}

/// Whatever the API server answers, a pod is placed once.
async fn placed_through(test: &str, trouble: impl FnOnce(&ApiProxy) -> Rule) -> Placed {
    let (proxy, scene) = behind_proxy(test, &["dgx-h100"]).await.unwrap();
    let rule = trouble(&proxy);
    scene.claim("one", pairs(2)).await.unwrap();
    scene.pod("user", &["one"]).await.unwrap();
    rule.until_caught(1).await.unwrap();
    let placed = scene.placed("user").await.unwrap();
    // All that was not given is free.
    scene.claim("rest", pairs(6)).await.unwrap();
    scene.pod("next", &["rest"]).await.unwrap();
    scene.placed("next").await.unwrap();
    scene.sound().await.unwrap();
    placed
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_done_once() {
    placed_through("lost", |proxy| proxy.cut_after(status_of("one").times(1))).await;
}

#[tokio::test]
async fn a_write_that_is_lost_is_done_again() {
    placed_through("cut", |proxy| proxy.cut_before(status_of("one").times(2))).await;
}

#[tokio::test]
async fn a_busy_api_server_is_asked_again_when_it_says() {
    placed_through("busy", |proxy| proxy.respond(status_of("one").times(2), 429, Some(1))).await;
}

#[tokio::test]
async fn an_api_server_that_fails_is_asked_again() {
    placed_through("fails", |proxy| proxy.respond(status_of("one").times(2), 500, None)).await;
}

#[tokio::test]
async fn a_patch_whose_answer_is_lost_lets_the_pod_go_once() {
    let lost = |proxy: &ApiProxy| proxy.cut_after(Matcher::new("PATCH", "/pods/user").times(1));
    placed_through("lost-patch", lost).await;
}

#[tokio::test]
async fn watches_that_are_refused_or_cut_are_begun_again() {
    let (proxy, scene) = behind_proxy("watches", &["dgx-h100"]).await.unwrap();
    let gone = proxy.respond(Matcher::new("WATCH", "/resourceclaims").times(2), 410, None);
    let fails = proxy.respond(Matcher::new("WATCH", "/pods").times(2), 500, None);
    cut_once(&proxy).await;
    gone.until_caught(2).await.unwrap();
    fails.until_caught(2).await.unwrap();
    scene.claim("one", pairs(8)).await.unwrap();
    scene.pod("user", &["one"]).await.unwrap();
    scene.placed("user").await.unwrap();
    scene.delete_pod("user").await.unwrap();
    scene.freed("one").await.unwrap();
    scene.pod("next", &["one"]).await.unwrap();
    scene.placed("next").await.unwrap();
}

/// Slices without the allocator's taint, as of plugins in mode scheduler or an API server that drops the field
/// (interleaving 11): two allocators could grant these devices.
#[tokio::test]
async fn nothing_is_allocated_while_slices_lack_the_taint() {
    let mut scene =
        Scene::without_controller("untainted", &["dgx-h100"], Mode::Scheduler).await.unwrap();
    let name = scene.namespace.name().to_owned();
    let since = logged(&scene.cluster, &name);
    let mut controller = Controller::spawn(&scene.cluster, &name, &scene.start).unwrap();
    controller.until_logged(since, "offers devices without the taint").await.unwrap();
    scene.claim("one", gpus(1)).await.unwrap();
    scene.pod("user", &["one"]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!allocated(&scene.claims().get("one").await.unwrap()));
    scene.nodes[0].publish("dgx-h100", Mode::Controller).await.unwrap();
    scene.placed("user").await.unwrap();
    let status = controller.terminate().await.unwrap();
    assert!(status.success(), "{status}");
    until("the lease to be given back", async || {
        let leases: kube::Api<k8s_openapi::api::coordination::v1::Lease> =
            kube::Api::namespaced(scene.cluster.client(), "lanemate-system");
        let holder = leases.get(&name).await?.spec.and_then(|spec| spec.holder_identity);
        Ok(if holder.as_deref() == Some("") { Ok(()) } else { Err(format!("{holder:?}")) })
    })
    .await
    .unwrap();
    assert_eq!(scene.pods().get("user").await.unwrap().name_any(), "user");
}
