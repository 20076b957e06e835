//! Two controllers, and one that was stopped in the middle of its work (interleaving 9).

use std::time::Duration;

use kube::api::ListParams;
use lanemate_driver::resource_slice::Mode;
use lanemate_test_cluster::until;
use serde_json::json;

use crate::scene::{GATE, Scene, gpus};
use lanemate_test_cluster::controller::{Controller, logged};

/// How often the leader is stopped; `LANEMATE_LEADER_TRIES` asks for more.
const TRIES: usize = 20;
/// The shortest lease.
const LEASE_SECONDS: u32 = 2;

#[tokio::test]
async fn of_two_controllers_started_at_once_one_works() {
    let mut scene =
        Scene::without_controller("two", &["dgx-h100"], Mode::Controller).await.unwrap();
    scene.start.lease_seconds = LEASE_SECONDS;
    let spawn = |name: &str| Controller::spawn(&scene.cluster, name, &scene.start).unwrap();
    let (mut a, mut b) = (spawn("two-a"), spawn("two-b"));
    for number in 0..8 {
        let name = format!("p{number}");
        scene.claim(&name, gpus(1)).await.unwrap();
        scene.pod(&name, &[&name]).await.unwrap();
    }
    for number in 0..8 {
        scene.placed(&format!("p{number}")).await.unwrap();
    }
    scene.sound().await.unwrap();
    // If it leads it gives the lease back, and the other one takes over and serves.
    assert!(a.terminate().await.unwrap().success());
    scene.delete_pod("p0").await.unwrap();
    scene.claim("after", gpus(1)).await.unwrap();
    scene.pod("after", &["after"]).await.unwrap();
    scene.placed("after").await.unwrap();
    assert!(b.terminate().await.unwrap().success());
}

/// The leader is stopped at a random moment while pods are created, for longer than its lease, and goes on when another
/// one has taken over. The few devices are wanted by many, so that a late write can be a double grant: a request may have
/// left half of its bytes behind when the process was stopped. Then it is repaired before a second pod uses the device.
#[tokio::test]
async fn a_leader_that_was_stopped_through_its_lease_grants_nothing_twice() {
    let mut scene =
        Scene::without_controller("paused", &["dgx-h100"], Mode::Controller).await.unwrap();
    scene.start.lease_seconds = LEASE_SECONDS;
    let tries = std::env::var("LANEMATE_LEADER_TRIES").ok().and_then(|text| text.parse().ok());
    let tries: usize = tries.unwrap_or(TRIES);
    let mut leader = start(&scene, "paused-0").await.unwrap();
    for number in 1..=tries {
        let mut next =
            Controller::spawn(&scene.cluster, &format!("paused-{number}"), &scene.start).unwrap();
        let since = logged(&scene.cluster, &format!("paused-{number}"));
        let pods = create_pods(&scene, number).await.unwrap();
        // Somewhere within the time in which the pods above are served.
        tokio::time::sleep(Duration::from_millis(7 * number as u64 % 90)).await;
        leader.pause();
        let late = format!("late-{number}");
        scene.claim(&late, gpus(1)).await.unwrap();
        scene.pod(&late, &[&late]).await.unwrap();
        next.until_working(since).await.unwrap();
        leader.resume();
        scene.until_sound().await.unwrap();
        let ended = leader.ended().await.unwrap();
        assert_eq!(ended.code(), Some(1), "who lost the lease has failed");
        for pod in pods.iter().chain([&late]) {
            scene.placed(pod).await.unwrap();
        }
        scene.used_once().await.unwrap();
        scene.sound().await.unwrap();
        for pod in pods.iter().chain([&late]) {
            scene.delete_pod(pod).await.unwrap();
        }
        until("all devices to be free", async || {
            let claims = scene.claims().list(&ListParams::default()).await?.items;
            let held = claims.iter().filter(|claim| crate::ground::allocated(claim)).count();
            Ok(if held == 0 { Ok(()) } else { Err(format!("{held} claims are allocated")) })
        })
        .await
        .unwrap();
        leader = next;
    }
    println!("the leader was stopped through its lease {tries} times: no device was granted twice");
}

async fn start(scene: &Scene, name: &str) -> anyhow::Result<Controller> {
    let since = logged(&scene.cluster, name);
    let mut controller = Controller::spawn(&scene.cluster, name, &scene.start)?;
    controller.until_working(since).await?;
    Ok(controller)
}

/// Six pods for a GPU each, of eight.
async fn create_pods(scene: &Scene, number: usize) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for pod in 0..6 {
        let name = format!("p{number}-{pod}");
        scene.claim(&name, gpus(1)).await?;
        scene.pod_with(&name, &[&name], json!({"schedulingGates": [{"name": GATE}]})).await?;
        names.push(name);
    }
    Ok(names)
}
