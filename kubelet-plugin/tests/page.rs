//! The page for users names every flag with its default, and every metric.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::path::Path;
use std::time::Duration;

use clap::CommandFactory;
use lanemate_kubelet_plugin::args::Cli;
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
fn every_flag_stands_in_the_page_with_its_default() {
    let page = page();
    let command = Cli::command();
    let flags: Vec<_> = command.get_arguments().filter(|flag| flag.get_long().is_some()).collect();
    assert!(flags.len() > 15, "{}", flags.len());
    for flag in flags {
        let name = flag.get_long().unwrap();
        let is_row = |line: &&str| {
            let rest = line.strip_prefix(&format!("| `--{name}"));
            rest.is_some_and(|rest| rest.starts_with([' ', '`']))
        };
        let row = page.lines().find(is_row).unwrap_or_else(|| panic!("--{name} has no row"));
        for default in flag.get_default_values() {
            let default = default.to_str().unwrap();
            assert!(row.contains(&format!("| `{default}` |")), "--{name}: {default:?}: {row}");
        }
        if let Some(variable) = flag.get_env().and_then(|name| name.to_str()) {
            assert!(row.contains(&format!("`{variable}`")), "--{name}: {variable}: {row}");
        }
    }
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
