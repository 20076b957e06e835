//! Everything is disturbed at random while pods come and go; at the end all of it holds.
//!
//! `LANEMATE_CHAOS_SECONDS` and `LANEMATE_CHAOS_SEED` ask for another run; the seed of a run is printed.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use lanemate_driver::resource_slice::Mode;
use lanemate_test_cluster::{Component, Deed, NodeOptions, until};

use crate::scene::{FINALIZER, Scene, allocation, gpus, pairs};

const SECONDS: u64 = 120;
/// Pods at a time: more than the nodes can hold, so that some always wait.
const PODS: usize = 24;
const NODES: usize = 3;

/// SplitMix64: a run can be repeated from its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % sides as u64).unwrap_or(0)
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[tokio::test]
async fn after_chaos_no_device_is_in_two_claims_every_pod_is_bound_and_nothing_is_left() {
    let seconds = number("LANEMATE_CHAOS_SECONDS").unwrap_or(SECONDS);
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = number("LANEMATE_CHAOS_SEED").unwrap_or(clock.as_secs());
    println!("chaos: {seconds} s, seed {seed}");
    let mut chaos = Chaos::new(seed).await.unwrap();
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        chaos.step().await.unwrap();
    }
    chaos.settle().await.unwrap();
    println!("chaos: {} steps, {} pods, {} disturbances", chaos.steps, chaos.made, chaos.disturbed);
}

struct Chaos {
    scene: Scene,
    dice: Dice,
    made: usize,
    steps: usize,
    disturbed: usize,
}

impl Chaos {
    async fn new(seed: u64) -> anyhow::Result<Chaos> {
        let hosts = ["dgx-h100"; NODES];
        let mut scene = Scene::without_controller("chaos", &hosts, Mode::Controller).await?;
        scene.start.lease_seconds = 2;
        scene.template("pair", pairs(1)).await?;
        scene.template("four", pairs(4)).await?;
        scene.template("gpu", gpus(2)).await?;
        scene.start_controller().await?;
        Ok(Chaos { scene, dice: Dice(seed), made: 0, steps: 0, disturbed: 0 })
    }

    async fn step(&mut self) -> anyhow::Result<()> {
        self.steps += 1;
        match self.dice.roll(40) {
            0 => self.end_controller().await?,
            1 => self.kill_component().await?,
            2 => self.replace_node().await?,
            3 => self.publish_anew().await?,
            4..=6 => self.delete_claim().await?,
            7..=16 => self.end_pod().await?,
            _ => self.create_pod().await?,
        }
        let pause = self.dice.roll(120);
        tokio::time::sleep(Duration::from_millis(pause as u64)).await;
        Ok(())
    }

    async fn end_controller(&mut self) -> anyhow::Result<()> {
        self.disturbed += 1;
        if self.dice.roll(2) == 0 {
            self.scene.kill_controller();
        } else if let Some(mut controller) = self.scene.controller.take() {
            controller.terminate().await?;
        }
        self.scene.start_controller().await
    }

    async fn kill_component(&mut self) -> anyhow::Result<()> {
        self.disturbed += 1;
        let component = [Component::ApiServer, Component::ControllerManager, Component::Scheduler];
        let component = component[self.dice.roll(component.len())];
        self.scene.cluster.disturb(component, Deed::Kill).await?.end().await?;
        // An outage longer than the lease ends the controller, as it should.
        if self.scene.controller.as_mut().is_some_and(|controller| controller.has_ended()) {
            self.scene.controller = None;
            self.scene.start_controller().await?;
        }
        Ok(())
    }

    /// A node goes with all that is on it, and another one comes.
    async fn replace_node(&mut self) -> anyhow::Result<()> {
        self.disturbed += 1;
        let index = self.dice.roll(self.scene.nodes.len());
        drop(self.scene.nodes.swap_remove(index));
        self.made += 1;
        let name = format!("{}-n{}", self.scene.namespace.name(), self.made);
        self.scene
            .add_named_node(&name, "dgx-h100", Mode::Controller, &NodeOptions::default())
            .await
    }

    async fn publish_anew(&mut self) -> anyhow::Result<()> {
        self.disturbed += 1;
        let index = self.dice.roll(self.scene.nodes.len());
        self.scene.nodes[index].publish("dgx-h100", Mode::Controller).await.map(drop)
    }

    async fn create_pod(&mut self) -> anyhow::Result<()> {
        let live = self.scene.pods().list(&ListParams::default()).await?.items.len();
        if live >= PODS {
            return self.end_pod().await;
        }
        self.made += 1;
        let template = ["@pair", "@pair", "@gpu", "@four"][self.dice.roll(4)];
        let claims: &[&str] = if self.dice.roll(5) == 0 { &["@pair", "@gpu"] } else { &[template] };
        let name = format!("p{}", self.made);
        if self.dice.roll(6) == 0 {
            self.scene.pod_with(&name, claims, serde_json::json!({})).await?;
        } else {
            self.scene.pod(&name, claims).await?;
        }
        Ok(())
    }

    async fn end_pod(&mut self) -> anyhow::Result<()> {
        let pods = self.scene.pods().list(&ListParams::default()).await?.items;
        if pods.is_empty() {
            return Ok(());
        }
        let name = pods[self.dice.roll(pods.len())].name_any();
        let deleted = self.scene.delete_pod(&name).await;
        gone_is_fine(deleted)
    }

    /// Under whatever pod uses it: the finalizer keeps it until then.
    async fn delete_claim(&mut self) -> anyhow::Result<()> {
        let claims = self.scene.claims().list(&ListParams::default()).await?.items;
        if claims.is_empty() {
            return Ok(());
        }
        let name = claims[self.dice.roll(claims.len())].name_any();
        let deleted = self.scene.claims().delete(&name, &DeleteParams::default()).await;
        gone_is_fine(deleted.map(drop).map_err(Into::into))
    }

    /// Without disturbances: whatever fits is bound; when all pods are gone nothing is left of them.
    async fn settle(&mut self) -> anyhow::Result<()> {
        self.scene.sound().await?;
        // Pods whose claim was deleted before it was allocated wait for it for ever: they go.
        for pod in self.scene.pods().list(&ListParams::default()).await?.items {
            let known: BTreeSet<String> = self
                .scene
                .claims()
                .list(&ListParams::default())
                .await?
                .items
                .iter()
                .filter(|claim| claim.metadata.deletion_timestamp.is_none())
                .map(ResourceExt::name_any)
                .collect();
            let names = crate::scene::claim_names(&pod);
            let entries = pod.spec.iter().flat_map(|spec| spec.resource_claims.iter().flatten());
            if names.len() < entries.count() || names.iter().any(|name| !known.contains(name)) {
                gone_is_fine(self.scene.delete_pod(&pod.name_any()).await)?;
            }
        }
        // Half of the rest goes too, so that what stays fits in whatever order it came.
        let pods = self.scene.pods().list(&ListParams::default()).await?.items;
        for pod in pods.iter().skip(4) {
            gone_is_fine(self.scene.delete_pod(&pod.name_any()).await)?;
        }
        for pod in pods.iter().take(4) {
            self.scene.placed(&pod.name_any()).await?;
        }
        self.scene.sound().await?;
        for pod in pods.iter().take(4) {
            self.scene.delete_pod(&pod.name_any()).await?;
        }
        until("no claim, no allocation and no finalizer to be left", async || {
            let claims = self.scene.claims().list(&ListParams::default()).await?.items;
            let left: Vec<String> = claims
                .iter()
                .filter(|claim| {
                    allocation(claim).is_some()
                        || claim.finalizers().iter().any(|finalizer| finalizer == FINALIZER)
                })
                .map(ResourceExt::name_any)
                .collect();
            Ok(if left.is_empty() { Ok(()) } else { Err(left.join(", ")) })
        })
        .await
    }
}

/// Others delete too: owners, the controller manager, and the controller under test.
fn gone_is_fine(deleted: anyhow::Result<()>) -> anyhow::Result<()> {
    match deleted {
        Err(error)
            if error.downcast_ref::<kube::Error>().is_some_and(
                |error| matches!(error, kube::Error::Api(status) if status.code == 404),
            ) =>
        {
            Ok(())
        }
        other => other,
    }
}
