//! What part of the CPU time the volatile store takes: the same verbs on such a store alone, beside what the server, and all
//! processes together, used for as many jobs.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use clock::SystemClock;
use model::{ClientId, Clock as _, Kind, Limits, NewJob, Outcome, QueueName, Report, WorkerKey};
use rustix::process::Pid;
use rustix::time::{ClockId, clock_gettime};
use store::{Claim, EnqueueBatch, JobStore, MemoryStore};

use super::{QUEUE, SystemArgs};

/// Jobs in one claim and in one report: about what the server hands to the store at a time when it is busy.
const BATCH: usize = 100;
/// Linux counts a process's CPU time in these, whatever its own clock does.
const TICKS_PER_SECOND: f64 = 100.0;

/// The CPU time that these processes have used so far, together.
pub(super) fn busy(processes: &[Pid]) -> Result<Duration> {
    processes.iter().map(|process| busy_alone(*process)).sum()
}

fn busy_alone(process: Pid) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()))?;
    // The name in parentheses may have anything in it; user and system time are the 12th and 13th word after it.
    let words = stat.rsplit_once(')').context("the kernel describes a process in an unknown way")?.1;
    let ticks = words.split_ascii_whitespace().skip(11).take(2).map(str::parse::<u64>);
    let ticks: u64 = ticks.sum::<Result<u64, _>>()?;
    Ok(Duration::from_secs_f64(ticks as f64 / TICKS_PER_SECOND))
}

/// The CPU time that a volatile store alone takes for all jobs.
pub(super) fn of_memory(args: &SystemArgs) -> Result<Duration> {
    let payload = Bytes::from(vec![b'x'; args.payload]);
    let (jobs, batch) = (args.jobs, args.batch);
    // On a thread of its own, whose CPU time is the store's alone.
    let alone = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        runtime.block_on(through(jobs, batch, payload))
    });
    alone.join().map_err(|_| anyhow::anyhow!("the store broke"))?
}

/// Takes jobs through a store: enqueue, claim, report. The CPU time of that.
async fn through(jobs: u64, batch: u64, payload: Bytes) -> Result<Duration> {
    let store = MemoryStore::volatile(Arc::new(SystemClock));
    let (queue, kind, holder) = (QueueName::new(QUEUE)?, Kind::new("noop")?, WorkerKey::new("bench")?);
    let client = ClientId::unattended(SystemClock.wall(), 1);
    let new_job = |number| NewJob::new(client.job(number), queue.clone(), kind.clone(), payload.clone());
    let mut cost = Duration::ZERO;
    let mut done = 0;
    for first in (0..jobs).step_by(batch as usize) {
        let batch: Vec<NewJob> = (first..(first + batch).min(jobs)).map(new_job).collect();
        let began = cpu_time();
        store.enqueue(EnqueueBatch { request_id: None, jobs: batch }).await?;
        cost += cpu_time().saturating_sub(began);
        loop {
            let claim = Claim {
                holder: holder.clone(),
                queues: vec![queue.clone()],
                limit: BATCH,
                lease: Limits::LEASE_DEFAULT,
                bytes_max: usize::MAX,
                exclusive: true,
            };
            let began = cpu_time();
            let claimed = store.claim(claim).await?;
            cost += cpu_time().saturating_sub(began);
            if claimed.is_empty() {
                break;
            }
            done += claimed.len() as u64;
            let outcome = || Outcome::Completed { result: Bytes::new() };
            let reports = claimed.iter().map(|job| Report { hold: job.hold, outcome: outcome() }).collect();
            let began = cpu_time();
            store.finish(&holder, reports).await?;
            cost += cpu_time().saturating_sub(began);
        }
    }
    ensure!(done == jobs, "{done} of {jobs} jobs went through the store");
    Ok(cost)
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
