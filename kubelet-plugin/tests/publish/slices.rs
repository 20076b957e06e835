//! ResourceSlices are what they should be, whatever others and the network do.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::ResourceExt;
use lanemate_driver::resource_slice::{Mode, RenderOptions, render};
use lanemate_driver::testing::HOSTS;
use lanemate_kubelet_plugin::kubernetes::slices::content::Content;
use lanemate_test_api::{Fault, NODES, RESOURCE_SLICES, TestApi};
use serde_json::json;

use crate::harness::{Running, api, edit, machine, machine_with, put_node, slices, writes};

fn generations(slices: &[ResourceSlice]) -> Vec<i64> {
    slices.iter().map(|slice| slice.spec.pool.generation).collect()
}

/// Waits until the fake holds so many slices.
async fn wait_for_slices(api: &TestApi, what: &str, count: usize) -> Vec<ResourceSlice> {
    let there = |api: &TestApi| Some(slices(api)).filter(|slices| slices.len() == count);
    api.wait(what, there).await.unwrap()
}

#[tokio::test]
async fn slices_of_every_captured_host_come_back_equal_and_are_written_once() {
    for host in HOSTS {
        let api = api(&["n1"]).await;
        let machine = machine("n1", host);
        let options = RenderOptions { mode: Mode::Controller, generation: 1 };
        let rendered = render(&machine.inventory, options);
        let running = Running::start(&api, machine.clone()).await;
        let published = running.complete().await;
        assert_eq!(published.differences, Vec::<String>::new(), "{host}");
        assert_eq!((published.slices, published.generation), (rendered.len(), 1), "{host}");
        assert_eq!(published.devices, machine.inventory.devices.len(), "{host}");
        let stored = slices(&api);
        for (stored, rendered) in stored.iter().zip(&rendered) {
            assert_eq!(stored.name_any(), rendered.name_any(), "{host}");
            assert_eq!(Content::of(&stored.spec), Content::of(&rendered.spec), "{host}");
            let owner = &stored.owner_references()[0];
            assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("Node", "n1"), "{host}");
        }
        assert_eq!((writes(&api), stored.len()), (rendered.len(), rendered.len()), "{host}");
        running.stop().await;
        assert_eq!(slices(&api), stored, "{host}: slices stay");
    }
}

#[tokio::test]
async fn nothing_is_written_when_nothing_has_changed() {
    let api = api(&["n1"]).await;
    let running = Running::start(&api, machine("n1", "dgx-h100")).await;
    running.complete().await;
    running.stop().await;
    let before = (writes(&api), api.count("GET", RESOURCE_SLICES));
    // A plugin that starts again remembers nothing; then the machine is read again.
    let running = Running::start(&api, machine("n1", "dgx-h100")).await;
    running.complete().await;
    running.machine.send_replace(Arc::new(machine("n1", "dgx-h100")));
    // Two lists of rounds, and one of the watch.
    let looked = |api: &TestApi| (api.count("GET", RESOURCE_SLICES) >= before.1 + 3).then_some(());
    api.wait("another round", looked).await.unwrap();
    running.complete().await;
    running.stop().await;
    assert_eq!((writes(&api), generations(&slices(&api))), (before.0, vec![1]));
}

#[tokio::test]
async fn slices_that_vanish_come_back_with_their_generation() {
    let api = api(&["n1"]).await;
    let running = Running::start(&api, machine_with("n1", 70)).await;
    assert_eq!(running.complete().await.slices, 2);
    for count in 1..=2 {
        assert_eq!(api.remove(RESOURCE_SLICES), 2);
        let back = wait_for_slices(&api, "slices to be back", 2).await;
        assert_eq!(generations(&back), [1, 1]);
        assert_eq!(api.count("POST", RESOURCE_SLICES), 2 + 2 * count);
    }
    running.stop().await;
}

#[tokio::test]
async fn a_change_of_the_machine_or_mode_raises_the_generation_on_all_slices() {
    let api = api(&["n1"]).await;
    let running = Running::start(&api, machine_with("n1", 70)).await;
    running.complete().await;
    running.machine.send_replace(Arc::new(machine_with("n1", 71)));
    running.wait("71 devices", |published| published.devices == 71).await;
    assert_eq!(generations(&slices(&api)), [2, 2]);
    // Without taints there is room for 128 devices in a slice.
    running.mode.send_replace(Mode::Scheduler);
    running.wait("one slice", |published| published.slices == 1).await;
    assert_eq!(generations(&slices(&api)), [3]);
    running.machine.send_replace(Arc::new(machine_with("n1", 0)));
    running.wait("no device", |published| published.devices == 0).await;
    let empty = slices(&api);
    assert_eq!((empty.len(), generations(&empty)), (1, vec![4]));
    running.stop().await;
}

#[tokio::test]
async fn edits_of_others_are_repaired() {
    let api = api(&["n1"]).await;
    let running = Running::start(&api, machine("n1", "dgx-h100")).await;
    running.complete().await;
    let good = slices(&api).remove(0);
    edit(&api, &good, |slice| slice["spec"]["devices"][0]["attributes"] = json!({}));
    let is_good = |api: &TestApi, generation: i64| {
        let stored = slices(api).remove(0);
        let is_equal = Content::of(&stored.spec) == Content::of(&good.spec);
        (is_equal && stored.spec.pool.generation == generation).then_some(())
    };
    api.wait("the first repair", |api| is_good(api, 2)).await.unwrap();
    edit(&api, &slices(&api)[0], |slice| slice["spec"]["devices"] = json!([]));
    api.wait("the second repair", |api| is_good(api, 3)).await.unwrap();
    // A slice of our driver and node that nobody wants.
    edit(&api, &good, |slice| slice["metadata"]["name"] = json!("stray"));
    let is_gone = |api: &TestApi| (slices(api).len() == 1).then_some(());
    api.wait("the stray slice to be gone", is_gone).await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn two_nodes_leave_each_other_alone() {
    let api = api(&["n1", "n2"]).await;
    let one = Running::start(&api, machine("n1", "dgx-h100")).await;
    let other = Running::start(&api, machine("n2", "no-gpu-2nic")).await;
    one.complete().await;
    other.complete().await;
    one.machine.send_replace(Arc::new(machine("n1", "dgx-a100")));
    one.wait("the other machine", |published| published.generation == 2).await;
    let stored = slices(&api);
    let pools = stored.iter().map(|slice| slice.spec.pool.name.as_str()).collect::<Vec<_>>();
    assert_eq!((pools, generations(&stored)), (vec!["n1", "n2"], vec![2, 1]));
    one.stop().await;
    api.remove(&format!("{RESOURCE_SLICES}/{}", stored[0].name_any()));
    other.machine.send_replace(Arc::new(machine("n2", "dgx-h100")));
    other.wait("the other machine", |published| published.generation == 2).await;
    assert_eq!(slices(&api).len(), 1);
    other.stop().await;
}

/// Orders faults, publishes, and expects the slices to be right in the end.
async fn check_fault(method: &str, path: &str, fault: Fault, times: usize) {
    let what = format!("{method} {path} {fault:?}");
    let api = api(&["n1"]).await;
    let running = Running::start(&api, machine_with("n1", 70)).await;
    running.complete().await;
    api.faults().next(method, path, fault, times);
    running.machine.send_replace(Arc::new(machine_with("n1", 60)));
    api.remove(&format!("{RESOURCE_SLICES}/00000"));
    running.wait(&what, |published| published.devices == 60).await;
    api.wait(&what, |api| (api.faults().left() == 0).then_some(())).await.unwrap();
    running.wait(&what, |_| true).await;
    let stored = slices(&api);
    assert_eq!(stored.len(), 1, "{what}");
    assert_eq!(stored[0].spec.devices.as_ref().unwrap().len(), 60, "{what}");
    running.stop().await;
}

#[tokio::test]
async fn errors_of_the_api_server_are_overcome() {
    let faults = [
        (Fault::Status(409, "Conflict"), 2),
        (Fault::Status(500, "InternalError"), 2),
        (Fault::Status(403, "Forbidden"), 2),
        (Fault::TooManyRequests(1), 2),
        (Fault::Gone, 2),
        (Fault::Drop, 2),
        // What was asked is done, so it is not asked again.
        (Fault::LoseAnswer, 1),
    ];
    let checks = ["GET", "POST", "DELETE"].into_iter().flat_map(|method| {
        let check = move |(fault, times)| check_fault(method, RESOURCE_SLICES, fault, times);
        faults.clone().into_iter().map(check)
    });
    join_all(checks).await;
    check_fault("GET", NODES, Fault::Status(404, "NotFound"), 2).await;
}

#[tokio::test]
async fn an_api_server_that_hangs_is_given_up_and_asked_again() {
    check_fault("POST", RESOURCE_SLICES, Fault::Hang(Duration::from_secs(600)), 1).await;
}

#[tokio::test]
async fn updates_are_made_on_what_is_stored_and_not_on_what_was() {
    let api = api(&["n1"]).await;
    let running = Running::start(&api, machine_with("n1", 1)).await;
    running.complete().await;
    api.faults().next("PUT", RESOURCE_SLICES, Fault::Status(409, "Conflict"), 2);
    running.machine.send_replace(Arc::new(machine_with("n1", 2)));
    running.wait("the update", |published| published.devices == 2).await;
    assert_eq!(generations(&slices(&api)), [2]);
    // The answer is lost, so the plugin does not know that the update was made.
    api.faults().next("PUT", RESOURCE_SLICES, Fault::LoseAnswer, 1);
    running.machine.send_replace(Arc::new(machine_with("n1", 3)));
    running.wait("the update", |published| published.devices == 3).await;
    assert_eq!((generations(&slices(&api)), api.count("PUT", RESOURCE_SLICES)), (vec![3], 4));
    running.stop().await;
}

#[tokio::test]
async fn slices_come_back_however_the_watch_fails() {
    let check = async |fault: Fault| {
        let api = api(&["n1"]).await;
        api.faults().next("WATCH", RESOURCE_SLICES, fault.clone(), 1);
        let running = Running::start(&api, machine("n1", "dgx-h100")).await;
        running.complete().await;
        let watched = |api: &TestApi| (api.count("WATCH", RESOURCE_SLICES) > 0).then_some(());
        api.wait("a watch", watched).await.unwrap();
        api.remove(RESOURCE_SLICES);
        wait_for_slices(&api, &format!("slices to be back after {fault:?}"), 1).await;
        running.stop().await;
    };
    let (gone, forbidden) = (Fault::Status(410, "Gone"), Fault::Status(403, "Forbidden"));
    join_all([Fault::Gone, gone, forbidden, Fault::Drop, Fault::Silent].map(check)).await;
}

#[tokio::test]
async fn a_field_that_is_dropped_is_told_of_and_written_once() {
    let api = api(&["n1"]).await;
    let dropped = || Fault::DropFields(vec!["/spec/devices/*/taints"]);
    api.faults().next("POST", RESOURCE_SLICES, dropped(), usize::MAX);
    api.faults().next("PUT", RESOURCE_SLICES, dropped(), usize::MAX);
    let running = Running::start(&api, machine("n1", "no-gpu-2nic")).await;
    let published = running.complete().await;
    let first = "00000-lanemate.dev-n1: devices[0].taints: dropped";
    assert_eq!(published.differences[0], first);
    // Somebody touches it, so a round is made that finds nothing to do.
    let lists = api.count("GET", RESOURCE_SLICES);
    edit(&api, &slices(&api)[0], |slice| slice["metadata"]["labels"] = json!({ "a": "b" }));
    let looked = |api: &TestApi| (api.count("GET", RESOURCE_SLICES) > lists).then_some(());
    api.wait("another round", looked).await.unwrap();
    let published = running.complete().await;
    assert_eq!((writes(&api), published.differences.len()), (1, published.devices));
    running.stop().await;
}

#[tokio::test]
async fn slices_belong_to_the_node_as_it_is_now() {
    let api = api(&["n1"]).await;
    let running = Running::start(&api, machine("n1", "dgx-h100")).await;
    running.complete().await;
    api.remove(NODES);
    let uid = put_node(&api, "n1");
    // What the garbage collector does when an owner has gone.
    api.remove(RESOURCE_SLICES);
    let back = wait_for_slices(&api, "slices of the new Node", 1).await;
    assert_eq!(back[0].owner_references()[0].uid, uid);
    // And when it has not come to it yet.
    api.remove(NODES);
    let uid = put_node(&api, "n1");
    running.machine.send_replace(Arc::new(machine("n1", "dgx-h100")));
    let is_owned = |api: &TestApi| (slices(api)[0].owner_references()[0].uid == uid).then_some(());
    api.wait("the new owner", is_owned).await.unwrap();
    assert_eq!(generations(&slices(&api)), [1]);
    running.stop().await;
}

/// Two slices, of which one was updated: what consumers see meanwhile, and what becomes of it.
#[tokio::test]
async fn an_update_that_stops_half_way_leaves_an_incomplete_pool_and_is_completed() {
    let api = api(&["n1"]).await;
    let running = Running::start(&api, machine_with("n1", 70)).await;
    running.complete().await;
    let second = format!("{RESOURCE_SLICES}/00001");
    api.faults().next("PUT", &second, Fault::Status(500, "InternalError"), usize::MAX);
    running.machine.send_replace(Arc::new(machine_with("n1", 71)));
    let is_half = |api: &TestApi| {
        let stored = slices(api);
        (generations(&stored)[0] > 1).then_some(stored)
    };
    let half = api.wait("a first slice of a new generation", is_half).await.unwrap();
    assert_eq!((half[1].spec.pool.generation, half[0].spec.pool.resource_slice_count), (1, 2));
    api.faults().clear();
    let published = running.wait("71 devices", |published| published.devices == 71).await;
    let whole = slices(&api);
    assert_eq!(generations(&whole), [published.generation; 2]);
    assert_eq!(whole[1].spec.devices.as_ref().unwrap().len(), 7);
    running.stop().await;
}

/// Both list the slices anew, and find nothing to do.
async fn check_peace(api: &TestApi, plugins: [&Running; 2]) {
    let agreed = |api: &TestApi| {
        let stored = generations(&slices(api));
        let is_settled = |plugin: &&Running| {
            let published = plugin.published.borrow();
            published.is_complete && stored.iter().all(|found| *found == published.generation)
        };
        plugins.iter().all(is_settled).then_some(())
    };
    api.wait("both to agree", agreed).await.unwrap();
    let (before, lists) = (writes(api), api.count("GET", RESOURCE_SLICES));
    edit(api, &slices(api)[0], |slice| slice["metadata"]["labels"] = json!({ "a": "b" }));
    let looked = |api: &TestApi| (api.count("GET", RESOURCE_SLICES) >= lists + 2).then_some(());
    api.wait("both to look", looked).await.unwrap();
    api.wait("both to agree", agreed).await.unwrap();
    assert_eq!(writes(api), before, "{:#?}", api.requests());
}

#[tokio::test]
async fn two_plugins_of_one_node_agree() {
    let api = api(&["n1"]).await;
    let one = Running::start(&api, machine_with("n1", 70)).await;
    let other = Running::start(&api, machine_with("n1", 70)).await;
    check_peace(&api, [&one, &other]).await;
    for plugin in [&one, &other] {
        plugin.machine.send_replace(Arc::new(machine_with("n1", 71)));
    }
    for plugin in [&one, &other] {
        plugin.wait("71 devices", |published| published.devices == 71).await;
    }
    check_peace(&api, [&one, &other]).await;
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn two_plugins_do_not_quarrel_over_a_field_that_is_dropped() {
    let api = api(&["n1"]).await;
    for method in ["POST", "PUT"] {
        let dropped = Fault::DropFields(vec!["/spec/devices/*/taints"]);
        api.faults().next(method, RESOURCE_SLICES, dropped, usize::MAX);
    }
    let one = Running::start(&api, machine("n1", "dgx-h100")).await;
    one.complete().await;
    let other = Running::start(&api, machine("n1", "dgx-h100")).await;
    other.complete().await;
    check_peace(&api, [&one, &other]).await;
    // The second knows only from an answer of its own that the field is dropped.
    assert_eq!((writes(&api), generations(&slices(&api))), (2, vec![2]));
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn a_node_may_have_the_longest_name() {
    let name = ["n".repeat(63), "n".repeat(63), "n".repeat(63), "n".repeat(61)].join(".");
    let api = api(&[&name]).await;
    let running = Running::start(&api, machine_with(&name, 70)).await;
    running.complete().await;
    let stored = slices(&api);
    assert_eq!((name.len(), stored[0].spec.pool.name.as_str()), (253, name.as_str()));
    assert!(stored.iter().all(|slice| slice.name_any().len() <= 253));
    api.remove(RESOURCE_SLICES);
    wait_for_slices(&api, "the slices to be back", 2).await;
    running.stop().await;
}
