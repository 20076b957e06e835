//! What is wrong with one claim, one record or one directory is told for that claim alone, in words
//! and as an event, and leaves nothing half-done.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod rig;

use std::fs;

use lanemate_kubelet_sim::Claim;
use lanemate_test_api::Fault;
use rig::{DRIVER, PAIRS, Rig};
use serde_json::{Value, json};

/// Prepares a bad claim in one call with a good one.
async fn refusal_beside_a_good_claim(rig: &Rig, bad: &Claim) -> String {
    let good = rig.claim("good", &[PAIRS[3].0]);
    rig.kubelet.forget(DRIVER, std::slice::from_ref(&good));
    let answers = rig.kubelet.prepare(DRIVER, &[bad.clone(), good.clone()]).await.unwrap();
    assert!(answers[&good.uid].is_ok(), "{answers:?}");
    let refusal = answers[&bad.uid].clone().unwrap_err();
    rig.unprepared(&good).await;
    refusal
}

async fn check(rig: &Rig, bad: &Claim, expect: &[&str]) {
    let held = rig.recorded();
    let refusal = refusal_beside_a_good_claim(rig, bad).await;
    for part in expect {
        assert!(refusal.contains(part), "{part:?} is not in: {refusal}");
    }
    assert_eq!((rig.recorded(), rig.in_cdi()), (held.clone(), held), "{refusal}");
}

/// Warnings of which the note holds a text.
fn warnings(rig: &Rig, text: &str) -> Vec<Value> {
    let events = rig.api.list("/apis/events.k8s.io/v1/");
    let told = |event: &Value| {
        event["type"] == "Warning" && event["note"].as_str().is_some_and(|note| note.contains(text))
    };
    events.into_iter().filter(told).collect()
}

async fn until_warned(rig: &Rig, claim: &Claim, text: &str) {
    let of_claim = |event: &Value| event["regarding"]["uid"] == json!(claim.uid);
    let what = format!("an event on {} that says {text:?}", claim.name);
    rig.until(&what, |rig| warnings(rig, text).iter().any(of_claim)).await;
}

/// Changes the object of a claim.
fn edit(rig: &Rig, claim: &Claim, change: impl FnOnce(&mut Value)) {
    let mut object = rig.api.get(&rig.path(claim)).unwrap();
    change(&mut object);
    rig.api.put(object).unwrap();
}

#[tokio::test]
async fn a_claim_that_cannot_be_prepared_says_why() {
    let mut rig = Rig::new().await;
    rig.start().await;

    let claim = rig.claim("unallocated", &[PAIRS[0].0]);
    edit(&rig, &claim, |object| object["status"] = json!({}));
    check(&rig, &claim, &["default/unallocated", "not allocated"]).await;
    until_warned(&rig, &claim, "not allocated").await;

    let claim = rig.claim_of("replaced", "first-uid", &[PAIRS[0].0]);
    rig.delete_claim(&claim);
    rig.claim_of("replaced", "second-uid", &[PAIRS[0].0]);
    check(&rig, &claim, &["default/replaced", "first-uid", "second-uid"]).await;

    let claim = rig.claim("deleted", &[PAIRS[0].0]);
    rig.delete_claim(&claim);
    check(&rig, &claim, &["default/deleted", "does not exist"]).await;

    let claim = rig.claim("imagined", &["gpu-0000-ff-00-0"]);
    check(&rig, &claim, &["gpu-0000-ff-00-0", "does not exist"]).await;
    until_warned(&rig, &claim, "gpu-0000-ff-00-0").await;

    let claim = rig.claim("twice", &[PAIRS[0].0, PAIRS[0].0]);
    check(&rig, &claim, &[PAIRS[0].0, "twice"]).await;

    let claim = rig.claim("garbled", &[PAIRS[0].0]);
    edit(&rig, &claim, |object| {
        object["status"]["allocation"]["devices"]["config"] = json!([{
            "source": "FromClaim",
            "opaque": {"driver": DRIVER, "parameters": {
                "apiVersion": "lanemate.dev/v1alpha1", "kind": "Environment", "ncl": true,
            }},
        }]);
    });
    check(&rig, &claim, &["status.allocation.devices.config[0]", "ncl"]).await;
    until_warned(&rig, &claim, "ncl").await;

    let holder = rig.claim("holder", &[PAIRS[0].0]);
    rig.prepared(&holder).await;
    let claim = rig.claim("thief", &[PAIRS[0].0]);
    check(&rig, &claim, &[PAIRS[0].0, "default/holder"]).await;
    until_warned(&rig, &claim, "default/holder").await;
}

#[tokio::test]
async fn a_device_that_was_swapped_since_it_was_published_is_refused() {
    let mut rig = Rig::new().await;
    // The new card is not published within the test.
    rig.flags(&["--rescan-interval", "1h"]);
    rig.start().await;
    let old = "18:00.0";
    assert!(rig.captured().contains(old));
    let capture = rig.captured();
    let guid = capture.lines().find(|line| line.contains("infiniband/mlx5_0/node_guid")).unwrap();
    let value = guid.split('"').rev().nth(1).unwrap();
    let other = value.replacen(|c: char| c.is_ascii_hexdigit(), "e", 1);
    let other = if other == value { value.replacen('e', "d", 1) } else { other };
    rig.write_machine(&capture.replace(guid, &guid.replace(value, &other)));
    let claim = rig.claim("swapped", &[PAIRS[0].1]);
    let refusal = rig.prepare(&claim).await.unwrap_err();
    assert!(refusal.contains(PAIRS[0].1), "{refusal}");
    assert!(rig.recorded().is_empty() && rig.in_cdi().is_empty());
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_set_aside_and_rebuilt() {
    for newer in [false, true] {
        let mut rig = Rig::new().await;
        rig.start().await;
        let claim = rig.claim("training", &[PAIRS[0].0, PAIRS[0].1]);
        let other = rig.claim("other", &[PAIRS[1].0]);
        rig.prepared(&claim).await;
        rig.prepared(&other).await;
        let spec = fs::read(rig.spec(&claim));
        rig.stop().await;
        if newer {
            rig::make_newer(&rig.record(&claim));
        } else {
            rig::flip_bit(&rig.record(&claim), 40);
        }
        rig.start().await;
        rig.until("the record to be rebuilt", |rig| rig.recorded().len() == 2).await;
        until_warned(&rig, &claim, "its record cannot be used").await;
        assert!(fs::read_dir(rig.state().join("quarantine")).is_ok());
        let thief = rig.claim("thief", &[PAIRS[0].1]);
        let refusal = rig.prepare(&thief).await.unwrap_err();
        assert!(refusal.contains("default/training"), "{refusal}");
        let again = fs::read(rig.spec(&claim));
        assert_eq!(spec.unwrap(), again.unwrap());
        rig.unprepared(&claim).await;
        rig.prepared(&thief).await;
        rig.prepared(&other).await;
    }
}

#[tokio::test]
async fn a_full_or_read_only_directory_fails_one_claim_and_leaves_nothing() {
    for (fault, words) in [
        ("prepare-begin=ENOSPC", "No space left on device"),
        ("prepare-reserved=ENOSPC", "No space left on device"),
        ("prepare-file:1=ENOSPC", "No space left on device"),
        ("prepare-file:2=EROFS", "Read-only file system"),
        ("prepare-file:3=EROFS", "Read-only file system"),
        ("prepare-recorded=ENOSPC", "No space left on device"),
    ] {
        let mut rig = Rig::new().await;
        rig.spawn(fault);
        rig.registered().await;
        let claim = rig.claim("training", &[PAIRS[0].0, PAIRS[0].1]);
        let error = rig.prepare(&claim).await.unwrap_err();
        assert!(error.contains(words), "{fault}: {error}");
        assert!(rig.recorded().is_empty() && rig.in_cdi().is_empty(), "{fault}: {}", rig.seen());
        assert!(rig.metadata().is_empty(), "{fault}: {}", rig.seen());
        until_warned(&rig, &claim, words).await;
        rig.prepared(&claim).await;
        rig.unprepared(&claim).await;
    }
}

#[tokio::test]
async fn a_directory_where_a_file_belongs_is_told_with_its_path() {
    let mut rig = Rig::new().await;
    rig.start().await;
    let claim = rig.claim("training", &[PAIRS[0].0]);
    let file = rig.spec(&claim);
    fs::create_dir_all(file.join("in-the-way")).unwrap();
    let error = rig.prepare(&claim).await.unwrap_err();
    assert!(error.contains(&*file.to_string_lossy()), "{error}");
    // It cannot be cleaned up either, so the claim keeps its device until that succeeds.
    let thief = rig.claim("thief", &[PAIRS[0].0]);
    let refusal = rig.prepare(&thief).await.unwrap_err();
    assert!(refusal.contains("default/training"), "{refusal}");
    fs::remove_dir_all(file).unwrap();
    rig.prepared(&claim).await;
}

#[tokio::test]
async fn without_the_api_server_unprepare_works_and_prepare_says_why() {
    let mut rig = Rig::new().await;
    rig.start().await;
    let held = rig.claim("held", &[PAIRS[0].0]);
    let again = rig.claim("again", &[PAIRS[1].0]);
    rig.prepared(&held).await;
    rig.prepared(&again).await;
    rig.api.faults().next("*", "/apis/resource.k8s.io/", Fault::Drop, usize::MAX);
    rig.unprepared(&held).await;
    // What is prepared is known without it.
    rig.prepared(&again).await;
    let new = rig.claim("new", &[PAIRS[2].0]);
    let error = rig.prepare(&new).await.unwrap_err();
    assert!(error.contains("API server"), "{error}");
    assert!(!rig.recorded().contains(&new.uid));
    rig.api.faults().clear();
    rig.prepared(&new).await;
}

#[tokio::test]
async fn a_plugin_that_starts_without_the_api_server_serves_what_it_has_on_record() {
    let mut rig = Rig::new().await;
    rig.start().await;
    let held = rig.claim("held", &[PAIRS[0].0]);
    rig.prepared(&held).await;
    rig.stop().await;
    rig.api.faults().next("*", "/", Fault::Status(503, "ServiceUnavailable"), usize::MAX);
    fs::remove_dir_all(rig.cdi()).unwrap();
    rig.start().await;
    rig.until("the CDI file", |rig| rig.in_cdi().contains(&held.uid)).await;
    rig.prepared(&held).await;
    rig.unprepared(&held).await;
    assert!(rig.recorded().is_empty());
}
