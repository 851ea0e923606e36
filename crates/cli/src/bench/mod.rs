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

use anyhow::{Context as _, Result, bail, ensure};
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
    Postgres,
}

impl StoreKind {
    const fn word(self) -> &'static str {
        match self {
            StoreKind::Sqlite => "sqlite",
            StoreKind::Memory => "memory",
            StoreKind::Postgres => "postgres",
        }
    }
}

#[derive(Debug, ClapArgs)]
struct SystemArgs {
    /// Which store the server uses.
    #[arg(long, value_enum, default_value_t = StoreKind::Sqlite)]
    store: StoreKind,
    /// With `--store postgres`: a database of its own for the measurement. Without, a PostgreSQL is started for it, with
    /// fsync, in a temporary directory.
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// Servers on that database, each with a worker process.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    servers: u16,
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
    servers: u16,
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
                "drain        {:>9} jobs/s   (worker processes: {}, {} slots together)",
                self.drain_per_s, self.servers, args.concurrency
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
    ensure!(
        args.servers == 1 || args.store == StoreKind::Postgres,
        "several servers need `--store postgres`"
    );
    let database = Database::new(args.store, args.database_url.as_deref(), !args.unsafe_no_fsync)?;
    let mut more = vec!["--store", args.store.word()];
    if args.unsafe_no_fsync {
        more.push("--unsafe-no-fsync");
    }
    more.extend(database.flags());
    let mut servers = Vec::new();
    for number in 0..args.servers {
        servers.push(Server::start(&this_program()?, &home.join(format!("data-{number}")), &more).await?);
    }
    let clients = servers.iter().map(|server| Client::connect(&server.url)).collect::<Result<Vec<_>, _>>()?;
    let bench = Bench { clients, bar: bar(args.jobs, quiet) };

    bench.bar.set_message("enqueue");
    bench.pause(true).await?;
    let enqueue_per_s = throughput::enqueue(&bench, args).await?;

    bench.bar.set_message("drain");
    let slots = args.concurrency / u32::from(args.servers);
    let start = |server: &Server| noop::start(&server.url, slots, None, &home.join("worker.log"));
    let mut workers = servers.iter().map(start).collect::<Result<Vec<_>>>()?;
    bench.wait_for_workers().await?;
    let drain_per_s = throughput::drain(&bench, args.jobs).await?;

    bench.bar.set_message("pipelined");
    let pipelined_per_s = throughput::pipelined(&bench, args).await?;

    bench.bar.set_message("latency");
    let latency = latency::measure(&bench, args, &mut workers).await?;
    bench.bar.finish_and_clear();
    Ok(Results {
        store: args.store.word(),
        servers: args.servers,
        durable: args.store != StoreKind::Memory && !args.unsafe_no_fsync,
        jobs: args.jobs,
        payload: args.payload,
        enqueue_per_s,
        drain_per_s,
        pipelined_per_s,
        start_ms_p50: latency.p50,
        start_ms_p99: latency.p99,
    })
}

/// The database of a measurement on PostgreSQL.
struct Database {
    url: Option<String>,
    /// Ours, and gone with us.
    _cluster: Option<pg_cluster::Cluster>,
}

impl Database {
    /// The given one, or one of our own, where the store needs any.
    fn new(store: StoreKind, url: Option<&str>, fsync: bool) -> Result<Database> {
        if store != StoreKind::Postgres {
            ensure!(url.is_none(), "a database URL needs `--store postgres`");
            return Ok(Database { url: None, _cluster: None });
        }
        if let Some(url) = url {
            return Ok(Database { url: Some(url.to_owned()), _cluster: None });
        }
        let cluster = pg_cluster::Options { fsync, ..Default::default() }.start()?;
        Ok(Database { url: Some(cluster.fresh_database()), _cluster: Some(cluster) })
    }

    /// What a server must be told.
    fn flags(&self) -> impl Iterator<Item = &str> {
        self.url.iter().flat_map(|url| ["--database-url", url])
    }
}

/// How often to look whether a phase is over.
const LOOK: Duration = Duration::from_millis(20);

/// What the phases share.
struct Bench {
    /// One for each server.
    clients: Vec<Client>,
    bar: ProgressBar,
}

impl Bench {
    /// The one that is asked how far things are.
    fn client(&self) -> &Client {
        &self.clients[0]
    }

    async fn pause(&self, paused: bool) -> Result<()> {
        let request =
            wire::SetQueueRequest { name: QUEUE.to_owned(), paused: Some(paused), ..Default::default() };
        self.client().set_queue(request).await?;
        Ok(())
    }

    /// Jobs completed so far.
    async fn completed(&self) -> Result<u64> {
        let queues = self.client().queues().await?.queues;
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
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn wait_for_workers(&self) -> Result<()> {
        for client in &self.clients {
            let connected = async {
                while client.stats().await?.workers == 0 {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                anyhow::Ok(())
            };
            let waited = tokio::time::timeout(Duration::from_secs(30), connected).await;
            waited.context("the worker process did not connect within 30 s")??;
        }
        Ok(())
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
