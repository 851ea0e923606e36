//! A server that is killed, stopped, frozen.

use std::net::TcpStream;
use std::{fs, io};

use pg_cluster::Cluster;

use crate::session::Session;

fn is_alive(process: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    status.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[test]
fn a_killed_server_is_gone_at_once_and_comes_back_with_what_was_committed() {
    let cluster = Cluster::start().expect("a cluster");
    let url = cluster.url("postgres");
    let rows = || cluster.psql("postgres", "SELECT n FROM numbers").expect("SQL");
    cluster.psql("postgres", "CREATE TABLE numbers (n int); INSERT INTO numbers VALUES (1)").expect("SQL");

    let mut open = Session::open(&cluster, &url);
    open.send("BEGIN; INSERT INTO numbers VALUES (2)");
    let idle = open.ask("SELECT pg_backend_pid()");
    // One that is too busy to notice that its postmaster is gone, but not for ever if this test fails.
    let mut session = Session::open(&cluster, &url);
    let busy = session.ask("SELECT pg_backend_pid()");
    session.send("SET statement_timeout = '60s'");
    session.send("SELECT count(*) FROM (SELECT generate_series(1, 1000000000000)) AS many");
    let is_busy = format!("SELECT query LIKE '%generate_series%' FROM pg_stat_activity WHERE pid = {busy}");
    while cluster.psql("postgres", &is_busy).expect("SQL") != "t" {}

    assert!(is_alive(&idle) && is_alive(&busy));
    cluster.kill();
    assert!(!is_alive(&idle) && !is_alive(&busy));
    assert_eq!(session.hear(), None, "its server is gone");
    let refused = TcpStream::connect(("127.0.0.1", cluster.port())).expect_err("nobody listens");
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    cluster.kill();

    cluster.restart().expect("it starts again");
    assert_eq!(cluster.url("postgres"), url);
    assert_eq!(rows(), "1");

    cluster.stop();
    cluster.stop();
    let log = fs::read_to_string(cluster.home().join("server.log")).expect("a log");
    assert_eq!(log.matches("database system was not properly shut down").count(), 1, "once killed: {log}");
    cluster.restart().expect("it starts again");
    assert_eq!(rows(), "1");
    let error = cluster.restart().expect_err("it runs already");
    assert!(error.to_string().contains("postmaster.pid"), "{error}");
    assert_eq!(rows(), "1", "and goes on running");
}

#[test]
fn a_frozen_server_makes_everybody_wait_until_it_is_thawed() {
    let cluster = Cluster::start().expect("a cluster");
    let mut session = Session::open(&cluster, &cluster.url("postgres"));
    assert_eq!(session.ask("SELECT 1"), "1");

    cluster.freeze();
    session.send("SELECT 2");
    let mut newcomer = Session::open(&cluster, &cluster.url("postgres"));
    newcomer.send("SELECT 3");
    assert!(session.is_silent(), "its process is frozen");
    assert!(newcomer.is_silent(), "nobody starts a process for it");
    cluster.thaw();
    assert_eq!(session.hear().as_deref(), Some("2"));
    assert_eq!(newcomer.hear().as_deref(), Some("3"));

    // Frozen ones can be killed and dropped.
    cluster.freeze();
    session.send("SELECT 4");
    cluster.kill();
    assert_eq!(session.hear(), None);
    cluster.restart().expect("it starts again");
    cluster.freeze();
}
