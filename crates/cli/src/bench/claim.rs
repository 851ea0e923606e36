//! What a claim costs with a thousand jobs waiting, with a huge backlog, and with as many scheduled for later at top
//! priority. The store alone, in this process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use clap::Args as ClapArgs;
use clock::SystemClock;
use futures_util::future::try_join_all;
use indicatif::{ProgressBar, ProgressStyle};
use model::{JobId, Kind, Limits, NewJob, Outcome, QueueName, Report, WallTime, When, WorkerKey};
use pg_cluster::Cluster;
use serde::Serialize;
use store::{Claim, EnqueueBatch, JobStore, MemoryStore};
use store_postgres::{PostgresOptions, PostgresStore};
use store_sqlite::{SqliteOptions, SqliteStore};

use super::StoreKind;
use crate::exit::Exit;
use crate::output::Output;

/// The backlog that counts as small.
const SMALL: u64 = 1_000;
/// Times taken for each figure; the median is reported.
const ROUNDS: usize = 301;
/// Claims under way at once in each.
const CLAIMS: u32 = 20;

/// Claim time with a small and with a huge backlog.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Example:\n  tenure bench claim --backlog 1000000 --json")]
pub(super) struct Args {
    /// The huge backlog.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1_000..=50_000_000))]
    backlog: u64,
    /// Jobs in one claim.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=50))]
    limit: u16,
    /// Which store. For `postgres` a PostgreSQL is started in a temporary directory.
    #[arg(long, value_enum, default_value_t = StoreKind::Sqlite)]
    store: StoreKind,
}

#[derive(Debug, Serialize)]
struct Results {
    backlog: u64,
    limit: usize,
    claim_us_small: f64,
    claim_us_available: f64,
    claim_us_scheduled: f64,
    ratio_available: f64,
    ratio_scheduled: f64,
}

pub(super) async fn run(args: &Args, output: &Output) -> Result<Exit> {
    args.store.must_remember()?;
    let bar = if output.is_json() || output.is_quiet() {
        ProgressBar::hidden()
    } else {
        ProgressBar::new(args.backlog * 2)
    };
    bar.set_style(
        ProgressStyle::with_template("filling {bar:40} {pos}/{len}").expect("the template is valid"),
    );
    let cluster = match args.store {
        // The claim's own work is measured, not the disk's: fsync would hide a slow statement behind a slow disk.
        StoreKind::Postgres => Some(pg_cluster::Options { fsync: false, ..Default::default() }.start()?),
        _ => None,
    };
    let field = || Field::new(args.store, cluster.as_ref());
    let small = field().await?;
    small.fill(SMALL, When::Now, 0, &bar).await?;
    let available = field().await?;
    available.fill(args.backlog, When::Now, 0, &bar).await?;
    let scheduled = field().await?;
    scheduled.fill(args.backlog, When::After(Duration::from_secs(86_400)), i16::MAX, &bar).await?;
    scheduled.fill(SMALL, When::Now, 0, &bar).await?;
    bar.finish_and_clear();

    // Interleaved, so that a busy moment of the machine hits all three alike.
    let mut times = [(); 3].map(|()| Vec::with_capacity(ROUNDS));
    for _ in 0..ROUNDS {
        for (field, times) in [&small, &available, &scheduled].into_iter().zip(&mut times) {
            times.push(field.claim(usize::from(args.limit)).await?);
        }
    }
    let [a, b, c] = times.map(|mut times| {
        times.sort_unstable();
        times[ROUNDS / 2].as_secs_f64() * 1e6
    });
    let round = |number: f64| (number * 100.0).round() / 100.0;
    let results = Results {
        backlog: args.backlog,
        limit: usize::from(args.limit),
        claim_us_small: round(a),
        claim_us_available: round(b),
        claim_us_scheduled: round(c),
        ratio_available: round(b / a),
        ratio_scheduled: round(c / a),
    };
    if output.is_json() {
        output.json(&results)?;
    } else {
        let Results { backlog, limit, .. } = results;
        output
            .line(format!("claim of {limit}, {SMALL} available      {:>8.1} µs", results.claim_us_small))?;
        let row = |what, micros, ratio| format!("{backlog} {what}   {micros:>8.1} µs   {ratio:.2} ×");
        output.line(row("available", results.claim_us_available, results.ratio_available))?;
        output.line(row("scheduled", results.claim_us_scheduled, results.ratio_scheduled))?;
    }
    Ok(Exit::Done)
}

/// One store with its own backlog.
struct Field {
    store: Arc<dyn JobStore>,
    queue: QueueName,
    worker: WorkerKey,
    _home: tempfile::TempDir,
}

impl Field {
    async fn new(kind: StoreKind, cluster: Option<&Cluster>) -> Result<Field> {
        let home = tempfile::tempdir()?;
        let store: Arc<dyn JobStore> = match (kind, cluster) {
            (StoreKind::Memory, _) => Arc::new(MemoryStore::new(Arc::new(SystemClock))),
            (StoreKind::Postgres, Some(cluster)) => {
                Arc::new(PostgresStore::connect(PostgresOptions::new(cluster.fresh_database())).await?)
            }
            _ => {
                let options = SqliteOptions { fsync: false, ..SqliteOptions::new(home.path()) };
                Arc::new(SqliteStore::open(options, Arc::new(SystemClock))?)
            }
        };
        Ok(Field { store, queue: QueueName::new("bench")?, worker: WorkerKey::new("bench")?, _home: home })
    }

    async fn fill(&self, jobs: u64, when: When, priority: i16, bar: &ProgressBar) -> Result<()> {
        let kind = Kind::new("noop")?;
        let payload = Bytes::from(vec![b'x'; 100]);
        let mut number = 0u64;
        while number < jobs {
            let count = (jobs - number).min(5_000);
            let batch = (number..number + count).map(|n| {
                let mut bytes = [0; 10];
                bytes[2..].copy_from_slice(&n.to_be_bytes());
                let id = JobId::v7(WallTime::from_millis(n as i64 + i64::from(priority)), bytes);
                NewJob {
                    when,
                    priority,
                    ..NewJob::new(id, self.queue.clone(), kind.clone(), payload.clone())
                }
            });
            self.store.enqueue(EnqueueBatch { request_id: None, jobs: batch.collect() }).await?;
            number += count;
            bar.inc(count);
        }
        Ok(())
    }

    /// Several claims at once, timed, for the time of one; then hands the jobs back, untimed. A single claim would mostly
    /// measure how long the store's thread takes to wake up.
    async fn claim(&self, limit: usize) -> Result<Duration> {
        let claim = || Claim {
            holder: self.worker.clone(),
            queues: vec![self.queue.clone()],
            limit,
            lease: Limits::LEASE_DEFAULT,
            bytes_max: usize::MAX,
            exclusive: false,
        };
        let began = Instant::now();
        let claimed = try_join_all((0..CLAIMS).map(|_| self.store.claim(claim()))).await?;
        let took = began.elapsed() / CLAIMS;
        for jobs in claimed {
            anyhow::ensure!(jobs.len() == limit, "claimed {} of {limit} jobs", jobs.len());
            let reports =
                jobs.into_iter().map(|job| Report { hold: job.hold, outcome: Outcome::HandedBack }).collect();
            self.store.finish(&self.worker, reports).await?;
        }
        Ok(took)
    }
}
