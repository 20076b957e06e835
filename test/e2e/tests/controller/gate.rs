//! Which pods wait for the controller, and which do not need one.

use lanemate_test_cluster::claim;
use serde_json::json;

use super::ground::{GPU, Ground, gates};

const GATE: &str = "lanemate.dev/placement";

#[tokio::test]
async fn in_a_labelled_namespace_pods_with_claims_wait_and_others_do_not() -> anyhow::Result<()> {
    let ground = Ground::new("gated").await?;
    ground.namespace.label("lanemate.dev/placement", "enabled").await?;
    ground.namespace.create_object(&claim("gpu", &GPU)?).await?;
    assert_eq!(gates(&ground.create_pod("with", &["gpu"]).await?), [GATE]);
    assert!(gates(&ground.create_pod("without", &[]).await?).is_empty());
    assert_eq!(ground.namespace.pod_bound("without").await?, ground.node.name());

    // What the author wrote stays, and comes once.
    let mut written = ground.pod("written", &["gpu"])?;
    let wanted = json!([{"name": "example.com/quota"}, {"name": GATE}]);
    written.spec.as_mut().unwrap().scheduling_gates = Some(serde_json::from_value(wanted)?);
    let written = ground.namespace.create_object(&written).await?;
    assert_eq!(gates(&written), ["example.com/quota", GATE]);

    // A pod with a node has passed scheduling, and the API server takes none with a gate.
    let mut placed = ground.pod("placed", &["gpu"])?;
    placed.spec.as_mut().unwrap().node_name = Some(ground.node.name().to_owned());
    assert!(gates(&ground.namespace.create_object(&placed).await?).is_empty());
    Ok(())
}

#[tokio::test]
async fn a_pod_can_ask_for_the_gate_in_any_namespace() -> anyhow::Result<()> {
    let ground = Ground::new("asking").await?;
    ground.namespace.create_object(&claim("gpu", &GPU)?).await?;
    for (name, claims, label, expected) in [
        ("asks", &["gpu"][..], "enabled", &[GATE][..]),
        ("asks-without-claims", &[], "enabled", &[]),
        ("declines", &["gpu"], "disabled", &[]),
    ] {
        let mut pod = ground.pod(name, claims)?;
        let label = ("lanemate.dev/placement".to_owned(), label.to_owned());
        pod.metadata.labels = Some([label].into());
        assert_eq!(gates(&ground.namespace.create_object(&pod).await?), expected, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn without_a_controller_all_pods_are_bound_that_want_nothing_of_it() -> anyhow::Result<()> {
    let ground = Ground::new("no-controller").await?;
    let other = ground.add_other_driver().await?;
    ground.namespace.create_object(&claim("other", &[("any", &other.0)])?).await?;
    for (name, claims) in [("plain", &[][..]), ("other", &["other"])] {
        assert!(gates(&ground.create_pod(name, claims).await?).is_empty(), "{name}");
        assert_eq!(ground.namespace.pod_bound(name).await?, ground.node.name(), "{name}");
    }
    ground.until_allocated("other", true).await?;
    // It is freed as ever.
    ground.namespace.set_phase("other", "Succeeded").await?;
    ground.until_allocated("other", false).await
}
