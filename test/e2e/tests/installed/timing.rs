//! How long a pod takes from its creation until it runs, with a pair and without a claim.

use std::time::{Duration, Instant};

use lanemate_test_cluster::{WAITS, pod};
use serde_json::Value;

use crate::scene::{Scene, pairs_claim};

/// Of each kind.
const PODS: usize = 10;

async fn started(scene: &Scene, name: &str, claims: &[&str]) -> anyhow::Result<Duration> {
    let created = Instant::now();
    scene.namespace.create_object(&pod(name, WAITS, claims)?).await?;
    scene.namespace.pod_running(name).await?;
    Ok(created.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[tokio::test]
async fn the_time_to_run_with_a_pair_is_printed_beside_that_without_a_claim() -> anyhow::Result<()>
{
    let scene = Scene::new("timing").await?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    // In turns, so that both see the same machine.
    for number in 0..PODS {
        let (claimed, plain) = (format!("claimed-{number}"), format!("plain-{number}"));
        scene.namespace.create_object(&pairs_claim(&claimed, 1, Value::Null)?).await?;
        with.push(started(&scene, &claimed, &[&claimed]).await?);
        without.push(started(&scene, &plain, &[]).await?);
        scene.end(&[&claimed, &plain]).await?;
    }
    let (with, without) = (median(with), median(without));
    println!(
        "a pod with a pair runs after {} ms, without a claim after {} ms: ratio {:.2}",
        with.as_millis(),
        without.as_millis(),
        with.as_secs_f64() / without.as_secs_f64(),
    );
    Ok(())
}
