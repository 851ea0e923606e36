//! The demo's worker: a process of its own that works for a moment on each job and writes down what it did.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use clap::Args as ClapArgs;
use serde::Deserialize;
use tokio::signal::unix::{SignalKind, signal};
use worker::guardian::{Guardian, Isolation};
use worker::{JobContext, JobError, Worker, WorkerEvent};

use crate::commands::long_running;
use crate::effects::{EffectLog, What};
use crate::exit::Exit;

/// A worker that logs its effects.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    #[arg(long)]
    pub(crate) server: String,
    #[arg(long, required = true)]
    pub(crate) queue: Vec<String>,
    #[arg(long)]
    pub(crate) name: String,
    /// The effect log.
    #[arg(long)]
    pub(crate) log: PathBuf,
    #[arg(long, default_value_t = 8)]
    pub(crate) concurrency: u32,
    /// How long each job takes, in milliseconds.
    #[arg(long, default_value_t = 100)]
    pub(crate) work_ms: u64,
    /// Run without a guardian, as an SDK worker may.
    #[arg(long)]
    pub(crate) unguarded: bool,
    /// Block a thread instead of waiting politely, so that nothing but the end of the process stops a job.
    #[arg(long)]
    pub(crate) deaf: bool,
    /// Print the effect log's lines on stdout too.
    #[arg(long)]
    pub(crate) echo: bool,
}

/// A payload that says itself how long its job takes.
#[derive(Deserialize)]
struct Work {
    work_ms: u64,
}

/// How often an exclusive job says that it is at work: overlaps longer than this are seen.
const TICK: Duration = Duration::from_millis(5);
/// Short, so that they fit the demo's short lease.
const KILL_WAIT: Duration = Duration::from_millis(400);
const SAFETY: Duration = Duration::from_millis(400);

/// Runs until SIGTERM, then drains.
pub(crate) fn run(args: Args) -> Result<Exit> {
    // Its jobs run inside the process, so that must be within the guardian's reach.
    let guardian = if args.unguarded { None } else { Some(Guardian::start(Isolation::Groups)?) };
    long_running(work(args, guardian))
}

async fn work(args: Args, guardian: Option<Guardian>) -> Result<Exit> {
    let log = Arc::new(EffectLog::open(&args.log, args.echo)?);
    let (events, effects) = (Arc::clone(&log), Arc::clone(&log));
    let work = Duration::from_millis(args.work_ms);
    let is_deaf = args.deaf;
    let handler = move |context: JobContext, payload: Bytes| {
        let log = Arc::clone(&effects);
        let own: Option<Work> = serde_json::from_slice(&payload).ok();
        let work = own.map_or(work, |own| Duration::from_millis(own.work_ms));
        async move {
            let (job, fence) = (context.job_id(), context.fence());
            log.write(What::Start, job, fence);
            // Deliberately deaf to cancellation: this is the zombie that a fence must hold off, or a guardian.
            if context.is_exclusive() {
                let until = Instant::now() + work;
                while Instant::now() < until {
                    if is_deaf {
                        std::thread::park_timeout(TICK);
                    } else {
                        tokio::time::sleep(TICK).await;
                    }
                    log.write(What::Tick, job, fence);
                }
            } else {
                tokio::time::sleep(work).await;
            }
            log.write(What::Effect, job, fence);
            Ok::<Bytes, JobError>(Bytes::new())
        }
    };
    let mut builder = Worker::builder(&args.server)
        .kill_wait(KILL_WAIT)
        .safety(SAFETY)
        .name(&args.name)
        .concurrency(args.concurrency)
        // A polite worker keeps silent about jobs it knows it has lost. This one does not, so that refusals are seen.
        .report_stale(true)
        .handle_raw("*", handler)
        .on_event(move |event| match event {
            WorkerEvent::Accepted { job, fence } => events.write(What::Accept, job, fence),
            WorkerEvent::Refused { job, fence, .. } => events.write(What::Refuse, job, fence),
            WorkerEvent::Lost { job, fence } => events.write(What::Lost, job, fence),
            _ => {}
        });
    if let Some(guardian) = guardian {
        builder = builder.guardian(guardian);
    }
    for queue in &args.queue {
        builder = builder.queue(queue);
    }
    let worker = builder.build()?;
    let mut term = signal(SignalKind::terminate())?;
    println!("ready");
    worker
        .run_until(async move {
            term.recv().await;
        })
        .await;
    Ok(Exit::Done)
}
