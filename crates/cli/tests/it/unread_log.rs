//! A log that goes to a pipe which nobody reads stops neither server nor worker, and both end when they are told to.

use std::path::Path;
use std::time::Duration;

use cli::fleet::{Process, Server};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use tokio::net::unix::pipe;

use crate::support::{Fleet, http, tenure};

/// More lines than a pipe (64 KiB) takes.
const CALLS: usize = 1_000;
const JOBS: usize = 400;
const PATIENCE: Duration = Duration::from_secs(60);

/// A pipe at this path that has a reader, who never reads.
fn unread_pipe(path: &Path) -> pipe::Receiver {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe can be made");
    pipe::OpenOptions::new().open_receiver(path).expect("the pipe can be opened")
}

#[tokio::test]
async fn a_server_whose_log_nobody_reads_goes_on_and_ends() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let _log = unread_pipe(&home.path().join("data.server.log"));
    let flags = ["--store", "memory", "--log-level", "info"];
    let mut server =
        Server::start(tenure(), &home.path().join("data"), &flags).await.expect("the server starts");
    let talk = async {
        for _ in 0..CALLS {
            // It says so in its log each time.
            let beat = r#"{"nonce": 1, "token": "1.1", "lease_ms": 20000}"#;
            let (status, text) = http(&server.url, "POST", "/v1/workers/nobody/heartbeat", beat).await;
            assert_eq!(status, 409, "{text}");
        }
    };
    tokio::time::timeout(PATIENCE, talk).await.expect("it goes on answering");
    server.process.signal(Signal::TERM).expect("it runs");
    assert!(server.process.ended().await.expect("it ends").success());
}

#[tokio::test]
async fn a_worker_whose_log_nobody_reads_goes_on_and_ends() {
    let fleet = Fleet::start(&[]).await;
    let log = fleet.home.path().join("worker.log");
    let _log = unread_pipe(&log);
    let ids = fleet.enqueue(JOBS).await;
    let args = ["worker", "--server", &fleet.server.url, "--queue", "q", "--", "true"];
    let mut worker = Process::start(tenure(), args, &log).expect("it starts");
    for job in fleet.ended(&ids).await {
        assert_eq!(job.state, "completed");
    }
    worker.signal(Signal::TERM).expect("it runs");
    assert!(worker.ended().await.expect("it ends").success());
}
