//! How long the memory store takes for one job, verb by verb: `cargo run --release -p store --example memory_bench`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::{
    ClientId, Clock, Hold, Instant, JobId, Kind, NewJob, Outcome, QueueName, Report, WallTime, WorkerKey,
};
use store::conformance::ready;
use store::{Claim, EnqueueBatch, JobStore, MemoryStore, Paired};

const JOBS: u64 = 500_000;
const ENQUEUED_AT_ONCE: u64 = 1_000;
const CLAIMED_AT_ONCE: usize = 100;
/// As many claims are made before the first of their jobs ends.
const WORKERS: usize = 20;
/// Jobs that are enqueued before the first of them is claimed, where both go on at once.
const PIPELINED: u64 = 4_000;

fn main() {
    let clock = Arc::new(Machine);
    let queue = QueueName::new("bulk").expect("a name");
    let (unattended, awaited) = (ClientId::unattended(Machine.wall(), 1), ClientId::new(Machine.wall(), 1));
    let store = MemoryStore::volatile(clock.clone());
    measure("volatile, first", &store, &queue, unattended, 0, JOBS);
    measure("volatile, again", &store, &queue, unattended, JOBS, JOBS);
    measure("volatile, pipelined", &store, &queue, unattended, 2 * JOBS, PIPELINED);
    measure("volatile, acknowledged", &store, &queue, awaited, 0, JOBS);
    let durable = Arc::new(MemoryStore::new(clock.clone()));
    let pair = ready(Paired::open(durable, MemoryStore::volatile(clock))).expect("a memory store opens");
    let volatile = model::QueuePatch { volatile: Some(true), ..model::QueuePatch::default() };
    ready(pair.set_queue(&queue, volatile)).expect("an empty queue");
    measure("paired", pair.as_ref(), &queue, unattended, 0, JOBS);
}

/// Enqueues jobs of one client from this number on, so many at a time, then claims and ends them.
fn measure(name: &str, store: &dyn JobStore, queue: &QueueName, client: ClientId, first: u64, ahead: u64) {
    let kind = Kind::new("noop").expect("a name");
    let payload = Bytes::from(vec![7; 100]);
    let batch = |from: u64| -> EnqueueBatch {
        let ids = (from..from + ENQUEUED_AT_ONCE).map(|number| client.job(number));
        let jobs = ids.map(|id| NewJob::new(id, queue.clone(), kind.clone(), payload.clone())).collect();
        EnqueueBatch { request_id: None, jobs }
    };
    let mut spent = [Duration::ZERO; 4];
    let mut enqueued = 0;
    let workers: Vec<WorkerKey> =
        (0..WORKERS).map(|number| WorkerKey::new(&format!("worker-{number}")).expect("a name")).collect();
    let claim = |holder: &WorkerKey| Claim {
        holder: holder.clone(),
        queues: vec![queue.clone()],
        limit: CLAIMED_AT_ONCE,
        bytes_max: usize::MAX,
        lease: Duration::from_secs(30),
        exclusive: true,
    };
    let mut ended = 0;
    while ended < JOBS {
        while enqueued < JOBS.min(ended + ahead) {
            let batch = batch(first + enqueued);
            spent[0] += timed(|| drop(ready(store.enqueue(batch))));
            enqueued += ENQUEUED_AT_ONCE;
        }
        let claims: Vec<Claim> = workers.iter().map(claim).collect();
        let mut claimed = Vec::with_capacity(WORKERS);
        spent[1] += timed(|| claimed.extend(claims.into_iter().map(|claim| ready(store.claim(claim)))));
        let claimed: Vec<Vec<Hold>> = claimed
            .into_iter()
            .map(|jobs| jobs.expect("memory does not fail").into_iter().map(|job| job.hold).collect())
            .collect();
        let report =
            |hold: &Hold| Report { hold: *hold, outcome: Outcome::Completed { result: Bytes::new() } };
        let reports: Vec<Vec<Report>> =
            claimed.iter().map(|holds| holds.iter().map(report).collect()).collect();
        let mut answers = Vec::with_capacity(WORKERS);
        spent[2] += timed(|| {
            let reports = workers.iter().zip(reports);
            answers.extend(reports.map(|(worker, reports)| ready(store.finish(worker, reports))));
        });
        let ids: Vec<Vec<JobId>> =
            claimed.iter().map(|holds| holds.iter().map(|hold| hold.job).collect()).collect();
        ended += ids.iter().map(|ids| ids.len() as u64).sum::<u64>();
        if client.is_awaited() {
            spent[3] += timed(|| {
                ids.into_iter().for_each(|ids| {
                    let oldest = ids.first().copied();
                    drop(ready(store.acknowledge(ids, oldest)));
                });
            });
        }
    }
    let [enqueue, claim, finish, acknowledge] = spent.map(|spent| spent.as_nanos() / u128::from(JOBS));
    println!(
        "{name}: {enqueue} ns to enqueue a job, {claim} to claim it, {finish} to finish it, {acknowledge} to acknowledge it: {} in all",
        enqueue + claim + finish + acknowledge
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
