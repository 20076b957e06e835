//! The page for users names every metric, and probes that fit the program.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::path::Path;
use std::time::Duration;

use lanemate_kubelet_plugin::telemetry::metrics::{Metrics, Operation, Outcome};
use lanemate_kubelet_plugin::telemetry::{health, probe};
use lanemate_runtime::telemetry::process;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/user/kubelet-plugin.md");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn probes_wait_longer_than_the_plugin_does() {
    let page = page();
    let waits = page.lines().filter_map(|line| line.trim().strip_prefix("timeoutSeconds: "));
    let waits: Vec<u64> = waits.map(|seconds| seconds.parse().unwrap()).collect();
    assert_eq!(waits.len(), 2, "{waits:?}");
    assert!(waits.iter().all(|wait| Duration::from_secs(*wait) > probe::PATIENCE), "{waits:?}");
    let patience = format!("has not answered for {:?}", health::PATIENCE);
    assert!(page.contains(&patience), "{patience}");
}

#[test]
fn every_metric_stands_in_the_page() {
    let page = page();
    let mut registry = Registry::default();
    let metrics = Metrics::new(&mut registry);
    // A family without an entry is not shown.
    metrics.operation(Operation::Prepare, Outcome::Success, Duration::ZERO);
    metrics.records("Prepared", 1);
    metrics.reconciled("kept");
    metrics.slice_write("created");
    process::register(&mut registry, "lanemate_plugin");
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let mut seen = 0;
    for (name, kind) in types {
        seen += 1;
        let ending = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        assert!(page.contains(&format!("`{name}{ending}`")), "{name}{ending}");
    }
    assert!(seen > 9, "{text}");
}
