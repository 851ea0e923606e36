//! How long the memory store takes for one job, verb by verb: `cargo run --release -p store --example memory_bench`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::{ClientId, Clock, Instant, Kind, NewJob, Outcome, QueueName, Report, WallTime, WorkerKey};
use store::conformance::ready;
use store::{Claim, EnqueueBatch, JobStore, MemoryStore, Paired};

const JOBS: u64 = 500_000;
const ENQUEUED_AT_ONCE: u64 = 1_000;
const CLAIMED_AT_ONCE: usize = 100;
const WORKERS: usize = 20;

fn main() {
    let clock = Arc::new(Machine);
    let queue = QueueName::new("bulk").expect("a name");
    measure("memory", &MemoryStore::volatile(clock.clone()), &queue);
    let durable = Arc::new(MemoryStore::new(clock.clone()));
    let pair = ready(Paired::open(durable, clock)).expect("a memory store opens");
    let volatile = model::QueuePatch { volatile: Some(true), ..model::QueuePatch::default() };
    ready(pair.set_queue(&queue, volatile)).expect("an empty queue");
    measure("paired", pair.as_ref(), &queue);
}

fn measure(name: &str, store: &dyn JobStore, queue: &QueueName) {
    let client = ClientId::unattended(Machine.wall(), 1);
    let kind = Kind::new("noop").expect("a name");
    let payload = Bytes::from(vec![7; 100]);
    let batch = |from: u64| -> Vec<NewJob> {
        let ids = (from..from + ENQUEUED_AT_ONCE).map(|number| client.job(number));
        ids.map(|id| NewJob::new(id, queue.clone(), kind.clone(), payload.clone())).collect()
    };
    let mut enqueueing = Duration::ZERO;
    for from in (0..JOBS).step_by(ENQUEUED_AT_ONCE as usize) {
        let jobs = batch(from);
        enqueueing += timed(|| drop(ready(store.enqueue(EnqueueBatch { request_id: None, jobs }))));
    }
    let workers: Vec<WorkerKey> =
        (0..WORKERS).map(|number| WorkerKey::new(&format!("worker-{number}")).expect("a name")).collect();
    let (mut claiming, mut finishing) = (Duration::ZERO, Duration::ZERO);
    let mut ended = 0;
    let mut held = std::collections::VecDeque::new();
    for worker in workers.iter().cycle() {
        let claim = Claim {
            holder: worker.clone(),
            queues: vec![queue.clone()],
            limit: CLAIMED_AT_ONCE,
            bytes_max: usize::MAX,
            lease: Duration::from_secs(30),
            exclusive: true,
        };
        let mut claimed = Vec::new();
        claiming += timed(|| claimed = ready(store.claim(claim)).expect("memory does not fail"));
        held.push_back((worker, claimed));
        // Ten batches are always on their way.
        if held.len() == 10 {
            let (worker, claimed) = held.pop_front().expect("it was just looked at");
            let report = |hold| Report { hold, outcome: Outcome::Completed { result: Bytes::new() } };
            let reports: Vec<Report> = claimed.iter().map(|claimed| report(claimed.hold)).collect();
            ended += reports.len() as u64;
            finishing += timed(|| drop(ready(store.finish(worker, reports))));
        }
        if ended == JOBS {
            break;
        }
    }
    let per_job = |spent: Duration| spent.as_nanos() / u128::from(JOBS);
    println!(
        "{name}: {} ns to enqueue a job, {} ns to claim it, {} ns to finish it",
        per_job(enqueueing),
        per_job(claiming),
        per_job(finishing)
    );
}

/// How long the processor worked for this, whatever else it had to do; without Linux, how long it took.
fn timed(work: impl FnOnce()) -> Duration {
    let (began, began_working) = (Machine.monotonic(), processor_time());
    work();
    let took = Machine.monotonic().since(began);
    processor_time().zip(began_working).map_or(took, |(now, before)| now - before)
}

fn processor_time() -> Option<Duration> {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    schedstat.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// The machine's clocks.
struct Machine;

impl Clock for Machine {
    #[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a benchmark measures real time")]
    fn monotonic(&self) -> Instant {
        static STARTED: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        Instant::from_millis(1_000) + STARTED.get_or_init(std::time::Instant::now).elapsed()
    }

    #[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a benchmark measures real time")]
    fn wall(&self) -> WallTime {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        WallTime::from_millis(since.as_millis() as i64)
    }
}
