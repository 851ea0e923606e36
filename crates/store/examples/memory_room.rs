//! What a million jobs take in memory beside what they are counted with: `cargo run --release -p store --example memory_room 100`
//! for payloads of 100 bytes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::{ClientId, Clock, Hold, Kind, NewJob, Outcome, QueueName, Report, WorkerKey};
use store::conformance::{TestClock, ready};
use store::{Claim, EnqueueBatch, JobStore, MemoryStore};

const JOBS: u64 = 1_000_000;
const AT_ONCE: u64 = 1_000;

fn main() {
    let bytes = std::env::args().nth(1).map_or(100, |bytes| bytes.parse().expect("a number of bytes"));
    let clock = Arc::new(TestClock::new());
    let store = MemoryStore::volatile_within(clock.clone(), usize::MAX);
    let client = ClientId::new(clock.wall(), 1);
    let before = resident();
    enqueue(&store, client, bytes);
    report("wait", bytes, &store, before);
    run(&store);
    report("have ended", bytes, &store, before);
}

fn report(what: &str, payload: usize, store: &MemoryStore, before: u64) {
    let (took, counted) = (resident() - before, store.usage().bytes);
    println!(
        "jobs that {what}, payload of {payload} bytes: {} bytes each, counted with {}: {:.2} times as much",
        took / JOBS,
        counted / JOBS,
        took as f64 / counted as f64
    );
}

fn queue() -> QueueName {
    QueueName::new("bulk").expect("a name")
}

fn enqueue(store: &MemoryStore, client: ClientId, bytes: usize) {
    let kind = Kind::new("noop").expect("a name");
    for from in (0..JOBS).step_by(AT_ONCE as usize) {
        let payload = Bytes::from(vec![7; bytes]);
        let job = |number| NewJob::new(client.job(number), queue(), kind.clone(), payload.clone());
        let jobs = (from..from + AT_ONCE).map(job).collect();
        ready(store.enqueue(EnqueueBatch { request_id: None, jobs })).expect("there is room");
    }
}

/// Has all of them end, a few at a time, each with a small result.
fn run(store: &MemoryStore) {
    let holder = WorkerKey::new("worker").expect("a name");
    let claim = Claim {
        holder: holder.clone(),
        queues: vec![queue()],
        limit: AT_ONCE as usize,
        bytes_max: usize::MAX,
        lease: Duration::from_secs(30),
        exclusive: true,
    };
    for _ in 0..JOBS / AT_ONCE {
        let claimed = ready(store.claim(claim.clone())).expect("memory does not fail");
        let holds = claimed.iter().map(|job| job.hold);
        let report = |hold: Hold| Report { hold, outcome: Outcome::Completed { result: Bytes::new() } };
        ready(store.finish(&holder, holds.map(report).collect())).expect("memory does not fail");
    }
}

/// What this process has in memory.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("this needs Linux");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}
