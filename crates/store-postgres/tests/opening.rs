//! Opening a database: its schema, by several servers at once; TLS as the URL asks for it; errors that say what to do.

use std::sync::Arc;
use std::time::Duration;

use pg_cluster::{Cluster, Options};
use store::JobStore;
use store_postgres::{
    OpenError, PostgresOptions, PostgresStore, migrate, migrations, schema_version, server_version,
};

async fn refusal(url: &str) -> OpenError {
    PostgresStore::connect(PostgresOptions::new(url)).await.expect_err("it must be refused")
}

#[tokio::test]
async fn a_dry_run_names_the_steps_and_changes_nothing() {
    let cluster = Cluster::shared();
    let url = cluster.fresh_database();
    assert_eq!(migrate(&url, true).await.unwrap(), migrations());
    assert_eq!(schema_version(&url).await.unwrap(), None);
    assert_eq!(migrate(&url, false).await.unwrap(), migrations());
    assert_eq!(schema_version(&url).await.unwrap(), Some(migrations().len() as u32));
    assert_eq!(migrate(&url, false).await.unwrap(), []);
    let version = server_version(&url).await.unwrap();
    assert!(version.starts_with(|digit: char| digit.is_ascii_digit()), "{version}");
}

/// Servers start at once on a new database whose transactions have this isolation unless they say otherwise.
async fn start_at_once(isolation: &str) {
    let cluster = Cluster::shared();
    let database = format!("at_once_{}", isolation.replace(' ', "_"));
    let url = cluster.create_database(&database).unwrap();
    let sql = format!("ALTER DATABASE {database} SET default_transaction_isolation = '{isolation}'");
    cluster.psql("postgres", &sql).unwrap();
    let starts: Vec<_> =
        (0..6).map(|_| tokio::spawn(PostgresStore::connect(PostgresOptions::new(url.clone())))).collect();
    for start in starts {
        start.await.unwrap().unwrap().check().await.unwrap();
    }
    let steps = cluster.psql(&database, "SELECT count(*) FROM tenure.migrations").unwrap();
    assert_eq!(steps.trim(), migrations().len().to_string());
}

#[tokio::test]
async fn servers_that_start_at_once_run_each_step_once() {
    start_at_once("read committed").await;
}

#[tokio::test]
async fn servers_start_at_once_whatever_isolation_the_database_is_set_to() {
    start_at_once("repeatable read").await;
    start_at_once("serializable").await;
}

#[tokio::test]
async fn a_schema_that_is_newer_or_not_ours_or_not_there_is_refused() {
    let cluster = Cluster::shared();
    let url = cluster.create_database("refused").unwrap();
    let without = PostgresOptions { migrate: false, ..PostgresOptions::new(&url) };
    let error = PostgresStore::connect(without).await.expect_err("there is no schema");
    assert!(error.to_string().contains("run `tenure migrate`"), "{error}");
    cluster.psql("refused", "CREATE SCHEMA tenure; CREATE TABLE tenure.jobs (mine integer)").unwrap();
    assert!(matches!(refusal(&url).await, OpenError::NotOurs));
    cluster.psql("refused", "DROP SCHEMA tenure CASCADE").unwrap();
    migrate(&url, false).await.unwrap();
    cluster.psql("refused", "INSERT INTO tenure.migrations VALUES (99, 'from the future')").unwrap();
    let error = refusal(&url).await;
    assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error}");
}

#[tokio::test]
async fn a_database_that_cannot_keep_our_texts_is_refused() {
    let cluster = Cluster::shared();
    let sql = "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0";
    cluster.psql("postgres", sql).unwrap();
    let error = refusal(&cluster.url("latin")).await.to_string();
    assert!(error.contains("UTF8"), "{error}");
}

#[tokio::test]
async fn errors_name_every_host_and_no_password() {
    let cluster = Cluster::shared();
    let port = cluster.port();
    for (login, why) in
        [(cluster.login(), "there is no such database"), ("tenure:hunter2".to_owned(), "refuses our login")]
    {
        let url = format!("postgresql://{login}@127.0.0.1:1,127.0.0.1:{port}/nothing");
        let error = format!("{0} {0:?}", refusal(&url).await);
        assert!(error.contains("127.0.0.1:1: "), "{error}");
        assert!(error.contains(why), "{error}");
        let password = login.rsplit(':').next().unwrap();
        assert!(!error.contains(password), "{error}");
    }
}

#[tokio::test]
async fn a_database_that_is_late_is_waited_for() {
    let cluster = Arc::new(Cluster::start().unwrap());
    let url = cluster.fresh_database();
    cluster.stop();
    let error = refusal(&url).await;
    assert!(matches!(error, OpenError::Unreachable(_)), "{error}");
    let patient = PostgresOptions { patience: Duration::from_secs(60), ..PostgresOptions::new(&url) };
    let start = tokio::spawn(PostgresStore::connect(patient));
    let late = cluster.clone();
    tokio::task::spawn_blocking(move || late.restart().unwrap()).await.unwrap();
    start.await.unwrap().unwrap().check().await.unwrap();
}

/// Whether our connections to this database are inside TLS.
fn is_secure(cluster: &Cluster, database: &str) -> bool {
    let sql = "SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
        WHERE application_name = 'tenure' AND datname = current_database()";
    match cluster.psql(database, sql).unwrap().trim() {
        "t" => true,
        "f" => false,
        other => panic!("some are and some are not: {other:?}"),
    }
}

#[tokio::test]
async fn tls_is_used_and_verified_as_the_url_asks() {
    let cluster = Options { tls: true, ..Options::default() }.start().unwrap();
    let stranger = Options { tls: true, ..Options::default() }.start().unwrap();
    let certificate = |cluster: &Cluster| cluster.home().join("data/server.crt").display().to_string();
    let (ours, others) = (certificate(&cluster), certificate(&stranger));
    let port = cluster.port();
    cluster.create_database("db").unwrap();
    let url = |host: &str, query: &str| {
        format!("postgresql://{}@{host}:{port}/db?hostaddr=127.0.0.1&{query}", cluster.login())
    };
    let accepted = [
        ("localhost", "sslmode=disable".to_owned(), false),
        ("localhost", "application_name=tenure".to_owned(), true),
        ("localhost", "sslmode=prefer".to_owned(), true),
        ("somewhere.else", "sslmode=require".to_owned(), true),
        ("somewhere.else", format!("sslmode=verify-ca&sslrootcert={ours}"), true),
        ("somewhere.else", format!("sslmode=require&sslrootcert={ours}"), true),
        ("localhost", format!("sslmode=verify-full&sslrootcert={ours}"), true),
        ("127.0.0.1", format!("sslmode=verify-full&sslrootcert={ours}"), true),
    ];
    for (host, query, secure) in accepted {
        let store = PostgresStore::connect(PostgresOptions::new(url(host, &query))).await;
        let store = store.unwrap_or_else(|error| panic!("{host} {query}: {error}"));
        store.check().await.unwrap();
        assert_eq!(is_secure(&cluster, "db"), secure, "{host} {query}");
        store.close().await;
    }
    let refused = [
        ("somewhere.else", format!("sslmode=verify-full&sslrootcert={ours}"), "certificate"),
        ("localhost", format!("sslmode=verify-full&sslrootcert={others}"), "certificate"),
        ("localhost", format!("sslmode=verify-ca&sslrootcert={others}"), "certificate"),
        ("localhost", format!("sslmode=require&sslrootcert={others}"), "certificate"),
        ("localhost", "sslmode=verify-full&sslrootcert=/no/such/file".to_owned(), "/no/such/file"),
    ];
    for (host, query, word) in refused {
        let error = refusal(&url(host, &query)).await.to_string();
        assert!(error.contains(word), "{host} {query}: {error}");
    }
    let plain = Cluster::shared();
    let error = refusal(&format!("{}?sslmode=require", plain.fresh_database())).await.to_string();
    assert!(error.contains("does not support TLS"), "{error}");
}
