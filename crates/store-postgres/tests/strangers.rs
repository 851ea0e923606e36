//! Other roles of the same database: what they made there is neither run nor trusted.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::{JobId, Kind, NewJob, Outcome, QueueName, RegistryId, Report, RequestId, UniqueKey, WorkerKey};
use pg_cluster::Cluster;
use store::{Claim, EnqueueBatch, JobFilter, JobStore, Page};
use store_postgres::{OpenError, PostgresOptions, PostgresStore, migrate, schema_version};

/// A better match than `pg_catalog.unnest(anyarray)` wherever the path leads to it. It takes what it can and goes on as if nothing had been.
fn hostile(element: &str) -> String {
    format!(
        "CREATE FUNCTION public.unnest({element}[]) RETURNS SETOF {element} LANGUAGE plpgsql AS $$ BEGIN
           INSERT INTO public.loot VALUES (current_user || ' ran this');
           RETURN QUERY SELECT pg_catalog.unnest($1); END $$;"
    )
}

/// As on PostgreSQL 14 and older, where everybody may create in `public` unless that is taken away.
fn prepare(cluster: &Cluster, database: &str) -> String {
    let url = cluster.create_database(database).unwrap();
    let types = ["uuid", "integer", "bigint", "smallint", "text", "bytea", "boolean"];
    let functions: String = types.iter().map(|element| hostile(element)).collect();
    let sql = format!(
        "CREATE ROLE shop_{database}; GRANT CREATE ON SCHEMA public TO PUBLIC;
         CREATE TABLE public.loot (what text); GRANT INSERT ON public.loot TO PUBLIC;
         SET ROLE shop_{database}; {functions}"
    );
    cluster.psql(database, &sql).unwrap();
    // The trap is one: a session that does not look out runs it.
    cluster.psql(database, "SELECT unnest(ARRAY[1]); SELECT unnest(ARRAY['a'])").unwrap();
    assert_eq!(loot(cluster, database), "2");
    cluster.psql(database, "DELETE FROM public.loot").unwrap();
    url
}

fn loot(cluster: &Cluster, database: &str) -> String {
    cluster.psql(database, "SELECT count(*) FROM public.loot").unwrap().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_another_role_made_in_public_is_run() {
    let cluster = Cluster::shared();
    let url = prepare(&cluster, "trapped");
    // Not even if the role, the database and the URL all say so.
    cluster.psql("postgres", "ALTER DATABASE trapped SET search_path = public").unwrap();
    let url = format!("{url}?options=-csearch_path%3Dpublic,pg_catalog");
    migrate(&url, false).await.unwrap();
    assert!(schema_version(&url).await.unwrap().is_some());
    let store = Arc::new(PostgresStore::connect(PostgresOptions::new(&url)).await.unwrap());
    let (queue, holder) = (QueueName::new("q").unwrap(), WorkerKey::new("w").unwrap());
    let job = |number: u8| NewJob {
        unique_key: (number == 1).then(|| UniqueKey::new("once").unwrap()),
        ..NewJob::new(JobId::from_bytes([number; 16]), queue.clone(), Kind::new("k").unwrap(), Bytes::new())
    };
    let request_id = Some(RequestId::new("r").unwrap());
    store.enqueue(EnqueueBatch { request_id, jobs: vec![job(1), job(2), job(3)] }).await.unwrap();
    let claim = Claim {
        holder: holder.clone(),
        queues: vec![queue],
        limit: 3,
        bytes_max: usize::MAX,
        lease: Duration::from_secs(20),
        exclusive: false,
    };
    let holds: Vec<_> = store.claim(claim).await.unwrap().iter().map(|claimed| claimed.hold).collect();
    assert_eq!(holds.len(), 3);
    store.renew(&holder, holds.clone(), Duration::from_secs(20)).await.unwrap();
    let outcome = Outcome::Completed { result: Bytes::new() };
    let reports = holds[..2].iter().map(|hold| Report { hold: *hold, outcome: outcome.clone() }).collect();
    store.finish(&holder, reports).await.unwrap();
    store.cancel(vec![holds[2].job]).await.unwrap();
    store.promote(10).await.unwrap();
    store.expired(RegistryId::ONLY, 10).await.unwrap();
    store.reap_holder(&holder, true).await.unwrap();
    store.list(JobFilter::default(), Page { before: None, limit: 10, bytes_max: usize::MAX }).await.unwrap();
    store.stats().await.unwrap();
    store.check().await.unwrap();
    assert_eq!(loot(&cluster, "trapped"), "0");
}

/// A role that may log in and use this database, and nothing else.
fn role(cluster: &Cluster, name: &str, database: &str) -> String {
    let sql = format!("CREATE ROLE {name} LOGIN; GRANT CREATE ON DATABASE {database} TO {name}");
    cluster.psql("postgres", &sql).unwrap();
    cluster.socket_url(database).replace(&format!("{}@", pg_cluster::USER), &format!("{name}@"))
}

#[tokio::test]
async fn a_schema_that_belongs_to_somebody_else_is_refused() {
    let cluster = Cluster::shared();
    cluster.create_database("squatted").unwrap();
    let url = role(&cluster, "app", "squatted");
    role(&cluster, "squatter", "squatted");
    let refused = async || match PostgresStore::connect(PostgresOptions::new(&url)).await {
        Err(error @ OpenError::OthersSchema { .. }) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was taken"),
    };
    // Empty, it looks as if it were free.
    cluster
        .psql("squatted", "CREATE SCHEMA tenure AUTHORIZATION squatter; GRANT ALL ON SCHEMA tenure TO app")
        .unwrap();
    let error = refused().await;
    assert!(error.contains("squatter") && error.contains("a database of its own"), "{error}");
    assert!(matches!(migrate(&url, false).await, Err(OpenError::OthersSchema { .. })));

    // One of the tables is enough.
    cluster.psql("squatted", "DROP SCHEMA tenure").unwrap();
    migrate(&url, false).await.unwrap();
    cluster.psql("squatted", "ALTER TABLE tenure.requests OWNER TO squatter").unwrap();
    assert!(refused().await.contains("squatter"));
    // Whoever is a member of the owner is trusted by it.
    cluster.psql("squatted", "GRANT squatter TO app").unwrap();
    PostgresStore::connect(PostgresOptions::new(&url)).await.unwrap().check().await.unwrap();
}
