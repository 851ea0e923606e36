//! Jobs per second: enqueue alone, drain alone, both at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Result;
use bytes::Bytes;
use rpc::wire;
use tokio::task::JoinSet;

use super::{Bench, QUEUE, SystemArgs};

/// Enqueue calls under way at the same time.
const CALLS: usize = 4;

/// Enqueues all jobs into the paused queue.
pub(super) async fn enqueue(bench: &Bench, args: &SystemArgs) -> Result<u64> {
    let began = Instant::now();
    enqueue_all(bench, args).await?;
    Ok(per_second(args.jobs, began))
}

/// Lets the connected worker at the backlog.
pub(super) async fn drain(bench: &Bench, jobs: u64) -> Result<u64> {
    let goal = bench.completed().await? + jobs;
    let began = Instant::now();
    bench.pause(false).await?;
    bench.wait_completed(goal).await?;
    Ok(per_second(jobs, began))
}

/// Enqueues while the worker drains; the clock stops with the last completed job.
pub(super) async fn pipelined(bench: &Bench, args: &SystemArgs) -> Result<u64> {
    let goal = bench.completed().await? + args.jobs;
    let began = Instant::now();
    let (enqueued, drained) = tokio::join!(enqueue_all(bench, args), bench.wait_completed(goal));
    enqueued.and(drained)?;
    Ok(per_second(args.jobs, began))
}

async fn enqueue_all(bench: &Bench, args: &SystemArgs) -> Result<()> {
    let left = Arc::new(AtomicU64::new(args.jobs));
    // Quotation marks make the filler a JSON text.
    let payload = Bytes::from(format!("\"{}\"", "x".repeat(args.payload.saturating_sub(2))));
    let mut calls = JoinSet::new();
    for client in bench.clients.iter().cycle().take(CALLS.max(bench.clients.len())) {
        let (client, left, payload, batch) = (client.clone(), Arc::clone(&left), payload.clone(), args.batch);
        calls.spawn(async move {
            loop {
                let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                    Some(left.saturating_sub(batch))
                });
                let count = before.expect("the update always has a value").min(batch);
                if count == 0 {
                    return anyhow::Ok(());
                }
                let job = wire::NewJob {
                    queue: QUEUE.to_owned(),
                    kind: "noop".to_owned(),
                    payload: payload.clone(),
                    ..Default::default()
                };
                let jobs = vec![job; count as usize];
                client.enqueue(wire::EnqueueRequest { jobs, ..Default::default() }).await?;
            }
        });
    }
    while let Some(call) = calls.join_next().await {
        call??;
    }
    Ok(())
}

fn per_second(jobs: u64, began: Instant) -> u64 {
    (jobs as f64 / began.elapsed().as_secs_f64()) as u64
}
