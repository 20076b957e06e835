//! Prepare through kubelet's socket against a bare flush of the same bytes, memory, start and size.
//!
//! The plugin is the real binary on a captured machine of 8 GPUs and 10 NICs; the API server is a
//! small one in this process. `--quick` measures less.

#![allow(clippy::unwrap_used, reason = "a benchmark ends where it cannot go on")]

#[path = "../tests/rig/mod.rs"]
mod rig;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use lanemate_kubelet_sim::Claim;
use rig::{DRIVER, NODE, Rig};

/// Devices of the captured machine that are free at its start.
const MOST: usize = 16;
/// Aim for the 99th percentile: so many floors, and 2 ms per claim.
const FLOORS: u32 = 4;
const PER_CLAIM: Duration = Duration::from_millis(2);

struct Times(Vec<Duration>);

impl Times {
    fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
    }

    fn tell(&self, what: &str) {
        println!("{what:46} p50 {:>9.2?}  p99 {:>9.2?}", self.percentile(50), self.percentile(99));
    }
}

#[tokio::main]
async fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let (rounds, cycles) = if quick { (50, 500) } else { (500, 10_000) };
    let mut rig = Rig::new().await;
    // Looks every millisecond, to see the start.
    rig.poll_every(Duration::from_millis(1));
    start(&mut rig).await;
    rig.until("all devices", |rig| rig.published_devices().len() > MOST).await;
    let idle = resident(rig.pid());

    let one = [rig.claim("one", &[&rig.published_devices()[0], &rig.published_devices()[1]])];
    let record = {
        rig.prepared(&one[0]).await;
        fs::read(rig.record(&one[0])).unwrap()
    };
    rig.unprepared(&one[0]).await;
    let floor = floor(&rig.state(), &record, rounds);
    floor.tell(&format!("flush of {} bytes, the floor", record.len()));
    prepare(&rig, "Prepare of 1 claim with 2 devices", &one, rounds, &floor).await;
    let many: Vec<Claim> = rig.published_devices()[..MOST]
        .iter()
        .enumerate()
        .map(|(index, device)| rig.claim(&format!("c{index}"), &[device.as_str()]))
        .collect();
    prepare(&rig, "Prepare of 16 claims at once", &many, rounds / 5, &floor).await;

    let before = resident(rig.pid());
    for _ in 0..cycles {
        rig.prepared(&one[0]).await;
        rig.unprepared(&one[0]).await;
    }
    let after = resident(rig.pid());
    println!("resident memory, idle                          {idle} KiB (aim: below {})", 25 << 10);
    println!(
        "resident memory, after {cycles} more cycles       {after} KiB, {:+.1} % (aim: within 10 %), {:+.1} % of idle",
        percent(after, before),
        percent(after, idle),
    );
    let size = fs::metadata(env!("CARGO_BIN_EXE_lanemate-kubelet-plugin")).unwrap().len();
    println!("size of the binary                             {:.1} MiB", size as f64 / 1048576.0);
}

/// The time from the start of the process to kubelet's acknowledgement.
async fn start(rig: &mut Rig) {
    let reading = Instant::now();
    let capture = lanemate_driver::discovery::HostCapture::parse(&rig.captured()).unwrap();
    let policy = lanemate_driver::inventory::Policy::default();
    let host = capture.host();
    lanemate_driver::machine::Machine::read(NODE, &host, &capture, None, &policy);
    let reading = reading.elapsed();
    let started = Instant::now();
    rig.start().await;
    println!(
        "start to registered                            {:.2?}, reading the machine {reading:.2?} of it (aim: 300 ms more)",
        started.elapsed()
    );
}

/// Writes a file and flushes it, and nothing else.
fn floor(directory: &Path, bytes: &[u8], rounds: usize) -> Times {
    let path = directory.join("floor");
    let flush = |_| {
        let mut file: File =
            OpenOptions::new().create(true).write(true).truncate(true).open(&path).unwrap();
        let started = Instant::now();
        file.write_all(bytes).unwrap();
        file.sync_all().unwrap();
        started.elapsed()
    };
    let times = (0..rounds).map(flush).collect();
    fs::remove_file(path).unwrap();
    Times(times)
}

async fn prepare(rig: &Rig, what: &str, claims: &[Claim], rounds: usize, floor: &Times) {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let started = Instant::now();
        let answers = rig.kubelet.prepare(DRIVER, claims).await.unwrap();
        times.push(started.elapsed());
        assert!(answers.values().all(Result::is_ok), "{answers:?}");
        let answers = rig.kubelet.unprepare(DRIVER, claims).await.unwrap();
        assert!(answers.values().all(Result::is_ok), "{answers:?}");
    }
    let times = Times(times);
    times.tell(what);
    let count = u32::try_from(claims.len()).unwrap();
    let aim = (floor.percentile(99) * FLOORS + PER_CLAIM) * count;
    let p99 = times.percentile(99);
    println!(
        "{:46} p99 is {:.2} of {FLOORS} floors and {PER_CLAIM:?} per claim, {:.1} floors",
        "",
        p99.as_secs_f64() / aim.as_secs_f64(),
        p99.as_secs_f64() / floor.percentile(99).as_secs_f64()
    );
}

/// How much more it is, in percent.
fn percent(now: u64, before: u64) -> f64 {
    (now as f64 / before as f64 - 1.0) * 100.0
}

/// Resident memory of a process, in KiB.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
