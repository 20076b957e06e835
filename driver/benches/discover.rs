//! How long it takes to turn a captured DGX H100 into facts, and to read its capture.

use criterion::{Criterion, criterion_group, criterion_main};
use lanemate_driver::discovery::{HostCapture, discover};
use lanemate_driver::testing;

fn discover_dgx_h100(criterion: &mut Criterion) {
    let capture = testing::host("dgx-h100");
    let host = capture.host();
    criterion.bench_function("discover/dgx-h100", |bencher| {
        bencher.iter(|| discover(&host, &capture));
    });
    let text = testing::read("captures/dgx-h100.yaml");
    criterion.bench_function("discover/parse-capture/dgx-h100", |bencher| {
        bencher.iter(|| HostCapture::parse(&text));
    });
}

criterion_group!(benches, discover_dgx_h100);
criterion_main!(benches);
