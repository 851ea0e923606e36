//! A standby: has what was committed, waits for its primary, takes its place.

use pg_cluster::Cluster;

use crate::session::Session;

#[test]
fn a_synchronous_standby_promoted_after_a_crash_has_every_commit_that_was_answered() {
    let primary = Cluster::start().expect("a cluster");
    let standby = primary.standby("second").expect("a standby");
    primary.make_synchronous("second").expect("it streams");
    primary.psql("postgres", "CREATE TABLE numbers (n int)").expect("SQL");

    let mut session = Session::open(&primary, &primary.url("postgres"));
    standby.freeze();
    session.send("INSERT INTO numbers VALUES (1) RETURNING n");
    assert!(session.is_silent(), "a commit waits for the standby");
    standby.thaw();
    assert_eq!(session.hear().as_deref(), Some("1"));

    // More than are answered before the crash.
    let inserts: Vec<String> =
        (2..5000).map(|n| format!("INSERT INTO numbers VALUES ({n}) RETURNING n;\n")).collect();
    session.send(&inserts.concat());
    let mut answered = 1;
    while answered < 200 {
        answered = session.hear().expect("an answer").parse().expect("a number");
    }
    primary.kill();
    while let Some(line) = session.hear() {
        answered = line.parse().expect("a number");
    }
    assert!(answered < 4999, "the crash came in the middle");

    standby.promote().expect("it was a standby");
    let kept = format!("SELECT count(*) FROM numbers WHERE n <= {answered}");
    assert_eq!(standby.psql("postgres", &kept).expect("SQL"), answered.to_string());
    standby.psql("postgres", "INSERT INTO numbers VALUES (0)").expect("it accepts writes");
    let error = standby.promote().expect_err("it is one already");
    assert!(error.to_string().contains("not in standby mode"), "{error}");
}

#[test]
fn a_standby_finds_its_primary_again_and_waits_for_no_standby_of_its_own() {
    let primary = Cluster::start().expect("a cluster");
    primary.configure("synchronous_standby_names", "somebody_else").expect("it is known");
    primary.configure("synchronous_commit", "local").expect("it is known");
    let standby = primary.standby("it's the second").expect("a standby");
    assert_eq!(standby.psql("postgres", "SHOW synchronous_standby_names").expect("SQL"), "");
    let error = standby.psql("postgres", "CREATE TABLE numbers (n int)").expect_err("it only follows");
    assert!(error.to_string().contains("read-only"), "{error}");

    primary.kill();
    primary.restart().expect("it starts again");
    primary.psql("postgres", "CREATE TABLE numbers (n int)").expect("SQL");
    let has_come = "SELECT count(*) FROM pg_tables WHERE tablename = 'numbers'";
    while standby.psql("postgres", has_come).expect("SQL") != "1" {}
}
