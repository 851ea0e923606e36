//! The database refuses what the model refuses, whoever writes to it.

use common::Database;

mod common;

/// A live job of the first queue, and the columns that make it run.
const JOB: &str = "
    INSERT INTO tenure.queues (name) VALUES ('q');
    INSERT INTO tenure.jobs (id, state, queue, priority, run_at, max_attempts, max_lost, enqueued_at, kind, payload)
    VALUES ('00000000-0000-0000-0000-000000000001', 1, 1, 0, 0, 5, 5, 0, 'k', '');";
const RUNNING: &str = "state = 2, holder = 'w', lease_until = 9, granted_us = 3, started_at = 1";

/// An ended job.
const ENDED: &str = "
    INSERT INTO tenure.queues (name) VALUES ('q');
    INSERT INTO tenure.ended (id, fence, reported_fence, run_at, enqueued_at, finished_at, queue, attempt, max_attempts,
        lost, max_lost, state, priority, cancel_requested, unique_retained, kind, payload)
    VALUES ('00000000-0000-0000-0000-000000000001', 0, 0, 0, 0, 1, 1, 0, 5, 0, 5, 3, 0, false, false, 'k', '');";

/// A holder that was enlisted.
const HOLDER: &str = "
    INSERT INTO tenure.holders (key, nonce, registry, grant_us, name) VALUES ('w', 7, 1, 20, '');";

/// Does these after that, each by itself, and checks that the database takes or refuses all of them.
fn check(before: &str, changes: &[String], are_legal: bool) {
    let database = Database::fresh();
    for change in changes {
        let outcome = psql(&database, &format!("BEGIN; {before} {change}; ROLLBACK;"));
        match outcome {
            Ok(_) => assert!(are_legal, "{change} was taken"),
            Err(refusal) => {
                let is_constraint = refusal.contains("violates");
                assert!(!are_legal && is_constraint, "{change}: {refusal}");
            }
        }
    }
}

fn psql(database: &Database, sql: &str) -> Result<String, String> {
    database.cluster.psql(&database.name, sql).map_err(|error| error.to_string())
}

fn set(table: &str, changes: &[&str]) -> Vec<String> {
    changes.iter().map(|change| format!("UPDATE tenure.{table} SET {change}")).collect()
}

#[test]
fn legal_jobs_are_taken() {
    let running = [RUNNING.to_owned(), format!("{RUNNING}, exclusive = true, fence = 6, attempt = 1")];
    let running: Vec<&str> = running.iter().map(String::as_str).collect();
    check(JOB, &set("jobs", &running), true);
    check(JOB, &set("jobs", &["state = 0", "fence = 6, reported_fence = 6", "attempt = 1, lost = 1"]), true);
    check(
        ENDED,
        &set("ended", &["state = 4", "state = 5", "result = 'x'", "fence = 6, reported_fence = 6"]),
        true,
    );
}

#[test]
fn illegal_jobs_are_refused() {
    let changes = [
        "state = 3",
        "state = -1",
        "state = NULL",
        "state = 2",
        "state = 2, holder = 'w', started_at = 1",
        "state = 2, lease_until = 9, granted_us = 3, started_at = 1",
        "state = 2, holder = 'w', granted_us = 3, started_at = 1",
        "state = 2, holder = 'w', lease_until = 9, started_at = 1",
        "state = 2, holder = 'w', lease_until = 9, granted_us = 3",
        "holder = 'w'",
        "lease_until = 9",
        "granted_us = 3",
        "exclusive = true",
        "exclusive = NULL",
        "state = 0, exclusive = true",
        "fence = -1",
        "fence = 5, reported_fence = 6",
        "attempt = -1",
        "lost = -1",
        "id = NULL",
        "payload = NULL",
    ];
    check(JOB, &set("jobs", &changes), false);
    let changes = [
        "state = 2",
        "state = 6",
        "state = NULL",
        "finished_at = NULL",
        "fence = 5, reported_fence = 6",
        "fence = -1, reported_fence = -1",
        "payload = NULL",
    ];
    check(ENDED, &set("ended", &changes), false);
}

#[test]
fn holders_are_enlisted_and_ended_as_a_whole() {
    let plain = "nonce = NULL, grant_us = NULL, name = NULL";
    let retired = format!("{plain}, retired_at = 5, ended = 0");
    check(HOLDER, &set("holders", &["pings = true", "retired_at = 5, ended = 5", &retired]), true);
    let changes = [
        "key = NULL",
        "nonce = NULL",
        plain,
        "grant_us = NULL",
        "name = NULL",
        "registry = NULL",
        "pings = NULL",
        "retired_at = 5",
        "ended = 0",
        "retired_at = 5, ended = 6",
        "retired_at = 5, ended = -1",
    ];
    check(HOLDER, &set("holders", &changes), false);
}

#[test]
fn keys_and_ids_have_one_owner() {
    let take = |queue: u32, job: u32| {
        format!(
            "INSERT INTO tenure.unique_keys VALUES ({queue}, 'key', '00000000-0000-0000-0000-00000000000{job}');"
        )
    };
    let taken = take(1, 1);
    check(&taken, &[take(2, 2)], true);
    check(&taken, &[take(1, 2), take(1, 1)], false);
    let again = JOB.replace("VALUES ('q')", "VALUES ('another')");
    check(JOB, &[again], false);
    check(JOB, &["INSERT INTO tenure.queues (name) VALUES ('q')".to_owned()], false);
    check(HOLDER, &[HOLDER.to_owned()], false);
}

#[test]
fn ids_of_registries_are_given_by_the_database_only() {
    let found = "INSERT INTO tenure.registries (name, address) VALUES ('a', 'b')";
    check("", &[found.to_owned()], true);
    let database = Database::fresh();
    let chosen = "INSERT INTO tenure.registries (id, name, address) VALUES (7, 'a', 'b')";
    let refusal = psql(&database, chosen).unwrap_err();
    assert!(refusal.contains("cannot insert a non-DEFAULT value"), "{refusal}");
    let again = format!("{found} RETURNING id; DELETE FROM tenure.registries; {found} RETURNING id;");
    let ids = psql(&database, &again);
    assert_eq!(ids.unwrap(), "1\n2", "an id is not given again");
}
