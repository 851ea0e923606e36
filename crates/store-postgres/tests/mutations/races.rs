//! The locks in the SQL are there for a reason, too: each race here is held at the moment that matters, by a rival with an
//! open transaction. With its lock the verb waits for the rival and sees what it did; without it, it does not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use model::{Hold, JobId, Kind, NewJob, Nonce, QueueName, RegistryId, WorkerKey};
use store::conformance::BoxFuture;
use store::{Claim, Enlist, EnqueueBatch, JobStore, ServerInfo};
use store_postgres::{PostgresOptions, PostgresStore};
use tokio_postgres::{Client, NoTls};

use super::common::Database;

/// How long a verb may take to come to wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often that is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(10);

const OURS: RegistryId = RegistryId(1);
const THEIRS: RegistryId = RegistryId(2);

struct Race {
    name: &'static str,
    /// What the rival has done and not yet committed.
    rival: &'static str,
    /// The lock, and the statement without it.
    lock: (&'static str, &'static str),
    /// What is asked for meanwhile, and answers in short.
    verb: fn(Arc<PostgresStore>) -> BoxFuture<'static, String>,
    /// The answer with the lock, and without it.
    answers: (&'static str, &'static str),
}

const RACES: &[Race] = &[
    Race {
        name: "a worker is enlisted while its registry is taken over",
        rival: "DELETE FROM tenure.registries WHERE id = 1",
        lock: ("WHERE id = ANY ($1) ORDER BY id FOR KEY SHARE", "WHERE id = ANY ($1) ORDER BY id"),
        verb: |store| {
            Box::pin(async move { format!("{:?}", store.enlist(vec![enlist("new")]).await.unwrap()) })
        },
        answers: ("[Disowned]", "[Known]"),
    },
    Race {
        name: "a registry is taken over while it enlists",
        rival: "SELECT 1 FROM tenure.registries WHERE id = 1 FOR KEY SHARE;
            INSERT INTO tenure.holders (key, nonce, registry, grant_us, name) VALUES ('new', 7, 1, 20, '')",
        lock: ("AND beats = $2 FOR UPDATE", "AND beats = $2"),
        verb: |store| Box::pin(async move { moved(store.take_over(OURS, 0, THEIRS).await.unwrap()) }),
        answers: ("Some([\"new\", \"next\", \"w\"])", "Some([\"next\", \"w\"])"),
    },
    Race {
        name: "a registry takes over while it is taken over itself",
        rival: "DELETE FROM tenure.registries WHERE id = 2",
        lock: ("FROM tenure.registries WHERE id = $1 FOR KEY SHARE", "FROM tenure.registries WHERE id = $1"),
        verb: |store| Box::pin(async move { moved(store.take_over(OURS, 0, THEIRS).await.unwrap()) }),
        answers: ("None", "Some([\"next\", \"w\"])"),
    },
    Race {
        name: "a job is reaped while its holder moves to another registry",
        rival: "UPDATE tenure.holders SET registry = 2 WHERE key = 'w'",
        lock: ("\n    FOR SHARE OF h", ""),
        verb: |store| {
            Box::pin(async move {
                let seen = store.expired(OURS, 10).await.unwrap();
                format!("{} of {}", store.reap(seen.clone()).await.unwrap().len(), seen.len())
            })
        },
        answers: ("0 of 1", "1 of 1"),
    },
    Race {
        name: "a holder claims while it is retired",
        rival: "UPDATE tenure.holders SET retired_at = 1, ended = 0 WHERE key = 'w'",
        lock: ("WHERE key = $1 FOR SHARE)", "WHERE key = $1)"),
        verb: |store| Box::pin(async move { store.claim(claim("w")).await.unwrap().len().to_string() }),
        answers: ("0", "1"),
    },
    Race {
        name: "everything is taken back from a holder while it is readmitted",
        rival: "UPDATE tenure.holders SET retired_at = NULL, ended = NULL WHERE key = 'gone'",
        lock: ("AND retired_at IS NOT NULL FOR SHARE", "AND retired_at IS NOT NULL"),
        verb: |store| {
            Box::pin(async move { store.reap_holder(&worker("gone"), true).await.unwrap().len().to_string() })
        },
        answers: ("0", "1"),
    },
    Race {
        name: "a worker is succeeded while the successor is retired",
        rival: "UPDATE tenure.holders SET retired_at = 1, ended = 0 WHERE key = 'next'",
        lock: ("\n    FOR UPDATE OF h", ""),
        verb: |store| {
            Box::pin(async move {
                let held = store.get(job_id(1)).await.unwrap().unwrap();
                let hold = Hold { job: held.id, fence: held.fence };
                format!("{:?}", store.succeed(&worker("w"), &worker("next"), vec![hold]).await.unwrap())
            })
        },
        answers: ("[false]", "[true]"),
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn every_lock_is_needed_in_the_race_that_is_about_it() {
    for race in RACES {
        let with = run(race, &[]).await;
        let without = run(race, &[race.lock]).await;
        assert_eq!((with.as_str(), without.as_str()), race.answers, "{}", race.name);
    }
}

async fn run(race: &Race, replacements: &[(&str, &str)]) -> String {
    let database = tokio::task::block_in_place(Database::fresh);
    let url = database.cluster.url(&database.name);
    let store = PostgresStore::connect_mutated(PostgresOptions::new(&url), replacements).await.unwrap();
    let store = Arc::new(store);
    set_up(&store).await;
    let (rival, watch) = (connect(&url).await, connect(&url).await);
    // Retired past the store, with what it holds: nobody is to take that back before the race.
    watch
        .batch_execute("UPDATE tenure.holders SET retired_at = 1, ended = 4 WHERE key = 'gone'")
        .await
        .unwrap();

    rival.batch_execute(&format!("BEGIN; {}", race.rival)).await.unwrap();
    let verb = tokio::spawn((race.verb)(store));
    let begun = Instant::now();
    while !verb.is_finished() && !someone_waits(&watch).await {
        assert!(begun.elapsed() < PATIENCE, "{}: the verb must wait or be done", race.name);
        tokio::time::sleep(LOOK_EVERY).await;
    }
    rival.batch_execute("COMMIT").await.unwrap();
    verb.await.unwrap()
}

/// Three registries; `w` and `next` in the first, and `gone`, which pings. Job 1 is held by `w` and job 2 by `gone`, their
/// leases are over; job 3 waits.
async fn set_up(store: &PostgresStore) {
    for name in ["ours", "theirs", "third"] {
        store.found(ServerInfo { name: name.to_owned(), address: String::new() }).await.unwrap();
    }
    let gone = Enlist { pings: true, ..enlist("gone") };
    store.enlist(vec![enlist("w"), enlist("next")]).await.unwrap();
    let queue = QueueName::new("q").unwrap();
    for (number, holder) in [(1, "w"), (2, "gone"), (3, "")] {
        let job = NewJob::new(job_id(number), queue.clone(), Kind::new("k").unwrap(), Bytes::new());
        store.enqueue(EnqueueBatch { request_id: None, jobs: vec![job] }).await.unwrap();
        if !holder.is_empty() {
            assert_eq!(store.claim(claim(holder)).await.unwrap().len(), 1);
        }
    }
    // In the second registry, so that only `w` holds something in ours.
    store.enlist(vec![Enlist { registry: THEIRS, ..gone }]).await.unwrap();
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

fn moved(taken: Option<Vec<Enlist>>) -> String {
    let keys = taken.map(|taken| taken.into_iter().map(|worker| worker.key).collect::<Vec<_>>());
    format!("{keys:?}")
}

fn worker(key: &str) -> WorkerKey {
    WorkerKey::new(key).unwrap()
}

fn enlist(key: &str) -> Enlist {
    Enlist {
        key: worker(key),
        nonce: Nonce::new(7),
        registry: OURS,
        pings: false,
        grant: Duration::from_secs(20),
        name: String::new(),
    }
}

fn job_id(number: u8) -> JobId {
    JobId::from_bytes([number; 16])
}

/// Of one job, with a lease that is over at once.
fn claim(holder: &str) -> Claim {
    Claim {
        holder: worker(holder),
        queues: vec![QueueName::new("q").unwrap()],
        limit: 1,
        bytes_max: usize::MAX,
        lease: Duration::from_micros(1),
        exclusive: false,
    }
}
