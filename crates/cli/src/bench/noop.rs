//! The benchmark's worker: a process of its own that does nothing, quickly, and remembers when stamped jobs started.

use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use bytes::Bytes;
use clap::Args as ClapArgs;
use clock::SystemClock;
use model::Clock as _;
use worker::guardian::{Guardian, Isolation};
use worker::{JobContext, JobError, Worker};

use super::{QUEUE, exec};
use crate::commands::brief;
use crate::exit::Exit;
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
    /// Have a guardian, and so be fit for volatile queues.
    #[arg(long)]
    guarded: bool,
}

/// Starts the worker process, with these flags besides.
pub(super) fn start(server: &str, concurrency: u32, more: &[&str], log: &Path) -> Result<Process> {
    let concurrency = concurrency.to_string();
    let args = ["bench-worker", "--server", server, "--concurrency", &concurrency];
    Process::start(&this_program()?, args.iter().chain(more), log)
}

/// Runs in the worker process until SIGTERM, then prints the delays it saw, in nanoseconds, as one JSON array.
pub(crate) fn run(args: Args) -> Result<Exit> {
    // Its jobs run inside the process, so that must be within the guardian's reach. It needs a process without threads.
    let guardian = if args.guarded { Some(Guardian::start(Isolation::Groups)?) } else { None };
    brief(work(args, guardian))
}

async fn work(args: Args, guardian: Option<Guardian>) -> Result<Exit> {
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
    let mut builder = Worker::builder(&args.server).queue(QUEUE).concurrency(args.concurrency);
    if let Some(guardian) = guardian {
        builder = builder.guardian(guardian).exclusive(true);
    }
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
    Ok(Exit::Done)
}
