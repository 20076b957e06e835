//! Random operations on the state of a node, against a small model of it: no device is held twice, none
//! is held for ever, and the CDI directory equals the records, whatever is done in whatever order,
//! wherever the plugin dies.
//!
//! `LANEMATE_MODEL_OPERATIONS` is the number of operations (default 100,000), in worlds of 500 that each
//! have a seed; `LANEMATE_MODEL_SEED` runs the world of one seed alone.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod state_model {
    pub mod disk;
    pub mod expect;
    pub mod operations;
    pub mod random;
    pub mod world;
}

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use state_model::world::{Host, World};

/// Operations of a world, after which all of it is torn down.
const OF_A_WORLD: u64 = 500;
const DEFAULT: u64 = 100_000;
const THREADS: usize = 2;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}: not a number: {text:?}")))
}

#[test]
fn random_operations_hold_no_device_twice_and_none_for_ever() {
    let host = Arc::new(Host::read());
    if let Some(seed) = number("LANEMATE_MODEL_SEED") {
        World::new(seed, &host).run(OF_A_WORLD);
        return;
    }
    let worlds = number("LANEMATE_MODEL_OPERATIONS").unwrap_or(DEFAULT).div_ceil(OF_A_WORLD);
    let first = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs() * 1_000_000);
    println!("seeds {first} to {}", first + worlds - 1);
    let next = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let (next, host) = (Arc::clone(&next), Arc::clone(&host));
            thread::spawn(move || {
                let mut passed = [0; 2];
                loop {
                    let world = next.fetch_add(1, Ordering::SeqCst);
                    if world >= worlds {
                        return passed;
                    }
                    let counts = World::new(first + world, &host).run(OF_A_WORLD);
                    passed = [passed[0] + counts[0], passed[1] + counts[1]];
                }
            })
        })
        .collect();
    let passed: Vec<[u64; 2]> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap_or_else(|failure| std::panic::resume_unwind(failure)))
        .collect();
    let sum = |index: usize| passed.iter().map(|counts| counts[index]).sum::<u64>();
    println!("{} claims prepared, {} faults met", sum(0), sum(1));
    // A model that is never contradicted because nothing happens would be of no use.
    assert!(sum(0) > worlds * OF_A_WORLD / 50 && sum(1) > worlds * OF_A_WORLD / 100);
}
