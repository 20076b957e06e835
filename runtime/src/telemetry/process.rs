//! Metrics of the process itself: memory, start, version.

use std::fmt;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

/// Read at each scrape.
#[derive(Debug)]
struct Memory;

/// Registers them; what is no standard has the prefix. The process is taken to begin now.
pub fn register(registry: &mut Registry, prefix: &'static str) {
    let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
    registry.sub_registry_with_prefix(prefix).register("build", "Version of the program", version);
    let start = Gauge::<f64, std::sync::atomic::AtomicU64>::default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    start.set(now.as_secs_f64());
    // Names as the Prometheus clients of other languages have them.
    registry.register_with_unit("process_start_time", "Start of the process", Unit::Seconds, start);
    registry.register_collector(Box::new(Memory));
}

impl Collector for Memory {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let Some(bytes) = resident_bytes(&status) else { return Ok(()) };
        let gauge = ConstGauge::new(bytes);
        let encoder = encoder.encode_descriptor(
            "process_resident_memory",
            "Resident memory",
            Some(&Unit::Bytes),
            gauge.metric_type(),
        )?;
        gauge.encode(encoder)
    }
}

/// `VmRSS` of `/proc/<pid>/status`, which is in kB whatever the page size (proc_pid_status(5)).
fn resident_bytes(status: &str) -> Option<i64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: i64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn resident_memory_is_read_or_absent() {
        let status = "Name:\tx\nVmRSS:\t   11264 kB\nRssAnon:\t 5 kB\n";
        assert_eq!(resident_bytes(status), Some(11_534_336));
        for broken in ["", "VmRSS:\t x kB\n", "VmRSS: 5\n", "VmRSS: 9223372036854775807 kB\n"] {
            assert_eq!(resident_bytes(broken), None, "{broken}");
        }
    }

    #[test]
    fn memory_start_and_version_have_the_usual_names() {
        let mut registry = Registry::default();
        register(&mut registry, "lanemate_test");
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for name in [
            "process_resident_memory_bytes ",
            "process_start_time_seconds ",
            concat!("lanemate_test_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1\n"),
        ] {
            assert!(text.lines().any(|line| format!("{line}\n").starts_with(name)), "{text}");
        }
    }
}
