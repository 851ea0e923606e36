//! Heartbeats of many workers on one server: how many per second, how long each takes, and whether the number of jobs
//! each worker holds makes a difference.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args as ClapArgs;
use indicatif::ProgressBar;
use lease::digest::Digest;
use rpc::wire::work_client::WorkClient;
use rpc::{convert, wire};
use serde::Serialize;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};
use worker::Client;

use super::{Database, Home, QUEUE, StoreKind, bar};
use crate::exit::Exit;
use crate::fleet::{Server, this_program};
use crate::output::Output;
use crate::percentile::percentile;
use crate::signals::unless_interrupted;

/// Streams that share a connection; servers allow a thousand.
const STREAMS_PER_CONNECTION: u32 = 500;
/// Workers that register at the same time.
const JOINING_MAX: usize = 256;
/// Jobs in one enqueue call.
const BATCH: u64 = 10_000;

#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Examples:\n  tenure bench heartbeats\n  tenure bench heartbeats --workers 10000 --bound 100 --json"
)]
pub(super) struct Args {
    /// Workers, each on a stream of its own.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    workers: u32,
    /// Jobs each worker holds.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    bound: u32,
    /// Heartbeats under way at the same time, over all workers.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    in_flight: u32,
    /// How long to measure, in seconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Which store the server uses.
    #[arg(long, value_enum, default_value_t = StoreKind::Memory)]
    store: StoreKind,
}

#[derive(Debug, Serialize)]
struct Results {
    workers: u32,
    bound: u32,
    in_flight: u32,
    heartbeats: u64,
    heartbeats_per_s: u64,
    ms_p50: f64,
    ms_p99: f64,
    not_ok: u64,
}

pub(super) async fn run(args: &Args, output: &Output) -> Result<Exit> {
    args.store.must_remember()?;
    let home = Home::new(None)?;
    let quiet = output.is_json() || output.is_quiet();
    let results = unless_interrupted(measure(args, home.path(), quiet)).await?;
    if output.is_json() {
        output.json(&results)?;
    } else {
        output.line(format_args!(
            "{} workers with {} bound jobs each: {} heartbeats/s, p50 {:.2} ms, p99 {:.2} ms ({} under way)",
            results.workers,
            results.bound,
            results.heartbeats_per_s,
            results.ms_p50,
            results.ms_p99,
            results.in_flight
        ))?;
    }
    Ok(if results.not_ok == 0 { Exit::Done } else { Exit::Failed })
}

async fn measure(args: &Args, home: &std::path::Path, quiet: bool) -> Result<Results> {
    let store = args.store.word();
    // An hour of lease: the measurement itself is the only reason for a heartbeat.
    let database = Database::new(args.store, None, true)?;
    let mut more = vec![
        "--store",
        store,
        "--registrations-per-second",
        "1000000",
        "--lease",
        "1h",
        "--verify-after",
        "1h",
    ];
    more.extend(database.flags());
    let server = Server::start(&this_program()?, &home.join("data"), &more).await?;
    let bar = bar(u64::from(args.workers), quiet);

    bar.set_message("enqueue");
    enqueue(&server.url, u64::from(args.workers) * u64::from(args.bound)).await?;
    bar.set_message("join");
    let members = join_all(args, &server.url, &bar).await?;
    bar.set_message("beat");
    let turns = Arc::new(Semaphore::new(args.in_flight as usize));
    let began = Instant::now();
    let until = began + Duration::from_secs(args.seconds);
    let mut beating = JoinSet::new();
    for member in members {
        beating.spawn(beat_until(member, Arc::clone(&turns), until));
    }
    let (mut took, mut not_ok) = (Vec::new(), 0);
    while let Some(beaten) = beating.join_next().await {
        let beaten = beaten??;
        took.extend(beaten.took);
        not_ok += beaten.not_ok;
    }
    let elapsed = began.elapsed();
    bar.finish_and_clear();
    took.sort_unstable();
    let millis =
        |percent| percentile(&took, percent).map_or(0.0, |nanos| (nanos as f64 / 10_000.0).round() / 100.0);
    Ok(Results {
        workers: args.workers,
        bound: args.bound,
        in_flight: args.in_flight,
        heartbeats: took.len() as u64,
        heartbeats_per_s: (took.len() as f64 / elapsed.as_secs_f64()) as u64,
        ms_p50: millis(50),
        ms_p99: millis(99),
        not_ok,
    })
}

async fn enqueue(url: &str, jobs: u64) -> Result<()> {
    let client = Client::connect(url)?;
    let mut left = jobs;
    while left > 0 {
        let count = left.min(BATCH);
        let job = wire::NewJob { queue: QUEUE.to_owned(), ..Default::default() };
        let jobs = vec![job; count as usize];
        client.enqueue(wire::EnqueueRequest { jobs, ..Default::default() }).await?;
        left -= count;
    }
    Ok(())
}

async fn join_all(args: &Args, url: &str, bar: &ProgressBar) -> Result<Vec<Member>> {
    let mut channels = Vec::new();
    for _ in 0..args.workers.div_ceil(STREAMS_PER_CONNECTION) {
        channels.push(Endpoint::from_shared(url.to_owned())?.tcp_nodelay(true).connect().await?);
    }
    let mut members = Vec::with_capacity(args.workers as usize);
    let mut joining = JoinSet::new();
    for number in 0..args.workers {
        if joining.len() == JOINING_MAX {
            members.push(joining.join_next().await.context("someone is joining")???);
            bar.inc(1);
        }
        let channel = channels[(number / STREAMS_PER_CONNECTION) as usize].clone();
        joining.spawn(Member::join(channel, number, args.bound));
    }
    while let Some(member) = joining.join_next().await {
        members.push(member??);
        bar.inc(1);
    }
    Ok(members)
}

/// One worker, as small as it can be: it says what the protocol asks of it and runs nothing.
struct Member {
    frames: mpsc::Sender<wire::WorkerFrame>,
    answers: Streaming<wire::ServerFrame>,
    number: u64,
    token: String,
    digest: Digest,
}

impl Member {
    async fn join(channel: Channel, number: u32, bound: u32) -> Result<Member> {
        let (frames, outbox) = mpsc::channel(4);
        let key = format!("bench-{number:08}");
        let hello = wire::Hello {
            worker: key,
            queues: vec![QUEUE.to_owned()],
            name: "bench".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            slots: bound,
            nonce: u64::from(number) + 1,
            ..Default::default()
        };
        frames.send(wire::WorkerFrame { hello: Some(hello), ..Default::default() }).await?;
        let answers = WorkClient::new(channel)
            .max_decoding_message_size(worker::MESSAGE_BYTES_MAX)
            .session(ReceiverStream::new(outbox))
            .await?
            .into_inner();
        let mut member =
            Member { frames, answers, number: 0, token: String::new(), digest: Digest::default() };
        ensure!(member.beat(Vec::new()).await?, "the server did not take a new worker");
        if bound > 0 {
            let binds = member.take_jobs(bound).await?;
            ensure!(member.beat(binds).await?, "the server did not take a worker's jobs");
        }
        Ok(member)
    }

    async fn take_jobs(&mut self, bound: u32) -> Result<Vec<wire::Change>> {
        self.frames.send(wire::WorkerFrame { credits: bound, ..Default::default() }).await?;
        let mut binds = Vec::new();
        while binds.len() < bound as usize {
            let frame = self.answers.message().await?.context("the stream ended")?;
            for job in frame.assignments {
                self.digest.add(convert::hold(&job.job, job.fence)?);
                binds.push(wire::Change { job: job.job, fence: job.fence, change: binds.len() as u64 + 1 });
            }
        }
        Ok(binds)
    }

    /// Sends one heartbeat and waits for its answer; whether that was *ok*.
    async fn beat(&mut self, binds: Vec<wire::Change>) -> Result<bool> {
        self.number += 1;
        let heartbeat = wire::Heartbeat {
            number: self.number,
            token: std::mem::take(&mut self.token),
            binds,
            change: u64::from(self.digest.count()),
            digest_count: self.digest.count(),
            digest_hash: self.digest.hash(),
            ..Default::default()
        };
        self.frames.send(wire::WorkerFrame { heartbeat: Some(heartbeat), ..Default::default() }).await?;
        loop {
            let Some(frame) = self.answers.message().await? else { bail!("the stream ended") };
            if let Some(answer) = frame.heartbeat {
                self.token = answer.token;
                return Ok(answer.answer == "ok" && !answer.resync && answer.stops.is_empty());
            }
        }
    }
}

struct Beaten {
    /// Nanoseconds of each heartbeat.
    took: Vec<u64>,
    not_ok: u64,
}

async fn beat_until(mut member: Member, turns: Arc<Semaphore>, until: Instant) -> Result<Beaten> {
    let mut beaten = Beaten { took: Vec::new(), not_ok: 0 };
    loop {
        let _turn = turns.acquire().await?;
        let began = Instant::now();
        if began >= until {
            return Ok(beaten);
        }
        beaten.not_ok += u64::from(!member.beat(Vec::new()).await?);
        beaten.took.push(began.elapsed().as_nanos() as u64);
    }
}
