//! Somebody who keeps locks for long (a server that froze, an application's open transaction) holds up those who want the
//! very same, for a moment, and nobody else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::Database;
use model::{HolderEnd, JobId, Kind, NewJob, Nonce, QueueName, QueuePatch, RegistryId, UniqueKey, WorkerKey};
use store::{Claim, Enlist, EnqueueBatch, JobStore, Redriven, Selection, ServerInfo, StoreError};
use store_postgres::{OnCommit, PostgresOptions, PostgresStore};
use tokio_postgres::{Client, NoTls};

mod common;

/// More than a lock is waited for, and less than a statement may take.
const SOON: Duration = Duration::from_secs(5);

struct Bench {
    store: Arc<PostgresStore>,
    /// The application, or a server's connection.
    other: Client,
    url: String,
    _database: Database,
}

impl Bench {
    async fn new() -> Self {
        let database = tokio::task::block_in_place(Database::fresh);
        let url = database.cluster.url(&database.name);
        let store = Arc::new(PostgresStore::connect(PostgresOptions::new(&url)).await.unwrap());
        let other = connect(&url).await;
        Bench { store, other, url, _database: database }
    }

    async fn found(&self) -> RegistryId {
        self.store.found(ServerInfo::default()).await.unwrap()
    }

    async fn enlist(&self, key: &str, registry: RegistryId, pings: bool) {
        let name = key.to_owned();
        let (key, nonce, grant) = (worker(key), Nonce::new(7), Duration::from_secs(20));
        self.store.enlist(vec![Enlist { key, nonce, registry, pings, grant, name }]).await.unwrap();
    }

    async fn enqueue(&self, job: NewJob) -> Result<JobId, StoreError> {
        let answer = self.store.enqueue(EnqueueBatch { request_id: None, jobs: vec![job] }).await?;
        Ok(answer.jobs[0].id)
    }

    /// Has this holder run a new job.
    async fn run(&self, number: u8, holder: &str) {
        self.enqueue(job(number)).await.unwrap();
        let claim = Claim {
            holder: worker(holder),
            queues: vec![queue("q")],
            limit: 1,
            bytes_max: usize::MAX,
            lease: Duration::from_micros(1),
            exclusive: false,
        };
        assert_eq!(self.store.claim(claim).await.unwrap().len(), 1);
    }
}

async fn connect(url: &str) -> Client {
    let (client, driver) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(driver);
    client
}

fn worker(key: &str) -> WorkerKey {
    WorkerKey::new(key).unwrap()
}

fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

fn job(number: u8) -> NewJob {
    NewJob::new(JobId::from_bytes([number; 16]), queue("q"), Kind::new("k").unwrap(), Bytes::new())
}

fn keyed(number: u8) -> NewJob {
    NewJob { unique_key: Some(UniqueKey::new("u").unwrap()), ..job(number) }
}

#[tokio::test(flavor = "multi_thread")]
async fn take_over_does_not_wait_for_a_server_that_froze_in_the_middle_of_a_report() {
    let bench = Bench::new().await;
    let (ours, frozen) = (bench.found().await, bench.found().await);
    for (number, key) in [(1, "w1"), (2, "w2")] {
        bench.enlist(key, frozen, false).await;
        bench.run(number, key).await;
    }
    let report = "BEGIN; UPDATE tenure.jobs SET progress = '' WHERE holder = 'w1'";
    bench.other.batch_execute(report).await.unwrap();
    let moved = bench.store.take_over(frozen, 0, ours).await.unwrap().expect("it has not beaten");
    assert_eq!(moved.len(), 2);
    let adopted = "SELECT holder FROM tenure.jobs WHERE adopted";
    let adopted = connect(&bench.url).await.query(adopted, &[]).await.unwrap();
    let adopted: Vec<&str> = adopted.iter().map(|row| row.get(0)).collect();
    assert_eq!(adopted, ["w2"], "the other one is just being reported on");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_open_transaction_holds_up_one_caller_and_not_the_group() {
    let bench = Bench::new().await;
    bench.enqueue(job(1)).await.unwrap();
    bench.other.batch_execute("BEGIN; SELECT tenure.enqueue('q', 'k', unique_key => 'u')").await.unwrap();
    let begun = Instant::now();
    let jobs = (10..40).map(|number| if number == 20 { keyed(number) } else { job(number) });
    let calls = jobs.map(|job| {
        let store = bench.store.clone();
        tokio::spawn(async move { store.enqueue(EnqueueBatch { request_id: None, jobs: vec![job] }).await })
    });
    let calls: Vec<_> = calls.collect();
    let mut refused = Vec::new();
    for (number, call) in (10..).zip(calls) {
        if let Err(error) = call.await.unwrap() {
            assert!(matches!(&error, StoreError::Unavailable(why) if why.contains("busy")), "{error}");
            refused.push(number);
        }
    }
    assert_eq!(refused, [20]);
    assert!(begun.elapsed() < SOON, "after {:?}", begun.elapsed());
    bench.other.batch_execute("COMMIT").await.unwrap();
    let owner = bench.enqueue(keyed(20)).await.unwrap();
    assert_ne!(owner, JobId::from_bytes([20; 16]), "now it is known who has the key");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_want_what_an_open_transaction_has_are_refused_in_time() {
    let bench = Bench::new().await;
    bench.other.batch_execute("BEGIN; SELECT tenure.enqueue('q', 'k')").await.unwrap();
    let begun = Instant::now();
    let calls: Vec<_> = (0..200)
        .map(|number| {
            let store = bench.store.clone();
            let batch = EnqueueBatch { request_id: None, jobs: vec![job(number)] };
            tokio::spawn(async move { store.enqueue(batch).await })
        })
        .collect();
    for call in calls {
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(&error, StoreError::Unavailable(why) if why.contains("busy")), "{error}");
    }
    assert!(begun.elapsed() < 3 * SOON, "after {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn rescue_goes_on_while_operators_wait_for_an_open_transaction() {
    let bench = Bench::new().await;
    let registry = bench.found().await;
    bench.enqueue(keyed(1)).await.unwrap();
    bench.store.cancel(vec![JobId::from_bytes([1; 16])]).await.unwrap();
    let take = "BEGIN; SELECT tenure.enqueue('q', 'k', unique_key => 'u'), tenure.enqueue('new', 'k')";
    bench.other.batch_execute(take).await.unwrap();
    let begun = Instant::now();
    let ids = vec![JobId::from_bytes([1; 16])];
    let redrive = tokio::spawn({
        let (store, ids) = (bench.store.clone(), ids.clone());
        async move { store.redrive(Selection::Ids(ids), 1).await }
    });
    let set = tokio::spawn({
        let store = bench.store.clone();
        async move { store.set_queue(&queue("new"), QueuePatch::default()).await }
    });
    let watch = connect(&bench.url).await;
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    while watch.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) < 2 {
        assert!(begun.elapsed() < SOON, "both must come to wait");
        tokio::task::yield_now().await;
    }
    bench.enlist("w", registry, false).await;
    assert!(bench.store.retire(&worker("w"), HolderEnd::Left, registry).await.unwrap());
    assert!(begun.elapsed() < SOON, "after {:?}", begun.elapsed());
    for error in [redrive.await.unwrap().unwrap_err(), set.await.unwrap().unwrap_err()] {
        assert!(matches!(&error, StoreError::Unavailable(why) if why.contains("busy")), "{error}");
    }
    bench.other.batch_execute("COMMIT").await.unwrap();
    let again = bench.store.redrive(Selection::Ids(ids), 1).await.unwrap();
    assert_eq!(again[0].1, Redriven::KeyTaken);
}

/// A day's worth of workers who ended is not moved, and nothing is lost by that.
#[tokio::test(flavor = "multi_thread")]
async fn take_over_leaves_those_who_ended_long_ago_where_nobody_misses_them() {
    let bench = Bench::new().await;
    let (ours, gone) = (bench.found().await, bench.found().await);
    bench.enlist("holds", gone, false).await;
    bench.enlist("pings", gone, true).await;
    bench.run(1, "holds").await;
    assert!(bench.store.retire(&worker("holds"), HolderEnd::Left, gone).await.unwrap());
    assert!(bench.store.retire(&worker("pings"), HolderEnd::Silent, gone).await.unwrap());
    let fill = format!(
        "INSERT INTO tenure.holders (key, nonce, registry, grant_us, name, retired_at, ended)
         SELECT 'ended-' || n, 1, {}, 1, '', retired_at + n, 1
         FROM generate_series(1, 5000) AS n, (SELECT max(retired_at) AS retired_at FROM tenure.holders) AS latest",
        gone.0
    );
    bench.other.batch_execute(&fill).await.unwrap();
    assert_eq!(bench.store.take_over(gone, 0, ours).await.unwrap(), Some(vec![]));
    let moved = format!("SELECT count(*) FROM tenure.holders WHERE registry = {}", ours.0);
    let moved: i64 = bench.other.query_one(&moved, &[]).await.unwrap().get(0);
    assert_eq!(moved, 1_001, "the latest, and who still holds something");

    let expired = bench.store.expired(ours, 10).await.unwrap();
    assert_eq!(expired.len(), 1, "what it holds is seen by the new owner");
    assert_eq!(expired[0].registry, Some(ours));
    assert!(bench.store.retire(&worker("ended-1"), HolderEnd::Kicked, ours).await.unwrap(), "it is terminal");
    assert!(!bench.store.retire(&worker("ended-1"), HolderEnd::Kicked, gone).await.unwrap());
    bench.store.readmit(&worker("pings"), gone).await.unwrap();
    assert!(
        bench.store.worker(&worker("pings")).await.unwrap().unwrap().ended.is_some(),
        "not by who is gone"
    );
    bench.store.readmit(&worker("pings"), ours).await.unwrap();
    let pings = bench.store.worker(&worker("pings")).await.unwrap().unwrap();
    assert_eq!((pings.worker.registry, pings.ended), (ours, None), "a pinger that comes back is ours");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_payloads_are_not_put_into_one_transaction_without_end() {
    let database = tokio::task::block_in_place(Database::fresh);
    let url = database.cluster.url(&database.name);
    let largest = Arc::new(AtomicUsize::new(0));
    let on_commit: OnCommit = Arc::new({
        let largest = largest.clone();
        move |_, requests| {
            largest.fetch_max(requests, Ordering::Relaxed);
        }
    });
    let options = PostgresOptions { on_commit: Some(on_commit), ..PostgresOptions::new(&url) };
    let store = Arc::new(PostgresStore::connect(options).await.unwrap());
    let payload = Bytes::from(vec![0; 4 << 20]);
    let calls: Vec<_> = (0..30)
        .map(|number| {
            let (store, payload) = (store.clone(), payload.clone());
            let jobs = vec![NewJob { payload, ..job(number) }];
            tokio::spawn(async move { store.enqueue(EnqueueBatch { request_id: None, jobs }).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(largest.load(Ordering::Relaxed), 4, "sixteen megabytes and no more");
}

#[tokio::test(flavor = "multi_thread")]
async fn beat_is_given_up_while_it_is_still_of_use() {
    let bench = Bench::new().await;
    let registry = bench.found().await;
    assert!(bench.store.beat(registry).await.unwrap().is_some());
    let lock = format!("BEGIN; SELECT FROM tenure.registries WHERE id = {} FOR UPDATE", registry.0);
    bench.other.batch_execute(&lock).await.unwrap();
    let begun = Instant::now();
    bench.store.beat(registry).await.unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(4), "after {:?}", begun.elapsed());
    bench.other.batch_execute("COMMIT").await.unwrap();
    assert!(bench.store.beat(registry).await.unwrap().is_some());
}

/// Whether the server is ready is asked every few seconds, and must be answered by what an enqueue meets.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_locks_a_table_that_an_enqueue_needs_is_noticed_by_the_check() {
    let bench = Bench::new().await;
    bench.store.check().await.unwrap();
    for table in ["jobs", "ended", "counts", "requests"] {
        bench.other.batch_execute(&format!("BEGIN; LOCK TABLE tenure.{table}")).await.unwrap();
        let enqueued = bench.enqueue(job(1)).await;
        let checked = bench.store.check().await;
        assert!(matches!(checked, Err(StoreError::Unavailable(_))), "{table}: {checked:?}");
        if table != "requests" {
            assert!(enqueued.is_err(), "{table}");
        }
        bench.other.batch_execute("ROLLBACK").await.unwrap();
        bench.store.check().await.unwrap();
    }
    let rows = "SELECT (SELECT count(*) FROM tenure.jobs), (SELECT count(*) FROM tenure.requests),
                       (SELECT count(*) FROM tenure.queues)";
    let row = bench.other.query_one(rows, &[]).await.unwrap();
    let rows: (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    assert_eq!(rows, (1, 0, 1), "one job was enqueued while requests were locked, and checks leave nothing");
}
