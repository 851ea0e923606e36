//! `bench rescue`: how long a killed worker's job waits until it runs elsewhere. Every round is a real SIGKILL of a real
//! process with a job of an exclusive queue in hand.

use std::path::Path;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use clock::SystemClock;
use model::Clock as _;
use rpc::wire;
use rustix::process::Signal;
use serde::Serialize;
use worker::Client;

use super::{Bench, Home, QUEUE, bar};
use crate::effects::{Entry, What};
use crate::exit::Exit;
use crate::fleet::{Process, Server, this_program};
use crate::output::Output;
use crate::percentile::percentile;
use crate::signals::unless_interrupted;

/// Time from a worker's SIGKILL to the start of its job elsewhere.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  tenure bench rescue\n  tenure bench rescue --kills 200 --json")]
pub(super) struct Args {
    /// How many workers are killed.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    kills: u64,
    /// The workers' lease: what a rescue would take without a guardian.
    #[arg(long, default_value = "20s", value_parser = crate::duration::parse)]
    lease: std::time::Duration,
}

#[derive(Debug, Serialize)]
struct Results {
    kills: u64,
    lease_ms: u64,
    rescue_ms_p50: f64,
    rescue_ms_p99: f64,
    rescue_ms_max: f64,
}

pub(super) async fn run(args: &Args, output: &Output) -> Result<Exit> {
    let home = Home::new(None)?;
    let quiet = output.is_json() || output.is_quiet();
    let results = unless_interrupted(measure(args, home.path(), quiet)).await?;
    if output.is_json() {
        output.json(&results)?;
    } else {
        output.line(format_args!(
            "rescued after  p50 {:.1} ms, p99 {:.1} ms, at most {:.1} ms   ({} kills, lease {:?})",
            results.rescue_ms_p50, results.rescue_ms_p99, results.rescue_ms_max, results.kills, args.lease
        ))?;
    }
    Ok(Exit::Done)
}

async fn measure(args: &Args, home: &Path, quiet: bool) -> Result<Results> {
    let lease = format!("{}ms", args.lease.as_millis());
    let server = Server::start(&this_program()?, &home.join("data"), &["--lease", &lease]).await?;
    let bench =
        Bench { clients: vec![Client::connect(&server.url)?], bar: bar(args.kills, quiet), forgets: false };
    let set = wire::SetQueueRequest { name: QUEUE.to_owned(), exclusive: Some(true), ..Default::default() };
    bench.client().set_queue(set).await?;
    let mut holder = start(&server.url, home, 0).await?;
    let mut times = Vec::new();
    for round in 1..=args.kills {
        // A new job each time: one that is lost again and again would be put off.
        let job = wire::NewJob { queue: QUEUE.to_owned(), ..Default::default() };
        let request = wire::EnqueueRequest { jobs: vec![job], ..Default::default() };
        let id = bench.client().enqueue(request).await?.jobs[0].id.clone();
        started(&mut holder, &id).await?;
        let mut heir = start(&server.url, home, round).await?;
        wait_for_workers(&bench, 2).await?;
        let killed_at = SystemClock.monotonic().as_nanos();
        holder.signal(Signal::KILL)?;
        times.push(started(&mut heir, &id).await?.saturating_sub(killed_at));
        holder.ended().await?;
        holder = heir;
        bench.bar.inc(1);
    }
    bench.bar.finish_and_clear();
    times.sort_unstable();
    let millis = |percent| percentile(&times, percent).map_or(0.0, |nanos| (nanos / 10_000) as f64 / 100.0);
    Ok(Results {
        kills: args.kills,
        lease_ms: args.lease.as_millis() as u64,
        rescue_ms_p50: millis(50),
        rescue_ms_p99: millis(99),
        rescue_ms_max: millis(100),
    })
}

/// A worker with a guardian whose jobs never end by themselves.
async fn start(server: &str, home: &Path, number: u64) -> Result<Process> {
    let (name, log) = (format!("w{number}"), home.join(format!("w{number}.effects")));
    let log = log.to_string_lossy().into_owned();
    let args = ["demo-worker", "--server", server, "--queue", QUEUE, "--name", &name, "--log", &log];
    let args = args.into_iter().chain(["--echo", "--concurrency", "10000", "--work-ms", "86400000"]);
    let mut process = Process::start(&this_program()?, args, &home.join(format!("{name}.log")))?;
    process.line().await?;
    Ok(process)
}

/// Waits until the worker starts this job. When that was.
async fn started(worker: &mut Process, job: &str) -> Result<u64> {
    loop {
        let entry: Entry = worker.line().await?.parse().map_err(anyhow::Error::msg)?;
        if entry.what == What::Start && entry.job.to_string() == job {
            return Ok(entry.nanos);
        }
    }
}

/// Waits until so many workers may be given the jobs.
async fn wait_for_workers(bench: &Bench, count: u32) -> Result<()> {
    for _ in 0..3_000 {
        let queues = bench.client().queues().await?.queues;
        if queues.iter().any(|queue| queue.name == QUEUE && queue.workers >= Some(count)) {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    bail!("the next worker did not connect within 30 s")
}
