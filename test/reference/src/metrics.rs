//! The page of metrics, from what the registries of the two programs tell.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use lanemate_controller::plan::repair::Counts;
use lanemate_controller::telemetry::capacities::Capacities;
use lanemate_controller::telemetry::metrics::Metrics as Controller;
use lanemate_driver::allocation::Evaluations;
use lanemate_driver::testing::cluster::{classes, cluster, switches, unit_class};
use lanemate_kubelet_plugin::telemetry::metrics::{Metrics as Plugin, Operation, Outcome};
use lanemate_runtime::telemetry::process;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::markdown::{code, page, plain, table};

/// A metric as it is scraped.
#[derive(Clone, Debug, Default)]
struct Metric {
    name: String,
    kind: String,
    help: String,
    labels: Vec<String>,
}

/// The page.
///
/// # Errors
/// When a registry cannot be written.
pub fn render() -> Result<String, String> {
    let mut text = String::new();
    for (title, port, scraped) in [
        ("lanemate-controller", "--http-address", controller()?),
        ("lanemate-kubelet-plugin", "--metrics-address", plugin()?),
    ] {
        let rows: Vec<Vec<String>> = metrics(&scraped).iter().map(row).collect();
        text += &format!("## {title}\nAt `/metrics`, where `{port}` says.\n\n");
        text += &table(&["metric", "type", "labels", "meaning"], &rows);
        text += "\n";
    }
    Ok(page(
        "Metrics",
        "Every metric of the two programs. A histogram has the series `_bucket`, `_sum` and `_count`. \
         What labels say, and which metrics are worth an alert: [operations](../operations.md#alerts).",
        &text,
    ))
}

fn row(metric: &Metric) -> Vec<String> {
    let labels: Vec<String> = metric.labels.iter().map(|label| code(label)).collect();
    vec![code(&metric.name), metric.kind.clone(), labels.join(", "), plain(&metric.help)]
}

/// A family without a series is not written, so each gets one.
fn controller() -> Result<String, String> {
    let mut registry = Registry::default();
    let metrics = Controller::new(&mut registry);
    metrics.objects("pod", 1);
    metrics.write("claim", Duration::ZERO);
    metrics.refusal("reason");
    metrics.wanted([("class", 1)]);
    metrics.troubles(&Counts::default());
    let json = serde_json::json!({});
    let class = classes(&[unit_class("class", (1, 1), json)]).get("class");
    let classes = [class.map_err(|error| format!("read the class: {error}"))?];
    let cluster = cluster(&[("node", switches(1, 1, 1))]);
    let mut evaluations = Evaluations::default();
    let now = Timestamp::UNIX_EPOCH;
    metrics.capacities(&Capacities::default().count(&cluster, &mut evaluations, &classes, now));
    process::register(&mut registry, "lanemate_controller");
    scrape(&registry)
}

fn plugin() -> Result<String, String> {
    let mut registry = Registry::default();
    let metrics = Plugin::new(&mut registry);
    metrics.operation(Operation::Prepare, Outcome::Success, Duration::ZERO);
    metrics.records("Prepared", 1);
    metrics.reconciled("released");
    metrics.slice_write("success");
    process::register(&mut registry, "lanemate_plugin");
    scrape(&registry)
}

fn scrape(registry: &Registry) -> Result<String, String> {
    let mut text = String::new();
    encode(&mut text, registry).map_err(|error| format!("write the metrics: {error}"))?;
    Ok(text)
}

/// Metrics of an OpenMetrics text, in its order.
fn metrics(text: &str) -> Vec<Metric> {
    let mut found: Vec<Metric> = Vec::new();
    let mut kinds: BTreeMap<&str, &str> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|l| l.split_once(' ')) {
            // The encoder ends each help with a full stop.
            let help = help.trim_end_matches('.').to_owned();
            found.push(Metric { name: name.to_owned(), help, ..Metric::default() });
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|l| l.split_once(' '))
        {
            kinds.insert(name, kind);
        } else if let Some(metric) = found.last_mut() {
            for label in labels(line) {
                if !metric.labels.contains(&label) && label != "le" {
                    metric.labels.push(label);
                }
            }
        }
    }
    for metric in &mut found {
        metric.kind = kinds.get(metric.name.as_str()).copied().unwrap_or_default().to_owned();
        match metric.kind.as_str() {
            "counter" => metric.name += "_total",
            "info" => metric.name += "_info",
            _ => {}
        }
    }
    found
}

/// Names of the labels of a series.
fn labels(line: &str) -> Vec<String> {
    let inside = line.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    let pairs = inside.map(|(inside, _)| inside.split(',')).into_iter().flatten();
    pairs.filter_map(|pair| pair.split_once('=')).map(|(name, _)| name.to_owned()).collect()
}
