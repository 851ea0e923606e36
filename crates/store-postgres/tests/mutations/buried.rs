//! A poison pill lets its unique key go, unless it keeps it until its retention is over.

use std::time::Duration;

use bytes::Bytes;
use model::{JobId, Kind, NewJob, QueueName, RegistryId, State, UniqueKey, UniqueScope, WorkerKey};
use store::{Claim, EnqueueBatch, JobStore};
use store_postgres::{PostgresOptions, PostgresStore};

use super::common::Database;

/// In the statements that end a job without its holder.
const FREES: &str = "AND u.job = gone.id AND NOT gone.unique_retained\n    )\n";

/// Buries a job with a key, and answers whether the key can be had by another then.
async fn key_is_free_after(scope: UniqueScope, replacements: &[(&str, &str)]) -> bool {
    let database = tokio::task::block_in_place(Database::fresh);
    let options = PostgresOptions::new(database.cluster.url(&database.name));
    let store = PostgresStore::connect_mutated(options, replacements).await.unwrap();
    let queue = QueueName::new("q").unwrap();
    let keyed = |number: u8| NewJob {
        unique_key: Some(UniqueKey::new("key").unwrap()),
        unique_scope: scope,
        max_lost: Some(1),
        ..NewJob::new(JobId::from_bytes([number; 16]), queue.clone(), Kind::new("k").unwrap(), Bytes::new())
    };
    let enqueue = |number: u8| store.enqueue(EnqueueBatch { request_id: None, jobs: vec![keyed(number)] });
    assert!(!enqueue(1).await.unwrap().jobs[0].duplicate);
    let claim = Claim {
        holder: WorkerKey::new("w").unwrap(),
        queues: vec![queue.clone()],
        limit: 1,
        bytes_max: usize::MAX,
        lease: Duration::from_micros(1),
        exclusive: false,
    };
    assert_eq!(store.claim(claim).await.unwrap().len(), 1);
    let seen = store.expired(RegistryId::ONLY, 1).await.unwrap();
    assert_eq!(store.reap(seen).await.unwrap()[0].state, State::Dead);
    !enqueue(2).await.unwrap().jobs[0].duplicate
}

#[tokio::test(flavor = "multi_thread")]
async fn poison_pill_lets_its_key_go_unless_it_keeps_it() {
    assert!(key_is_free_after(UniqueScope::Live, &[]).await);
    assert!(!key_is_free_after(UniqueScope::Retained, &[]).await);
    let never = [(FREES, "AND u.job = gone.id AND false\n    )\n")];
    assert!(!key_is_free_after(UniqueScope::Live, &never).await, "without the part that frees it");
    let always = [(FREES, "AND u.job = gone.id\n    )\n")];
    assert!(key_is_free_after(UniqueScope::Retained, &always).await, "without the part that keeps it");
}
