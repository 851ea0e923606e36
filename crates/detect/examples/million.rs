//! What a million members cost: memory, pings by one thread and by several, a check.
//!
//! `cargo run --release -p detect --example million [members]`

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clock::SystemClock;
use detect::{PassiveConfig, PassiveDetector, Pinged};
use model::{Clock, WorkerKey};

const THREADS: usize = 4;
const ROUNDS: usize = 4;

fn main() {
    let members =
        std::env::args().nth(1).map_or(1_000_000, |text| text.parse().expect("a number of members"));
    // Shuffled, since nobody pings in the order of registration.
    let mut keys: Vec<WorkerKey> = (0..members)
        .map(|number: usize| format!("0198c0de-7a1b-7c3d-8e4f-{number:012x}"))
        .map(|text| WorkerKey::new(&text).expect("a good key"))
        .collect();
    shuffle(&mut keys);

    let config = PassiveConfig::default();
    let clock = Arc::new(Skipping::default());
    let detector = PassiveDetector::new(config, Arc::clone(&clock) as Arc<dyn Clock>, |member| {
        black_box(member);
    });
    let before = resident_bytes();
    let took = timed(|| keys.iter().for_each(|key| assert_eq!(detector.ping(key), Pinged::Registered)));
    println!("{members} first pings      {}", rate(members, took));
    let took = timed(|| assert_eq!(detector.check_now().dead, 0));
    println!("first check            {took:>10.1?}  (takes in the newcomers)");
    let each = (resident_bytes().saturating_sub(before)) as f64 / members as f64;
    println!("memory per member      {each:>7.0} B  (keys of 36 bytes not counted, the caller has them)");

    shuffle(&mut keys);
    let took = timed(|| (0..ROUNDS).for_each(|_| ping_all(&detector, &keys)));
    println!("pings, one thread      {}", rate(ROUNDS * members, took));
    let took = timed(|| {
        thread::scope(|scope| {
            for part in keys.chunks(members.div_ceil(THREADS)) {
                scope.spawn(|| (0..ROUNDS).for_each(|_| ping_all(&detector, part)));
            }
        });
    });
    println!("pings, {THREADS} threads       {}", rate(ROUNDS * members, took));

    // All were filed by their first ping and have pinged since, so all are due and none is dead.
    clock.skip(config.timeout);
    ping_all(&detector, &keys);
    let mut checked = detector.check_now();
    clock.skip(config.timeout - config.check_every);
    ping_all(&detector, &keys);
    clock.skip(config.check_every);
    let took = timed(|| checked = detector.check_now());
    println!(
        "check, all alive       {took:>10.1?}  ({} looked at, {} dead)",
        checked.looked_at, checked.dead
    );
    clock.skip(config.timeout);
    let took = timed(|| checked = detector.check_now());
    println!(
        "check, all dead        {took:>10.1?}  ({} looked at, {} dead)",
        checked.looked_at, checked.dead
    );
}

/// The system's clock, set forward at will.
#[derive(Debug, Default)]
struct Skipping {
    nanos: AtomicU64,
}

impl Skipping {
    fn skip(&self, by: Duration) {
        self.nanos.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Clock for Skipping {
    fn monotonic(&self) -> model::Instant {
        SystemClock.monotonic() + Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }

    fn wall(&self) -> model::WallTime {
        SystemClock.wall()
    }
}

fn ping_all(detector: &PassiveDetector, keys: &[WorkerKey]) {
    for key in keys {
        black_box(detector.ping(key));
    }
}

fn timed(act: impl FnOnce()) -> Duration {
    let began = Instant::now();
    act();
    began.elapsed()
}

fn rate(count: usize, took: Duration) -> String {
    let each = took.as_nanos() as f64 / count as f64;
    format!("{:>10.2} million/s  ({each:.0} ns each)", 1_000.0 / each)
}

fn shuffle(keys: &mut [WorkerKey]) {
    let mut state = 1_u64;
    for end in (1..keys.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        keys.swap(end, (state >> 33) as usize % (end + 1));
    }
}

/// How much of us is in memory, as Linux tells it.
fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.as_deref().and_then(|text| text.split_whitespace().nth(1)?.parse::<usize>().ok());
    pages.unwrap_or_default() * 4096
}
