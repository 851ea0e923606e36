//! The whole system, one store after the other: bulk, latency, and one job at a time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args as ClapArgs;
use serde::Serialize;
use worker::Client;

use super::{Bench, Database, Home, StoreKind, bar, latency, noop, share, single, throughput};
use crate::exit::{Exit, Failure};
use crate::fleet::{Process, Server, this_program};
use crate::output::Output;
use crate::signals::unless_interrupted;

#[derive(Debug, ClapArgs)]
pub(super) struct SystemArgs {
    /// Which store the server uses; several are measured one after the other and compared with the first.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [StoreKind::Sqlite])]
    store: Vec<StoreKind>,
    /// With `--store postgres`: a database of its own for the measurement. Without, a PostgreSQL is started for it, with
    /// fsync, in a temporary directory.
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// Servers on that database, each with a worker process.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    servers: u16,
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
    concurrency: u32,
    /// Jobs per second while latency is measured.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(super) rate: u64,
    /// How long latency is measured, in seconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(super) latency_seconds: u64,
    /// How long one job at a time is measured, in seconds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(super) single_seconds: u64,
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
    let home = Home::new(args.data.as_deref())?;
    let quiet = output.is_json() || output.is_quiet();
    let mut first: Option<Results> = None;
    for store in &args.store {
        let place = home.path().join(store.word());
        std::fs::create_dir_all(&place)?;
        let mut results = unless_interrupted(measure(args, *store, &place, quiet)).await?;
        results.ratio = first.as_ref().map(|first| results.beside(first));
        if output.is_json() {
            output.json(&results)?;
        } else {
            output.line(results.for_people(args))?;
        }
        first.get_or_insert(results);
    }
    Ok(Exit::Done)
}

impl Results {
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

async fn measure(args: &SystemArgs, store: StoreKind, home: &Path, quiet: bool) -> Result<Results> {
    ensure!(
        args.servers == 1 || store == StoreKind::Postgres,
        Failure::usage("several servers need `--store postgres`")
    );
    let is_volatile = store == StoreKind::Volatile;
    let database = Database::new(store, args.database_url.as_deref(), !args.unsafe_no_fsync)?;
    let mut more = vec!["--store", store.word()];
    if args.unsafe_no_fsync {
        more.push("--unsafe-no-fsync");
    }
    if is_volatile {
        // A server that nobody can have worked for before has nobody to wait for.
        more.extend(["--unsafe-initial-wait", "0s"]);
    }
    more.extend(database.flags());
    let mut servers = Vec::new();
    for number in 0..args.servers {
        servers.push(Server::start(&this_program()?, &home.join(format!("data-{number}")), &more).await?);
    }
    let clients = servers.iter().map(|server| Client::connect(&server.url)).collect::<Result<Vec<_>, _>>()?;
    let bench = Bench { clients, bar: bar(args.jobs, quiet), forgets: is_volatile };

    bench.bar.set_message("enqueue");
    bench.pause(true).await?;
    let enqueue_per_s = throughput::enqueue(&bench, args).await?;

    bench.bar.set_message("drain");
    let slots = (args.concurrency / u32::from(args.servers)).max(1);
    let guarded: &[&str] = if is_volatile { &["--guarded"] } else { &[] };
    let start = |server: &Server| noop::start(&server.url, slots, guarded, &home.join("worker.log"));
    let mut workers = servers.iter().map(start).collect::<Result<Vec<_>>>()?;
    bench.wait_for_workers().await?;
    if is_volatile {
        bench.wait_for_muster().await?;
    }
    let drain_per_s = throughput::drain(&bench, args.jobs).await?;

    bench.bar.set_message("pipelined");
    let server = servers.iter().map(|server| server.process.pid()).collect::<Result<Vec<_>>>()?;
    let mut system = workers.iter().map(Process::pid).collect::<Result<Vec<_>>>()?;
    system.extend(server.iter().copied().chain([rustix::process::getpid()]));
    let before = (share::busy(&server)?, share::busy(&system)?);
    let pipelined_per_s = throughput::pipelined(&bench, args).await?;
    let server_busy = share::busy(&server)?.saturating_sub(before.0);
    let system_busy = share::busy(&system)?.saturating_sub(before.1);
    // Now, while the machine is as fast as it was.
    let store_alone = is_volatile.then(|| share::of_memory(args)).transpose()?;

    bench.bar.set_message("one by one");
    let single = single::measure(&bench, args).await?;

    bench.bar.set_message("latency");
    let latency = latency::measure(&bench, args, &mut workers).await?;
    bench.bar.finish_and_clear();
    let micros_per_job = |time: Duration| (time.as_secs_f64() * 1e8 / args.jobs as f64).round() / 100.0;
    Ok(Results {
        store: store.word(),
        servers: args.servers,
        durable: !matches!(store, StoreKind::Memory | StoreKind::Volatile) && !args.unsafe_no_fsync,
        jobs: args.jobs,
        payload: args.payload,
        concurrency: args.concurrency,
        enqueue_per_s,
        drain_per_s,
        pipelined_per_s,
        start_ms_p50: latency.p50,
        start_ms_p99: latency.p99,
        single_per_s: single.per_s,
        single_ms_p50: single.p50,
        server_us_per_job: micros_per_job(server_busy),
        system_us_per_job: micros_per_job(system_busy),
        store_us_per_job: store_alone.map(micros_per_job),
        ratio: None,
    })
}
