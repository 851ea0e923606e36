//! What people see of the wait after a start, and how short it is when everyone is there.

use std::process::Stdio;
use std::time::Duration;

use cli::fleet::Process;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{call, is_settled, muster, said, worker};
use crate::support::{Fleet, tenure};

/// Heartbeats every second, and a safe wait of six.
const LEASE: &str = "5s";

#[tokio::test]
async fn the_wait_is_explained_and_short_when_all_workers_are_there() {
    let mut fleet = Fleet::start(&["--volatile-only", "--lease", LEASE]).await;
    let (server, home) = (fleet.server.url.clone(), fleet.home.path().to_owned());
    let text = async |args: &[&str]| call(&server, args, &home).await;
    let (stdout, _) = said(&text(&["muster", "status"]).await, 0);
    assert!(stdout.starts_with("volatile queues wait until all workers are known: for "), "{stdout}");
    assert!(stdout.contains(" more at the latest\n"), "the bound: {stdout}");
    assert!(stdout.lines().nth(1).is_some_and(|reason| reason.starts_with("  ")), "a reason: {stdout}");
    let (_, stderr) = said(&text(&["muster", "status", "--wait", "--timeout", "100ms"]).await, 1);
    assert!(stderr.contains("error: the volatile queues are not open yet: "), "{stderr}");

    let mut workers: Vec<Process> =
        ["ann", "bob", "cyd"].map(|name| worker(&fleet, name, &["v"], "cat")).into();
    let (stdout, _) = said(&text(&["muster", "status", "--wait"]).await, 0);
    assert!(stdout.starts_with("volatile queues are open: the safe wait was over after "), "{stdout}");
    muster(&fleet.client, "three healthy workers", |status| is_settled(status, 3)).await;

    fleet.server.process.signal(Signal::KILL).expect("it was running");
    fleet.server.process.ended().await.expect("it is gone");
    fleet.restart().await;
    let status = muster(&fleet.client, "the end of the second wait", |status| !status.waiting).await;
    println!("agreed after {} ms; the safe wait is {} ms", status.waited_ms, status.safe_wait_ms);
    assert_eq!(status.how, "agreed", "{status:?}");
    assert!(status.waited_ms <= 3_000, "two heartbeats and a second: {status:?}");
    assert!((6_000..7_000).contains(&status.safe_wait_ms), "{status:?}");
    let (stdout, _) = said(&text(&["muster", "status"]).await, 0);
    assert!(stdout.starts_with("volatile queues are open: all workers agreed after "), "{stdout}");

    // One that does not come back is waited for, by name of what is missing.
    muster(&fleet.client, "three healthy workers", |status| is_settled(status, 3)).await;
    let mut cyd = workers.pop().expect("it was started");
    fleet.server.process.signal(Signal::KILL).expect("it was running");
    fleet.server.process.ended().await.expect("it is gone");
    cyd.signal(Signal::KILL).expect("it was running");
    cyd.ended().await.expect("it is gone");
    fleet.restart().await;
    let two_known = |status: &rpc::wire::MusterStatus| {
        status.waiting && status.workers.iter().filter(|worker| worker.health != "new").count() == 2
    };
    let status = muster(&fleet.client, "two known workers", two_known).await;
    let [reason] = &status.reasons[..] else { panic!("one reason is expected: {status:?}") };
    assert!(reason.contains('3') && reason.contains('2'), "two of three are there: {reason}");
    let status = muster(&fleet.client, "the end of the third wait", |status| !status.waiting).await;
    assert_eq!(status.how, "safe_wait", "{status:?}");
}

#[tokio::test]
async fn an_enqueue_that_waits_survives_a_restart_under_the_same_id() {
    let mut fleet = Fleet::start(&["--volatile-only", "--lease", LEASE]).await;
    let args = ["enqueue", "v", "hello", "--wait", "--json", "--server", &fleet.server.url];
    let mut waiting =
        Process::start(tenure(), args, &fleet.home.path().join("enqueue.log")).expect("it starts");
    let client = fleet.client.clone();
    let listed = |state: &'static str| {
        let client = client.clone();
        async move {
            super::until("the job", || async {
                let request = rpc::wire::ListJobsRequest { states: vec![state.into()], ..Default::default() };
                let jobs = client.list(request).await.ok()?.jobs;
                (jobs.len() == 1).then(|| jobs[0].id.clone())
            })
            .await
        }
    };
    let id = listed("available").await;
    fleet.server.process.signal(Signal::KILL).expect("it was running");
    fleet.server.process.ended().await.expect("it is gone");
    fleet.restart().await;
    assert_eq!(listed("available").await, id, "submitted again under the same id");
    let _worker = worker(&fleet, "ann", &["v"], "cat");
    let line = waiting.line().await.expect("the end of the job");
    let job: serde_json::Value = serde_json::from_str(&line).expect("a job");
    assert_eq!((job["id"].as_str(), job["state"].as_str()), (Some(id.as_str()), Some("completed")));
    assert_eq!(job["result"], "hello");
    assert_eq!(waiting.ended().await.expect("it ends").code(), Some(0));
}

#[tokio::test]
async fn a_server_with_volatile_queues_only_writes_nothing() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut server = tokio::process::Command::new(tenure())
        .args(["serve", "--volatile-only", "--unsafe-initial-wait", "0s", "--listen", "127.0.0.1:0"])
        .env_remove("TENURE_DATA")
        .current_dir(home.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the binary starts");
    let mut lines = BufReader::new(server.stdout.take().expect("piped")).lines();
    let first = lines.next_line().await.expect("readable").expect("a first line");
    let url = first.split(' ').nth(4).expect("an address").to_owned();
    assert_eq!(first, format!("tenure is listening on {url} (nothing on disk)"));

    let elsewhere = tempfile::tempdir().expect("a temporary directory");
    let args = ["worker", "--server", &url, "--queue", "v", "--log-level", "error", "--", "cat"];
    let mut worker = Process::start(tenure(), args, &elsewhere.path().join("log")).expect("it starts");
    let args = ["enqueue", "v", "hello", "--wait", "--wait-timeout", "60s"];
    let (stdout, _) = said(&call(&url, &args, home.path()).await, 0);
    assert_eq!(stdout, "hello\n");
    let (stdout, _) = said(&call(&url, &["muster", "status"], home.path()).await, 0);
    assert!(stdout.contains("\nUNSAFE: --unsafe-initial-wait cuts the wait short"), "{stdout}");
    let (stdout, _) = said(&call(&url, &["queues", "list"], home.path()).await, 0);
    assert!(stdout.contains("volatile"), "{stdout}");

    worker.signal(Signal::TERM).expect("it was running");
    worker.ended().await.expect("it ends");
    let pid = Pid::from_raw(server.id().expect("it runs") as i32).expect("a pid");
    kill_process(pid, Signal::TERM).expect("it was running");
    let ended = tokio::time::timeout(Duration::from_secs(30), server.wait_with_output()).await;
    let ended = ended.expect("it ends").expect("it is waited for");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("UNSAFE"), "a loud warning: {said}");
    let left: Vec<_> = std::fs::read_dir(home.path()).expect("readable").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}
