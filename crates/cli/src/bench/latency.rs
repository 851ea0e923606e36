//! How long from an enqueue call to the first line of the handler, at a steady rate that does not wait for answers.

use anyhow::{Context as _, Result};
use bytes::Bytes;
use clock::SystemClock;
use model::Clock as _;
use rpc::wire;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::{Bench, QUEUE, SystemArgs, noop, stop};
use crate::fleet::Process;
use crate::percentile::percentile;

pub(super) struct Latency {
    pub(super) p50: f64,
    pub(super) p99: f64,
}

/// Sends one job per tick; each carries its send time, and the worker process says at its end what it saw.
pub(super) async fn measure(bench: &Bench, args: &SystemArgs, workers: &mut [Process]) -> Result<Latency> {
    let jobs = args.rate * args.latency_seconds;
    let goal = bench.completed().await? + jobs;
    let period = Duration::from_nanos(1_000_000_000 / args.rate);
    let mut tick = interval_at(Instant::now() + period, period);
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut calls = JoinSet::new();
    for client in bench.clients.iter().cycle().take(jobs as usize) {
        tick.tick().await;
        let client = client.clone();
        calls.spawn(async move {
            let stamp = SystemClock.monotonic().as_nanos();
            let payload = Bytes::from(format!("{}{stamp}", noop::STAMP));
            let job = wire::NewJob {
                queue: QUEUE.to_owned(),
                kind: "noop".to_owned(),
                payload,
                ..Default::default()
            };
            client.enqueue(wire::EnqueueRequest { jobs: vec![job], ..Default::default() }).await
        });
    }
    while let Some(call) = calls.join_next().await {
        call??;
    }
    bench.wait_completed(goal).await?;
    let mut seen: Vec<u64> = Vec::new();
    for worker in workers {
        stop(worker).await?;
        let line = worker.line().await?;
        seen.extend(serde_json::from_str::<Vec<u64>>(&line).context("the worker's figures are not JSON")?);
    }
    seen.sort_unstable();
    anyhow::ensure!(seen.len() as u64 >= jobs, "the worker saw {} of {jobs} jobs", seen.len());
    Ok(Latency { p50: millis(&seen, 50), p99: millis(&seen, 99) })
}

/// In milliseconds, of sorted nanoseconds.
fn millis(sorted: &[u64], percent: usize) -> f64 {
    percentile(sorted, percent).map_or(0.0, |nanos| (nanos as f64 / 10_000.0).round() / 100.0)
}
