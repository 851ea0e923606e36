//! The database refuses what the model refuses, whoever writes to it.

use rusqlite::Connection;
use store_sqlite::{DATABASE_FILE, migrate};
use tempfile::TempDir;

/// A database with one available job, and the directory it lives in.
fn database() -> (TempDir, Connection) {
    let dir = tempfile::tempdir().unwrap();
    migrate(dir.path(), false).unwrap();
    let database = Connection::open(dir.path().join(DATABASE_FILE)).unwrap();
    database
        .execute_batch(
            "INSERT INTO queues (no, name) VALUES (1, 'q');
             INSERT INTO jobs (id, state, queue, priority, run_at, max_attempts, max_lost, enqueued_at, kind, payload)
             VALUES (zeroblob(16), 1, 1, 0, 0, 5, 5, 0, 'k', x'')",
        )
        .unwrap();
    (dir, database)
}

/// Sets columns of the one job.
fn check(change: &str) -> Result<usize, String> {
    let (_dir, database) = database();
    database.execute(&format!("UPDATE jobs SET {change}"), []).map_err(|error| error.to_string())
}

#[test]
fn legal_rows_are_taken() {
    for change in [
        "state = 0",
        "state = 2, holder = 1, lease_until = 9, granted_us = 3, started_at = 1, fence = 6, attempt = 1",
        "state = 2, holder = 1, lease_until = 9, granted_us = 3, started_at = 1, exclusive = 1",
        "state = 3, finished_at = 1, fence = 6, reported_fence = 6",
        "state = 4, finished_at = 1",
        "state = 5, finished_at = 1",
    ] {
        assert_eq!(check(change), Ok(1), "{change}");
    }
}

#[test]
fn illegal_rows_are_refused() {
    for change in [
        "state = 6, finished_at = 1",
        "state = -1",
        "state = NULL",
        "state = 2",
        "state = 2, holder = 1, started_at = 1",
        "state = 2, lease_until = 9, granted_us = 3, started_at = 1",
        "state = 2, holder = 1, lease_until = 9, granted_us = 3",
        "holder = 1",
        "lease_until = 9",
        "exclusive = 1",
        "exclusive = NULL",
        "state = 2, holder = 1, lease_until = 9, granted_us = 3, started_at = 1, exclusive = 2",
        "state = 0, exclusive = 1",
        "state = 3, finished_at = 1, exclusive = 1",
        "state = 3",
        "state = 4",
        "state = 5",
        "finished_at = 1",
        "state = 3, finished_at = 1, holder = 1",
        "fence = -1",
        "fence = 5, reported_fence = 6",
        "attempt = -1",
        "lost = -1",
        "id = zeroblob(15)",
        "id = NULL",
        "payload = NULL",
    ] {
        let refusal = check(change).expect_err(change);
        assert!(refusal.contains("constraint failed"), "{change}: {refusal}");
    }
}

/// Sets columns of a holder that was enlisted.
fn check_holder(change: &str) -> Result<usize, String> {
    let (_dir, database) = database();
    database
        .execute_batch(
            "INSERT INTO holders (key, nonce, registry, grant_us, name) VALUES ('w', 7, 1, 20, '')",
        )
        .unwrap();
    database.execute(&format!("UPDATE holders SET {change}"), []).map_err(|error| error.to_string())
}

#[test]
fn holders_are_enlisted_and_ended_as_a_whole() {
    for change in [
        "registry = 2",
        "pings = 1",
        "pings = 1, retired_at = 5, ended = 4",
        "retired_at = 5, ended = 5",
        "nonce = NULL, registry = NULL, grant_us = NULL, name = NULL",
        "nonce = NULL, grant_us = NULL, name = NULL, retired_at = 5, ended = 0",
    ] {
        assert_eq!(check_holder(change), Ok(1), "{change}");
    }
    for change in [
        "key = NULL",
        "nonce = NULL",
        "nonce = NULL, grant_us = NULL, name = NULL",
        "nonce = NULL, registry = NULL, grant_us = NULL, name = NULL, pings = 1",
        "nonce = NULL, registry = NULL, grant_us = NULL, name = NULL, retired_at = 5, ended = 0",
        "nonce = NULL, grant_us = NULL, name = NULL, pings = 1, retired_at = 5, ended = 0",
        "registry = NULL",
        "pings = 2",
        "pings = NULL",
        "grant_us = NULL",
        "name = NULL",
        "retired_at = 5",
        "ended = 0",
        "retired_at = 5, ended = 6",
        "retired_at = 5, ended = -1",
    ] {
        let refusal = check_holder(change).expect_err(change);
        assert!(refusal.contains("constraint failed"), "{change}: {refusal}");
    }
}

#[test]
fn unique_key_is_shared_by_live_jobs_of_different_queues_only() {
    let insert = "
        INSERT INTO jobs (id, state, queue, priority, run_at, max_attempts, max_lost, enqueued_at, finished_at, kind,
            payload, unique_key, unique_retained)
        VALUES (randomblob(16), ?1, ?2, 0, 0, 5, 5, 0, iif(?1 >= 3, 0, NULL), 'k', x'', 'key', ?3)";
    let (_dir, database) = database();
    let mut insert = database.prepare(insert).unwrap();
    let mut add = |state: i64, queue: i64, retained: bool| insert.execute((state, queue, retained)).is_ok();
    assert!(add(1, 1, false));
    assert!(!add(0, 1, false), "the key is taken by a live job");
    assert!(add(3, 1, false), "an ended job needs no key");
    assert!(!add(3, 1, true), "unless it keeps it");
    assert!(add(1, 2, false), "another queue has keys of its own");
}

#[test]
fn queue_is_exclusive_or_not() {
    let (_dir, database) = database();
    let set = |value: &str| database.execute(&format!("UPDATE queues SET exclusive = {value}"), []).is_ok();
    assert!(set("1") && set("0"));
    assert!(!set("2") && !set("NULL"));
}

#[test]
fn counts_never_fall_below_zero() {
    let (_dir, database) = database();
    assert!(database.execute("UPDATE queues SET running = running - 1", []).is_err());
}
