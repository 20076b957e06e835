//! From the facts of a DGX H100 to its ResourceSlices.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use lanemate_driver::inventory::{Inventory, Policy};
use lanemate_driver::resource_slice::{Mode, RenderOptions, render};
use lanemate_driver::testing::facts;
use lanemate_driver::topology::Topology;

fn bench(criterion: &mut Criterion) {
    let facts = facts("dgx-h100");
    let topology = Topology::build(&facts, None);
    let policy = Policy::default();
    let options = RenderOptions { mode: Mode::Controller, generation: 1 };
    criterion.bench_function("render/topology", |bencher| {
        bencher.iter(|| Topology::build(black_box(&facts), None));
    });
    criterion.bench_function("render/inventory", |bencher| {
        bencher.iter(|| Inventory::build("n1", black_box(&facts), &topology, &policy));
    });
    let inventory = Inventory::build("n1", &facts, &topology, &policy);
    criterion.bench_function("render/slices", |bencher| {
        bencher.iter(|| render(black_box(&inventory), options));
    });
}

criterion_group!(benches, bench);
criterion_main!(benches);
