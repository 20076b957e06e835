//! The node publishes the machine that was captured.

use k8s_openapi::api::resource::v1::Device;
use lanemate_driver::inventory::Policy;
use lanemate_driver::machine::Machine;
use lanemate_driver::resource_slice::{Mode, RenderOptions, render};
use lanemate_driver::testing::facts;
use lanemate_test_cluster::NODE;
use lanemate_test_cluster::node::{devices_of, slices};

use crate::scene::Scene;

#[tokio::test]
async fn the_devices_of_the_node_are_those_of_the_captured_machine() -> anyhow::Result<()> {
    let scene = Scene::new("slices").await?;
    let machine = Machine::from_facts(NODE, facts("dgx-h100"), None, &Policy::default());
    let expected =
        render(&machine.inventory, RenderOptions { mode: Mode::Controller, generation: 1 });
    let expected: Vec<Device> = expected.iter().flat_map(devices_of).collect();
    let published = slices(scene.cluster.client()).await?;
    let published: Vec<Device> = published.iter().flat_map(devices_of).collect();
    assert_eq!(published.len(), 18);
    assert_eq!(published, expected);
    Ok(())
}
