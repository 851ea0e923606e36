//! A database of an earlier schema is brought up to date with what is in it; one of a later schema is left alone.

use common::Database;
use model::{JobId, QueueName, State, WorkerKey};
use store::{Claim, JobStore};
use store_postgres::{OpenError, PostgresOptions, PostgresStore, migrate, migrations, schema_version};

mod common;

/// A database that has only the first steps of the schema.
fn of_schema(steps: usize) -> Database {
    let database = Database::fresh();
    let psql = |sql: &str| database.cluster.psql(&database.name, sql).unwrap();
    psql("DROP SCHEMA tenure CASCADE");
    for step in &migrations()[..steps] {
        psql(step.sql);
        psql(&format!(
            "INSERT INTO tenure.migrations (number, name) VALUES ({}, '{}')",
            step.number, step.name
        ));
    }
    database
}

fn url(database: &Database) -> String {
    database.cluster.url(&database.name)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn jobs_of_the_first_schema_are_served_by_the_latest() {
    let database = of_schema(1);
    let job = "
        INSERT INTO tenure.queues (name) VALUES ('q');
        INSERT INTO tenure.counts (queue, available) VALUES (1, 1);
        INSERT INTO tenure.jobs (id, state, queue, priority, run_at, max_attempts, max_lost, enqueued_at, kind, payload)
        VALUES ('07070707-0707-0707-0707-070707070707', 1, 1, 0, 0, 5, 5, 0, 'k', 'payload')";
    database.cluster.psql(&database.name, job).unwrap();
    block_on(async {
        let store = PostgresStore::connect(PostgresOptions::new(url(&database))).await.unwrap();
        assert_eq!(schema_version(&url(&database)).await.unwrap(), Some(migrations().len() as u32));
        let claim = Claim {
            holder: WorkerKey::new("w").unwrap(),
            queues: vec![QueueName::new("q").unwrap()],
            limit: 10,
            bytes_max: usize::MAX,
            lease: std::time::Duration::from_secs(30),
            exclusive: false,
        };
        let claimed = store.claim(claim).await.unwrap();
        assert_eq!((claimed.len(), &claimed[0].payload[..]), (1, &b"payload"[..]));
        let job = store.get(JobId::from_bytes([7; 16])).await.unwrap().unwrap();
        assert_eq!(job.state, State::Running);
    });
}

#[test]
fn steps_are_run_once_however_many_servers_start() {
    let database = of_schema(0);
    let servers: Vec<_> = (0..4)
        .map(|_| {
            let url = url(&database);
            std::thread::spawn(move || block_on(migrate(&url, false)).map(drop))
        })
        .collect();
    for server in servers {
        server.join().unwrap().unwrap();
    }
    let noted = database
        .cluster
        .psql(&database.name, "SELECT number FROM tenure.migrations ORDER BY number")
        .unwrap();
    let expected: Vec<String> = migrations().iter().map(|step| step.number.to_string()).collect();
    assert_eq!(noted, expected.join("\n"));
}

#[test]
fn dry_run_answers_the_missing_steps_and_changes_nothing() {
    let database = of_schema(1);
    assert_eq!(block_on(migrate(&url(&database), true)).unwrap(), &migrations()[1..]);
    assert_eq!(block_on(schema_version(&url(&database))).unwrap(), Some(1));
    let options = PostgresOptions { migrate: false, ..PostgresOptions::new(url(&database)) };
    let refusal = block_on(PostgresStore::connect(options)).unwrap_err();
    assert!(matches!(refusal, OpenError::Older { found: 1, .. }), "{refusal}");
}

#[test]
fn newer_and_foreign_schemas_are_left_alone() {
    let database = of_schema(migrations().len());
    database
        .cluster
        .psql(&database.name, "INSERT INTO tenure.migrations (number, name) VALUES (99, 'later')")
        .unwrap();
    let refusal = block_on(PostgresStore::connect(PostgresOptions::new(url(&database)))).unwrap_err();
    assert!(matches!(refusal, OpenError::Newer { found: 99, .. }), "{refusal}");

    let foreign = of_schema(0);
    foreign
        .cluster
        .psql(&foreign.name, "CREATE SCHEMA tenure; CREATE TABLE tenure.leases (flat text)")
        .unwrap();
    let refusal = block_on(PostgresStore::connect(PostgresOptions::new(url(&foreign)))).unwrap_err();
    assert!(matches!(refusal, OpenError::NotOurs), "{refusal}");
}
