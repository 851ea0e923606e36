//! Enqueuing by SQL: in the caller's transaction, with the servers' own rules, by a role that may do nothing else.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use common::Database;
use model::{Job, JobId, Kind, NewJob, QueueName, QueuePatch, State, UniqueKey, When, WorkerKey};
use store::{Claim, EnqueueBatch, JobStore, News, Retention};
use store_postgres::{PostgresOptions, PostgresStore};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

mod common;

struct Bench {
    store: Arc<PostgresStore>,
    client: Client,
    database: Database,
}

impl Bench {
    async fn new() -> Self {
        let database = tokio::task::spawn_blocking(Database::fresh).await.unwrap();
        let url = database.cluster.url(&database.name);
        let store = Arc::new(PostgresStore::connect(PostgresOptions::new(&url)).await.unwrap());
        let client = connect(&url).await;
        Bench { store, client, database }
    }

    /// Runs `SELECT tenure.enqueue(…)` and answers the id.
    async fn enqueue(&self, arguments: &str) -> JobId {
        self.try_enqueue(arguments).await.unwrap_or_else(|error| panic!("{arguments}: {error}"))
    }

    async fn try_enqueue(&self, arguments: &str) -> Result<JobId, String> {
        let sql = format!("SELECT tenure.enqueue({arguments})::text");
        match self.client.query_one(&sql, &[]).await {
            Ok(row) => Ok(row.get::<_, &str>(0).parse().unwrap()),
            Err(error) => Err(error.as_db_error().expect("the database says no").message().to_owned()),
        }
    }

    async fn get(&self, id: JobId) -> Option<Job> {
        self.store.get(id).await.unwrap()
    }

    async fn claim(&self, name: &str) -> Vec<JobId> {
        let claim = Claim {
            holder: WorkerKey::new("w").unwrap(),
            queues: vec![queue(name)],
            limit: 10,
            bytes_max: usize::MAX,
            lease: Duration::from_secs(60),
            exclusive: false,
        };
        self.store.claim(claim).await.unwrap().into_iter().map(|claimed| claimed.hold.job).collect()
    }

    async fn counts(&self, name: &str) -> Option<[u64; 6]> {
        let stats = self.store.stats().await.unwrap();
        stats.into_iter().find(|stats| stats.queue == queue(name)).map(|stats| stats.counts)
    }
}

async fn connect(url: &str) -> Client {
    let (client, driver) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(driver);
    client
}

fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

#[tokio::test]
async fn a_job_enqueued_by_sql_is_as_any_other() {
    let bench = Bench::new().await;
    let patch = QueuePatch { max_attempts: Some(Some(9)), ..QueuePatch::default() };
    bench.store.set_queue(&queue("set"), patch).await.unwrap();
    for name in ["plain", "set"] {
        let by_sql = bench.enqueue(&format!("'{name}', 'send.mail', '{{\"a\": 1}}'")).await;
        let new = NewJob::new(
            JobId::from_bytes([7; 16]),
            queue(name),
            Kind::new("send.mail").unwrap(),
            Bytes::from_static(b"{\"a\": 1}"),
        );
        let batch = EnqueueBatch {
            request_id: None,
            jobs: vec![NewJob { id: JobId::from_bytes([name.len() as u8; 16]), ..new }],
        };
        let by_server = bench.store.enqueue(batch).await.unwrap().jobs[0].id;
        let (by_sql, by_server) = (bench.get(by_sql).await.unwrap(), bench.get(by_server).await.unwrap());
        let late = by_server.enqueued_at.since(by_sql.enqueued_at);
        assert!(late < Duration::from_secs(60), "both have the time of the database");
        assert_eq!(by_sql.run_at, by_sql.enqueued_at);
        let (id, run_at, enqueued_at) = (by_sql.id, by_sql.run_at, by_sql.enqueued_at);
        assert_eq!(by_sql, Job { id, run_at, enqueued_at, ..by_server });
        assert_eq!(by_sql.id.to_bytes()[6] >> 4, 7, "its id is of version 7");
        assert_eq!(bench.claim(name).await.len(), 2);
    }
}

#[tokio::test]
async fn options_are_kept() {
    let bench = Bench::new().await;
    let id = "0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f";
    let given = bench
        .enqueue(&format!(
            "queue => 'q', kind => 'k', payload => '\\x00ff', content_type => 'application/octet-stream',
             priority => -7, run_at => '2900-01-01 00:00:00.123+00', max_attempts => 3, unique_key => 'user 7 ✓',
             timeout => '90 seconds', id => '{id}'"
        ))
        .await;
    assert_eq!(given, id.parse().unwrap());
    let job = bench.get(given).await.unwrap();
    assert_eq!(job.payload, Bytes::from_static(&[0, 255]));
    assert_eq!(job.content_type, "application/octet-stream");
    assert_eq!((job.priority, job.max_attempts, job.state), (-7, 3, State::Scheduled));
    assert_eq!(job.run_at.as_millis(), 29_348_006_400_123);
    assert_eq!(job.timeout, Some(Duration::from_secs(90)));
    assert_eq!(job.unique_key, Some(UniqueKey::new("user 7 ✓").unwrap()));
    assert_eq!(bench.counts("q").await, Some([1, 0, 0, 0, 0, 0]));
}

#[tokio::test]
async fn what_is_rolled_back_never_was() {
    let bench = Bench::new().await;
    bench.client.batch_execute("BEGIN").await.unwrap();
    let id = bench.enqueue("'q', 'k', unique_key => 'u'").await;
    assert_eq!(bench.get(id).await, None, "nobody sees it before the commit");
    assert_eq!(bench.claim("q").await, []);
    bench.client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!((bench.get(id).await, bench.counts("q").await), (None, None));
    bench.client.batch_execute("BEGIN").await.unwrap();
    let id = bench.enqueue("'q', 'k', unique_key => 'u'").await;
    bench.client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(bench.claim("q").await, [id]);
    assert_eq!(bench.counts("q").await, Some([0, 0, 1, 0, 0, 0]));
}

#[tokio::test]
async fn servers_hear_of_it_at_the_commit() {
    let bench = Bench::new().await;
    bench.client.batch_execute("BEGIN").await.unwrap();
    bench.enqueue("'q', 'k'").await;
    bench.enqueue("'later', 'k', run_at => now() + interval '1 day'").await;
    bench.client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(bench.store.next_news().await, News::Ready(vec![queue("q")]));
    assert_eq!(bench.store.next_news().await, News::Scheduled);
}

#[tokio::test]
async fn duplicates_are_answered_with_the_one_already_there() {
    let bench = Bench::new().await;
    let id = "0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f";
    let first = bench.enqueue(&format!("'q', 'k', unique_key => 'u', id => '{id}'")).await;
    assert_eq!(bench.enqueue("'q', 'k', unique_key => 'u'").await, first);
    assert_ne!(bench.enqueue("'other', 'k', unique_key => 'u'").await, first, "another queue");
    assert_eq!(bench.enqueue(&format!("'new', 'k', unique_key => 'v', id => '{id}'")).await, first);
    assert_eq!(bench.counts("new").await, None, "a duplicate creates no queue");
    assert_eq!(bench.counts("q").await, Some([0, 1, 0, 0, 0, 0]));
    let server = NewJob {
        unique_key: Some(UniqueKey::new("u").unwrap()),
        when: When::Now,
        ..NewJob::new(JobId::from_bytes([1; 16]), queue("q"), Kind::new("k").unwrap(), Bytes::new())
    };
    let answer = bench.store.enqueue(EnqueueBatch { request_id: None, jobs: vec![server] }).await.unwrap();
    assert_eq!((answer.jobs[0].id, answer.jobs[0].duplicate), (first, true));
    // One that has ended is there, too, but its key is free.
    bench.store.cancel(vec![first]).await.unwrap();
    assert_eq!(bench.enqueue(&format!("'q', 'k', id => '{id}'")).await, first);
    assert_eq!(bench.counts("q").await, Some([0, 0, 0, 0, 1, 0]));
    assert_ne!(bench.enqueue("'q', 'k', unique_key => 'u'").await, first);
}

#[tokio::test]
async fn two_transactions_with_one_key_make_one_job() {
    let bench = Bench::new().await;
    let url = bench.database.cluster.url(&bench.database.name);
    let other = connect(&url).await;
    bench.enqueue("'q', 'k'").await;
    bench.client.batch_execute("BEGIN").await.unwrap();
    let first = bench.enqueue("'q', 'k', unique_key => 'u'").await;
    let waits = tokio::spawn(async move {
        let row =
            other.query_one("SELECT tenure.enqueue('q', 'k', unique_key => 'u')::text", &[]).await.unwrap();
        row.get::<_, &str>(0).parse::<JobId>().unwrap()
    });
    let waiting = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
        AND wait_event_type = 'Lock' AND query LIKE '%tenure.enqueue%')";
    let watcher = connect(&url).await;
    while !watcher.query_one(waiting, &[]).await.unwrap().get::<_, bool>(0) {
        tokio::task::yield_now().await;
    }
    bench.client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(waits.await.unwrap(), first);
    assert_eq!(bench.counts("q").await, Some([0, 2, 0, 0, 0, 0]));
}

#[tokio::test]
async fn a_long_transaction_holds_up_nobody_else_in_the_queue() {
    let bench = Bench::new().await;
    let first = bench.enqueue("'q', 'k'").await;
    bench.client.batch_execute("BEGIN").await.unwrap();
    bench.enqueue("'q', 'k'").await;
    let new = NewJob::new(JobId::from_bytes([1; 16]), queue("q"), Kind::new("k").unwrap(), Bytes::new());
    bench.store.enqueue(EnqueueBatch { request_id: None, jobs: vec![new] }).await.unwrap();
    assert_eq!(bench.claim("q").await, [first, JobId::from_bytes([1; 16])]);
    bench.client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(bench.claim("q").await.len(), 1);
}

#[tokio::test]
async fn what_a_server_refuses_is_refused() {
    let bench = Bench::new().await;
    let long = "x".repeat(129);
    let refused = [
        ("'a b', 'k'".to_owned(), "queue name"),
        ("'', 'k'".to_owned(), "queue name"),
        ("NULL, 'k'".to_owned(), "queue name"),
        (format!("'{long}', 'k'"), "queue name"),
        ("E'q\\n', 'k'".to_owned(), "queue name"),
        ("'q', 'ü'".to_owned(), "kind"),
        ("'q', 'k', NULL::jsonb".to_owned(), "payload"),
        ("'q', 'k', to_jsonb(repeat('x', 1048575))".to_owned(), "at most 1048576"),
        (format!("'q', 'k', '\\x', '{long}'"), "content type"),
        ("'q', 'k', priority => 32768".to_owned(), "priority"),
        ("'q', 'k', run_at => 'infinity'".to_owned(), "run_at"),
        ("'q', 'k', run_at => '10000-01-01'".to_owned(), "run_at"),
        ("'q', 'k', max_attempts => 0".to_owned(), "max attempts"),
        ("'q', 'k', max_attempts => 1001".to_owned(), "max attempts"),
        ("'q', 'k', timeout => '0 s'".to_owned(), "timeout"),
        ("'q', 'k', timeout => '31 days'".to_owned(), "timeout"),
        ("'q', 'k', unique_key => ''".to_owned(), "unique key"),
        ("'q', 'k', unique_key => E'tab\\t'".to_owned(), "unique key"),
        ("'q', 'k', unique_key => repeat('é', 257)".to_owned(), "unique key"),
    ];
    for (arguments, word) in refused {
        let error = bench.try_enqueue(&arguments).await.expect_err(&arguments);
        assert!(error.contains(word), "{arguments}: {error}");
    }
    assert_eq!(bench.counts("q").await, None);
}

#[tokio::test]
async fn what_a_session_sets_does_not_change_the_rules() {
    let bench = Bench::new().await;
    bench
        .client
        .batch_execute("SET standard_conforming_strings = off; SET backslash_quote = on")
        .await
        .unwrap();
    for (arguments, word) in [
        ("'bad name', 'k'", "queue name"),
        ("'A[a', 'k'", "queue name"),
        ("E'q\\n', 'k'", "queue name"),
        ("'q', 'bad kind'", "kind"),
        ("'q', 'k', unique_key => E'tab\\t'", "unique key"),
        ("'q', 'k', unique_key => E'\\u0085'", "unique key"),
    ] {
        let error = bench.try_enqueue(arguments).await.expect_err(arguments);
        assert!(error.contains(word), "{arguments}: {error}");
    }
    bench.enqueue("'q', 'k', unique_key => 'u001f ü'").await;
    assert_eq!(bench.claim("q").await.len(), 1, "and what is right is still right");
    // Nor does a name come in by another way that no server could read.
    let error = bench.client.batch_execute("INSERT INTO tenure.queues (name) VALUES ('bad name')").await;
    assert!(error.unwrap_err().as_db_error().unwrap().message().contains("queues_name_check"));
}

#[tokio::test]
async fn a_kind_that_nobody_can_read_does_not_hold_up_the_others() {
    let bench = Bench::new().await;
    let good = bench.enqueue("'q', 'k'").await;
    bench.enqueue("'q', 'k', priority => 1").await;
    bench.client.batch_execute("UPDATE tenure.jobs SET kind = 'bad kind' WHERE priority = 1").await.unwrap();
    assert_eq!(bench.claim("q").await, [good]);
}

#[tokio::test]
async fn an_id_of_its_own_needs_a_transaction_that_sees_what_others_do() {
    let bench = Bench::new().await;
    let id = "0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f";
    let job: JobId = id.parse().unwrap();
    let new = NewJob::new(job, queue("q"), Kind::new("k").unwrap(), Bytes::new());
    for isolation in ["REPEATABLE READ", "SERIALIZABLE"] {
        let begin = format!("BEGIN ISOLATION LEVEL {isolation}; SELECT FROM tenure.jobs");
        bench.client.batch_execute(&begin).await.unwrap();
        // It comes and ends after the snapshot.
        bench.store.enqueue(EnqueueBatch { request_id: None, jobs: vec![new.clone()] }).await.unwrap();
        bench.store.cancel(vec![job]).await.unwrap();
        let error = bench.try_enqueue(&format!("'q', 'k', id => '{id}'")).await.unwrap_err();
        assert!(error.contains("id of its own") && error.contains(&isolation.to_lowercase()), "{error}");
        bench.client.batch_execute("ROLLBACK").await.unwrap();
        let nothing_kept = Retention { completed: Duration::ZERO, dead: Duration::ZERO };
        bench.store.purge(nothing_kept, 10).await.unwrap();
    }
    bench.client.batch_execute("BEGIN ISOLATION LEVEL READ UNCOMMITTED").await.unwrap();
    assert_eq!(bench.enqueue(&format!("'q', 'k', id => '{id}'")).await, job);
    bench.client.batch_execute("COMMIT").await.unwrap();
}

#[tokio::test]
async fn an_old_snapshot_makes_no_second_job_of_a_unique_key() {
    let bench = Bench::new().await;
    bench.enqueue("'q', 'k'").await;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM tenure.jobs";
    let other = connect(&bench.database.cluster.url(&bench.database.name)).await;
    for key_or_queue in ["'q', 'k', unique_key => 'u'", "'new', 'k'"] {
        bench.client.batch_execute(begin).await.unwrap();
        other.batch_execute(&format!("SELECT tenure.enqueue({key_or_queue})")).await.unwrap();
        let sql = format!("SELECT tenure.enqueue({key_or_queue})");
        let error = bench.client.batch_execute(&sql).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{error}");
        bench.client.batch_execute("ROLLBACK").await.unwrap();
    }
    // A key that was freed since may be taken.
    let first = bench.enqueue("'q', 'k', unique_key => 'u'").await;
    bench.client.batch_execute(begin).await.unwrap();
    bench.store.cancel(vec![first]).await.unwrap();
    let second = bench.enqueue("'q', 'k', unique_key => 'u'").await;
    assert_ne!(second, first);
    bench.client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(bench.enqueue("'q', 'k', unique_key => 'u'").await, second);
}

#[tokio::test]
async fn a_role_that_may_only_enqueue_can() {
    let bench = Bench::new().await;
    let make = "
        CREATE ROLE producer LOGIN;
        GRANT USAGE ON SCHEMA tenure TO producer;";
    bench.client.batch_execute(make).await.unwrap();
    let url = bench.database.cluster.socket_url(&bench.database.name).replace("//tenure@", "//producer@");
    let producer = connect(&url).await;
    let enqueue = "SELECT tenure.enqueue('q', 'k', jsonb_build_object('a', 1))";
    let denied = |error: tokio_postgres::Error| error.as_db_error().unwrap().message().to_owned();
    let error = denied(producer.query_one(enqueue, &[]).await.unwrap_err());
    assert!(error.contains("permission denied"), "{error}");
    let grant = "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA tenure TO producer";
    bench.client.batch_execute(grant).await.unwrap();
    producer.query_one(enqueue, &[]).await.unwrap();
    // Whatever it puts in its way is not looked at: the function's names are looked up where nobody else can write.
    let trap = "
        CREATE TEMPORARY TABLE jobs (mine integer);
        CREATE FUNCTION pg_temp.octet_length(bytea) RETURNS integer LANGUAGE sql AS 'SELECT 1 / 0';
        SET search_path = pg_temp, pg_catalog;";
    producer.batch_execute(trap).await.unwrap();
    producer.query_one(enqueue, &[]).await.unwrap();
    for sql in [
        "SELECT * FROM tenure.jobs",
        "DELETE FROM tenure.jobs",
        "INSERT INTO tenure.queues (name) VALUES ('x')",
        "SELECT * FROM tenure.migrations",
    ] {
        let error = denied(producer.execute(sql, &[]).await.unwrap_err());
        assert!(error.contains("permission denied"), "{sql}: {error}");
    }
    assert_eq!(bench.claim("q").await.len(), 2);
    drop(producer);
    let drop_role = "DROP OWNED BY producer; DROP ROLE producer";
    bench.client.batch_execute(drop_role).await.unwrap();
}
