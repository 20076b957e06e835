//! Time of one selector on one device, for shapes that people write; `compile` for comparison.
#![allow(missing_docs, reason = "criterion's macros make public functions without docs")]
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use lanemate_driver::attribute::{AttributeValue, Attributes, Capacities, QualifiedName};
use lanemate_driver::selector::{Selector, Subject};

/// Name and expression of each shape; `D` stands for the device's own domain.
const SHAPES: [(&str, &str); 16] = [
    ("const-false", "false"),
    ("driver", r#"device.driver == "D""#),
    ("class-like", r#"device.driver == "D" && device.attributes["D"].type == "gpu""#),
    ("string-eq", r#"device.attributes["D"].productName == "NVIDIA H200""#),
    ("int-cmp", r#"device.attributes["D"].index >= 4"#),
    ("optional", r#"device.attributes["D"].?linkLayer.orValue("") == "InfiniBand""#),
    ("has", r#"has(device.attributes["D"].linkLayer)"#),
    ("in-list", r#"device.attributes["D"].productName in ["A", "B", "NVIDIA H200"]"#),
    ("startsWith", r#"device.attributes["D"].productName.startsWith("NVIDIA")"#),
    ("matches", r#"device.attributes["D"].productName.matches("^NVIDIA H[12]00$")"#),
    ("quantity", r#"device.capacity["D"].memory.compareTo(quantity("40Gi")) >= 0"#),
    ("semver", r#"device.attributes["D"].driverVersion.isGreaterThan(semver("550.0.0"))"#),
    ("bind", r#"cel.bind(a, device.attributes["D"], a.type == "gpu" && a.index > 3)"#),
    (
        "memory-and-product",
        r#"device.capacity["D"].memory.isGreaterThan(quantity("80Gi")) && device.attributes["D"].productName.lowerAscii().contains("h200")"#,
    ),
    ("missing-key", r#"device.attributes["D"].nope == 1"#),
    ("exists-over-ids", r#"device.attributes["D"].exists(k, k == "type")"#),
];

const DOMAIN: &str = "gpu.lanemate.dev";

/// A device with as many attributes as ours have.
fn device() -> (Attributes, Capacities) {
    use AttributeValue::{Bool, Int, String, Version};
    let name = |name: &str| QualifiedName::parse(name, DOMAIN);
    let mut attributes: Attributes = [
        (name("type"), String("gpu".into())),
        (name("productName"), String("NVIDIA H200".into())),
        (name("index"), Int(5)),
        (name("driverVersion"), Version("570.133.20".into())),
        (name("healthy"), Bool(true)),
        (name("resource.kubernetes.io/pcieRoot"), String("pci0000:16".into())),
        (name("resource.kubernetes.io/numaNode"), Int(0)),
    ]
    .into();
    for index in 0..13 {
        attributes.insert(name(&format!("extra{index}")), Int(index));
    }
    let capacity =
        [(name("memory"), "141Gi".parse().unwrap()), (name("slots"), "7".parse().unwrap())];
    (attributes, capacity.into())
}

fn selectors(criterion: &mut Criterion) {
    let (attributes, capacity) = device();
    let subject = Subject {
        driver: DOMAIN,
        attributes: &attributes,
        capacity: &capacity,
        allow_multiple_allocations: false,
    };
    let shapes = SHAPES.map(|(name, shape)| (name, shape.replace("\"D\"", &format!("{DOMAIN:?}"))));
    let mut group = criterion.benchmark_group("matches");
    for (name, expression) in &shapes {
        let selector = Selector::compile(expression).unwrap();
        group.bench_function(*name, |bencher| {
            bencher.iter(|| black_box(&selector).matches(black_box(&subject)));
        });
    }
    group.finish();
    let mut group = criterion.benchmark_group("compile");
    for (name, expression) in &shapes {
        group.bench_function(*name, |bencher| {
            bencher.iter(|| Selector::compile(black_box(expression)));
        });
    }
    group.finish();
}

criterion_group!(benches, selectors);
criterion_main!(benches);
