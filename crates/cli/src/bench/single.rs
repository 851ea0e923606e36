//! One job in flight: enqueue it, hear of its end, and only then the next. What is measured is waiting, most of it for the disk
//! where there is one.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use rpc::wire;
use worker::SubmitOptions;

use super::{Bench, QUEUE, SystemArgs};
use crate::percentile::percentile;
use crate::wait::{ended_states, has_ended};

pub(super) struct Single {
    pub(super) per_s: f64,
    /// In milliseconds.
    pub(super) p50: f64,
}

/// Each as its clients do it: who submits to a volatile queue keeps the job until it has ended, and the others ask the store,
/// which tells all ends on one stream that stays open.
pub(super) async fn measure(bench: &Bench, args: &SystemArgs) -> Result<Single> {
    let limit = Duration::from_secs(args.single_seconds);
    let mut times = if bench.forgets { submitted(bench, limit).await } else { watched(bench, limit).await }?;
    let per_s = times.len() as f64 / times.iter().sum::<Duration>().as_secs_f64();
    times.sort_unstable();
    let p50 = percentile(&times, 50).unwrap_or_default().as_secs_f64() * 1e3;
    Ok(Single { per_s: (per_s * 10.0).round() / 10.0, p50: (p50 * 1e3).round() / 1e3 })
}

fn job() -> wire::NewJob {
    wire::NewJob {
        queue: QUEUE.to_owned(),
        kind: "noop".to_owned(),
        payload: Bytes::from_static(b"1"),
        ..Default::default()
    }
}

async fn submitted(bench: &Bench, limit: Duration) -> Result<Vec<Duration>> {
    let submitter = bench.client().submitter(SubmitOptions::default());
    let mut times = Vec::new();
    let began = Instant::now();
    while began.elapsed() < limit {
        let sent_at = Instant::now();
        let end = submitter.submit(job()).await?.await?;
        ensure!(end.is_completed(), "job {} ended as {}", end.id, end.state.word());
        times.push(sent_at.elapsed());
    }
    submitter.close().await;
    Ok(times)
}

async fn watched(bench: &Bench, limit: Duration) -> Result<Vec<Duration>> {
    let client = bench.client();
    let request =
        wire::WatchRequest { queue: QUEUE.to_owned(), states: ended_states(), ..Default::default() };
    let mut events = client.watch(request).await?;
    let mut times = Vec::new();
    let began = Instant::now();
    while began.elapsed() < limit {
        let sent_at = Instant::now();
        let request = wire::EnqueueRequest { jobs: vec![job()], ..Default::default() };
        let answer = client.enqueue(request).await?;
        let id = &answer.jobs.first().context("the server took the job and did not say so")?.id;
        loop {
            let event = events.next().await?.context("the server ended the stream of events")?;
            if event.id == *id && has_ended(&event.state) {
                break;
            }
        }
        times.push(sent_at.elapsed());
    }
    Ok(times)
}
