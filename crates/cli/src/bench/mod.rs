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
mod share;
mod single;
mod subject;
mod system;
mod throughput;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use rpc::wire;
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use worker::Client;

use crate::exit::{Exit, Failure};
use crate::fleet::Process;
use crate::output::Output;

pub(crate) use noop::{Args as NoopArgs, run as run_noop};
use system::SystemArgs;

/// The queue the jobs go through.
const QUEUE: &str = "bench";

/// Measure throughput and latency on this machine.
#[derive(Debug, ClapArgs)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  tenure bench\n  tenure bench --store memory --jobs 200000 --json\n  tenure bench --store sqlite,volatile\n  tenure bench claim --backlog 1000000 --json\n  tenure bench heartbeats --workers 10000 --bound 100 --json\n  tenure bench exec\n  tenure bench rescue --kills 50"
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
    Volatile,
}

impl StoreKind {
    const fn word(self) -> &'static str {
        match self {
            StoreKind::Sqlite => "sqlite",
            StoreKind::Memory => "memory",
            StoreKind::Postgres => "postgres",
            StoreKind::Volatile => "volatile",
        }
    }

    /// Refuses what a measurement of stores that remember cannot be asked about.
    fn must_remember(self) -> Result<()> {
        if self == StoreKind::Volatile {
            bail!(Failure::usage("volatile queues are measured by `tenure bench --store volatile` only"));
        }
        Ok(())
    }
}

/// Runs the measurement that was asked for.
pub(crate) async fn run(args: Args, output: &Output) -> Result<Exit> {
    match args.command {
        Some(Measure::Claim(args)) => claim::run(&args, output).await,
        Some(Measure::Heartbeats(args)) => heartbeats::run(&args, output).await,
        Some(Measure::Exec(args)) => exec::run(&args, output).await,
        Some(Measure::Rescue(args)) => rescue::run(&args, output).await,
        Some(Measure::Renewals(args)) => renewals::run(&args, output),
        None => system::run(&args.system, output).await,
    }
}

/// The database of a measurement on PostgreSQL.
struct Database {
    /// With its URL, whose password must not be on the command lines of servers.
    url_file: Option<NamedTempFile>,
    /// Ours, and gone with us.
    _cluster: Option<pg_cluster::Cluster>,
}

impl Database {
    /// The given one, or one of our own, where the store needs any.
    fn new(store: StoreKind, url: Option<String>, fsync: bool) -> Result<Database> {
        if store != StoreKind::Postgres {
            ensure!(url.is_none(), "a database URL needs `--store postgres`");
            return Ok(Database { url_file: None, _cluster: None });
        }
        let (url, cluster) = match url {
            Some(url) => (url, None),
            None => {
                let cluster = pg_cluster::Options { fsync, ..Default::default() }.start()?;
                (cluster.fresh_database(), Some(cluster))
            }
        };
        let mut file = NamedTempFile::new().context("cannot make a temporary file")?;
        file.write_all(url.as_bytes()).context("cannot write to a temporary file")?;
        Ok(Database { url_file: Some(file), _cluster: cluster })
    }

    /// What a server must be told.
    fn flags(&self) -> impl Iterator<Item = &str> {
        self.url_file
            .iter()
            .filter_map(|file| file.path().to_str())
            .flat_map(|path| ["--database-url-file", path])
    }
}

/// Pauses between looks whether a phase is over, at least and at most. A look is no part of what is measured, and costs the
/// store something: some add counts up.
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(5);
/// See [`LOOK_PAUSE_MIN`].
const LOOK_PAUSE_MAX: Duration = Duration::from_millis(500);

/// What the phases share.
struct Bench {
    /// One for each server.
    clients: Vec<Client>,
    bar: ProgressBar,
    /// The server forgets jobs that have ended when there are many, so its counter is asked instead of its queue.
    forgets: bool,
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
        if self.forgets {
            return self.counted("tenure_jobs_completed_total").await;
        }
        let queues = self.client().queues().await?.queues;
        Ok(queues.iter().find(|queue| queue.name == QUEUE).map_or(0, |queue| queue.completed))
    }

    /// A counter of the server, over all its labels.
    async fn counted(&self, name: &str) -> Result<u64> {
        let url = self.client().servers().next().context("a client has a server")?;
        let host = url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(host).await?;
        stream.write_all(format!("GET /metrics HTTP/1.0\r\nhost: {host}\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let figures = answer.lines().filter(|line| line.starts_with(name));
        let figures = figures.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        Ok(figures.sum::<f64>() as u64)
    }

    /// Waits until this many jobs are completed. The counts come from memory, so asking costs the server little.
    async fn wait_completed(&self, goal: u64) -> Result<()> {
        let start = self.completed().await?;
        let began = tokio::time::Instant::now();
        loop {
            let done = self.completed().await?;
            self.bar.set_position(done.saturating_sub(start));
            if done >= goal {
                return Ok(());
            }
            if began.elapsed() > Duration::from_secs(600) {
                bail!("only {done} of {goal} jobs were completed within ten minutes");
            }
            tokio::time::sleep(look_pause(began.elapsed(), done.saturating_sub(start), goal - done)).await;
        }
    }

    /// Waits until volatile jobs would be started.
    async fn wait_for_muster(&self) -> Result<()> {
        let open = async {
            loop {
                let status = self.client().muster_status().await?;
                let is_ready = status.workers.iter().any(|worker| worker.health == "healthy");
                if !status.waiting && is_ready {
                    return anyhow::Ok(());
                }
                tokio::time::sleep(LOOK_PAUSE_MIN).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(30), open).await;
        waited.context("the worker was given no volatile jobs within 30 s")?
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

/// How long to wait before the next look, when this many jobs took so long and this many are left: half of what those will
/// take, but not longer than it lasted so far, since the beginning says little about the rest.
fn look_pause(elapsed: Duration, done: u64, left: u64) -> Duration {
    let to_come = elapsed.mul_f64(left as f64 / done.max(1) as f64);
    (to_come / 2).min(elapsed).clamp(LOOK_PAUSE_MIN, LOOK_PAUSE_MAX)
}

/// A process that measures nothing any more must still be told to end.
async fn stop(worker: &mut Process) -> Result<()> {
    worker.signal(rustix::process::Signal::TERM)?;
    worker.ended().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_rare_in_the_middle_and_frequent_at_the_end() {
        let pause = |elapsed, done, left| look_pause(Duration::from_millis(elapsed), done, left).as_millis();
        assert_eq!(pause(1, 0, 50_000), 5, "nothing is known yet");
        assert_eq!(pause(40, 100, 49_900), 40, "a slow start is not believed");
        assert_eq!(pause(400, 25_000, 25_000), 200, "half of what is left");
        assert_eq!(pause(10_000, 25_000, 25_000), 500, "people watch the bar");
        assert_eq!(pause(800, 49_900, 100), 5, "the end is seen at once");
    }
}
