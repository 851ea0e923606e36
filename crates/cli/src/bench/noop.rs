//! The benchmark's worker: a process of its own that does nothing, quickly, and remembers when stamped jobs started.

use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use bytes::Bytes;
use clap::Args as ClapArgs;
use clock::SystemClock;
use model::Clock as _;
use worker::{JobContext, JobError, Worker};

use super::{QUEUE, exec};
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
    /// Run this for each job.
    #[arg(long)]
    spawn: Option<String>,
}

/// Starts the worker process.
pub(super) fn start(server: &str, concurrency: u32, spawn: Option<&str>, log: &Path) -> Result<Process> {
    let concurrency = concurrency.to_string();
    let mut args = vec!["bench-worker", "--server", server, "--concurrency", &concurrency];
    args.extend(spawn.into_iter().flat_map(|program| ["--spawn", program]));
    Process::start(&this_program()?, args, log)
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
    let builder = Worker::builder(&args.server).queue(QUEUE).concurrency(args.concurrency);
    let worker = match args.spawn {
        None => builder.handle_raw("*", noop),
        Some(program) => builder.handle_raw("*", move |context, payload| {
            let program = program.clone();
            async move { exec::spawn(&program, context, payload).await }
        }),
    }
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
