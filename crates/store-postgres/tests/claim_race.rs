//! A claim counts what it locked, so it must take just that. A job that someone claimed and handed back after the claim's
//! statement had begun has a row that the statement can lock and cannot see: it is neither taken nor counted, and whoever
//! claims next gets it.

use std::time::{Duration, Instant};

use bytes::Bytes;
use common::Database;
use model::{JobId, Kind, NewJob, Nonce, QueueName, RegistryId, WorkerKey};
use store::{Claim, Enlist, EnqueueBatch, JobStore, ServerInfo};
use store_postgres::{PostgresOptions, PostgresStore};
use tokio_postgres::{Client, NoTls};

mod common;

/// How long the claim may take to come to wait.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often that is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The claim waits for the first row, with its view of the jobs taken; meanwhile the job gets a new row.
const RIVAL: &str = "
    BEGIN;
    UPDATE tenure.holders SET pings = pings;
    UPDATE tenure.jobs SET fence = 7, attempt = 0;";

/// Counts rows that the claim's own view of the table does not show.
const UNSEEN: [(&str, &str); 1] =
    [(" OR (SELECT true FROM tenure.jobs j WHERE j.ctid = head.row)", " OR true")];

/// How many jobs a claim got, how many are counted as available and as running after it, and how many the next one gets.
async fn claimed_and_counted(replacements: &[(&str, &str)]) -> (usize, u64, u64, usize) {
    let database = tokio::task::block_in_place(Database::fresh);
    let url = database.cluster.url(&database.name);
    let store = PostgresStore::connect_mutated(PostgresOptions::new(&url), replacements).await.unwrap();
    let store = std::sync::Arc::new(store);
    set_up(&store).await;
    let (rival, watch) = (connect(&url).await, connect(&url).await);
    rival.batch_execute(RIVAL).await.unwrap();
    let claim = tokio::spawn({
        let store = store.clone();
        async move { store.claim(claim()).await }
    });
    let begun = Instant::now();
    while !someone_waits(&watch).await {
        assert!(
            begun.elapsed() < PATIENCE && !claim.is_finished(),
            "the claim must wait for its holder's row"
        );
        tokio::time::sleep(LOOK_EVERY).await;
    }
    rival.batch_execute("COMMIT").await.unwrap();
    let claimed = claim.await.unwrap().unwrap();
    let counts = store.stats().await.unwrap()[0].counts;
    (claimed.len(), counts[1], counts[2], store.claim(self::claim()).await.unwrap().len())
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_leaves_and_does_not_count_a_job_that_was_handed_back_meanwhile() {
    assert_eq!(claimed_and_counted(&[]).await, (0, 1, 0, 1));
    assert_eq!(claimed_and_counted(&UNSEEN).await, (0, 0, 1, 1), "counted, and not taken");
}

/// One registry with one worker, and one job that waits.
async fn set_up(store: &PostgresStore) {
    store.found(ServerInfo { name: "ours".to_owned(), address: String::new() }).await.unwrap();
    let worker = Enlist {
        key: worker(),
        nonce: Nonce::new(7),
        registry: RegistryId(1),
        pings: false,
        grant: Duration::from_secs(20),
        name: String::new(),
    };
    store.enlist(vec![worker]).await.unwrap();
    let job = NewJob::new(JobId::from_bytes([1; 16]), queue(), Kind::new("k").unwrap(), Bytes::new());
    store.enqueue(EnqueueBatch { request_id: None, jobs: vec![job] }).await.unwrap();
}

fn claim() -> Claim {
    Claim {
        holder: worker(),
        queues: vec![queue()],
        limit: 10,
        bytes_max: usize::MAX,
        lease: Duration::from_secs(30),
        exclusive: false,
    }
}

fn worker() -> WorkerKey {
    WorkerKey::new("w").unwrap()
}

fn queue() -> QueueName {
    QueueName::new("q").unwrap()
}

async fn connect(url: &str) -> Client {
    let (client, driver) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(driver);
    client
}

async fn someone_waits(watch: &Client) -> bool {
    let waiting = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE NOT granted AND datname = current_database()";
    watch.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) > 0
}
