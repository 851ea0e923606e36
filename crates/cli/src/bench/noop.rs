//! The benchmark's worker: a process of its own that does nothing, quickly, and remembers when stamped jobs started.

use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use bytes::Bytes;
use clap::Args as ClapArgs;
use clock::SystemClock;
use model::Clock as _;
use worker::{JobContext, JobError, Worker};

use super::QUEUE;
use crate::fleet::{Process, this_program};

/// What a stamped payload starts with; the send time in nanoseconds follows.
pub(super) const STAMP: &str = "sent:";

/// The benchmark's own worker.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    #[arg(long)]
    server: String,
    #[arg(long)]
    concurrency: u32,
}

/// Starts the worker process.
pub(super) fn start(server: &str, concurrency: u32, log: &Path) -> Result<Process> {
    Process::start(
        &this_program()?,
        ["bench-worker", "--server", server, "--concurrency", &concurrency.to_string()],
        log,
    )
}

/// Runs in the worker process until SIGTERM, then prints the delays it saw, in nanoseconds, as one JSON array.
pub(super) async fn run(args: Args) -> Result<()> {
    let delays = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&delays);
    let noop = move |_: JobContext, payload: Bytes| {
        let now = SystemClock.monotonic().as_nanos();
        if let Some(sent) =
            std::str::from_utf8(&payload).ok().and_then(|text| text.strip_prefix(STAMP)?.parse::<u64>().ok())
        {
            seen.lock().expect("no panic while holding the lock").push(now.saturating_sub(sent));
        }
        std::future::ready(Ok::<Bytes, JobError>(Bytes::new()))
    };
    let worker = Worker::builder(&args.server)
        .queue(QUEUE)
        .concurrency(args.concurrency)
        .handle_raw("*", noop)
        .build()?;
    let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    worker
        .run_until(async move {
            term.recv().await;
        })
        .await;
    let delays = delays.lock().expect("no panic while holding the lock");
    println!("{}", serde_json::to_string(&*delays)?);
    Ok(())
}
