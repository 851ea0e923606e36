//! However many jobs go through: what they leave behind is cleaned up by the store itself, and not only once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use common::Database;
use model::{JobId, Kind, NewJob, Outcome, QueueName, Report, WorkerKey};
use store::{Claim, EnqueueBatch, Finished, JobStore};
use store_postgres::{OnVacuum, PostgresOptions, PostgresStore};
use tokio_postgres::{Client, NoTls};

mod common;

const JOBS_AT_ONCE: u64 = 4_000;
/// After so many jobs the store has cleaned up, on any machine: what they leave is many times what it waits for.
const JOBS_BETWEEN_MAX: u64 = 500_000;

struct Bench {
    store: PostgresStore,
    other: Client,
    /// How often the store has cleaned up.
    vacuums: Arc<AtomicU64>,
    jobs: u64,
    _database: Database,
}

impl Bench {
    /// A database that does nothing by itself.
    async fn new() -> Self {
        let database = tokio::task::block_in_place(Database::fresh);
        let url = database.cluster.url(&database.name);
        let (other, driver) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(driver);
        other.batch_execute("ALTER TABLE tenure.jobs SET (autovacuum_enabled = off)").await.unwrap();
        let vacuums = Arc::new(AtomicU64::new(0));
        let on_vacuum: OnVacuum = Arc::new({
            let vacuums = vacuums.clone();
            move |_| {
                vacuums.fetch_add(1, Ordering::Relaxed);
            }
        });
        let options = PostgresOptions { on_vacuum: Some(on_vacuum), ..PostgresOptions::new(&url) };
        let store = PostgresStore::connect(options).await.unwrap();
        Bench { store, other, vacuums, jobs: 0, _database: database }
    }

    /// Has jobs enqueued, claimed and done.
    async fn run_some(&mut self) {
        let (queue, kind) = (QueueName::new("q").unwrap(), Kind::new("k").unwrap());
        let numbers = self.jobs..self.jobs + JOBS_AT_ONCE;
        let id = |number: u64| JobId::from_bytes(u128::from(number).to_be_bytes());
        let job = |number| NewJob::new(id(number), queue.clone(), kind.clone(), Bytes::new());
        let jobs = numbers.map(job).collect();
        self.store.enqueue(EnqueueBatch { request_id: None, jobs }).await.unwrap();
        let holder = WorkerKey::new("w").unwrap();
        let claim = Claim {
            holder: holder.clone(),
            queues: vec![queue],
            limit: JOBS_AT_ONCE as usize,
            bytes_max: usize::MAX,
            lease: Duration::from_secs(60),
            exclusive: false,
        };
        let claimed = self.store.claim(claim).await.unwrap();
        let outcome = Outcome::Completed { result: Bytes::new() };
        let reports = claimed.iter().map(|job| Report { hold: job.hold, outcome: outcome.clone() }).collect();
        let done = self.store.finish(&holder, reports).await.unwrap();
        assert_eq!(done.len() as u64, JOBS_AT_ONCE, "all that were enqueued");
        assert!(done.iter().all(|done| matches!(done, Finished::Done { .. })));
        self.jobs += JOBS_AT_ONCE;
    }

    /// Runs jobs until the store has cleaned up once more, and answers how many it took.
    async fn run_until_vacuumed(&mut self) -> u64 {
        let (jobs, vacuums) = (self.jobs, self.vacuums.load(Ordering::Relaxed));
        while self.vacuums.load(Ordering::Relaxed) == vacuums {
            self.run_some().await;
            assert!(self.jobs - jobs < JOBS_BETWEEN_MAX, "nothing was cleaned up after {} jobs", self.jobs);
        }
        self.jobs - jobs
    }

    /// How large the table is, and how many dead rows the database believes are in it.
    async fn table(&self) -> (u64, u64) {
        let table =
            "SELECT pg_relation_size('tenure.jobs'), pg_stat_get_dead_tuples('tenure.jobs'::regclass)";
        let row = self.other.query_one(table, &[]).await.unwrap();
        (row.get::<_, i64>(0) as u64, row.get::<_, i64>(1) as u64)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_jobs_leave_behind_is_cleaned_up_again_and_again() {
    let mut bench = Bench::new().await;
    let mut jobs_between = vec![bench.run_until_vacuumed().await];
    let (size_of_first, _) = bench.table().await;
    for _ in 0..3 {
        let jobs = bench.run_until_vacuumed().await;
        let (_, dead) = bench.table().await;
        assert!(
            dead <= 2 * jobs,
            "{dead} rows were left, though only {jobs} jobs came since the time before"
        );
        jobs_between.push(jobs);
    }
    let (size, _) = bench.table().await;
    // What a job leaves is gone at the second time from then on, and its room is used again.
    let jobs_at_once = jobs_between.windows(2).map(|jobs| jobs[0] + jobs[1]).max().unwrap();
    let size_max = size_of_first / jobs_between[0] * jobs_at_once * 5 / 4;
    assert!(size <= size_max, "{size} bytes after {jobs_between:?} jobs, {size_of_first} after the first");
    bench.store.close().await;
}
