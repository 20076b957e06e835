//! Outages of the control plane's programs, as tests make them.

use lanemate_driver::resource_slice::Mode;
use lanemate_test_cluster::{Component, Deed};

use super::ground::Ground;

#[tokio::test]
async fn programs_of_the_control_plane_stop_and_come_back() -> anyhow::Result<()> {
    let ground = Ground::alone("components", Mode::Controller).await?;
    for deed in [Deed::Stop, Deed::Pause] {
        let outage = ground.cluster.disturb(Component::Scheduler, deed).await?;
        let name = format!("during-{deed:?}").to_lowercase();
        ground.create_pod(&name, &[]).await?;
        let pods = ground.namespace.api::<k8s_openapi::api::core::v1::Pod>();
        assert_eq!(pods.get(&name).await?.spec.unwrap().node_name, None);
        outage.end().await?;
        assert_eq!(ground.namespace.pod_bound(&name).await?, ground.node.name());
    }
    let every =
        [Component::Etcd, Component::ApiServer, Component::ControllerManager, Component::Scheduler];
    for component in every {
        ground.cluster.disturb(component, Deed::Kill).await?.end().await?;
        let name = format!("after-{}", component.name());
        ground.create_pod(&name, &[]).await?;
        ground.namespace.pod_bound(&name).await?;
    }
    Ok(())
}
