//! `tenure bench`: measures the whole system on this machine with real processes: a server, a worker, and this one as
//! the producer. `bench claim` measures the store's claim alone, with a small and a huge backlog; `bench heartbeats`
//! and `bench renewals` measure liveness, with the network and without; `bench exec` what a guardian costs, `bench rescue`
//! what it brings.

mod claim;
mod exec;
mod heartbeats;
mod latency;
mod noop;
mod renewals;
mod rescue;
mod throughput;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use rpc::wire;
use serde::Serialize;
use worker::Client;

use crate::exit::Exit;
use crate::fleet::{Process, Server, this_program};
use crate::output::Output;
use crate::signals::unless_interrupted;

pub(crate) use noop::Args as NoopArgs;

/// The queue the jobs go through.
const QUEUE: &str = "bench";

/// Measure throughput and latency on this machine.
#[derive(Debug, ClapArgs)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  tenure bench\n  tenure bench --store memory --jobs 200000 --json\n  tenure bench claim --backlog 1000000 --json\n  tenure bench heartbeats --workers 10000 --bound 100 --json\n  tenure bench exec\n  tenure bench rescue --kills 50"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Measure>,
    #[command(flatten)]
    system: SystemArgs,
}

#[derive(Debug, Subcommand)]
enum Measure {
    /// Claim time with a small and with a huge backlog.
    Claim(claim::Args),
    /// Commands per second with a guardian and without.
    Exec(exec::Args),
    /// Heartbeats per second of many workers on one server.
    Heartbeats(heartbeats::Args),
    /// The cost of one renewal in the registry alone: time and memory.
    Renewals(renewals::Args),
    /// Time from a worker's SIGKILL to the start of its job elsewhere.
    Rescue(rescue::Args),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StoreKind {
    Sqlite,
    Memory,
}

#[derive(Debug, ClapArgs)]
struct SystemArgs {
    /// Which store the server uses.
    #[arg(long, value_enum, default_value_t = StoreKind::Sqlite)]
    store: StoreKind,
    /// Jobs in each throughput phase.
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    jobs: u64,
    /// Payload of each job, in bytes.
    #[arg(long, default_value_t = 100)]
    payload: usize,
    /// Jobs in one enqueue call.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    batch: u64,
    /// Slots of the worker.
    #[arg(long, default_value_t = 4_000)]
    concurrency: u32,
    /// Jobs per second while latency is measured.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    rate: u64,
    /// How long latency is measured, in seconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    latency_seconds: u64,
    /// Do not wait for the disk. Fast and forgetful; only for comparison.
    #[arg(long)]
    unsafe_no_fsync: bool,
    /// Put the data here instead of in a temporary directory.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Results {
    store: &'static str,
    durable: bool,
    jobs: u64,
    payload: usize,
    enqueue_per_s: u64,
    drain_per_s: u64,
    pipelined_per_s: u64,
    start_ms_p50: f64,
    start_ms_p99: f64,
}

/// Runs the measurement that was asked for.
pub(crate) async fn run(args: Args, output: &Output) -> Result<Exit> {
    match args.command {
        Some(Measure::Claim(args)) => return claim::run(&args, output).await,
        Some(Measure::Heartbeats(args)) => return heartbeats::run(&args, output).await,
        Some(Measure::Exec(args)) => return exec::run(&args, output).await,
        Some(Measure::Rescue(args)) => return rescue::run(&args, output).await,
        Some(Measure::Renewals(args)) => return renewals::run(&args, output),
        None => {}
    }
    let home = Home::new(args.system.data.as_deref())?;
    let quiet = output.is_json() || output.is_quiet();
    let results = unless_interrupted(measure(&args.system, home.path(), quiet)).await?;
    if output.is_json() {
        output.json(&results)?;
    } else {
        output.line(results.for_people(&args.system))?;
    }
    Ok(Exit::Done)
}

impl Results {
    fn for_people(&self, args: &SystemArgs) -> String {
        let store = if self.durable { "(durable)" } else { "(not durable)" };
        [
            format!("store        {} {store}", self.store),
            format!("enqueue      {:>9} jobs/s   (calls of {})", self.enqueue_per_s, args.batch),
            format!(
                "drain        {:>9} jobs/s   (one worker process, {} slots)",
                self.drain_per_s, args.concurrency
            ),
            format!("pipelined    {:>9} jobs/s   (both at once)", self.pipelined_per_s),
            format!(
                "start        p50 {:.2} ms, p99 {:.2} ms   (enqueue call to handler, {} jobs/s)",
                self.start_ms_p50, self.start_ms_p99, args.rate
            ),
        ]
        .join("\n")
    }
}

async fn measure(args: &SystemArgs, home: &Path, quiet: bool) -> Result<Results> {
    let memory = args.store == StoreKind::Memory;
    let mut more = vec!["--store", if memory { "memory" } else { "sqlite" }];
    if args.unsafe_no_fsync {
        more.push("--unsafe-no-fsync");
    }
    let server = Server::start(&this_program()?, &home.join("data"), &more).await?;
    let bench = Bench { client: Client::connect(&server.url)?, bar: bar(args.jobs, quiet) };

    bench.bar.set_message("enqueue");
    bench.pause(true).await?;
    let enqueue_per_s = throughput::enqueue(&bench, args).await?;

    bench.bar.set_message("drain");
    let mut worker = noop::start(&server.url, args.concurrency, None, &home.join("worker.log"))?;
    bench.wait_for_worker().await?;
    let drain_per_s = throughput::drain(&bench, args.jobs).await?;

    bench.bar.set_message("pipelined");
    let pipelined_per_s = throughput::pipelined(&bench, args).await?;

    bench.bar.set_message("latency");
    let latency = latency::measure(&bench, args, &mut worker).await?;
    bench.bar.finish_and_clear();
    Ok(Results {
        store: if memory { "memory" } else { "sqlite" },
        durable: !memory && !args.unsafe_no_fsync,
        jobs: args.jobs,
        payload: args.payload,
        enqueue_per_s,
        drain_per_s,
        pipelined_per_s,
        start_ms_p50: latency.p50,
        start_ms_p99: latency.p99,
    })
}

/// What the phases share.
struct Bench {
    client: Client,
    bar: ProgressBar,
}

impl Bench {
    async fn pause(&self, paused: bool) -> Result<()> {
        let request =
            wire::SetQueueRequest { name: QUEUE.to_owned(), paused: Some(paused), ..Default::default() };
        self.client.set_queue(request).await?;
        Ok(())
    }

    /// Jobs completed so far.
    async fn completed(&self) -> Result<u64> {
        let queues = self.client.queues().await?.queues;
        Ok(queues.iter().find(|queue| queue.name == QUEUE).map_or(0, |queue| queue.completed))
    }

    /// Waits until this many jobs are completed. The counts come from memory, so asking costs the server little.
    async fn wait_completed(&self, goal: u64) -> Result<()> {
        let start = self.completed().await?;
        let deadline = tokio::time::Instant::now() + Duration::from_secs(600);
        loop {
            let done = self.completed().await?;
            self.bar.set_position(done.saturating_sub(start));
            if done >= goal {
                return Ok(());
            }
            if tokio::time::Instant::now() > deadline {
                bail!("only {done} of {goal} jobs were completed within ten minutes");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn wait_for_worker(&self) -> Result<()> {
        for _ in 0..3_000 {
            let stats = self.client.stats().await?;
            if stats.workers > 0 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        bail!("the worker process did not connect within 30 s")
    }
}

fn bar(jobs: u64, quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let style =
        ProgressStyle::with_template("{msg:>10} {bar:40} {pos}/{len}").expect("the template is valid");
    ProgressBar::new(jobs).with_style(style)
}

/// Where the data goes: a temporary directory that disappears, or the one that was asked for.
enum Home {
    Temporary(tempfile::TempDir),
    Given(PathBuf),
}

impl Home {
    fn new(given: Option<&Path>) -> Result<Home> {
        match given {
            None => Ok(Home::Temporary(tempfile::tempdir().context("cannot make a temporary directory")?)),
            Some(path) => {
                std::fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))?;
                Ok(Home::Given(path.to_owned()))
            }
        }
    }

    fn path(&self) -> &Path {
        match self {
            Home::Temporary(directory) => directory.path(),
            Home::Given(path) => path,
        }
    }
}

/// Runs the hidden worker of the benchmark.
pub(crate) async fn run_noop(args: NoopArgs) -> Result<Exit> {
    noop::run(args).await?;
    Ok(Exit::Done)
}

/// A process that measures nothing any more must still be told to end.
async fn stop(worker: &mut Process) -> Result<()> {
    worker.signal(rustix::process::Signal::TERM)?;
    worker.ended().await?;
    Ok(())
}
