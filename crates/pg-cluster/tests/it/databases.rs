//! A cluster that nobody harms: databases, statements, addresses, options.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::Arc;

use pg_cluster::{Cluster, ClusterError, Options};

use crate::session::Session;

#[test]
fn databases_are_apart_and_reached_over_tcp_and_by_the_socket() {
    let cluster = Cluster::shared();
    assert!(Arc::ptr_eq(&cluster, &Cluster::shared()), "one for all tests at a time");
    let url = cluster.create_database("Reports").expect("a new name");
    cluster.psql("Reports", "CREATE TABLE reports (id int, body text)").expect("SQL");
    cluster.psql("Reports", "INSERT INTO reports VALUES (1, 'it''s'), (2, NULL)").expect("SQL");
    let rows = cluster.psql("Reports", "SELECT * FROM reports ORDER BY id").expect("SQL");
    assert_eq!(rows, "1|it's\n2|");

    let via = "SELECT coalesce(host(inet_server_addr()), 'socket'), count(*) FROM reports";
    assert_eq!(Session::open(&cluster, &url).ask(via), "127.0.0.1|2");
    assert_eq!(Session::open(&cluster, &cluster.socket_url("Reports")).ask(via), "socket|2");

    let (one, other) = (cluster.fresh_database(), cluster.fresh_database());
    assert_ne!(one, other);
    let tables = "SELECT count(*) FROM pg_tables WHERE tablename = 'reports'";
    assert_eq!(Session::open(&cluster, &one).ask(tables), "0");
}

#[test]
fn nobody_is_let_in_over_tcp_without_the_password() {
    let cluster = Cluster::start().expect("a cluster");
    let standby = cluster.standby("second").expect("a standby");
    cluster.psql("postgres", "CREATE ROLE guest LOGIN").expect("SQL");
    for server in [&cluster, &standby] {
        let ask = |url: &str| {
            let mut psql = Command::new(server.binaries().join("psql"));
            psql.env_remove("PGPASSWORD").env("PGPASSFILE", "/dev/null");
            psql.args(["-X", "-w", "-A", "-t", "-c", "SELECT 1", "-d", url]).output().expect("psql starts")
        };
        let url = server.url("postgres");
        assert!(ask(&url).status.success());
        for login in ["tenure@", "tenure:wrong@", "tenure:@", "guest@"] {
            let url = url.replace(&format!("{}@", server.login()), login);
            let refused = ask(&url);
            assert!(!refused.status.success(), "{url} was let in");
        }
        let home = fs::metadata(server.home()).expect("it is there").permissions();
        assert_eq!(home.mode() & 0o077, 0, "the socket is for nobody else");
    }
    assert_ne!(cluster.password(), Cluster::shared().password(), "each has its own");
    let words = fs::read_dir(cluster.home()).expect("it is there").flatten();
    let words = words.filter_map(|entry| fs::read_to_string(entry.path()).ok()).collect::<String>();
    assert!(!words.contains(cluster.password()), "it is not left lying about");
}

#[test]
fn the_first_statement_that_fails_is_the_last_and_says_why() {
    let cluster = Cluster::shared();
    cluster.create_database("failing").expect("a new name");
    let script = "CREATE TABLE a (); SELECT 1/0; CREATE TABLE b ()";
    let error = cluster.psql("failing", script).expect_err("a division by zero");
    assert!(matches!(error, ClusterError::Failed { .. }));
    assert!(error.to_string().contains("division by zero"), "{error}");
    let tables = cluster.psql("failing", "SELECT tablename FROM pg_tables WHERE schemaname = 'public'");
    assert_eq!(tables.expect("SQL"), "a");
}

#[test]
fn options_and_settings_take_effect() {
    let settings = vec![("application_name".to_owned(), r"it's \ fine".to_owned())];
    let cluster = Options { fsync: true, tls: true, settings }.start().expect("a cluster");
    let show = |name: &str| cluster.psql("postgres", &format!("SHOW {name}")).expect("SQL");
    assert_eq!(show("fsync"), "on");
    let boot = "SELECT boot_val, reset_val FROM pg_settings WHERE name = 'log_statement'";
    assert_eq!(cluster.psql("postgres", boot).expect("SQL"), "none|none");
    let noted = "SELECT setting FROM pg_file_settings WHERE name = 'application_name'";
    assert_eq!(cluster.psql("postgres", noted).expect("SQL"), r"it's \ fine");

    cluster.configure("log_statement", "ddl").expect("it is known");
    assert_eq!(show("log_statement"), "ddl");
    let error = cluster.configure("no_such_thing", "1").expect_err("nothing of this name");
    assert!(error.to_string().contains("no_such_thing"), "{error}");

    // The client believes the certificate and nothing else.
    let certificate = cluster.home().join("data/server.crt");
    let url =
        format!("{}?sslmode=verify-full&sslrootcert={}", cluster.url("postgres"), certificate.display());
    let is_encrypted = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    assert_eq!(Session::open(&cluster, &url).ask(is_encrypted), "t");
}
