//! `lanemate-controller uninstall` with the rights of `deploy/rbac/uninstall.yaml` alone: `hack/e2e` runs this in a
//! control plane of its own, since the policies of the whole cluster go.
#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod ground;

use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use lanemate_api::node_state::{ClaimRef, HeldClaim, HeldState};
use lanemate_test_cluster::{Allocation, Rights, claim, until};
use lanemate_test_proxy::Matcher;
use serde_json::json;

use crate::ground::{ACCOUNT, GATE, Ground, REPLICAS, gates};

const GPU: [(&str, &str); 1] = [("gpu", "gpu.lanemate.dev")];
/// Pods that wait behind the gate alone: with the one that has another gate too, 4 more than are named one by one.
const WAITING: usize = 23;

/// A claim that a pod uses.
async fn used_claim(ground: &Ground) -> anyhow::Result<()> {
    ground.namespace.create_object(&claim("held", &GPU)?).await?;
    let user = json!({
        "schedulingGates": [{"name": "example.com/quota"}],
        "resourceClaims": [{"name": "held", "resourceClaimName": "held"}],
    });
    let user = ground.create_pod("user", user).await?;
    let grant = Allocation::on(ground.node.name()).grant("gpu", "gpu-0000-1b-00-0");
    ground.namespace.allocate("held", &grant.reserved_for(&user)).await.map(drop)
}

#[tokio::test]
async fn it_refuses_while_a_claim_or_a_node_holds_devices_and_changes_nothing() -> anyhow::Result<()>
{
    let ground = Ground::new("refuses").await?;
    used_claim(&ground).await?;
    let before = ground.look().await?;
    let namespace = ground.namespace.name();
    let holder = format!("claim {namespace}/held holds 1 devices, reserved for pod user");
    for flags in [&["--dry-run"][..], &[]] {
        let output = ground.uninstall(flags).await?;
        assert_eq!(output.status.code(), Some(1), "{output}");
        assert!(output.stdout.contains(&holder), "{output}");
        assert!(output.stderr.contains("delete the pods that use them"), "{output}");
        assert_eq!(ground.look().await?, before);
    }

    let pods = ground.namespace.api::<Pod>();
    pods.delete("user", &DeleteParams::default().grace_period(0)).await?;
    until("the claim to be free", async || {
        let output = ground.uninstall(&["--dry-run"]).await?;
        Ok(if output.status.success() { Ok(()) } else { Err(output.to_string()) })
    })
    .await?;
    let name = |text: &str| Some(text.to_owned());
    let held = HeldClaim {
        claim: ClaimRef { namespace: name("a"), name: name("b"), uid: "c".to_owned() },
        devices: Vec::new(),
        state: HeldState::Prepared,
    };
    ground.node.hold(vec![held]).await?;
    let before = ground.look().await?;
    let output = ground.uninstall(&[]).await?;
    assert_eq!(output.status.code(), Some(1), "{output}");
    let holder = format!("node {} holds devices of claim a/b (Prepared)", ground.node.name());
    assert!(output.stdout.contains(&holder), "{output}");
    assert_eq!(ground.look().await?, before);
    ground.node.hold(Vec::new()).await.map(drop)
}

#[tokio::test]
async fn it_takes_all_out_and_pods_are_bound_that_waited_behind_the_gate() -> anyhow::Result<()> {
    let ground = Ground::new("takes-out").await?;
    let others = json!([{"name": "example.com/quota"}, {"name": GATE}]);
    ground.create_pod("others", json!({"schedulingGates": others})).await?;
    for number in 0..WAITING {
        ground.create_gated(&format!("waiting-{number}")).await?;
    }
    let before = ground.look().await?;
    let output = ground.uninstall(&["--dry-run"]).await?;
    assert!(output.status.success(), "{output}");
    let scaled =
        format!("would scale deployment lanemate-system/lanemate-controller from {REPLICAS} to 0");
    for words in [&scaled, "would take the gate off 4 more pods", "nothing was changed"] {
        assert!(output.stdout.contains(words), "{words}: {output}");
    }
    assert_eq!(ground.look().await?, before);

    let output = ground.uninstall(&[]).await?;
    assert!(output.status.success(), "{output}");
    ground.assert_nothing_of_ours_is_left().await?;
    for number in 0..WAITING {
        ground.namespace.pod_bound(&format!("waiting-{number}")).await?;
    }
    let pods = ground.namespace.api::<Pod>();
    assert_eq!(gates(&pods.get("others").await?), ["example.com/quota"]);
    // In a namespace whose label asked for the gate.
    assert_eq!(gates(&ground.create_with_claim("after").await?), Vec::<String>::new());

    let again = ground.uninstall(&[]).await?;
    assert!(again.status.success(), "{again}");
    assert!(again.stdout.contains("delete validatingadmissionpolicies lanemate-node: absent"));
    ground.delete_class().await
}

#[tokio::test]
async fn killed_in_the_middle_it_goes_on_when_it_is_run_again() -> anyhow::Result<()> {
    let ground = Ground::new("killed").await?;
    ground.create_gated("waiting").await?;
    // Before it knows whether devices are in use.
    ground.kill_at(Matcher::new("GET", "/resourceclaims")).await?;
    assert_eq!(ground.replicas().await?, 0);
    used_claim(&ground).await?;
    let output = ground.uninstall(&[]).await?;
    assert_eq!(output.status.code(), Some(1), "{output}");
    assert_eq!(ground.replicas().await?, REPLICAS);
    let pods = ground.namespace.api::<Pod>();
    pods.delete("user", &DeleteParams::default().grace_period(0)).await?;
    ground.until_free("held").await?;

    let waiting = "/pods/waiting";
    for step in [
        Matcher::new("DELETE", "/mutatingadmissionpolicies/lanemate-placement-gate-of-pods"),
        Matcher::new("PATCH", waiting),
        Matcher::new("PATCH", "/resourceclasses/"),
        Matcher::new("DELETE", "/validatingadmissionpolicybindings/lanemate-config"),
        Matcher::new("DELETE", "/validatingadmissionpolicies/lanemate-pods"),
    ] {
        ground.kill_at(step).await?;
    }
    let output = ground.uninstall(&[]).await?;
    assert!(output.status.success(), "{output}");
    ground.namespace.pod_bound("waiting").await?;
    ground.assert_nothing_of_ours_is_left().await?;
    ground.delete_class().await
}

#[tokio::test]
async fn a_controller_that_does_not_end_is_waited_for_and_left_as_it_was() -> anyhow::Result<()> {
    let ground = Ground::new("does-not-end").await?;
    let before = ground.look().await?;
    ground.hold_lease().await?;
    let output = ground.uninstall(&["--timeout", "2s"]).await?;
    assert_eq!(output.status.code(), Some(1), "{output}");
    let words = "waited 2s for lease lanemate-system/lanemate-controller to be over; at last: held by \"somebody\"";
    assert!(output.stderr.contains(words), "{output}");
    assert_eq!(ground.look().await?, before);
    ground.release_lease().await?;

    // Nobody ends the pods of a node without a kubelet.
    ground.move_controller_to_the_node().await?;
    let before = ground.look().await?;
    let output = ground.uninstall(&["--timeout", "2s"]).await?;
    assert_eq!(output.status.code(), Some(1), "{output}");
    assert!(output.stderr.contains("for the pods of deployment"), "{output}");
    assert_eq!(ground.look().await?, before);
    Ok(())
}

#[tokio::test]
async fn every_right_of_the_account_is_needed() -> anyhow::Result<()> {
    let ground = Ground::new("rights").await?;
    ground.create_gated("waiting").await?;
    let rights = Rights::apply(&ground.cluster, "uninstall.yaml", ACCOUNT).await?;
    assert!(rights.all().len() > 10, "{:?}", rights.all());
    for right in rights.all() {
        let taken = rights.take(&right).await?;
        // A dry run asks for every right but this one, which a wait needs.
        let flags: &[&str] = if right.resource == "leases" { &[] } else { &["--dry-run"] };
        let output = ground.uninstall(flags).await?;
        assert_eq!(output.status.code(), Some(1), "{right}: {output}");
        assert!(output.stderr.contains(&right.to_string()), "{right}: {output}");
        assert!(output.stderr.contains("deploy/rbac"), "{output}");
        taken.give_back().await?;
    }
    let output = ground.uninstall(&["--dry-run"]).await?;
    assert!(output.status.success(), "{output}");
    Ok(())
}
