//! The whole system on each store: bulk, one job at a time, and latency.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args as ClapArgs;
use serde::Serialize;
use store::MemoryStore;

use super::latency::Latency;
use super::single::{self, Single};
use super::subject::{Bulk, Subject};
use super::{Home, StoreKind};
use crate::database::DatabaseFlags;
use crate::exit::Exit;
use crate::output::Output;
use crate::signals::unless_interrupted;

/// More than a job takes in memory beside its payload.
const JOB_BYTES: usize = 1_000;

#[derive(Debug, ClapArgs)]
pub(super) struct SystemArgs {
    /// Which store the server uses; several are compared with the first: one after the other in bulk, and in turns of a
    /// fraction of a second with one job at a time.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [StoreKind::Sqlite])]
    store: Vec<StoreKind>,
    /// With `--store postgres`: a database of its own for the measurement. Without, a PostgreSQL is started for it, with
    /// fsync, in a temporary directory.
    #[arg(long, value_name = "URL", conflicts_with = "database_url_file")]
    pub(super) database_url: Option<String>,
    /// File with that database's URL, which other users must not be able to open.
    #[arg(long, value_name = "FILE")]
    pub(super) database_url_file: Option<PathBuf>,
    /// Servers on that database, each with a worker process.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    pub(super) servers: u16,
    /// Jobs in each throughput phase.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(super) jobs: u64,
    /// Payload of each job, in bytes.
    #[arg(long, default_value_t = 100)]
    pub(super) payload: usize,
    /// Jobs in one enqueue call.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(super) batch: u64,
    /// Slots of all workers together.
    #[arg(long, default_value_t = 4_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) concurrency: u32,
    /// Jobs per second while latency is measured.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(super) rate: u64,
    /// How long latency is measured, in seconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(super) latency_seconds: u64,
    /// How long one job at a time is measured on each store, in seconds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(super) single_seconds: u64,
    /// Do not wait for the disk. Fast and forgetful; only for comparison.
    #[arg(long)]
    pub(super) unsafe_no_fsync: bool,
    /// Put the data here instead of in a temporary directory.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl SystemArgs {
    /// The flags alone: a measurement fills a database, so none is taken from the environment.
    pub(super) fn database(&self) -> DatabaseFlags {
        DatabaseFlags {
            database_url: self.database_url.clone(),
            database_url_file: self.database_url_file.clone(),
        }
    }

    /// What a volatile store may take, so that all jobs of a phase fit.
    pub(super) fn volatile_bytes(&self) -> usize {
        let bytes = (self.jobs as usize).saturating_mul(self.payload.saturating_add(JOB_BYTES));
        bytes.max(MemoryStore::VOLATILE_BYTES_DEFAULT)
    }
}

#[derive(Debug, Serialize)]
struct Results {
    store: &'static str,
    servers: u16,
    durable: bool,
    jobs: u64,
    payload: usize,
    concurrency: u32,
    enqueue_per_s: u64,
    drain_per_s: u64,
    pipelined_per_s: u64,
    start_ms_p50: f64,
    start_ms_p99: f64,
    single_per_s: f64,
    single_ms_p50: f64,
    /// The servers' CPU time, while enqueue and drain went on at once.
    server_us_per_job: f64,
    /// That of server, worker and producer together.
    system_us_per_job: f64,
    /// That of the store alone, if it is in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    store_us_per_job: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<Ratio>,
}

/// Beside the first store: how many times as many jobs per second.
#[derive(Debug, Serialize)]
struct Ratio {
    to: &'static str,
    enqueue: f64,
    drain: f64,
    pipelined: f64,
    single: f64,
}

pub(super) async fn run(args: &SystemArgs, output: &Output) -> Result<Exit> {
    let quiet = output.is_json() || output.is_quiet();
    if let Some(warning) = args.database().warning() {
        output.warning(warning);
    }
    let all = unless_interrupted(measure(args, quiet)).await?;
    for (place, results) in all.iter().enumerate() {
        if output.is_json() {
            output.json(results)?;
        } else {
            let gap = if place > 0 { "\n" } else { "" };
            output.line(format!("{gap}{}", results.for_people(args)))?;
        }
    }
    Ok(Exit::Done)
}

async fn measure(args: &SystemArgs, quiet: bool) -> Result<Vec<Results>> {
    let home = Home::new(args.data.as_deref())?;
    let mut subjects = Vec::new();
    let mut bulks = Vec::new();
    for store in &args.store {
        let mut subject = Subject::start(args, *store, &home.path().join(store.word()), quiet).await?;
        bulks.push(subject.bulk(args).await?);
        subjects.push(subject);
    }
    let benches = subjects.iter().map(|subject| &subject.bench).collect::<Vec<_>>();
    let singles = single::measure(&benches, args).await?;
    let mut all: Vec<Results> = Vec::new();
    for ((subject, bulk), single) in subjects.into_iter().zip(bulks).zip(singles) {
        let store = subject.store;
        let mut results = Results::new(args, store, &bulk, &single, &subject.latency(args).await?);
        results.ratio = all.first().map(|first| results.beside(first));
        all.push(results);
    }
    Ok(all)
}

impl Results {
    fn new(args: &SystemArgs, store: StoreKind, bulk: &Bulk, single: &Single, latency: &Latency) -> Self {
        let micros_per_job = |time: Duration| (time.as_secs_f64() * 1e8 / args.jobs as f64).round() / 100.0;
        Results {
            store: store.word(),
            servers: args.servers,
            durable: !matches!(store, StoreKind::Memory | StoreKind::Volatile) && !args.unsafe_no_fsync,
            jobs: args.jobs,
            payload: args.payload,
            concurrency: args.concurrency,
            enqueue_per_s: bulk.enqueue_per_s,
            drain_per_s: bulk.drain_per_s,
            pipelined_per_s: bulk.pipelined_per_s,
            start_ms_p50: latency.p50,
            start_ms_p99: latency.p99,
            single_per_s: single.per_s,
            single_ms_p50: single.p50,
            server_us_per_job: micros_per_job(bulk.server_busy),
            system_us_per_job: micros_per_job(bulk.system_busy),
            store_us_per_job: bulk.store_alone.map(micros_per_job),
            ratio: None,
        }
    }

    fn beside(&self, first: &Results) -> Ratio {
        let times = |ours: f64, theirs: f64| (ours / theirs * 100.0).round() / 100.0;
        let whole = |ours: u64, theirs: u64| times(ours as f64, theirs as f64);
        Ratio {
            to: first.store,
            enqueue: whole(self.enqueue_per_s, first.enqueue_per_s),
            drain: whole(self.drain_per_s, first.drain_per_s),
            pipelined: whole(self.pipelined_per_s, first.pipelined_per_s),
            single: times(self.single_per_s, first.single_per_s),
        }
    }

    fn for_people(&self, args: &SystemArgs) -> String {
        let store = if self.durable { "(durable)" } else { "(not durable)" };
        let mut lines = vec![
            format!("store        {} {store}", self.store),
            format!("enqueue      {:>9} jobs/s   (calls of {})", self.enqueue_per_s, args.batch),
            format!(
                "drain        {:>9} jobs/s   (worker processes: {}, {} slots together)",
                self.drain_per_s, self.servers, self.concurrency
            ),
            format!("pipelined    {:>9} jobs/s   (both at once)", self.pipelined_per_s),
            format!(
                "start        p50 {:.2} ms, p99 {:.2} ms   (enqueue call to handler, {} jobs/s)",
                self.start_ms_p50, self.start_ms_p99, args.rate
            ),
            format!(
                "one at a time{:>9.0} jobs/s   (enqueue call to known end: p50 {:.2} ms)",
                self.single_per_s, self.single_ms_p50
            ),
        ];
        let (server, system) = (self.server_us_per_job, self.system_us_per_job);
        lines.push(format!(
            "server CPU   {server:>9.1} µs a job, pipelined; with worker and producer {system:.1} µs"
        ));
        if let Some(store) = self.store_us_per_job {
            let [of_server, of_system] = [server, system].map(|whole| store / whole * 100.0);
            lines.push(format!(
                "  of it store{store:>9.1} µs a job   ({of_server:.0} % of the server's, {of_system:.0} % of all; measured \
                 on its own)"
            ));
        }
        if let Some(Ratio { to, enqueue, drain, pipelined, single }) = &self.ratio {
            lines.push(format!(
                "beside {to}: enqueue {enqueue:.2} ×, drain {drain:.2} ×, pipelined {pipelined:.2} ×, one at a time \
                 {single:.2} ×"
            ));
        }
        lines.join("\n")
    }
}
