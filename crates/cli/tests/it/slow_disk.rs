//! A disk that takes seconds for a commit: nobody's job is taken away for it. Jobs hold a lock for as long as they run, so that two
//! copies of one find each other whatever the server believes.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use cli::fleet::{Process, Server};
use rpc::wire;
use worker::Client;

use crate::support::{http, tenure};

/// Stands before the C library's own calls. How long each takes is in a file, so that it can be changed while the server runs.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>

static void wait_for_the_disk(void) {
    static int calls;
    FILE *file = fopen(getenv("SLOW_DISK_MS"), "r");
    long ms = 0;
    if (!file) return;
    if (fscanf(file, "%ld", &ms) != 1) ms = 0;
    fclose(file);
    if (ms) ms += 500 * (calls++ % 4);
    struct timespec pause = { ms / 1000, ms % 1000 * 1000000 };
    nanosleep(&pause, 0);
}

int fsync(int fd) { wait_for_the_disk(); return syscall(SYS_fsync, fd); }
int fdatasync(int fd) { wait_for_the_disk(); return syscall(SYS_fdatasync, fd); }
"#;

/// A program that runs `tenure` on a disk as slow as the file says.
fn on_a_slow_disk(home: &Path, slow: &Path) -> PathBuf {
    let (source, shim, program) =
        (home.join("slow.c"), home.join("slow.so"), home.join("tenure-on-slow-disk"));
    std::fs::write(&source, SHIM).expect("written");
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&shim, &source]).status();
    assert!(compiled.expect("cc, which builds SQLite too").success());
    let (shim, slow, tenure) = (shim.display(), slow.display(), tenure().display().to_string());
    let script = format!("#!/bin/sh\nLD_PRELOAD='{shim}' SLOW_DISK_MS='{slow}' exec '{tenure}' \"$@\"\n");
    std::fs::write(&program, script).expect("written");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).expect("it may be run");
    program
}

#[tokio::test]
async fn while_commits_take_seconds_no_job_is_taken_from_a_live_worker() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let (slow, seen) = (home.path().join("slow"), home.path().join("seen"));
    std::fs::write(&slow, "0").expect("written");
    std::fs::create_dir(&seen).expect("made");
    let program = on_a_slow_disk(home.path(), &slow);
    let flags = ["--verify-after", "2s", "--lease", "5s"];
    let server = Server::start(&program, &home.path().join("data"), &flags).await.expect("the server starts");
    let client = Client::connect(&server.url).expect("a valid address");

    let script = format!(
        r#"cd '{}'; exec 9>"$TENURE_JOB_ID.lock"; echo "$TENURE_JOB_ID" >>starts
           flock -n 9 || echo "$TENURE_JOB_ID" >>overlaps; sleep 3"#,
        seen.display()
    );
    let mut workers = Vec::new();
    for name in ["ann", "bob", "cyd"] {
        let args = [
            "worker",
            "--server",
            &server.url,
            "--queue",
            "q",
            "--concurrency",
            "2",
            "--",
            "sh",
            "-c",
            &script,
        ];
        let log = home.path().join(format!("{name}.log"));
        workers.push(Process::start(tenure(), args, &log).expect("the worker starts"));
    }
    let job = wire::NewJob { queue: "q".to_owned(), ..Default::default() };
    let request = wire::EnqueueRequest { jobs: vec![job; 12], ..Default::default() };
    let ids = client.enqueue(request).await.expect("the enqueue is accepted").jobs;
    std::fs::write(&slow, "2500").expect("written");
    let mut jobs = Vec::new();
    for id in ids.iter().map(|job| &job.id) {
        let job = http(&server.url, "GET", &format!("/v1/jobs/{id}/wait?timeout_ms=200000"), "").await.1;
        jobs.push(serde_json::from_str::<wire::Job>(&job).expect("a job"));
    }
    std::fs::write(&slow, "0").expect("written");

    let overlaps = std::fs::read_to_string(seen.join("overlaps")).unwrap_or_default();
    assert_eq!(overlaps, "", "a job ran beside itself");
    let starts = std::fs::read_to_string(seen.join("starts")).expect("they ran");
    assert_eq!(starts.lines().count(), ids.len(), "no job was started again");
    let end = |job: &wire::Job| (job.state.clone(), job.attempt, job.lost);
    assert!(jobs.iter().all(|job| end(job) == ("completed".to_owned(), 1, 0)), "{jobs:?}");
    let metrics = http(&server.url, "GET", "/metrics", "").await.1;
    let figure = |name: &str| {
        let line = metrics.lines().find(|line| line.starts_with(name)).expect("it is exported");
        line.rsplit(' ').next().and_then(|figure| figure.parse::<f64>().ok()).expect("a number")
    };
    assert_eq!(figure("tenure_jobs_rescued_total"), 0.0);
    assert!(figure("tenure_own_stalls_total") >= 1.0, "it is counted as a stall");
}
