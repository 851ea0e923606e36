//! Volatile queues, with real processes: a server that keeps nothing, workers that know what they run, a client that knows what
//! it wants.

mod input;
mod kills;
mod restart;
mod room;
mod runs;
mod seats;
mod side_by_side;

use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use cli::fleet::Process;
use rpc::wire;
use worker::Client;

use crate::support::{Fleet, tenure};

/// Whatever is waited for comes in this time, or never.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often something is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Starts a worker that runs a script for each job of these queues and can stop it soon.
fn worker(fleet: &Fleet, name: &str, queues: &[&str], script: &str) -> Process {
    worker_with(fleet, name, queues, &[], script)
}

/// The same with more flags.
fn worker_with(fleet: &Fleet, name: &str, queues: &[&str], flags: &[&str], script: &str) -> Process {
    let mut args = vec!["worker", "--server", &fleet.server.url, "--name", name, "--exclusive"];
    args.extend(queues.iter().flat_map(|queue| ["--queue", *queue]));
    args.extend(flags);
    args.extend(["--kill-wait", "600ms", "--safety", "500ms", "--concurrency", "1"]);
    args.extend(["--", "bash", "-c", script]);
    Process::start(tenure(), args, &fleet.home.path().join(format!("{name}.log"))).expect("it starts")
}

/// Asks until there is an answer.
async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until the muster stands like this.
async fn muster(
    client: &Client,
    what: &str,
    is_so: impl Fn(&wire::MusterStatus) -> bool,
) -> wire::MusterStatus {
    until(what, || async { client.muster_status().await.ok().filter(|status| is_so(status)) }).await
}

/// All of so many workers are healthy, and all have echoed the present set.
fn is_settled(status: &wire::MusterStatus, workers: usize) -> bool {
    let is_settled =
        |worker: &wire::MusterWorker| worker.health == "healthy" && worker.echoed == Some(status.version);
    !status.waiting && status.workers.len() == workers && status.workers.iter().all(is_settled)
}

/// One call of the binary, in this directory.
async fn call(server: &str, args: &[&str], directory: &Path) -> Output {
    let mut command = tokio::process::Command::new(tenure());
    command.args(args).args(["--server", server]).current_dir(directory);
    command.output().await.expect("the binary starts")
}

/// The same, and what it said, if it ended so.
#[track_caller]
fn said(output: &Output, code: i32) -> (String, String) {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "stdout: {stdout}\nstderr: {stderr}");
    (stdout.into_owned(), stderr.into_owned())
}

fn job(queue: &str, payload: &str) -> wire::NewJob {
    let payload = bytes::Bytes::copy_from_slice(payload.as_bytes());
    wire::NewJob { queue: queue.to_owned(), payload, ..Default::default() }
}
