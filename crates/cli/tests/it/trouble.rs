//! Trouble at the start and on the disk: one clear sentence, nothing acknowledged lost, and on it goes where it can.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{Fleet, tenure};

fn serve(data: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(tenure());
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data).args(more);
    command.output().expect("the binary starts")
}

#[track_caller]
fn check(output: &Output, code: i32, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for word in words {
        assert!(said.contains(word), "{said:?} does not say {word:?}");
    }
}

#[tokio::test]
async fn a_second_server_on_the_same_data_is_refused_and_the_first_goes_on() {
    let fleet = Fleet::start(&[]).await;
    let second = serve(&fleet.home.path().join("data"), &[]);
    check(&second, 1, &["another tenure server", "choose another"]);
    assert_eq!(fleet.enqueue(1).await.len(), 1);
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let fleet = Fleet::start(&[]).await;
    let address = fleet.server.url.trim_start_matches("http://");
    let mut command = Command::new(tenure());
    command.args(["serve", "--listen", address, "--data"]).arg(fleet.home.path().join("other"));
    check(&command.output().expect("the binary starts"), 1, &[address, "another program uses this port"]);
}

#[test]
fn a_file_that_is_no_database_is_left_alone() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let file = home.path().join("tenure.db");
    let text = "this is my shopping list\n".repeat(1_000);
    std::fs::write(&file, &text).expect("written");
    check(&serve(home.path(), &[]), 1, &["not a", "tenure.db"]);
    assert_eq!(std::fs::read_to_string(&file).expect("still there"), text);
}

#[test]
fn a_listen_address_beyond_this_machine_needs_insecure() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new(tenure());
    command.args(["serve", "--listen", "0.0.0.0:0", "--data"]).arg(home.path());
    check(&command.output().expect("the binary starts"), 2, &["refusing to listen", "--insecure"]);
}

#[test]
fn a_data_directory_that_cannot_be_written_is_named() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let data = home.path().join("data");
    std::fs::create_dir(&data).expect("created");
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o500)).expect("set");
    if std::fs::write(data.join("probe"), "x").is_ok() {
        // Root may write anywhere; a file in the directory's place cannot be written into by anyone.
        let file = home.path().join("file");
        std::fs::write(&file, "x").expect("written");
        check(&serve(&file, &[]), 1, &[file.to_str().expect("UTF-8")]);
        return;
    }
    check(&serve(&data, &[]), 1, &[data.to_str().expect("UTF-8"), "permission"]);
}

/// The disk fills up under a running server: callers get an error, what was acknowledged stays, and when there is room
/// again the server goes on by itself. A file-size limit on the server process stands for the full disk, so that the
/// test needs no mount.
#[tokio::test]
async fn a_full_disk_loses_nothing_and_is_recovered_from() {
    let mut fleet = Fleet::start(&[]).await;
    assert_eq!(fleet.http("GET", "/readyz", "").await.0, 200);
    fleet.server.process.limit_file_size(Some(2 << 20)).expect("the limit can be set");
    let mut acknowledged = Vec::new();
    // Large jobs until one does not fit, then small ones into what is left, until nothing fits.
    let mut refusal = (0, String::new());
    for size in [20_000, 1] {
        let body = format!("{{\"queue\": \"q\", \"payload\": \"{}\"}}", "x".repeat(size));
        refusal = loop {
            let (status, answer) = fleet.http("POST", "/v1/jobs", &body).await;
            let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
            if status != 200 {
                break (status, answer["detail"].as_str().unwrap_or_default().to_owned());
            }
            acknowledged.push(answer["jobs"][0]["id"].as_str().expect("an id").to_owned());
            assert!(acknowledged.len() < 10_000, "the limit is never reached");
        };
    }
    assert_eq!(refusal.0, 503, "{refusal:?}");
    // What was said within the last second may be said again.
    while fleet.http("GET", "/readyz", "").await.0 == 200 {}
    assert_eq!(fleet.http("GET", "/healthz", "").await.0, 200, "alive, though not ready");
    // Reads go on.
    let (status, _) = fleet.http("GET", &format!("/v1/jobs/{}", acknowledged[0]), "").await;
    assert_eq!(status, 200);

    fleet.server.process.limit_file_size(None).expect("the limit can be lifted");
    // Ready again without a restart.
    while fleet.http("GET", "/readyz", "").await.0 != 200 {}
    acknowledged.extend(fleet.enqueue(1).await.iter().map(ToString::to_string));
    // Also after a crash, everything acknowledged is there.
    fleet.server.process.signal(rustix::process::Signal::KILL).expect("it was running");
    fleet.server.process.ended().await.expect("it is gone");
    fleet.restart().await;
    for id in &acknowledged {
        assert_eq!(fleet.http("GET", &format!("/v1/jobs/{id}"), "").await.0, 200, "{id} was acknowledged");
    }
}

/// Somebody tidies up, or puts a backup in place, and forgets that the server is running: it must not acknowledge what is gone
/// with it.
#[tokio::test]
async fn a_server_whose_data_was_removed_says_so_and_acknowledges_nothing_more() {
    let fleet = Fleet::start(&[]).await;
    fleet.enqueue(10).await;
    for entry in std::fs::read_dir(fleet.home.path().join("data")).expect("the data directory") {
        std::fs::remove_file(entry.expect("an entry").path()).expect("removed");
    }
    // It looks ten times a second at most.
    let body = r#"{"queue": "q"}"#;
    let refusal = loop {
        let (status, answer) = fleet.http("POST", "/v1/jobs", body).await;
        if status != 200 {
            break (status, answer);
        }
    };
    assert_eq!(refusal.0, 503, "{refusal:?}");
    assert!(refusal.1.contains("tenure.db was removed or replaced"), "{refusal:?}");
    let (status, why) = fleet.http("GET", "/readyz", "").await;
    assert_eq!(status, 503, "{why}");
    for words in ["removed or replaced", "nothing is accepted any more", "stop the server"] {
        assert!(why.contains(words), "{why}");
    }
}
